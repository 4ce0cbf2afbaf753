"""One change is one line, and says what it is."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper, parser

from onnxlift.errors import OnnxLiftError
from onnxlift.workbench.diff import DiffReport, diff

from .graphs import changed, network, node_of, parsed, renamed, set_weight, weight

TWO = "float[n, 4] x, float[n, 4] z"


def only_change(a: onnx.ModelProto, b: onnx.ModelProto, **options: object) -> DiffReport:
    """The report on two models with one difference, which is the same the other way round."""
    report, mirrored = diff(a, b, **options), diff(b, a, **options)
    assert sum(report.counts.values()) == 1, str(report)
    turned = {"added": "removed", "removed": "added"}
    assert mirrored.counts == {turned.get(kind, kind): count for kind, count in report.counts.items()}
    for here, there in zip((*report.nodes, *report.weights), (*mirrored.nodes, *mirrored.weights), strict=True):
        assert (here.a, here.b) == (there.b, there.a)
    return report


def line_of(report: DiffReport) -> str:
    """The one line of the report that is a change."""
    lines = str(report).splitlines()
    heads = [
        i for i, line in enumerate(lines) if line in ("  nodes", "  weights", "  interface", "  opset", "  metadata")
    ]
    assert len(heads) == 1
    found = lines[heads[0] + 1]
    return (found if " " in found.strip() else lines[heads[0] + 2]).strip()


def test_one_number_of_one_weight() -> None:
    def nudge(model: onnx.ModelProto) -> None:
        array = weight(model, "layers.1.weight")
        array[3, 4] += 0.5
        set_weight(model, "layers.1.weight", array)

    b = changed(network(), nudge)
    report = only_change(network(), renamed(b))
    (found,) = report.weights
    assert report.verdict == "network and network differ: 1 weight"
    assert found.distance is not None
    assert (found.distance.different, found.distance.elements) == (1, 64)
    assert found.distance.max_abs == pytest.approx(0.5)
    before, after = (float(weight(model, "layers.1.weight")[3, 4]) for model in (network(), b))
    assert found.distance.max_rel == pytest.approx(0.5 / max(abs(before), abs(after)))
    flat = [weight(model, "layers.1.weight").reshape(-1).astype(float) for model in (network(), b)]
    cosine = flat[0] @ flat[1] / np.linalg.norm(flat[0]) / np.linalg.norm(flat[1])
    assert found.distance.cosine == pytest.approx(cosine)
    assert line_of(only_change(network(), b)).startswith(
        "'layers.1.weight' float32 (8, 8): 1 of 64 numbers differs, max abs 0.5, max rel "
    )
    assert found.module == "" and only_change(network(), b).weights[0].module == "layers.1"
    assert only_change(network(), b).weights[0].readers == ("MatMul '/layers.1/MatMul' B",)


def change_alpha(model: onnx.ModelProto) -> None:
    node_of(model, "/layers.1/LeakyRelu").attribute[0].f = 0.2


def change_operator(model: onnx.ModelProto) -> None:
    node = node_of(model, "/layers.1/LeakyRelu")
    node.op_type = "Elu"
    del node.attribute[:]


def insert(model: onnx.ModelProto) -> None:
    nodes = list(model.graph.node)
    nodes.insert(4, helper.make_node("Neg", ["m1"], ["negative"], name="/layers.1/Neg"))
    nodes[5].input[0] = "negative"
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def remove(model: onnx.ModelProto) -> None:
    node_of(model, "/layers.2/MatMul").input[0] = "a1"
    model.graph.node.remove(node_of(model, "/layers.1/LeakyRelu"))


def rewire(model: onnx.ModelProto) -> None:
    node_of(model, "/layers.2/MatMul").input[0] = "a1"


def rewire_output(model: onnx.ModelProto) -> None:
    node_of(model, "/layers.2/LeakyRelu").output[0] = "dead"
    node_of(model, "/layers.2/Add").output[0] = "r2"
    node_of(model, "/layers.2/LeakyRelu").input[0] = "r2"


def drop_layer(model: onnx.ModelProto) -> None:
    node_of(model, "/layers.2/MatMul").input[0] = "r0"
    for name in ("MatMul", "Add", "LeakyRelu"):
        model.graph.node.remove(node_of(model, f"/layers.1/{name}"))


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (change_alpha, "changed  LeakyRelu '/layers.1/LeakyRelu': alpha 0.1 -> 0.2"),
        (change_operator, "changed  LeakyRelu -> Elu '/layers.1/LeakyRelu'"),
        (insert, "added    Neg '/layers.1/Neg': after MatMul '/layers.1/MatMul', before Add '/layers.1/Add'"),
        (
            remove,
            "removed  LeakyRelu '/layers.1/LeakyRelu': after Add '/layers.1/Add', before MatMul '/layers.2/MatMul'",
        ),
        (rewire, "changed  MatMul '/layers.2/MatMul': A LeakyRelu '/layers.1/LeakyRelu' -> Add '/layers.1/Add'"),
        (
            rewire_output,
            "changed  output 'r2': value LeakyRelu '/layers.2/LeakyRelu' -> Add '/layers.2/Add'",
        ),
    ],
)
def test_one_change_of_a_node(change: Callable[[onnx.ModelProto], None], line: str) -> None:
    b = changed(network(), change)
    assert line_of(only_change(network(), b)) == line
    only_change(network(), renamed(b))


def test_a_layer_that_is_gone_is_the_one_with_its_weights() -> None:
    report = diff(network(4), renamed(changed(network(4), drop_layer)))
    assert report.counts["removed"] == sum(report.counts.values()) == 3
    assert {change.a for change in report.nodes} == {f"/layers.1/{name}" for name in ("MatMul", "Add", "LeakyRelu")}


def test_a_node_that_moved_is_one_change() -> None:
    a = parsed("a = Exp(x) b = Relu(a) c = Sin(b) y = Neg(c)")
    b = parsed("a = Exp(x) c = Sin(a) b = Relu(c) y = Neg(b)")
    report = only_change(a, b)
    assert report.nodes[0].kind == "moved"
    assert report.nodes[0].operator in ("Relu", "Sin")


def test_swapped_inputs_are_one_change_where_their_order_matters() -> None:
    a, b = parsed("y = Sub(x, z)", inputs=TWO), parsed("y = Sub(z, x)", inputs=TWO)
    assert line_of(only_change(a, b)) == "changed  Sub 'Sub_0': A input 'x' -> input 'z', B input 'z' -> input 'x'"


def test_a_setting_in_a_constant_is_shown_as_a_setting() -> None:
    a, b = (parsed(f"s = Constant <value_ints = [{s}]> () y = Reshape(x, s)") for s in ("-1, 4", "0, 4"))
    assert line_of(only_change(a, b)) == "changed  Reshape 'Reshape_1': shape [-1, 4] -> [0, 4]"


def test_an_input_more_is_a_change_of_the_node() -> None:
    a = parsed("y = Concat <axis = 1> (x, z, x)", inputs=TWO, outputs="float[n, m] y")
    b = parsed("y = Concat <axis = 1> (x, x)", inputs=TWO, outputs="float[n, m] y")
    assert line_of(only_change(a, b)) == "changed  Concat 'Concat_0': inputs[1] input 'z' -> none"


def test_changes_inside_subgraphs_and_functions_say_where_they_are() -> None:
    text = """<ir_version: 10, opset_import: ["" : 20, "local" : 1]> net (float[n, 4] x, bool go) => (float[n, 4] y) {{
        a = If (go) <then_branch = t () => (float[n, 4] t1) {{ t1 = {inner}(x) }},
                     else_branch = e () => (float[n, 4] e1) {{ e1 = Neg(x) }}>
        y = local.f(a) }}
        <domain: "local", opset_import: ["" : 20]> f (u) => (w) {{ w = {body}(u) }}"""
    plain = parser.parse_model(text.format(inner="Exp", body="Sin"))
    inside = only_change(plain, parser.parse_model(text.format(inner="Abs", body="Sin")))
    assert line_of(inside) == "changed  Exp -> Abs 'Abs_1' (in then_branch of If 'If_0')"
    function = only_change(plain, parser.parse_model(text.format(inner="Exp", body="Cos")))
    assert line_of(function) == "changed  Sin -> Cos 'Cos_0' (in function local::f)"


def test_other_types_and_shapes_of_weights() -> None:
    def as_type(dtype: type) -> onnx.ModelProto:
        return changed(
            network(),
            lambda model: set_weight(model, "layers.0.weight", weight(model, "layers.0.weight").astype(dtype)),
        )

    def matrix(array: np.ndarray) -> onnx.ModelProto:
        model = parsed("y = MatMul(x, w)", outputs="float[n, m] y")
        model.graph.initializer.append(numpy_helper.from_array(array.astype(np.float32), "w"))
        return model

    (half,) = diff(network(), as_type(np.float16)).weights
    assert (half.a.type, half.b.type) == ("float32", "float16")
    assert half.distance is not None and 0 < (half.distance.max_rel or 0) < 1e-3
    array = np.arange(12).reshape(4, 3)
    assert diff(matrix(array), matrix(array.T)).weights[0].how == "transposed by [1, 0]"
    assert diff(matrix(array), matrix(array.reshape(3, 4))).weights[0].how == "reshaped"
    assert diff(matrix(array), matrix(array[:3])).weights[0].distance is None


def test_a_quantised_weight_is_one_change_with_what_it_costs() -> None:
    def quantise(model: onnx.ModelProto) -> None:
        array = weight(model, "layers.1.weight")
        scale = np.float32(np.abs(array).max() / 127)
        integers = np.round(array / scale).astype(np.int8)
        parts = {"q": integers, "scale": scale, "zero": np.int8(0)}
        model.graph.initializer.extend(numpy_helper.from_array(np.asarray(x), name) for name, x in parts.items())
        node = helper.make_node("DequantizeLinear", list(parts), ["dequantised"])
        node_of(model, "/layers.1/MatMul").input[1] = "dequantised"
        nodes = [node, *model.graph.node]
        del model.graph.node[:]
        model.graph.node.extend(nodes)

    (found,) = only_change(network(), changed(network(), quantise)).weights
    assert found.how == "quantised" and (found.a.type, found.b.type) == ("float32", "int8")
    assert found.distance is not None and found.distance.cosine is not None and 0.999 < found.distance.cosine < 1


@pytest.mark.parametrize(
    ("inputs", "line"),
    [
        ("float[n, 4] image", "name of input 0: x -> image"),
        ("float[batch, 4] x", "input 'x': float32 (n, 4) -> float32 (batch, 4)"),
        ("float[n, 5] x", "input 'x': float32 (n, 4) -> float32 (n, 5)"),
        ("float16[n, 4] x", "input 'x': float32 (n, 4) -> float16 (n, 4)"),
        ("float[n, 4] x, float z", "input 'z': added, float32 ()"),
    ],
)
def test_changes_of_the_interface(inputs: str, line: str) -> None:
    report = diff(parsed("y = Neg(x)"), parsed(f"y = Neg({inputs.split('] ')[1].split(',')[0]})", inputs=inputs))
    assert line in str(report)
    assert report.counts["interface"] == sum(report.counts.values())


def test_names_of_inputs_and_sizes_may_be_ignored() -> None:
    a, b = parsed("y = Neg(x)"), parsed("z = Neg(w)", inputs="float[b, 4] w", outputs="float[b, 4] z")
    assert diff(a, b).counts["interface"] == 4
    assert diff(a, b, ignore=["names"]).same
    mixed = parsed("z = Neg(w)", inputs="float[b, 4] w", outputs="float[c, 4] z")
    assert diff(a, mixed, ignore=["names"]).counts["interface"] == 1


def test_inputs_in_another_order() -> None:
    report = diff(parsed("y = Sub(x, z)", inputs=TWO), parsed("y = Sub(x, z)", inputs="float[n, 4] z, float[n, 4] x"))
    assert [fact.what for fact in report.interface] == ["order of the inputs"] and not report.nodes


def test_versions_and_metadata() -> None:
    def tell(model: onnx.ModelProto) -> None:
        model.ir_version, model.producer_name = 8, "other\x1b[31m"
        model.opset_import[0].version = 18
        helper.set_model_props(model, {"labels": "cat"})

    report = diff(network(), changed(network(), tell))
    assert report.verdict == "network and network differ: opset, metadata"
    assert {fact.what: (fact.a, fact.b) for fact in report.opset} == {"opset ai.onnx": (17, 18), "IR version": (9, 8)}
    assert "metadata 'labels': added, cat" in str(report)
    assert "\x1b" not in str(report)
    assert diff(network(), changed(network(), tell), ignore=["opset", "metadata"]).same
    assert diff(network(), changed(network(), tell), only=["nodes", "weights"]).same


def test_a_setting_that_another_revision_takes_as_an_input_is_no_change() -> None:
    a = parsed("y = Clip <min = 0.0, max = 6.0> (x)", opset=9)
    constants = "low = Constant <value = float {0.0}> () high = Constant <value = float {6.0}> ()"
    b = parsed(f"{constants} y = Clip(x, low, high)", opset=11)
    assert [fact.what for fact in diff(a, b).opset] == ["opset ai.onnx"] and not diff(a, b).nodes
    c = parsed(f"{constants.replace('6.0', '5.0')} y = Clip(x, low, high)", opset=11)
    (found,) = diff(a, c).nodes
    assert [(detail.name, detail.a, detail.b) for detail in found.details] == [("max", 6.0, 5.0)]


def test_many_changes_are_a_page_by_module_and_all_of_them_if_asked() -> None:
    def many(model: onnx.ModelProto) -> None:
        for node in model.graph.node:
            if node.op_type == "LeakyRelu":
                node.op_type = "Elu"

    report = diff(network(60), changed(network(60), many))
    assert report.counts["changed"] == sum(report.counts.values()) == 60
    assert "layers.{0-59} (each of 60)  ~1  LeakyRelu -> Elu ~1" in str(report)
    assert len(str(report).splitlines()) < 12
    assert report.text(show_all=True).count("changed  LeakyRelu -> Elu") == 60


def test_many_weights_are_summed_up() -> None:
    def retrain(model: onnx.ModelProto) -> None:
        for tensor in model.graph.initializer:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor)[::-1].copy(), tensor.name))

    report = diff(network(10), renamed(changed(network(10), retrain)))
    assert report.counts["weights"] == sum(report.counts.values()) == 20
    assert "20 weights, max abs" in str(report) and "... and 10 more (--all lists them)" in str(report)


def test_weights_that_nobody_reads_are_a_note() -> None:
    extra = numpy_helper.from_array(np.ones(3, np.float32), "unread")
    report = diff(network(), changed(network(), lambda model: model.graph.initializer.append(extra)))
    assert report.same and "network holds 1 weight that nothing reads" in str(report)


def test_the_report_is_plain_data() -> None:
    report = diff(network(), changed(network(), insert), source=True)
    data = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert set(data) == {
        *("same", "a", "b", "counts", "sizes", "matched", "interface", "nodes", "weights", "opset", "metadata"),
        *("renamed", "reordered", "notes", "source"),
    }
    assert data["nodes"][0]["kind"] == "added" and data["nodes"][0]["operator"] == "Neg"
    assert data["sizes"]["b"]["nodes"] == data["sizes"]["a"]["nodes"] + 1 == 10
    assert "+        x = self.layers_1(x)" not in data["source"] and data["source"].startswith("--- network")


def test_the_lifted_source_is_the_same_for_renamed_files() -> None:
    model = parsed("a = Exp(x) y = Neg(a)")
    other = changed(model, lambda copy: setattr(copy.graph.node[0], "name", "other"))
    assert diff(model, other, source=True).source == ""
    assert "the lifted source is the same" in str(diff(model, other, source=True))


def test_an_unknown_aspect_is_an_error() -> None:
    with pytest.raises(OnnxLiftError, match="there is no aspect 'colour': it is one of interface"):
        diff(network(), network(), ignore=["colour"])
