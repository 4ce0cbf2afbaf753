"""The small valid models that are mutated: ONNX's own cases, random graphs, and some written by hand.

Nothing here needs torch, so that children which are forked afterwards are small.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, parser
from onnx.backend.test.case.node import collect_testcases

from fuzz.generate import generate
from models import handmade
from onnxlift.demo import tiny_resnet, transformer_block

from .texts import TEXTS

LARGEST = 40_000
RANDOM_GRAPHS = 160


@dataclass(frozen=True)
class Seed:
    """A valid model, and the files beside it."""

    kind: str
    """Which family it is of. Each family is drawn as often as any other, however many models it has."""
    name: str
    data: bytes
    files: Mapping[str, bytes] = field(default_factory=dict)


def seeds() -> list[Seed]:
    """All seeds, in an order that is always the same."""
    return [
        seed
        for seed in (*_node_cases(), *_stored_cases(), *_random_graphs(), *_by_hand(), *_external())
        if _is_small(seed)
    ]


def _is_small(seed: Seed) -> bool:
    return len(seed.data) <= LARGEST


def _node_cases() -> Iterator[Seed]:
    state = np.random.get_state()
    np.random.seed(0)  # some cases hold what they draw
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy, about cases that divide by zero on purpose
        cases = collect_testcases(None)
    np.random.set_state(state)
    for case in sorted(cases, key=lambda case: case.name):
        kind = "cases with subgraphs" if _has_subgraphs(case.model) else "cases"
        yield Seed(kind, case.name, case.model.SerializeToString())


def _has_subgraphs(model: onnx.ModelProto) -> bool:
    return bool(model.functions) or any(
        attribute.HasField("g") for node in model.graph.node for attribute in node.attribute
    )


def _stored_cases() -> Iterator[Seed]:
    """Cases that come with onnx as files: old exports of PyTorch, simple models, and networks without weights."""
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data"
    for path in sorted(folder.rglob("*.onnx")):
        if "pb" not in path.suffix and path.stat().st_size <= LARGEST:
            yield Seed("stored cases", str(path.relative_to(folder)), path.read_bytes())


def _random_graphs() -> Iterator[Seed]:
    for number in range(RANDOM_GRAPHS):
        yield Seed("random graphs", f"random graph {number}", generate(number).model.SerializeToString())


def _by_hand() -> Iterator[Seed]:
    models = {
        "tiny_resnet": tiny_resnet(),
        "transformer_block": transformer_block(),
        "lstm_classifier": handmade.lstm_classifier(),
        "beam_step": handmade.beam_step(),
        **{name: parser.parse_model(text) for name, text in TEXTS.items()},
    }
    for name, model in models.items():
        yield Seed("by hand", name, model.SerializeToString())


def _external() -> Iterator[Seed]:
    """Models whose weights lie in a file, in the graph, in a subgraph and in a function."""
    weights = {
        "encoder.0.weight": np.arange(12, dtype=np.float32).reshape(3, 4) / 7,
        "encoder.0.bias": np.linspace(-1, 1, 3, dtype=np.float32),
        "shape": np.array([-1, 3]),
    }
    tensors, data = [], b""
    for name, array in weights.items():
        tensor = numpy_helper.from_array(array, name)
        data += b"\0" * (-len(data) % 64)
        location = {"location": "data.bin", "offset": str(len(data)), "length": str(len(tensor.raw_data))}
        data += tensor.raw_data
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in location.items():
            tensor.external_data.add(key=key, value=value)
        tensors.append(tensor)
    plain = parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 20]> g (float[n, 4] x) => (float[m, 3] y) {
            h = Gemm <transB = 1> (x, weight, bias)  z = Relu(h)  y = Reshape(z, shape) }"""
    )
    plain.graph.initializer.extend(tensors)
    plain.graph.node[0].input[1:] = ["encoder.0.weight", "encoder.0.bias"]
    yield Seed("external", "external in the graph", plain.SerializeToString(), {"data.bin": data})

    body = helper.make_graph(
        [helper.make_node("Add", ["x", "encoder.0.weight"], ["t"])],
        "branch",
        [],
        [helper.make_tensor_value_info("t", TensorProto.FLOAT, None)],
        tensors[:1],
    )
    branches = parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 20]> g (float[3, 4] x, bool c) => (float[3, 4] y) { y = Relu(x) }"""
    )
    branches.graph.node[0].CopyFrom(helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=body))
    yield Seed("external", "external in branches", branches.SerializeToString(), {"data.bin": data})

    calling = parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 20, "me" : 1]> g (float[3, 4] x) => (float[3, 4] y) { y = me.F(x) }
        <domain: "me", opset_import: ["" : 20]> F (a) => (b) { w = Constant <value_int = 1> ()  b = Add(a, w) }"""
    )
    constant = calling.functions[0].node[0].attribute[0]
    constant.Clear()
    constant.name, constant.type = "value", onnx.AttributeProto.TENSOR
    constant.t.CopyFrom(tensors[0])
    yield Seed("external", "external in a function", calling.SerializeToString(), {"data.bin": data})
