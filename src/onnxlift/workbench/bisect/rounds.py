"""Find the round of a Loop or a Scan in which two bodies begin to differ.

Both sides run for one round, for two, for four, until something differs that they carry or have gathered; then the
first such number is found by halving. After one round less all of that agrees, and it enters the round as the first
side has it. So a body is looked at in the round in which its fault shows, be that the first or the thousandth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import onnx
from onnx import helper, numpy_helper

from onnxlift.ir.inference.infer import infer
from onnxlift.ir.load import load

Feeds = Mapping[str, Any]
Compare = Callable[[Sequence[tuple[bytes, Feeds]], bool], bool]
"""Runs the parts of both sides, each on its inputs; tells whether all outputs agree: within tolerance, or exactly."""
Run = Callable[[bytes, Feeds], Sequence[Any]]
"""Runs a part on the first side, and returns its outputs."""


@dataclass(frozen=True)
class Round:
    """A round, counted from one, and what the body reads in it, in the order of its inputs."""

    number: int
    values: Sequence[Any]


class Repeated(Protocol):
    """A part that consists of a node which runs a body several times."""

    def limited(self, count: int) -> tuple[bytes, Feeds]:
        """Return the part with so many rounds at most, and its inputs; the outputs are all that a round leaves."""
        ...

    def entering(self, number: int, left: Sequence[Any]) -> Sequence[Any] | None:
        """Return what the body reads in a round, if the rounds before have left these outputs; None without one."""
        ...


def find_round(sides: Sequence[Repeated], run: Run, compare: Compare, *, exactly: bool = False) -> Round | None:
    """Return the round in which the sides begin to differ; None if they do not, up to the last round of the first."""

    def differ(count: int) -> bool:
        return not compare([side.limited(count) for side in sides], exactly)

    def entering(number: int) -> Sequence[Any] | None:
        return sides[0].entering(number, run(*sides[0].limited(number - 1)) if number > 1 else ())

    agree, wrong = 0, 1
    while not differ(wrong):
        if entering(wrong + 1) is None:
            return None
        agree, wrong = wrong, wrong * 2
    while wrong - agree > 1:
        middle = (agree + wrong) // 2
        agree, wrong = (agree, middle) if differ(middle) else (middle, wrong)
    values = entering(wrong)
    return None if values is None else Round(wrong, values)


def known(part: onnx.ModelProto, name: str, feeds: Feeds) -> Any:
    """Return the value of an input of the node; None if it is not there."""
    if name in feeds:
        return np.asarray(feeds[name])
    tensor = next((each for each in part.graph.initializer if each.name == name), None)
    return None if tensor is None else numpy_helper.to_array(tensor)


def repeated(part: onnx.ModelProto, feeds: Feeds) -> Repeated | None:
    """Return the only node of a part as something that is repeated; None if it is not, or its inputs are not known."""
    node = part.graph.node[0]
    inputs = [known(part, name, feeds) if name else None for name in node.input]
    if node.op_type == "Loop":
        return _Loop(part, feeds, inputs) if all(value is not None for value in inputs[2:]) else None
    is_of_batches = any(each.domain in ("", "ai.onnx") and each.version < 9 for each in part.opset_import)
    if node.op_type != "Scan" or is_of_batches or any(value is None for value in inputs):
        return None
    return _Scan(part, feeds, inputs)


class _Part:
    """A part with one node, and what its inputs are."""

    def __init__(self, part: onnx.ModelProto, feeds: Feeds, inputs: Sequence[Any]) -> None:
        self.part = part
        self.feeds = feeds
        self.inputs = inputs
        self.types = _output_types(part)
        self.taken = _names(part)

    def fresh(self, word: str) -> str:
        """Return a name that nothing in the part has."""
        while word in self.taken:
            word += "_"
        return word

    def copied(self) -> tuple[onnx.ModelProto, onnx.NodeProto, onnx.GraphProto]:
        """Return a copy of the part, its node and its body."""
        model = onnx.ModelProto()
        model.CopyFrom(self.part)
        node = model.graph.node[0]
        return model, node, next(each.g for each in node.attribute if each.name == "body")

    def give_all(self, model: onnx.ModelProto, types: Sequence[int]) -> bytes:
        """Let the part give all outputs of its node, and return it."""
        node = model.graph.node[0]
        names = [*node.output, *[""] * (len(types) - len(node.output))]
        del node.output[:]
        node.output.extend(name or self.fresh(f"left_{place}") for place, name in enumerate(names))
        del model.graph.output[:], model.graph.value_info[:]
        for name, kind in zip(node.output, types, strict=True):
            model.graph.output.append(helper.make_tensor_value_info(name, kind, None))
        data: bytes = model.SerializeToString()
        return data


class _Loop(_Part):
    """A Loop. Beside its own outputs it gives the conditions that its rounds have left."""

    def limited(self, count: int) -> tuple[bytes, Feeds]:
        model, node, body = self.copied()
        most = self.inputs[0]
        if most is not None:
            count = min(count, max(0, int(most.reshape(-1)[0])))
        limit, going = self.fresh("rounds"), self.fresh("goes_on")
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(count, np.int64), limit))
        node.input[0] = limit
        body.node.append(helper.make_node("Identity", [body.output[0].name], [going]))
        body.output.append(helper.make_tensor_value_info(going, onnx.TensorProto.BOOL, None))
        return self.give_all(model, [*self.types[1:], onnx.TensorProto.BOOL]), self.feeds

    def entering(self, number: int, left: Sequence[Any]) -> Sequence[Any] | None:
        going = np.asarray(True)
        if number == 1:
            condition = self.inputs[1] if len(self.inputs) > 1 else None
            return [np.asarray(0, np.int64), going if condition is None else condition.reshape(()), *self.inputs[2:]]
        most, conditions = self.inputs[0], left[-1].reshape(-1)
        ended = conditions.size < number - 1 or not conditions[-1]
        if ended or (most is not None and int(most.reshape(-1)[0]) < number):
            return None
        return [np.asarray(number - 1, np.int64), going, *left[: len(self.inputs) - 2]]


class _Scan(_Part):
    """A Scan, whose rounds read slices of some of its inputs."""

    def __init__(self, part: onnx.ModelProto, feeds: Feeds, inputs: Sequence[Any]) -> None:
        super().__init__(part, feeds, inputs)
        given = {each.name: each for each in part.graph.node[0].attribute}
        count = int(given["num_scan_inputs"].i)
        self.states = len(inputs) - count
        axes = list(given["scan_input_axes"].ints) if "scan_input_axes" in given else [0] * count
        turned = list(given["scan_input_directions"].ints) if "scan_input_directions" in given else [0] * count
        self.slices = [
            np.moveaxis(np.flip(array, axis) if backwards else array, axis, 0)
            for array, axis, backwards in zip(inputs[self.states :], axes, turned, strict=True)
        ]
        """What the rounds read, first axis first, in the order of the rounds."""
        self.axes, self.turned = axes, turned

    def limited(self, count: int) -> tuple[bytes, Feeds]:
        model, node, _ = self.copied()
        feeds = dict(self.feeds)
        for place, (rounds, axis, backwards) in enumerate(zip(self.slices, self.axes, self.turned, strict=True)):
            name = self.fresh(f"slices_{place}")
            array = np.moveaxis(rounds[:count], 0, axis)
            feeds[name] = np.ascontiguousarray(np.flip(array, axis) if backwards else array)
            kind = helper.np_dtype_to_tensor_dtype(array.dtype)
            model.graph.input.append(helper.make_tensor_value_info(name, kind, [None] * array.ndim))
            node.input[self.states + place] = name
        return self.give_all(model, self.types), feeds

    def entering(self, number: int, left: Sequence[Any]) -> Sequence[Any] | None:
        if any(len(rounds) < number for rounds in self.slices):
            return None
        states = self.inputs[: self.states] if number == 1 else left[: self.states]
        return [*states, *(np.ascontiguousarray(rounds[number - 1]) for rounds in self.slices)]


def _output_types(part: onnx.ModelProto) -> list[int]:
    """Return the element types of the outputs of the body; float32 where nothing tells."""
    model = load(part)
    infer(model)
    (node,) = model.graph
    outputs = node.attributes["body"].as_graph().outputs
    return [int(onnx.TensorProto.FLOAT if value.dtype is None else value.dtype.value) for value in outputs]


def _names(part: onnx.ModelProto) -> set[str]:
    """Return all names of values in a part, also of those inside its node."""
    found: set[str] = set()
    waiting = [part.graph]
    while waiting:
        graph = waiting.pop()
        found.update(each.name for each in (*graph.input, *graph.output, *graph.initializer))
        for node in graph.node:
            found.update((*node.input, *node.output))
            waiting += [each.g for each in node.attribute if each.HasField("g")]
            waiting += [inner for each in node.attribute for inner in each.graphs]
    return found
