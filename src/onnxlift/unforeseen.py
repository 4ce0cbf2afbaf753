"""Turn what nobody foresaw into an answer: an InternalError that says what was being done, and at which node."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

import onnx
import onnx_ir as ir

from .errors import InternalError, OnnxLiftError, quote
from .stages import Record


@contextmanager
def answered(record: Record | None = None) -> Iterator[None]:
    """Let every error that is no OnnxLiftError leave as one.

    `record` knows the stage and the step that runs. If memory runs out, that is nobody's fault, and is said so."""
    record = record or Record()
    try:
        yield
    except OnnxLiftError:
        raise
    except MemoryError as error:
        where = f" in the step {record.at[1]!r} of the stage {record.at[0]!r}" if record.at[1] else ""
        raise OnnxLiftError(f"the memory of this machine, or its limit, is too small for the model{where}.") from error
    except Exception as error:  # whatever it is: this is the place where nothing more is known of it
        node = node_at(error.__traceback__)
        raise InternalError(*record.at, node, error, skippable=record.at_optional) from error


def node_at(traceback: TracebackType | None) -> str:
    """Return the node that the innermost function had at hand, or the one that called it and so on; "" if none had."""
    found = ""
    while traceback is not None:
        for name in ("node", "n"):
            found = _title(traceback.tb_frame.f_locals.get(name)) or found
        traceback = traceback.tb_next
    return found


def _title(value: object) -> str:
    value = getattr(value, "ir", value)  # the node of an operator function
    value = getattr(value, "node", value) if not isinstance(value, ir.Node | onnx.NodeProto) else value
    if isinstance(value, ir.Node | onnx.NodeProto):
        return f"node {quote(value.name or '')} ({value.op_type!s:.100})"
    return ""
