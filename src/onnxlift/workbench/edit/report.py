"""What `edit` tells: the new model, what was done to it, and whether it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from onnxlift.ir.graph.types import ValueType

from ..extract import interface_lines, quoted
from ..report import ModelReport
from ..values import known_type, type_dict
from .edited import EditedModel
from .operation import Operation
from .script import call_text


@dataclass(frozen=True)
class EditReport(ModelReport):
    """An edited model: the operations that were done, and its interface."""

    operations: tuple[Operation, ...] = ()
    nodes: tuple[int, int] = (0, 0)
    """The number of nodes before and after, those of subgraphs and functions included."""
    runtime: str = field(default="", kw_only=True)
    """The runtime that ran it on made-up inputs; empty if none did."""
    refusal: str = field(default="", kw_only=True)
    """Why no runtime takes it, although the original is taken."""

    @property
    def inputs(self) -> Mapping[str, ValueType]:
        return {value.name or "": known_type(value) for value in self.model.graph.inputs}

    @property
    def outputs(self) -> Mapping[str, ValueType]:
        return {value.name or "": known_type(value) for value in self.model.graph.outputs}

    @property
    def passed(self) -> bool:
        """Tell whether it runs, and computes what the original does if that was asked for."""
        return not self.refusal and super().passed

    @property
    def why_not(self) -> str:
        """What is wrong with a result that has not passed, in a clause."""
        if self.refusal:
            return f"ONNX Runtime runs the original, and not the result: {self.refusal}"
        return "" if self.verification is None else self.verification.summary

    @property
    def why_not_written(self) -> str:
        return "--no-run writes it all the same" if self.refusal else super().why_not_written

    def facts(self) -> dict[str, Any]:
        return {
            "operations": [shown_call(each) for each in self.operations],
            "nodes": {"before": self.nodes[0], "after": self.nodes[1]},
            "inputs": [{"name": name, **type_dict(type_)} for name, type_ in self.inputs.items()],
            "outputs": [{"name": name, **type_dict(type_)} for name, type_ in self.outputs.items()],
            "runtime": self.runtime or None,
            "refusal": self.refusal or None,
        }

    def lines(self) -> list[str]:
        done = [f"  done           {shown_call(each)}" for each in self.operations[:MOST_LINES]]
        if len(self.operations) > MOST_LINES:
            done.append(f"  done           ... and {len(self.operations) - MOST_LINES:,} more")
        done = done or ["  done           nothing"]
        lines = [*done, f"  nodes          {self.nodes[0]:,} -> {self.nodes[1]:,}"]
        lines += interface_lines(self.inputs, self.outputs)
        if self.runtime:
            lines.append(f"  runs           {self.runtime}, on made-up inputs")
        if self.refusal:
            lines.append(f"  FAILED         {self.why_not}")
        return lines


def unused_notes(model: EditedModel) -> list[str]:
    """Return a note if there are weights that nobody reads: they still take room in the file."""
    main = model.main
    read = {name for body in main.tree() for node in body.proto.node for name in node.input}
    read |= {name for body in main.tree() for name in body.outputs} | main.inputs
    unused = [name for name in main.constants if name not in read]
    if not unused:
        return []
    if len(unused) == 1:
        return [f"nobody reads the initialiser {quoted(unused[0])}: remove_unused drops it"]
    shown = ", ".join(map(quoted, unused[:3])) + (", ..." if len(unused) > 3 else "")
    return [f"nobody reads {len(unused):,} initialisers ({shown}): remove_unused drops them"]


LONGEST = 120
MOST_LINES = 30
"""How many operations are told, and how long they may be."""


def shown_call(operation: Operation) -> str:
    """Return an operation in one line for people: `rename('1423', 'hidden')`. Large arrays are described."""
    text = call_text(operation, lambda array: f"<{array}>")
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
