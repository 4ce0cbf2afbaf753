"""`Editor`: a model with an ordered list of operations that were done to it, which can be undone and done again.

Each operation is a method: those of the table in `operation.py`. A draft may break rules; what is saved may not.
"""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt
import onnx_ir as ir

from onnxlift.errors import Finding, InvalidModelError, OnnxLiftError, quote
from onnxlift.ir.graph.types import ValueType
from onnxlift.ir.graph.walk import regions
from onnxlift.ir.reading.weights import tensor_of
from onnxlift.unforeseen import answered

from ..cutting import unknown_ranks
from ..report import Checking, name_of
from ..values import known_type, suggestion
from .addresses import find_attribute, find_value
from .attributes import attribute_of
from .building import Built, build, problems_of
from .constants import constant_tensor
from .edited import EditedModel, held
from .operation import Operation, all_operations
from .report import EditReport, unused_notes
from .running import runs
from .script import save_text, script_text, write_script

EVERY = 8
"""How many operations lie between two states that are kept, so that `undo` repeats few."""
FORMAT = "onnxlift-edit/1"


class Editor:
    """A model that is being edited. `m.rename(...)`, `m.delete(...)` and all other operations change it in place."""

    def __init__(self, source: Any) -> None:
        with answered():
            self.source = held(source)
            self._model = EditedModel.read(self.source)
        self._states = [self._model.snapshot()]
        self._done: list[Operation] = []
        self._undone: list[Operation] = []
        self._built: Built | None = None
        self._nodes = sum(len(body.proto.node) for body in self._model.bodies())

    if TYPE_CHECKING:  # the operations are methods, which are added below

        def __getattr__(self, name: str) -> Any: ...

    def do(self, operation: Operation | Mapping[str, Any]) -> str | None:
        """Do an operation, given as one or as plain data. If it fails, the draft is as it was.

        Return the name with which one can go on, such as that of a new value."""
        if not isinstance(operation, Operation):
            operation = Operation.from_dict(dict(operation))
        result = self._apply(operation)
        self._undone.clear()
        return result

    def _apply(self, operation: Operation) -> str | None:
        self._built = None
        try:
            with answered():
                result = operation.apply(self._model)
                self._model.refresh()
        except BaseException:
            self._restore(len(self._done))
            raise
        self._done.append(operation)
        if len(self._done) == len(self._states) * EVERY:
            self._states.append(self._model.snapshot())
        return result

    def _restore(self, count: int) -> None:
        """Go back to the state after `count` operations: from the last state that was kept, do again what followed."""
        self._built = None
        del self._states[count // EVERY + 1 :]
        self._model.restore(self._states[-1])
        for operation in self._done[(len(self._states) - 1) * EVERY : count]:
            operation.apply(self._model)
            self._model.refresh()
        del self._done[count:]

    @property
    def operations(self) -> tuple[Operation, ...]:
        """What was done, in its order."""
        return tuple(self._done)

    def undo(self, count: int = 1) -> None:
        """Take back the last operations."""
        if not 0 <= count <= len(self._done):
            raise OnnxLiftError(f"there are {len(self._done)} operations to undo, not {count}.")
        taken = self._done[len(self._done) - count :]
        self._restore(len(self._done) - count)
        self._undone += reversed(taken)

    def redo(self, count: int = 1) -> None:
        """Do again what was undone."""
        if not 0 <= count <= len(self._undone):
            raise OnnxLiftError(f"there are {len(self._undone)} operations to do again, not {count}.")
        for _ in range(count):
            self._apply(self._undone[-1])
            self._undone.pop()

    # ---------------------------------------------------------------------------------------------- look at the draft

    @property
    def inputs(self) -> list[str]:
        """The names of the model's inputs, without those that are initialisers."""
        main = self._model.main
        return [value.name for value in self._model.graph.input if value.name not in main.constants]

    @property
    def outputs(self) -> list[str]:
        """The names of the model's outputs."""
        return self._model.main.outputs

    def nodes(self, operator: str | None = None, name: str = "*") -> list[str]:
        """Return the names of nodes, those in subgraphs and functions included: of an operator, or matching a glob."""
        return [
            node.name
            for body in self._model.bodies()
            for node in body.proto.node
            if operator in (None, node.op_type, f"{node.domain}::{node.op_type}") and fnmatchcase(node.name, name)
        ]

    def values(self, name: str = "*") -> list[str]:
        """Return the names of values that match a glob, those in subgraphs and functions included."""
        return [each for body in self._model.bodies() for each in body.values() if fnmatchcase(each, name)]

    def is_constant(self, name: str) -> bool:
        """Tell whether a value of this name is an initialiser, or the output of a Constant node."""
        try:
            constant_tensor(find_value(self._model, name))
        except OnnxLiftError:
            return False
        return True

    def constant(self, name: str, inside: str | None = None) -> npt.NDArray[Any]:
        """Return the numbers of an initialiser, or of a Constant node."""
        with answered():
            tensor = constant_tensor(find_value(self._model, name, inside))
            return tensor_of(tensor, self._model.store).numpy()

    def attribute(self, path: str, inside: str | None = None) -> Any:
        """Return an attribute of a node: `m.attribute("conv1.pads")`; None if the node does not set it."""
        (_, node), name = find_attribute(self._model, path, None, inside)
        found = attribute_of(node, name)
        if found is None or found.ref_attr_name:
            return None
        return ir.serde.deserialize_attribute(found).value

    def types(self) -> dict[str, ValueType]:
        """Return the types that inference finds of all values by name, as far as the draft can be read.

        Sizes are numbers, names, formulas, or None."""
        model = self._build().model
        if model is None:
            return {}
        return {
            value.name: known_type(value)
            for region in regions(model)
            for values in (region.graph.inputs, region.graph.initializers.values(), *(n.outputs for n in region.graph))
            for value in values
            if value.name
        }

    def type(self, value: str) -> ValueType:
        """Return the type that inference finds of a value."""
        found = self.types()
        if value not in found:
            broken = "" if found else " The draft cannot be read as it is: problems() tells why."
            raise OnnxLiftError(f"no type is known of {quote(value)}{suggestion(value, found)}.{broken}")
        return found[value]

    def problems(self) -> tuple[Finding, ...]:
        """Return all that keeps the draft from being a valid model; nothing if it is one."""
        with answered():
            return problems_of(self._build())

    def _build(self) -> Built:
        with answered():
            if self._built is None:
                self._built = build(self._model)
        return self._built

    # ------------------------------------------------------------------------------------------------ end with a model

    def report(self, *, verify: bool = False, run: bool = True, **checking: Any) -> EditReport:
        """Return the model as it is now, with all that was done. Raises InvalidModelError if it breaks rules.

        ONNX Runtime then runs it on made-up inputs, unless `run` is False: the report is false if it takes the original
        and not this. With `verify`, the result must also compute what the original does; `checking` takes the options
        of `verify`."""
        options = Checking(verify, **checking)
        problems = self.problems()
        if problems:
            raise InvalidModelError(problems)
        built, self._built = self._build(), None  # the caller may change the model
        assert built.model is not None
        with answered():
            report = EditReport(
                name_of(self.source, built.model),
                built.model,
                operations=self.operations,
                nodes=(self._nodes, sum(len(region.graph) for region in regions(built.model))),
                notes=(*unknown_ranks(built.model.graph.outputs), *unused_notes(self._model)),
            )
            report = runs(report, self.source, options) if run else report
        return report.verified(self.source, options)

    def save(
        self, path: str | os.PathLike[str], *, force: bool = False, external_data: str = "auto", **options: Any
    ) -> EditReport:
        """Write the model to `path`, and return the report. What breaks rules, or no longer runs, is not written.

        `options` are those of `report`."""
        report = self.report(**options)
        if not report:
            raise OnnxLiftError(f"the model is not written: {report.why_not}.")
        report.save(path, force=force, external_data=external_data)
        return report

    def script(self, path: str | os.PathLike[str] | None = None, *, force: bool = False) -> str:
        """Return Python text that does the same again: `onnxlift edit SCRIPT MODEL -o OUT` runs it.

        With a path, write it there; arrays that are too large for a script go to an .npz file beside it."""
        return script_text(self._done) if path is None else write_script(self._done, Path(path), force=force)

    def to_json(self, path: str | os.PathLike[str] | None = None, *, force: bool = False) -> str:
        """Return the operations as JSON, and write it to the path if there is one.

        `onnxlift edit OPERATIONS.json MODEL -o OUT` does them again."""
        plain = {"format": FORMAT, "operations": [each.to_dict() for each in self._done]}
        text = json.dumps(plain, indent=2) + "\n"
        if path is not None:
            save_text(Path(path), text, force=force)
        return text

    def __repr__(self) -> str:
        return f"<Editor of {len(self.nodes())} nodes, {len(self._done)} operations>"


def _method(kind: type[Operation]) -> Any:
    @wraps(kind.apply)
    def method(self: Editor, *values: Any, **named: Any) -> str | None:
        return self.do(kind.called(*values, **named))

    signature = kind.signature()
    method.__name__, method.__qualname__, method.__doc__ = kind.op(), f"Editor.{kind.op()}", kind.__doc__
    itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    vars(method)["__signature__"] = signature.replace(parameters=[itself, *signature.parameters.values()])
    return method


def parse_operations(text: str | bytes) -> list[Operation]:
    """Return the operations that JSON holds: a list of them, or an object with that list as `operations`."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise OnnxLiftError(f"these operations are no JSON: {error}") from error
    if isinstance(data, dict):
        if data.get("format", FORMAT) != FORMAT:
            raise OnnxLiftError(f"these operations are of the format {data['format']!r:.60}, not {FORMAT}.")
        data = data.get("operations")
    return operations_of(data)


def operations_of(data: Any) -> list[Operation]:
    """Return operations that are given as such, or as plain data."""
    if isinstance(data, str | bytes | Mapping) or not isinstance(data, Iterable):
        raise OnnxLiftError('operations are a list, such as [{"op": "rename", "old": "1423", "new": "hidden"}].')
    found: list[Operation] = []
    for number, each in enumerate(data):
        try:
            found.append(each if isinstance(each, Operation) else Operation.from_dict(each))
        except OnnxLiftError as error:
            raise OnnxLiftError(f"operation {number}: {error}") from error
    return found


for _kind in all_operations().values():
    setattr(Editor, _kind.op(), _method(_kind))
