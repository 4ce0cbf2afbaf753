"""Say why torch cannot export a model: the line of the lifted source, and the ONNX nodes that it comes from."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from onnxlift.errors import OnnxLiftError, quote
from onnxlift.lifted import Lifted
from onnxlift.verification.children.child import ChildError


class ExportError(OnnxLiftError):
    """Torch cannot export the model. `nodes` are the ONNX nodes at fault, `line` is that of the lifted source; 0 and
    empty if it is not known."""

    def __init__(self, message: str, nodes: Sequence[str] = (), line: int = 0, is_data: bool = False) -> None:
        super().__init__(message)
        self.nodes = tuple(nodes)
        self.line = line
        self.is_data = is_data
        """Whether data decides what the model does there."""


DATA = re.compile(
    r"data-dependent|DataDependent|DynamicOutputShape|unbacked|\.item\(\)|_local_scalar_dense"
    r"|type must be tuple of ints, ?but got FakeTensor"  # a size that is computed from data, as of packed sequences
)
MOST_NODES = 4
_DOING = {
    "lifting": "torch cannot load the lifted model",
    "tracing": "torch.export cannot follow the model",
    "saving": "torch.export cannot save the program",
    "compiling": "AOTInductor cannot compile the program",
    "writing ONNX": "torch.onnx cannot write the program",
    "loading": "what was written cannot be loaded again",
    "running": "what was written does not run",
}


def explain(error: ChildError, phase: str, lifted: Lifted, operators: Mapping[str, str]) -> OnnxLiftError:
    """Return the error to raise for one in the child: where it was, what is there, and what to do.

    `operators` has the operator of each node of the model."""
    doing = _DOING.get(phase, "torch cannot export the model")
    if not error.answer:  # it took too long, or too much memory, or has crashed
        return ExportError(f"{doing}: {error}")
    reason = _reason(str(error.answer["error"]))
    place, nodes, line = locate(error.answer.get("lines") or [], lifted, operators)
    if phase == "tracing" and DATA.search(str(error.answer["error"])):
        message = (
            f"{doing}: data decides what happens{place or ', and a traced program does the same for all data'}. Torch "
            f"says: {reason}. Use the lifted module itself (`onnxlift convert`), or export the part of the model "
            "before or after it (`onnxlift extract`)."
        )
        return ExportError(message, nodes, line, is_data=True)
    return ExportError(f"{doing}{place}: {reason}.", nodes, line)


def locate(lines: Sequence[int], lifted: Lifted, operators: Mapping[str, str]) -> tuple[str, tuple[str, ...], int]:
    """Return a clause with the innermost line of the lifted source that comes from nodes, these nodes, and the line."""
    text = lifted.source.splitlines()
    for line in reversed(lines):
        if not 1 <= line <= len(text):
            continue
        nodes = [node for node in lifted.source_map.nodes_at(line) if node in operators]
        if nodes:
            first = sorted(nodes, key=lambda node: operators[node] not in CONTROL)[:MOST_NODES]
            told = ", ".join(f"{quote(node)} ({operators[node]})" for node in first)
            more = f" and {len(nodes) - MOST_NODES} more" if len(nodes) > MOST_NODES else ""
            what = "node" if len(nodes) == 1 else "nodes"
            clause = f" at line {line} of {lifted.name}.py, `{text[line - 1].strip()}`, from {what} {told}{more}"
            return clause, tuple(nodes), line
    return "", (), 0


CONTROL = frozenset({"If", "Loop", "Scan", "NonZero", "NonMaxSuppression", "Unique", "Compress"})
"""Operators that let data decide: these are named first."""


def _reason(text: str) -> str:
    """Return the first paragraph of an error of torch, on one line."""
    first = text.strip().split("\n\n")[0]
    return re.sub(r"\s+", " ", first)[:400].rstrip(". ")
