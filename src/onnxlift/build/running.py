"""Run a model that was built, in this process: by ONNX Runtime, or by ONNX's reference where that is not installed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from .errors import BuildError, at_the_users_line, nearest
from .types import dtype_text

if TYPE_CHECKING:
    from .custom import CustomOperator
    from .model import Model


@at_the_users_line
def run(model: Model, given: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """Return the outputs of a model by name."""
    inputs = model.model.graph.inputs
    names = [value.name or "" for value in inputs]
    if len(given) > len(names):
        raise BuildError(f"the model takes {len(names)} inputs ({', '.join(names)}), and {len(given)} were given.")
    feeds = dict(zip(names, given, strict=False))
    for name, array in named.items():
        if name not in names:
            raise BuildError(f"the model has no input {name}{nearest(name, names)}; it has {', '.join(names)}.")
        if name in feeds:
            raise BuildError(f"the input {name} is given twice, by its place and by its name.")
        feeds[name] = array
    missing = [name for name in names if name not in feeds]
    if missing:
        raise BuildError(f"the model needs its input {missing[0]}; it takes {', '.join(names)}.")
    feeds = {value.name or "": _array(value, feeds[value.name or ""]) for value in inputs}
    outputs = [value.name or "" for value in model.model.graph.outputs]
    try:
        import onnxruntime  # noqa: F401
    except ImportError:
        return _by_reference(model, feeds, outputs)
    return _by_runtime(model, feeds, outputs)


def _array(value: ir.Value, given: Any) -> Any:
    """Return what a session takes: numbers and lists become arrays of the declared type."""
    if given is None or not isinstance(value.type, ir.TensorType):
        return given
    if value.dtype == ir.DataType.STRING:
        return np.asarray(given, object)
    if isinstance(given, np.ndarray | np.generic):
        return np.asarray(given)
    assert value.dtype is not None
    try:
        return np.asarray(given, value.dtype.numpy())
    except (TypeError, ValueError):
        shown = given if len(repr(given)) <= 60 else type(given).__name__
        raise BuildError(
            f"the input {value.name} is {shown!r}, which is no array of {dtype_text(value.dtype)}."
        ) from None


def _by_runtime(model: Model, feeds: Mapping[str, Any], outputs: Sequence[str]) -> dict[str, Any]:
    from onnxlift.verification.session_values import CAST_OUT, cast_outputs, run_session

    if model.operators:
        return _with_python(model, feeds, outputs)

    def made() -> Any:
        proto = model.proto()
        session = _session(proto)
        types = {output.name: output.type for output in session.get_outputs()}
        casts = {name: types[name] for name in outputs if types[name] in CAST_OUT}
        if casts:
            session = _session(cast_outputs(proto, casts))
        return session, {name: np.dtype(CAST_OUT[kind][1]) for name, kind in casts.items()}

    session, casts = _session_of_now(model, made)
    try:
        return run_session(session, casts, feeds, outputs)
    except Exception as error:  # ONNX Runtime has an exception for each status, and numpy its own
        raise BuildError(f"ONNX Runtime refuses to run the model: {' '.join(str(error).split())[:500]}") from None


def _with_python(model: Model, feeds: Mapping[str, Any], outputs: Sequence[str]) -> dict[str, Any]:
    """Run a model with operators of the user's own: their nodes in Python, and all between them by ONNX Runtime."""
    from onnxlift.workbench.runtime.python_ops import PythonSession

    task = {"folder": "", "options": {}}
    session = _session_of_now(model, lambda: PythonSession(model.proto(), outputs, _classes(model.operators), task))
    found: dict[str, Any] = session.results(session.call(feeds))
    return found


def _classes(operators: Sequence[CustomOperator]) -> list[Any]:
    """Return the operators as onnx's reference takes them."""
    from onnx.reference.op_run import OpRun

    def made(operator: CustomOperator) -> Any:
        if operator.run is None:
            raise BuildError(f"the model has the operator {operator!r}, which was declared without `run`.")
        compute = operator.run

        def run(self: Any, *inputs: Any, **_: Any) -> tuple[Any, ...]:
            attributes = {key: getattr(self, key, default) for key, default in operator.defaults.items()}
            found = compute(*inputs, **attributes)
            return tuple(map(np.asarray, found if isinstance(found, tuple) else (found,)))

        return type(operator.name, (OpRun,), {"op_domain": operator.domain, "_run": run})

    return [made(each) for each in operators]


def _session(proto: Any) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(proto.SerializeToString(), options, ["CPUExecutionProvider"])
    except Exception as error:
        raise BuildError(f"ONNX Runtime does not take the model: {' '.join(str(error).split())[:500]}") from None


def _by_reference(model: Model, feeds: Mapping[str, Any], outputs: Sequence[str]) -> dict[str, Any]:
    from onnx.reference import ReferenceEvaluator

    session = _session_of_now(model, lambda: ReferenceEvaluator(model.proto(), new_ops=_classes(model.operators)))
    return dict(zip(outputs, session.run(list(outputs), dict(feeds)), strict=True))


def _session_of_now(model: Model, made: Callable[[], Any]) -> Any:
    """Return a session with the numbers that the parameters have now: the one of the last call, if they are the same.

    Arrays may be changed in place, so nothing but their bytes tells."""
    digest = hashlib.blake2b(digest_size=16)
    for value in model.model.graph.initializers.values():
        if isinstance(value.const_value, ir.LazyTensor):
            array = np.ascontiguousarray(value.const_value.numpy()).reshape(-1)
            digest.update(repr(array.tolist()).encode() if array.dtype == object else array.view(np.uint8).data)
    numbers = digest.digest()
    if model._session is None or model._session[0] != numbers:
        model._session = numbers, made()
    return model._session[1]
