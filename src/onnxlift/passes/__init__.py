"""From any valid graph to one normal form, and from there to the simplest graph that means the same.

`normalise` always runs and makes the graph what all later stages expect: no calls of functions, constants are
initialisers, no Identity nodes, types inferred, nothing dead. `simplify` is optional, pass by pass. Neither changes
inputs or outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import onnx_ir as ir

from ..errors import OnnxLiftError
from ..ir.inference import infer
from ..ir.scopes import mark_flat
from . import (
    cast_chains,
    common_subexpressions,
    constant_folding,
    constant_if,
    constant_nodes,
    copied_weights,
    dead_code,
    dequantized_vectors,
    dropped_biases,
    expand_operators,
    expands,
    fills,
    first_steps,
    folded_functions,
    folded_names,
    folded_parameters,
    folded_sums,
    gradients,
    identities,
    inline_functions,
    kept_axes,
    merged_computations,
    merged_parameters,
    named_sizes,
    no_ops,
    positions,
    reshape_targets,
    reshapes,
    shape_values,
    single_index,
    split_sequences,
    static_shapes,
    tables,
    transposed_axes,
    transposes,
    unit_axes,
    untrained_buffers,
    zero_biases,
)

Pass = Callable[[ir.Model], int]
"""Rewrites the model in place, in all its graphs, and gives the number of rewrites."""

Observer = Callable[[str, ir.Model], None]
"""Called with the name of a stage and the model as it is after it."""

Operators = Callable[[str, str], bool]
"""A set of operators: asked with domain and op type."""

PASSES: dict[str, Pass] = {
    "constant-if": constant_if.run,
    "static-shapes": static_shapes.run,
    "constant-folding": constant_folding.run,
    "dequantized-vectors": dequantized_vectors.run,
    "shape-values": shape_values.run,
    "no-ops": no_ops.run,
    "cast-chains": cast_chains.run,
    "split-sequences": split_sequences.run,
    "unit-axes": unit_axes.run,
    "kept-axes": kept_axes.run,
    "transposes": transposes.run,
    "transposed-axes": transposed_axes.run,
    "reshape-targets": reshape_targets.run,
    "reshapes": reshapes.run,
    "tables": tables.run,
    "single-index": single_index.run,
    "positions": positions.run,
    "fills": fills.run,
    "expands": expands.run,
    "named-sizes": named_sizes.run,
    "zero-biases": zero_biases.run,
    "copied-weights": copied_weights.run,
    "common-subexpressions": common_subexpressions.run,
    "dead-code": dead_code.run,
}

_MAX_ROUNDS = 4


def normalise(
    model: ir.Model,
    on_stage: Observer | None = None,
    *,
    supported: Operators | None = None,
    keep: Operators | None = None,
) -> None:
    """Bring `model` to the normal form, in place. Operators that are not `supported` are replaced by the body that
    their schema has, if any; functions of the model that `keep` answers for are not inlined."""
    inline_functions.run(model, keep)
    gradients.run(model)
    _normal_form(model)
    folded_names.run(model)
    merged_computations.run(model)
    merged_parameters.run(model)
    folded_sums.run(model)
    folded_functions.run(model)
    folded_parameters.run(model)
    untrained_buffers.run(model)
    first_steps.run(model)
    dropped_biases.run(model)
    if supported is not None and expand_operators.run(model, supported):
        _normal_form(model)
    mark_flat(model)
    if on_stage is not None:
        on_stage("normalise", model)


def _normal_form(model: ir.Model) -> None:
    constant_nodes.run(model)
    identities.run(model)
    dead_code.run(model)
    infer(model)


def simplify(model: ir.Model, skip: Collection[str] = (), on_stage: Observer | None = None) -> dict[str, int]:
    """Simplify a model in normal form, in place; gives the number of rewrites by pass. `skip` names passes to omit."""
    unknown = [name for name in skip if name not in PASSES]
    if unknown:
        names = ", ".join(map(repr, unknown))
        raise OnnxLiftError(f"there is no pass named {names} that could be skipped; the passes are {', '.join(PASSES)}")
    counts = dict.fromkeys(PASSES, 0)
    for _ in range(_MAX_ROUNDS):
        changed = 0
        for name, run in PASSES.items():
            if name in skip:
                continue
            count = run(model)
            counts[name] += count
            changed += count
            if count and on_stage is not None:
                on_stage(name, model)
        if not changed:
            break
        infer(model)
    return counts
