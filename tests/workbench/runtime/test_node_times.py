"""The time of each node: kernels of ONNX Runtime's optimised graph are mapped to the nodes that they came from."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import parser

from models.handmade import beam_step, tiny_resnet
from onnxlift.errors import OnnxLiftError
from onnxlift.workbench.runtime.node_times import NodeTimes, measure_nodes

CALLS = """<ir_version: 10, opset_import: ["" : 20, "f" : 1]>
calls (float[2, 4] x) => (float[2, 4] y) { a = f.Two(x) b = f.Two(a) y = Relu(b) }
<domain: "f", opset_import: ["" : 20]> Two (u) => (v) { t = Exp(u) v = Sin(t) }"""


@pytest.fixture(scope="module")
def resnet() -> NodeTimes:
    return measure_nodes(tiny_resnet(), shapes={"x": (1, 3, 224, 224)}, runs=3, warmup=1, threads=1)


def test_every_node_of_a_network_is_in_one_group(resnet: NodeTimes) -> None:
    names = [node.name for group in resnet.groups for node in group.nodes]
    assert sorted(names) == sorted(node.name for node in tiny_resnet().graph.node)


def test_what_was_fused_into_a_convolution_is_in_its_group(resnet: NodeTimes) -> None:
    """Also the Add and the Relu of a residual block, which the kernel's name knows nothing of."""
    groups = {group.nodes[0].name: [node.operator for node in group.nodes] for group in resnet.groups}
    assert groups["stem_out_conv"] == ["Conv", "BatchNormalization", "Relu"]
    assert groups["layer1a_conv2"] == ["Conv", "BatchNormalization", "Add", "Relu"]
    assert {group.main.operator for group in resnet.groups if group.main and "conv" in group.main.name} == {"Conv"}


def test_times_add_up(resnet: NodeTimes) -> None:
    assert len(resnet.runs) == 3 and all(seconds > 0 for seconds in resnet.runs)
    by_node = resnet.by_node()
    assert sum(by_node.values()) == pytest.approx(sum(group.seconds for group in resnet.groups))
    convolutions = sum(seconds for node, seconds in by_node.items() if node.operator == "Conv")
    assert convolutions > sum(by_node.values()) / 2


def test_nodes_inside_a_loop_are_told_apart_from_the_loop() -> None:
    times = measure_nodes(beam_step(), inputs={"x": np.ones((2, 2), np.float32), "steps": np.array(3)}, runs=2)
    inside = {group.main.name: group for group in times.groups if group.main and group.main.within}
    assert inside["halve"].nodes[0].within == (("y", "body"),)
    assert inside["halve"].kernels[0].calls >= 1
    assert {"iterate", "choose_start"} <= {group.main.name for group in times.groups if group.main}


def test_nodes_of_a_function_belong_to_the_call_and_nodes_without_names_are_found() -> None:
    times = measure_nodes(parser.parse_model(CALLS), runs=2)
    groups = {group.main.value: group for group in times.groups if group.main}
    assert [kernel.operator for kernel in groups["a"].kernels] == ["Exp", "Sin"]
    assert [kernel.operator for kernel in groups["b"].kernels] == ["Exp", "Sin"]
    assert groups["y"].main is not None and groups["y"].main.name == ""


def test_names_that_a_trace_cannot_hold_are_no_trouble() -> None:
    model = parser.parse_model(CALLS)
    for number, node in enumerate(model.graph.node):
        node.name = f'quo"te\\{number}\n'
    times = measure_nodes(model, runs=1)
    assert {node.name for group in times.groups for node in group.nodes} == {node.name for node in model.graph.node}


def test_a_provider_that_is_not_there_is_an_error() -> None:
    with pytest.raises(OnnxLiftError, match=r"has no provider .cuda.; it has .*cpu"):
        measure_nodes(onnx.ModelProto(), providers="cuda")
