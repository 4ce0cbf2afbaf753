"""Compute each quantised layer beside the original one, on the original's own values.

    y  = Conv(x, W)                                       the original
    y' = Conv(DQ(Q(x)), DQ(W8))                           what stands for it in the result, read from the same x
    sums of squares of y and of y' - y                    two numbers for each layer and sample

Both are in one model, so that all layers are measured in one run, and nothing but these numbers leaves it. The layer in
the result is found by names, which quantisers keep: what leads from a value to the values of the original before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper

PREFIX = "onnxlift::"
_FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE)
_MARKS = ("Quantize", "Dequantize", "QLinear", "Integer", "NBits", "QGemm")


@dataclass(frozen=True)
class Slice:
    """A node of the original, the value that it computes, and the nodes of the result that stand for it."""

    node: NodeProto
    value: str
    nodes: tuple[NodeProto, ...]

    @property
    def totals(self) -> tuple[str, str]:
        """The names of the outputs that hold the sums of squares of the signal and of the noise."""
        return f"{PREFIX}signal::{self.value}", f"{PREFIX}noise::{self.value}"


def find_slices(original: ModelProto, result: ModelProto) -> list[Slice]:
    """Return the nodes of the original whose values are computed from fewer bits in the result, in their order."""
    makers = {name: node for node in result.graph.node for name in node.output if name}
    known = {name for node in original.graph.node for name in node.output} | _names(original.graph.input)
    before, after = element_types(original), element_types(result)
    found: list[Slice] = []
    for node in original.graph.node:
        value = next((name for name in node.output if before.get(name) in _FLOATS), "")
        if not value or value not in makers:
            continue
        nodes = _leading_to(value, makers, known)
        if any(attribute.HasField("g") for each in nodes for attribute in each.attribute):
            continue  # nodes that hold graphs are never quantised themselves
        if any(map(_is_mark, nodes)) or after.get(value, before[value]) != before[value]:
            found.append(Slice(node, value, nodes))
    return found


def _is_mark(node: NodeProto) -> bool:
    """Tell whether a node says that fewer bits are used: it quantises, computes with integers, or rounds to a half."""
    to = next((attribute.i for attribute in node.attribute if attribute.name == "to"), 0)
    return any(mark in node.op_type for mark in _MARKS) or to in (TensorProto.FLOAT16, TensorProto.BFLOAT16)


def _leading_to(value: str, makers: Mapping[str, NodeProto], known: Iterable[str]) -> tuple[NodeProto, ...]:
    """Return the nodes that lead to a value from values that the original has, too, in an order that can be run."""
    nodes: dict[int, NodeProto] = {}
    stack = [(value, False)]
    order: list[NodeProto] = []
    while stack:
        name, is_done = stack.pop()
        node = makers.get(name)
        if node is None:
            continue
        if is_done:
            order.append(node)
            continue
        if id(node) in nodes:
            continue
        nodes[id(node)] = node
        stack.append((name, True))
        stack.extend((each, False) for each in node.input if each and each not in known and each in makers)
    return tuple(order)


def element_types(model: ModelProto) -> dict[str, int]:
    """Return the element types of tensors, as far as the file tells them."""
    graph = model.graph
    infos = (*graph.value_info, *graph.input, *graph.output)
    types = {info.name: info.type.tensor_type.elem_type for info in infos if info.type.HasField("tensor_type")}
    return types | {tensor.name: tensor.data_type for tensor in graph.initializer}


def beside(original: ModelProto, result: ModelProto, slices: Iterable[Slice]) -> ModelProto:
    """Return the original with these layers of the result beside it. Its outputs are the sums of squares alone."""
    model = ModelProto()
    model.CopyFrom(original)
    graph = model.graph
    del graph.output[:]
    stored = {tensor.name: tensor for tensor in result.graph.initializer}
    taken: set[str] = set()
    before, after = element_types(original), element_types(result)
    for number, each in enumerate(slices):
        copy = _Copy(graph, f"{PREFIX}{number}::", stored, taken, before, after)
        graph.node.extend(copy.nodes(each))
        graph.node.extend(_sums(each, copy.renamed(each.value)))
        graph.output.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, []) for name in each.totals)
    imports = {entry.domain: entry.version for entry in (*result.opset_import, *original.opset_import)}
    del model.opset_import[:]
    model.opset_import.extend(helper.make_opsetid(domain, version) for domain, version in imports.items())
    model.ir_version = max(original.ir_version, result.ir_version)
    return model


class _Copy:
    """The copy of a slice into the graph of the original: its own values get a prefix, constants are copied once."""

    def __init__(
        self,
        graph: GraphProto,
        prefix: str,
        stored: Mapping[str, TensorProto],
        taken: set[str],
        before: Mapping[str, int],
        after: Mapping[str, int],
    ) -> None:
        self.graph, self.prefix, self.stored, self.taken = graph, prefix, stored, taken
        self.before, self.after = before, after

    def renamed(self, name: str) -> str:
        return f"{self.prefix}{name}" if name else ""

    def nodes(self, each: Slice) -> Iterator[NodeProto]:
        """Yield the nodes of a slice under other names; what they read of the original is cast if types differ."""
        own = {name for node in each.nodes for name in node.output}
        casts: dict[str, str] = {}
        for node in each.nodes:
            copy = NodeProto()
            copy.CopyFrom(node)
            copy.name = self.renamed(node.name or node.output[0])
            copy.output[:] = [self.renamed(name) for name in node.output]
            for place, name in enumerate(node.input):
                if name in self.stored:
                    copy.input[place] = self._constant(name)
                elif name in own:
                    copy.input[place] = self.renamed(name)
                elif name and self.after.get(name, 0) not in (0, self.before.get(name, 0)):
                    if name not in casts:
                        casts[name] = f"{self.prefix}cast::{name}"
                        yield helper.make_node("Cast", [name], [casts[name]], to=self.after[name])
                    copy.input[place] = casts[name]
            yield copy

    def _constant(self, name: str) -> str:
        new = f"{PREFIX}constant::{name}"
        if name not in self.taken:
            self.taken.add(name)
            tensor = self.graph.initializer.add()
            tensor.CopyFrom(self.stored[name])
            tensor.name = new
        return new


def _sums(each: Slice, other: str) -> Iterator[NodeProto]:
    """Yield the nodes that add up the squares of a value, and of its difference from the other one."""
    wide, own, error = (f"{PREFIX}{kind}::{each.value}" for kind in ("wide", "own", "error"))
    yield helper.make_node("Cast", [each.value], [wide], to=TensorProto.FLOAT)
    yield helper.make_node("Cast", [other], [own], to=TensorProto.FLOAT)
    yield helper.make_node("Sub", [own, wide], [error])
    for source, total in zip((wide, error), each.totals, strict=True):
        yield helper.make_node("ReduceSumSquare", [source], [total], keepdims=0)


def _names(values: Iterable[onnx.ValueInfoProto]) -> set[str]:
    return {value.name for value in values}
