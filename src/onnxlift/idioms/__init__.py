"""From many nodes to the one operation that they mean together.

`recognise` runs on a simplified graph. Each idiom puts a node of the domain `onnxlift` (see ops/lifted.py) in the place
of the nodes of its pattern, under the name of the node that holds the weight, and keeps the values that the rest of the
graph reads. Idioms are optional, one by one: without them the source is longer and the numbers are the same.
"""

from __future__ import annotations

from collections.abc import Collection

import onnx_ir as ir

from ..passes import Observer, Pass, dead_code
from . import (
    adaptive_pool,
    advanced_indexing,
    any_all,
    attention,
    bare_weights,
    batch_statistics,
    bilinear,
    boolean_indexing,
    circular_pad,
    conv_bias,
    distances,
    dynamic_conv,
    einsum,
    embedding,
    fake_quantize,
    flat_indices,
    flattened_heads,
    gates,
    gathered_slices,
    gelu,
    global_mean,
    glu,
    group_norm,
    indexed_axes,
    layer_norm,
    linear,
    linear_functions,
    linear_resize,
    local_response_norm,
    matrix_transpose,
    meshgrid,
    multihead_attention,
    nearest_resize,
    normalize,
    norms_without_weights,
    optional_squeeze,
    padded_conv,
    pixel_unshuffle,
    quantized_layers,
    recurrent,
    recurrent_cells,
    recurrent_directions,
    relative_positions,
    repeat_interleave,
    rms_norm,
    roll,
    rotary,
    shifted_softmax,
    single_heads,
    slices,
    softplus,
    spectral_norm,
    spelled_activations,
    split,
    stack,
    tracked_instance_norm,
    turned_attention,
    unbind,
    unfold,
    unrolled_rnn,
    variance,
    weight_norm,
    window_biases,
    wrapped_indices,
)
from .match import DOMAIN

IDIOMS: dict[str, Pass] = {
    "adaptive-pool": adaptive_pool.run,
    "optional-squeeze": optional_squeeze.run,
    "wrapped-indices": wrapped_indices.run,
    "gathered-slices": gathered_slices.run,
    "unrolled-rnn": unrolled_rnn.run,
    "recurrent-directions": recurrent_directions.run,
    "recurrent": recurrent.run,
    "fake-quantize": fake_quantize.run,
    "quantized-layers": quantized_layers.run,
    "dynamic-conv": dynamic_conv.run,
    "weight-norm": weight_norm.run,
    "spectral-norm": spectral_norm.run,
    "einsum": einsum.run,
    "bilinear": bilinear.run,
    "linear": linear.run,
    "recurrent-cells": recurrent_cells.run,
    "conv-bias": conv_bias.run,
    "embedding": embedding.run,
    "layer-norm": layer_norm.run,
    "rms-norm": rms_norm.run,
    "group-norm": group_norm.run,
    "tracked-instance-norm": tracked_instance_norm.run,
    "norms-without-weights": norms_without_weights.run,
    "variance": variance.run,
    "batch-statistics": batch_statistics.run,
    "gelu": gelu.run,
    "glu": glu.run,
    "softplus": softplus.run,
    "gates": gates.run,
    "spelled-activations": spelled_activations.run,
    "any-all": any_all.run,
    "normalize": normalize.run,
    "distances": distances.run,
    "local-response-norm": local_response_norm.run,
    "linear-resize": linear_resize.run,
    "nearest-resize": nearest_resize.run,
    "unfold": unfold.run,
    "circular-pad": circular_pad.run,
    "padded-conv": padded_conv.run,
    "rotary": rotary.run,
    "flattened-heads": flattened_heads.run,
    "window-biases": window_biases.run,
    "relative-positions": relative_positions.run,
    "matrix-transpose": matrix_transpose.run,
    "shifted-softmax": shifted_softmax.run,
    "turned-attention": turned_attention.run,
    "attention": attention.run,
    "multihead-attention": multihead_attention.run,
    "bare-weights": bare_weights.run,
    "linear-functions": linear_functions.run,
    "single-heads": single_heads.run,
    "repeat-interleave": repeat_interleave.run,
    "advanced-indexing": advanced_indexing.run,
    "flat-indices": flat_indices.run,
    "indexed-axes": indexed_axes.run,
    "boolean-indexing": boolean_indexing.run,
    "meshgrid": meshgrid.run,
    "global-mean": global_mean.run,
    "pixel-unshuffle": pixel_unshuffle.run,
    "roll": roll.run,
    "unbind": unbind.run,
    "split": split.run,
    "stack": stack.run,
    "slices": slices.run,
}


def recognise(model: ir.Model, skip: Collection[str] = (), on_stage: Observer | None = None) -> dict[str, int]:
    """Recognise idioms in place; gives the number of rewrites by idiom. `skip` names idioms to omit (other names in it
    are those of passes)."""
    counts = dict.fromkeys(IDIOMS, 0)
    for name, run in IDIOMS.items():
        if name in skip:
            continue
        counts[name] = run(model)
        if counts[name] and on_stage is not None:
            on_stage(name, model)
    if any(counts.values()):
        model.graph.opset_imports.setdefault(DOMAIN, 1)
        for function in model.functions.values():
            function.opset_imports.setdefault(DOMAIN, 1)
        dead_code.run(model)  # shape arithmetic, masks: what only the replaced nodes used
    return counts
