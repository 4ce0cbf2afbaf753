"""Each operation, by its numbers in ONNX Runtime, in the main graph, in branches and in functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from onnxlift.errors import OnnxLiftError
from onnxlift.workbench import edit
from onnxlift.workbench.edit import Editor
from workbench.models import X, branches, chain, functions, parsed
from workbench.running import model_of, operators, outputs_of

W, V = np.array([1, 2, 3, 4], np.float32), np.array([-1, 0, 1, 2], np.float32)
Y, Z = np.maximum(X * W + V, 0) + X, -(X * W)


def outputs(m: Editor, **feeds: Any) -> dict[str, Any]:
    """The outputs of ONNX Runtime by name; the model is valid for ONNX, too."""
    proto = m.report(run=False).proto()
    onnx.checker.check_model(proto, full_check=True)
    return dict(zip([each.name for each in proto.graph.output], outputs_of(proto, feeds or {"x": X}), strict=True))


def proto_of(m: Editor) -> onnx.ModelProto:
    return m.report(run=False).proto()


@pytest.fixture
def m() -> Editor:
    return edit.open(chain())


def test_rename_takes_values_inputs_outputs_and_nodes(m: Editor) -> None:
    m.rename("a", "hidden")
    m.rename("x", "features")
    m.rename("y", "logits")
    m.rename("Relu_2", "activation")
    found = outputs(m, features=X)
    np.testing.assert_allclose(found["logits"], Y, rtol=1e-6)
    assert list(found) == ["logits", "z"]
    assert "activation" in m.nodes("Relu") and "hidden" in m.values()


def test_rename_takes_a_value_that_branches_and_loops_read() -> None:
    m = edit.open(branches())
    m.rename("k", "negated")
    m.rename("a", "product")
    m.rename("t1", "inside then")
    feeds = {"x": X, "go": np.array(True), "trips": np.array(2)}
    np.testing.assert_allclose(outputs(m, **feeds)["y"], np.maximum(X * W, 0) + V - 2 * X, rtol=1e-5, atol=1e-5)


def test_a_node_and_its_value_of_one_name_are_renamed_together() -> None:
    model = chain()
    model.graph.node[2].name = "c"
    m = edit.open(model)
    m.rename("c", "relu")
    assert "relu" in m.nodes() and "relu" in m.values()
    model.graph.node[0].name = "b"
    m = edit.open(model)
    with pytest.raises(OnnxLiftError, match=r"is the name of a value and of another node.*kind="):
        m.rename("b", "other")
    m.rename("b", "other", kind="value")
    assert "b" in m.nodes() and "other" in m.values()


def test_a_name_that_is_taken_is_refused(m: Editor) -> None:
    with pytest.raises(OnnxLiftError, match="there is a value named 'b' already, in the main graph"):
        m.rename("a", "b")
    with pytest.raises(OnnxLiftError, match="a node named 'Neg_4' already"):
        m.rename("Relu_2", "Neg_4")
    with pytest.raises(OnnxLiftError, match="not empty"):
        m.rename("a", "")


def test_a_missing_name_gets_near_ones(m: Editor) -> None:
    with pytest.raises(OnnxLiftError, match=r"'Relu_3' is the name of no node; did you mean 'Relu_2'.*inspect"):
        m.delete("Relu_3")
    with pytest.raises(OnnxLiftError, match="'w' is no node, but a value that no node computes"):
        m.delete("w")


def test_delete_bridges(m: Editor) -> None:
    m.delete("Relu_2", bridge=True)
    np.testing.assert_allclose(outputs(m)["y"], X * W + V + X, rtol=1e-6)


def test_delete_of_what_makes_an_output_keeps_the_name(m: Editor) -> None:
    m.delete("z", bridge=True)
    m.delete("y", bridge=True)
    found = outputs(m)
    np.testing.assert_allclose(found["z"], X * W, rtol=1e-6)
    np.testing.assert_allclose(found["y"], np.maximum(X * W + V, 0), rtol=1e-6)
    m.delete("Relu_2", bridge=True)
    np.testing.assert_allclose(outputs(m)["y"], X * W + V, rtol=1e-6)


def test_an_output_that_is_an_input_by_now_is_an_identity() -> None:
    m = edit.open(model_of("(float[n, 4] x) => (float[n, 4] y) { y = Neg(x) }"))
    m.delete("y", bridge=True)
    assert operators(proto_of(m)) == ["Identity"]
    np.testing.assert_array_equal(outputs(m)["y"], X)


def test_delete_of_what_is_read_names_the_readers(m: Editor) -> None:
    with pytest.raises(OnnxLiftError, match=r"'Mul_0' \(Mul\) cannot be deleted.*'Add_1' \(Add\), node 'Neg_4'"):
        m.delete("Mul_0")
    with pytest.raises(OnnxLiftError, match="the outputs of the main graph"):
        m.delete("Neg_4")


@pytest.mark.parametrize("opset", [10, 20])
def test_insert_after_knows_inputs_and_attributes_of_the_opset(opset: int) -> None:
    m = edit.open(model_of("(float[n, 4] x) => (float[n, 4] y) { a = Neg(x) y = Abs(a) }", opset=opset))
    assert m.insert_after("a", "Clip", min=-0.5, max=0.25) == "a_Clip"
    np.testing.assert_allclose(outputs(m)["y"], np.abs(np.clip(-X, -0.5, 0.25)), rtol=1e-6)


def test_numbers_have_the_type_that_the_operator_wants() -> None:
    m = edit.open(model_of("(double[n, 4] x) => (double[n, 4] y) { a = Neg(x) y = Abs(a) }"))
    m.insert_after("a", "Mul", 2)
    m.insert_after("a", "ReduceSum", axes=[1], keepdims=1)
    m.insert_after("x", "Unsqueeze", [0], name="lengthen", output="longer")
    x = X.astype(np.float64)
    np.testing.assert_allclose(outputs(m, x=x)["y"], np.abs((-x[None]).sum(1, keepdims=True) * 2), rtol=1e-6)
    assert "lengthen" in m.nodes() and m.type("longer").shape == (1, "n", 4)


def test_insert_after_an_output_keeps_its_name(m: Editor) -> None:
    assert m.insert_after("z", "Mul", "z") == "z"
    np.testing.assert_allclose(outputs(m)["z"], Z * Z, rtol=1e-6)
    with pytest.raises(OnnxLiftError, match="is an output, whose name stays"):
        m.insert_after("z", "Neg", output="other")


def test_a_named_input_leaves_the_first_place_to_the_value(m: Editor) -> None:
    m.insert_after("z", "Sub", A=1.0)
    np.testing.assert_allclose(outputs(m)["z"], 1 - Z, rtol=1e-6)


def test_insert_after_a_value_that_branches_read() -> None:
    m = edit.open(branches())
    m.insert_after("a", "Neg")
    m.insert_after("t1", "Mul", 3.0)
    feeds = {"x": X, "go": np.array(True), "trips": np.array(0)}
    np.testing.assert_allclose(outputs(m, **feeds)["y"], 3 * np.maximum(-X * W, 0) + V, rtol=1e-5)


def test_insert_before_changes_one_reader(m: Editor) -> None:
    m.insert_before("Neg_4", "Mul", 10.0)
    m.insert_before("Add_3", "Abs", at="B")
    found = outputs(m)
    np.testing.assert_allclose(found["z"], 10 * Z, rtol=1e-6)
    np.testing.assert_allclose(found["y"], Y - X + np.abs(X), rtol=1e-5)
    with pytest.raises(OnnxLiftError, match="has no input 5 to insert at"):
        m.insert_before("Neg_4", "Abs", at=5)


def test_functions_are_edited_by_their_names() -> None:
    m = edit.open(functions())
    assert m.nodes("Neg")
    m.insert_after("w", "Mul", 2.0, inside="local::Minus")
    m.insert_after("a", "local::Plus")
    np.testing.assert_allclose(outputs(m)["y"], -2 * (X + 3), rtol=1e-6)
    with pytest.raises(OnnxLiftError, match=r"3 values named 'w'.*inside='local::Twice' or"):
        m.rename("w", "v2")


def test_replace_reads_what_the_old_node_read(m: Editor) -> None:
    m.replace("Relu_2", "Clip", min=0.0, max=1.0)
    m.replace("Add_1", "Mul", "a", 2)
    m.replace("Neg_4", "LeakyRelu", alpha=0.5)
    found = outputs(m)
    np.testing.assert_allclose(found["y"], np.clip(2 * X * W, 0, 1) + X, rtol=1e-5)
    np.testing.assert_allclose(found["z"], np.where(X < 0, 0.5, 1) * X * W, rtol=1e-5)
    with pytest.raises(OnnxLiftError, match="reads 2 values, and Neg takes X"):
        m.replace("Add_3", "Neg")


def test_an_operator_of_a_later_opset_is_refused_with_the_way_there() -> None:
    m = edit.open(model_of("(float[n, 4] x) => (float[n, 4] y) { y = Neg(x) }", opset=17))
    with pytest.raises(OnnxLiftError, match="opset 17 of the model has no Gelu, which came with opset 20"):
        m.replace("y", "Gelu")
    m.set_opset(20)
    m.replace("y", "Gelu")
    assert operators(proto_of(m)) == ["Gelu"]
    with pytest.raises(OnnxLiftError, match="no operator 'Reluu'; did you mean 'Relu'"):
        m.replace("y", "Reluu")


def test_replace_value_moves_readers_and_outputs(m: Editor) -> None:
    m.replace_value("c", "b")
    m.replace_value("z", "x")
    found = outputs(m)
    np.testing.assert_allclose(found["y"], X * W + V + X, rtol=1e-5)
    np.testing.assert_array_equal(found["z"], X)
    m.remove_unused()
    assert sorted(operators(proto_of(m))) == ["Add", "Add", "Identity", "Mul"]


def test_set_input_by_position_and_by_name(m: Editor) -> None:
    m.set_input("Add_3", 1, "a")
    m.set_input("Mul_0", "B", 2.0)
    found = outputs(m)
    np.testing.assert_allclose(found["y"], np.maximum(2 * X + V, 0) + 2 * X, rtol=1e-5)
    with pytest.raises(OnnxLiftError, match="Add has no input 'C'"):
        m.set_input("Add_3", "C", "a")
    with pytest.raises(OnnxLiftError, match="takes 2 inputs"):
        m.set_input("Add_3", 2, "a")


def test_attributes_are_checked_against_the_schema() -> None:
    m = edit.open(model_of("(float[2, 3, 8, 8] x) => (y) { y = AveragePool <kernel_shape = [2, 2]> (x) }"))
    m.set_attribute("y.strides", [2, 2])
    m.set_attribute("y", [1, 1, 1, 1], attribute="pads")
    assert m.type("y").shape == (2, 3, 5, 5) and m.attribute("y.pads") == (1, 1, 1, 1)
    m.remove_attribute("y.pads")
    assert m.type("y").shape == (2, 3, 4, 4)
    with pytest.raises(OnnxLiftError, match=r"has no attribute 'stride'; did you mean 'strides'"):
        m.set_attribute("y.stride", [1, 1])
    with pytest.raises(OnnxLiftError, match=r"'pads' of AveragePool is a list of whole numbers, not 1.5"):
        m.set_attribute("y.pads", 1.5)
    m.set_attribute("y.kernel_shape", [99, 99])
    assert [finding.rule for finding in m.problems()]
    with pytest.raises(OnnxLiftError, match="the model is not valid"):
        m.report()
    m.undo()
    assert not m.problems()


def test_an_element_type_may_be_a_name(m: Editor) -> None:
    m.insert_after("z", "Cast", to="float16")
    assert m.type("z").dtype == TensorProto.FLOAT16
    m.set_attribute("z.to", np.float64)
    assert outputs(m)["z"].dtype == np.float64


def test_constants_change_with_shape_and_type(m: Editor) -> None:
    m.set_constant("w", [2, 2, 2, 2])
    np.testing.assert_allclose(outputs(m)["z"], -2 * X, rtol=1e-6)
    np.testing.assert_array_equal(m.constant("w"), np.full(4, 2, np.float32))
    m.set_constant("w", np.full((1, 4), 3.0, np.float32))
    np.testing.assert_allclose(outputs(m)["z"], -3 * X, rtol=1e-6)
    m.set_constant("w", np.zeros(4, np.int64))  # a draft may be wrong
    assert m.problems()
    with pytest.raises(OnnxLiftError, match=r"'a' is no constant, but computed by node 'Mul_0'"):
        m.set_constant("a", 1)


def test_constant_nodes_are_constants_too() -> None:
    m = edit.open(model_of("(float[n, 4] x) => (y) { k = Constant <value_float = 2.0> () y = Mul(x, k) }"))
    m.set_constant("k", 5)
    np.testing.assert_allclose(outputs(m)["y"], 5 * X, rtol=1e-6)


def test_inputs_come_and_go(m: Editor) -> None:
    m.add_input("w")
    m.add_input("scale", dtype="float32", shape=[])
    m.insert_after("z", "Mul", "scale")
    found = outputs(m, x=X, w=2 * W, scale=np.array(3, np.float32))
    np.testing.assert_allclose(found["z"], 6 * Z, rtol=1e-6)
    m.remove_input("scale", value=7)
    np.testing.assert_allclose(outputs(m, x=X, w=W)["z"], 7 * Z, rtol=1e-6)
    with pytest.raises(OnnxLiftError, match="input 'x' is read: say the value"):
        m.remove_input("x")
    with pytest.raises(OnnxLiftError, match="say the element type"):
        m.add_input("new")


def test_outputs_come_and_go(m: Editor) -> None:
    m.add_output("Relu_2")
    m.remove_output("y")
    found = outputs(m)
    assert list(found) == ["z", "c"]
    np.testing.assert_allclose(found["c"], Y - X, rtol=1e-5, atol=1e-6)
    report = m.report(run=False)
    assert str(report.outputs["c"]) == "float32 (n, 4)"
    m.remove_output("c")
    with pytest.raises(OnnxLiftError, match="is the only output"):
        m.remove_output("z")
    m.remove_unused()
    assert operators(proto_of(m)) == ["Mul", "Neg"] and m.values() == ["x", "w", "a", "z"]
    inner = edit.open(branches())
    with pytest.raises(OnnxLiftError, match=r"is in then_branch of node 'If_2'.*cannot be an output"):
        inner.add_output("t1")


def test_an_output_of_an_unknown_operator_needs_a_type(m: Editor) -> None:
    m.insert_after("z", "com.acme::Own")
    m.remove_output("z")
    m.add_output("z")
    assert [finding.rule for finding in m.problems()] == ["output-type"]
    m.undo()
    m.add_output("z", dtype="float32", shape=["n", 4])
    assert not m.problems() and str(m.report(run=False).proto().graph.output[1].type).count("dim_param") == 1


def test_set_size_reaches_everything_that_follows() -> None:
    text = "net (float[batch, 4] x) => (float[batch, 4] y, float[b, 4] z) { y = Neg(x) z = Concat <axis = 0> (x, y) }"
    model = parsed(text)
    model.graph.output[1].type.tensor_type.shape.dim[0].dim_param = "2*batch"
    model.graph.value_info.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4]))
    m = edit.open(model)
    m.set_size("batch", 3)
    report = m.report(run=False)
    assert [str(type_) for type_ in report.outputs.values()] == ["float32 (3, 4)", "float32 (6, 4)"]
    dims = [[dim.dim_value for dim in each.type.tensor_type.shape.dim] for each in report.proto().graph.output]
    assert dims == [[3, 4], [6, 4]]
    m.undo()
    m.set_size("batch", "N")
    assert [str(type_) for type_ in m.report(run=False).outputs.values()] == ["float32 (N, 4)", "float32 (2*N, 4)"]
    with pytest.raises(OnnxLiftError, match="no input or output has a dimension 'batch'"):
        m.set_size("batch", 2)


def test_set_type_opens_a_size() -> None:
    m = edit.open(model_of("(float[1, 4] x) => (float[1, 4] y) { y = Neg(x) }"))
    m.set_type("x", shape=["batch", 4])
    assert str(m.report(run=False).outputs["y"]) == "float32 (batch, 4)"
    np.testing.assert_array_equal(outputs(m)["y"], -X)
    m.set_type("x", dtype="float16")
    assert str(m.report(run=False).outputs["y"]) == "float16 (batch, 4)"


def test_what_the_file_tells_of_types_goes_when_it_is_stale() -> None:
    model = chain()
    for name in ("a", "b", "c"):
        model.graph.value_info.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4]))
    m = edit.open(model)
    m.insert_after("b", "Cast", to="float64")
    assert m.problems()  # an Add of two types
    m.undo()
    m.insert_after("b", "ReduceMean", keepdims=1)
    assert [each.name for each in proto_of(m).graph.value_info] == ["a", "b"]
    assert m.type("c").shape == (1, 1)


def test_metadata(m: Editor) -> None:
    m.set_metadata("author", "me")
    m.set_metadata("author", "you")
    assert [(each.key, each.value) for each in proto_of(m).metadata_props] == [("author", "you")]
    m.set_metadata("author", None)
    assert not proto_of(m).metadata_props


def test_remove_unused_cleans_branches() -> None:
    m = edit.open(branches())
    m.replace_value("t2", "t1")
    m.remove_unused()
    assert "v" not in m.values()
    feeds = {"x": X, "go": np.array(True), "trips": np.array(0)}
    np.testing.assert_allclose(outputs(m, **feeds)["y"], np.maximum(X * W, 0), rtol=1e-6)
