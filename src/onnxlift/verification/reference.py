"""Run the ONNX model with ONNX Runtime, or with onnx's reference evaluator. Called in the child process only."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from .byte_products import make_products_exact
from .children.child import LoadingError
from .pruning import keep_only
from .session_values import CAST_OUT, cast_outputs, run_session

FEWEST_NUMBERS = 16  # of a constant that is taken for a weight
FOLDER_OPTION = "session.model_external_initializers_file_folder_path"


def run_reference(
    path: Path,
    folder: Path,
    inputs: Mapping[str, Any],
    outputs: Sequence[str],
    inside: Sequence[str],
    runtime: str,
    exact: bool = False,
    optimised: bool = False,
    nudged: bool = False,
    only: bool = False,
) -> tuple[str, dict[str, Any]]:
    """Run the model at `path`, whose external data is in `folder`. Return the name of the runtime, and the values.

    These are the values of `outputs`, and of those values `inside` the main graph that are no outputs. `runtime` is
    "onnxruntime" or "onnx.reference"; empty means ONNX Runtime if it is installed and takes the model, else
    onnx.reference. With `exact`, ONNX Runtime multiplies bytes exactly on every processor. If it may change the model
    to make it faster (`optimised`), it rounds at other places; so it does with weights that are changed in their last
    digit (`nudged`). With `only`, the model is first reduced to the nodes that these values need."""
    if runtime != "onnx.reference":
        try:
            import onnxruntime
        except ImportError:
            if runtime:
                raise
        else:
            try:
                session, casts = _session(path, folder, outputs, inside, exact, optimised, nudged, only)
            except Exception as error:
                if type(error).__module__.partition(".")[0] != "onnxruntime":
                    raise
                if runtime:
                    raise LoadingError from error
                reason = str(error).splitlines()[0][:200]
                name, values = _run_evaluator(path, folder, inputs, outputs, inside, only)
                return f"{name} (ONNX Runtime does not take the model: {reason})", values
            values = run_session(session, casts, inputs, [*outputs, *inside])
            how = ", with exact products of bytes" if exact else ""
            return f"ONNX Runtime {onnxruntime.__version__}{how}", values
    return _run_evaluator(path, folder, inputs, outputs, inside, only)


def _session(
    path: Path,
    folder: Path,
    outputs: Sequence[str],
    inside: Sequence[str],
    exact: bool,
    optimised: bool,
    nudged: bool,
    only: bool,
) -> tuple[Any, dict[str, Any]]:
    """Return a session that computes these values, and the numpy types of those that a Cast converts for numpy."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    levels = onnxruntime.GraphOptimizationLevel
    # We want the numbers of the model as it is, not of what a fusion makes of it.
    options.graph_optimization_level = levels.ORT_ENABLE_ALL if optimised else levels.ORT_DISABLE_ALL
    options.add_session_config_entry(FOLDER_OPTION, str(folder))
    if exact:
        options.intra_op_num_threads = 1  # DynamicQuantizeLSTM gives other numbers with more

    def start(model: str | bytes) -> Any:
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    # Given a path, ONNX Runtime reads the model itself, piece by piece; but then the external data must lie beside it.
    is_changed = inside or exact or nudged or only or folder != path.parent
    model = with_outputs(path, outputs, inside, only) if is_changed else None
    if exact and model is not None:
        make_products_exact(model)
    if nudged and model is not None:
        _nudge_weights(model)
    session = start(str(path) if model is None else model.SerializeToString())
    types = {output.name: output.type for output in session.get_outputs()}
    casts = {name: types[name] for name in (*outputs, *inside) if types[name] in CAST_OUT}
    if casts:
        model = model or with_outputs(path, outputs, (), only)
        session = start(cast_outputs(model, casts).SerializeToString())
    return session, {name: CAST_OUT[kind][1] for name, kind in casts.items()}


def with_outputs(path: Path, outputs: Sequence[str], inside: Sequence[str], only: bool) -> onnx.ModelProto:
    """Load the model, and make the values `inside` outputs as well; or leave `only` what all these need.

    External data is not loaded."""
    model = onnx.load(path, load_external_data=False)
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in inside)
    if only:
        keep_only(model.graph, {*outputs, *inside})
    return model


def _nudge_weights(model: onnx.ModelProto) -> None:
    """Change each number of the float32 weights in its last digit, up and down in turn.

    Constants of a few numbers stay: they may be sizes. So do weights in external files."""
    for tensor in model.graph.initializer:
        is_inside = tensor.data_location != TensorProto.EXTERNAL
        if tensor.data_type == TensorProto.FLOAT and is_inside and math.prod(tensor.dims) >= FEWEST_NUMBERS:
            array = numpy_helper.to_array(tensor)
            signs = np.where(np.arange(array.size).reshape(array.shape) % 2, 1, -1)
            moved = array * (1 + signs * np.finfo(np.float32).eps)
            tensor.CopyFrom(numpy_helper.from_array(moved.astype(np.float32), tensor.name))


def _run_evaluator(
    path: Path, folder: Path, inputs: Mapping[str, Any], outputs: Sequence[str], inside: Sequence[str], only: bool
) -> tuple[str, dict[str, Any]]:
    from onnx.reference import ReferenceEvaluator

    model = with_outputs(path, outputs, inside, only)
    onnx.load_external_data_for_model(model, str(folder))
    evaluator = ReferenceEvaluator(model)
    names = [*outputs, *inside]
    values = evaluator.run(names, dict(inputs))
    return f"onnx.reference {onnx.__version__}", dict(zip(names, values, strict=True))
