"""`bisect` names the node in which a fault was planted, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, NodeProto, helper, numpy_helper

import onnxlift
from models.handmade import tiny_resnet
from onnxlift.demo import transformer_block
from onnxlift.errors import OnnxLiftError, OutputError
from onnxlift.ir.load import load
from onnxlift.verification.children.child import ChildError
from onnxlift.verification.given import Given
from onnxlift.workbench.bisect import BisectReport, bisect, oracle

from ..models import branches, chain, functions, parsed, with_data_file

pytestmark = pytest.mark.usefixtures("in_process")

Change = Callable[[ModelProto], object]


def copied(model: ModelProto, change: Change) -> ModelProto:
    other = ModelProto()
    other.CopyFrom(model)
    change(other)
    return other


def node_of(model: ModelProto, name: str) -> NodeProto:
    return next(node for node in model.graph.node if node.name == name)


def scale(model: ModelProto, name: str, factor: float) -> None:
    tensor = next(tensor for tensor in model.graph.initializer if tensor.name == name)
    array = numpy_helper.to_array(tensor)
    tensor.CopyFrom(numpy_helper.from_array((array * factor).astype(array.dtype), name))


def rename(model: ModelProto) -> None:
    """Change all names but those of the interface."""
    graph = model.graph
    fixed = {each.name for each in (*graph.input, *graph.output)}
    names: dict[str, str] = {}
    for tensor in graph.initializer:
        names[tensor.name] = tensor.name = f"w{len(names)}"
    for place, node in enumerate(graph.node):
        node.name = f"n{place}"
        for at, name in enumerate(node.input):
            node.input[at] = names.get(name, name)
        for at, name in enumerate(node.output):
            if name not in fixed:
                names[name] = node.output[at] = f"v{len(names)}"
    del graph.value_info[:]


def blamed(report: BisectReport) -> tuple[str | None, str | None]:
    assert report.culprit is not None and not report.passed and not report.others, str(report)
    return report.culprit.innermost.a, report.culprit.innermost.b


def reproduce(report: BisectReport, folder: Path) -> subprocess.CompletedProcess[str]:
    """Save the reproducer, and run its script."""
    report.save(folder)
    return subprocess.run([sys.executable, folder / "reproduce.py"], capture_output=True, text=True, check=False)


OTHERS = {"Add": "Sub", "Mul": "Add", "Softmax": "LogSoftmax", "Relu": "Neg"}
CANCELS = "add_bias_K"  # it adds the same to all scores of a row, which a softmax takes out again


def test_a_fault_without_effect_is_none() -> None:
    model = transformer_block()
    assert bisect(model, copied(model, lambda m: setattr(node_of(m, CANCELS), "op_type", "Sub"))).passed


@pytest.mark.parametrize(
    "name", [node.name for node in transformer_block().graph.node if node.op_type in OTHERS and node.name != CANCELS]
)
def test_another_operator_is_named_in_any_node(name: str) -> None:
    model = transformer_block()
    operator = node_of(model, name).op_type
    report = bisect(model, copied(model, lambda m: setattr(node_of(m, name), "op_type", OTHERS[operator])))
    assert blamed(report) == (name, name)
    assert report.culprit is not None and report.culprit.operator == f"{operator} -> {OTHERS[operator]}"
    assert report.reproducer is not None and report.reproducer.nodes == 1


@pytest.mark.parametrize("is_renamed", [False, True], ids=["same names", "other names"])
def test_a_changed_weight_and_a_changed_attribute_are_named(is_renamed: bool) -> None:
    model = tiny_resnet()
    convolutions = [place for place, node in enumerate(model.graph.node) if node.op_type == "Conv"]
    place = convolutions[len(convolutions) // 2]
    for change in (
        lambda m: scale(m, m.graph.node[place].input[1], 1.1),
        lambda m: next(each for each in m.graph.node[place].attribute if each.name == "pads").ints.__setitem__(0, 0),
    ):
        other = copied(model, change)
        if is_renamed:
            rename(other)
        names = bisect(model, other)
        assert blamed(names) == (model.graph.node[place].name or names.culprit.a, other.graph.node[place].name)  # type: ignore[union-attr]
        assert names.culprit is not None and names.culprit.changes


def test_the_same_model_under_other_names_agrees() -> None:
    model = transformer_block()
    report = bisect(model, copied(model, rename))
    assert report.passed and report.culprit is None and report.seeds == (0, 1, 2)
    assert "agree" in str(report) and len(report.inputs) == 1


def test_a_fault_that_shows_only_on_some_inputs_is_found_by_another_seed() -> None:
    text = "net (float[1] x) => (float[1] y) { a = Sub(x, t) b = Relu(a) y = Mul(b, w) }"
    graph = load(parsed(text, t=[0], w=[1])).graph
    first, *later = (float(Given((), None, {}, seed).make(graph)["x"][0]) for seed in range(3))
    sign = 1 if max(later) > first else -1
    middle = (first + (max(later) if sign == 1 else min(later))) / 2
    text = text.replace("Sub(x, t)", "Sub(x, t)" if sign == 1 else "Sub(t, x)")
    report = bisect(parsed(text, t=[middle], w=[1]), parsed(text, t=[middle], w=[2]))
    assert blamed(report)[0] == "Mul_2" and len(report.seeds) > 1


def test_a_node_that_was_added_or_removed_is_named() -> None:
    model = transformer_block()

    def add(m: ModelProto) -> None:
        place = [node.name for node in m.graph.node].index("attn_softmax")
        node = m.graph.node[place]
        m.graph.node.insert(place, helper.make_node("Neg", [node.input[0]], ["negated"], name="extra"))
        node_of(m, "attn_softmax").input[0] = "negated"

    other = copied(model, add)
    assert blamed(bisect(model, other)) == (None, "extra")
    assert blamed(bisect(other, model)) == ("extra", None)


def test_a_node_that_reads_another_value_is_named() -> None:
    model = transformer_block()
    other = copied(model, lambda m: node_of(m, "attn_softmax").input.__setitem__(0, "raw_scores"))
    assert blamed(bisect(model, other)) == ("attn_softmax", "attn_softmax")


CONVOLUTIONS = """net (float[n,3,8,8] x) => (float[n,4,8,8] y) {
    c = Conv<pads=[1,1,1,1]>(x, w) d = BatchNormalization(c, s, b, m, v) e = Relu(d) f = Conv<pads=[1,1,1,1]>(e, u)
    y = Sigmoid(f) }"""


def convolutions() -> ModelProto:
    data = np.random.default_rng(0)
    shapes = {"w": (4, 3, 3, 3), "s": 4, "b": 4, "m": 4, "v": 4, "u": (4, 4, 3, 3)}
    return parsed(CONVOLUTIONS, **{name: data.random(shape) + 0.5 for name, shape in shapes.items()})


def test_a_part_that_was_rewritten_and_computes_the_same_is_not_blamed() -> None:
    model = convolutions()
    fused = onnxlift.simplify(model, verify=False).proto()
    assert [node.op_type for node in fused.graph.node] == ["Conv", "Relu", "Conv", "Sigmoid"]
    assert bisect(model, fused).passed
    later = fused.graph.node[2].input[1]
    report = bisect(model, copied(fused, lambda m: scale(m, later, 1.05)))
    assert report.culprit is not None and report.culprit.value.value == "f"


def test_a_wrong_fusion_is_blamed_with_all_its_nodes() -> None:
    model = convolutions()
    fused = onnxlift.simplify(model, verify=False).proto()
    report = bisect(model, copied(fused, lambda m: scale(m, m.graph.node[0].input[1], 1.1)))
    assert report.culprit is not None and report.culprit.value.value == "d"
    assert [len(names) for names in report.culprit.nodes] == [2, 1]


def test_a_second_model_that_does_not_run_is_blamed_where_its_shapes_go_wrong() -> None:
    text = """net (float[n,4,8,8] x) => (float[n,4,?,?] y) {
        c = Conv<pads=[1,1,1,1]>(x, w) d = Relu(c) e = Neg(d) y = Add(e, x) }"""
    model = parsed(text, w=np.ones((4, 4, 3, 3)) * 0.1)
    other = copied(model, lambda m: m.graph.node[0].attribute.append(helper.make_attribute("strides", [2, 2])))
    report = bisect(model, other)
    assert blamed(report) == ("Conv_0", "Conv_0")
    assert any("does not run" in note for note in report.notes)


def growing(**weights: Any) -> ModelProto:
    squares = " ".join(f"b{i + 1} = Mul(b{i}, b{i})" for i in range(8))
    return parsed(f"net (float[n,4] x) => (float[n,4] b8) {{ b0 = Add(x, w) {squares} }}", **weights)


def test_a_small_change_that_grows_is_blamed_where_it_begins(tmp_path: Path) -> None:
    inputs = {"x": np.array([[0.1, 0.2, 0.01, 0.3]], np.float32)}
    report = bisect(growing(w=[1] * 4), growing(w=[1.00002] * 4), inputs=inputs)
    assert blamed(report) == ("Add_0", "Add_0") and "grows slowly" in report.culprit.note  # type: ignore[union-attr]
    assert not report.trace[-1].passed and report.trace[0].passed
    assert reproduce(report, tmp_path).returncode == 1


def test_rounding_is_not_blamed() -> None:
    """The sums are the same, in another order, and what is left of them is divided by almost nothing."""
    text = "net (float[n,64] x) => (float[n,1] y) {{ {} b = Sub(a, c) y = Mul(b, w) }}"
    axes = "a = ReduceSum<keepdims=1>(x, k) "
    head = '<ir_version: 10, opset_import: ["" : 20]>'
    one = parsed(text.format(f"{axes} c = MatMul(x, o)"), head, w=[1e6], o=np.ones((64, 1)))
    other = parsed(text.format(f"{axes} h = Neg(x) g = MatMul(h, o) c = Neg(g)"), head, w=[1e6], o=np.ones((64, 1)))
    for model in (one, other):
        model.graph.initializer.append(numpy_helper.from_array(np.array([1]), "k"))
    assert bisect(one, other).passed


def test_a_value_without_effect_is_not_blamed() -> None:
    text = "net (float[n,4] x) => (float[n,4] y) { a = Mul(x, w) b = Relu(a) c = Mul(b, z) y = Add(x, c) }"
    model = parsed(text, w=[1] * 4, z=[0] * 4)
    assert bisect(model, copied(model, lambda m: scale(m, "w", 2))).passed


def test_two_faults_in_two_branches_are_both_named() -> None:
    model = chain()
    other = copied(
        model, lambda m: (setattr(m.graph.node[2], "op_type", "Abs"), setattr(m.graph.node[4], "op_type", "Exp"))
    )
    report = bisect(model, other)
    assert report.culprit is not None and report.culprit.a == "Relu_2"
    assert [each.a for each in report.others] == ["Neg_4"]


@pytest.mark.parametrize("go", [True, False])
def test_the_node_inside_the_branch_that_was_taken_is_named(go: bool) -> None:
    model = branches()
    other = copied(model, lambda m: setattr(m.graph.node[2].attribute[0 if go else 1].g.node[0], "op_type", "Abs"))
    report = bisect(model, other, inputs={"go": np.array(go), "trips": np.array(2)})
    assert report.culprit is not None and report.culprit.a == "If_2"
    inside = report.culprit.inside
    assert inside is not None and inside.operator == ("Relu -> Abs" if go else "Neg -> Abs")
    assert inside.graph == ("then_branch" if go else "else_branch")


def test_the_node_inside_a_loop_is_named(tmp_path: Path) -> None:
    model = branches()
    other = copied(model, lambda m: setattr(m.graph.node[3].attribute[0].g.node[1], "op_type", "Sub"))
    report = bisect(model, other, inputs={"go": np.array(True), "trips": np.array(3)})
    assert report.culprit is not None and report.culprit.a == "Loop_6"
    assert report.culprit.innermost.operator == "Add -> Sub"
    assert report.reproducer is not None and report.reproducer.nodes == 1
    assert reproduce(report, tmp_path).returncode == 1


def test_the_node_inside_a_function_is_named() -> None:
    model = functions()
    plus = [function.name for function in model.functions].index("Plus")
    other = copied(model, lambda m: setattr(m.functions[plus].node[0].attribute[0], "f", 1.5))
    report = bisect(model, other)
    assert report.culprit is not None and report.culprit.operator == "local::Twice"
    assert report.culprit.innermost.operator == "Add" and report.culprit.innermost.graph == "function local::Twice"


def test_many_values_take_few_runs(monkeypatch: pytest.MonkeyPatch, in_process: list[dict[str, Any]]) -> None:
    monkeypatch.setattr(oracle, "MOST_VALUES", 8)
    nodes = " ".join(f"a{i + 1} = Add(a{i}, w{i})" for i in range(500))
    text = f"net (float[n,4] a0) => (float[n,4] a500) {{ {nodes} }}"
    weights = {f"w{i}": [0.01] * 4 for i in range(500)}
    model = parsed(text, **weights)
    report = bisect(model, copied(model, lambda m: scale(m, "w333", 100)))
    assert blamed(report) == ("Add_333", "Add_333") and report.runs <= 6
    assert max(len(task["inside"]) for task in in_process) <= 9


def test_two_runtimes_that_agree() -> None:
    report = bisect(transformer_block(), runtimes="ort,reference")
    assert report.passed and "reference" in report.runtimes[1]


def test_two_runtimes_that_differ_are_told_apart_by_one_node(tmp_path: Path) -> None:
    """onnx's evaluator takes the maximum over the channels, too."""
    text = "net (float[2,3,8] x) => (float[2,3,1] y) { a = Neg(x) b = GlobalMaxPool(a) y = Exp(b) }"
    report = bisect(parsed(text), runtimes=("ort-plain", "reference"))
    if report.passed:
        pytest.skip("onnx has mended its evaluator")
    assert report.culprit is not None and report.culprit.operator == "GlobalMaxPool"
    assert reproduce(report, tmp_path).returncode == 1


def test_an_edited_file_is_blamed_with_its_line(tmp_path: Path) -> None:
    model = transformer_block()
    file = onnxlift.lift(model).save(tmp_path)[0]
    text = file.read_text()
    assert "F.relu(" in text
    file.write_text(text.replace("F.relu(", "F.silu("))
    report = bisect(model, against=file)
    assert report.culprit is not None and "F.silu(" in report.culprit.source and report.culprit.line > 0
    done = reproduce(report, tmp_path / "repro")
    assert done.returncode == 1 and (tmp_path / "repro" / "found.npz").exists(), done.stderr


def test_a_fresh_lift_agrees() -> None:
    assert bisect(transformer_block(), runtimes="ort-plain,lifted", trace=True).passed


def test_the_reproducer_is_a_folder_that_speaks_for_itself(tmp_path: Path) -> None:
    model = transformer_block()
    report = bisect(model, copied(model, lambda m: setattr(node_of(m, "attn_softmax"), "op_type", "LogSoftmax")))
    folder = tmp_path / "repro"
    done = reproduce(report, folder)
    assert sorted(file.name for file in folder.iterdir()) == ["inputs.npz", "model.onnx", "other.onnx", "reproduce.py"]
    assert done.returncode == 1 and "Softmax attn_softmax" in done.stdout, done.stderr
    for name in ("model.onnx", "other.onnx"):
        onnx.checker.check_model(onnx.load(folder / name), full_check=True)
    with pytest.raises(OutputError, match="--force"):
        report.save(folder)
    report.save(folder, force=True)
    (folder / "other.onnx").write_bytes((folder / "model.onnx").read_bytes())
    again = subprocess.run([sys.executable, folder / "reproduce.py"], capture_output=True, check=False)
    assert again.returncode == 0


def test_hostile_names_are_data(tmp_path: Path) -> None:
    bad = '"""\nimport os; os.system("touch gone")\x1b[2J../../x'
    model = parsed("net (float[n,4] x) => (float[n,4] y) { a = Relu(x) y = Mul(a, w) }", w=[1] * 4)
    model.graph.node[0].output[0] = model.graph.node[1].input[0] = bad
    model.graph.node[1].name = bad + "2"
    report = bisect(model, copied(model, lambda m: scale(m, "w", 2)))
    assert "\x1b" not in str(report) and blamed(report)[0] == bad + "2"
    done = reproduce(report, tmp_path)
    assert done.returncode == 1 and "\x1b" not in (tmp_path / "reproduce.py").read_text(), done.stderr
    assert not (tmp_path / "gone").exists()


def test_weights_in_files_of_their_own(tmp_path: Path) -> None:
    paths = [with_data_file(tmp_path, "a.onnx"), with_data_file(tmp_path, "b.onnx", factor=1.5)]
    report = bisect(*paths)
    assert report.culprit is not None and report.culprit.value.value == "y" and report.a == "a.onnx"
    assert reproduce(report, tmp_path / "repro").returncode == 1


def test_a_fault_in_a_model_that_was_converted_to_half_precision() -> None:
    text = "net (float[n,8] x) => (float[n,8] y) {{ a = Cast<to={}>(x) b = {}(a) c = Sigmoid(b) y = Cast<to=1>(c) }}"
    report = bisect(parsed(text.format(1, "Relu")), parsed(text.format(10, "Neg")))
    assert report.culprit is not None and report.culprit.operator == "Relu -> Neg"


def test_the_trace_lists_all_values_up_to_the_first_difference() -> None:
    model = transformer_block()
    other = copied(model, lambda m: setattr(node_of(m, "attn_softmax"), "op_type", "LogSoftmax"))
    report = bisect(model, other, trace=True)
    names = [row.value for row in report.trace]
    order = [name for node in model.graph.node for name in node.output]
    assert names == [name for name in order if name in names] and names[-1] == "attn_weights"
    assert all(row.passed for row in report.trace[:-1]) and not report.trace[-1].passed
    assert all(name in report.text(show_all=True) for name in names)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "say what to compare with"),
        ({"runtimes": "ort,ort-plain", "b": True}, "only one of them"),
        ({"runtimes": "ort,tensorrt"}, "there is no runtime 'tensorrt'"),
        ({"runtimes": "ort"}, "name two runtimes"),
        ({"runtimes": "ort,ort"}, "name two runtimes"),
        ({"runtimes": "lifted,ort"}, "write ort,lifted"),
    ],
)
def test_what_is_asked_for_must_be_clear(arguments: dict[str, Any], message: str) -> None:
    if "b" in arguments:
        arguments = {**arguments, "b": chain()}
    with pytest.raises(OnnxLiftError, match=message):
        bisect(chain(), **arguments)


def test_models_with_other_inputs_are_refused() -> None:
    other = parsed("net (float[n,4] x, float[n,4] z) => (float[n,4] y) { y = Add(x, z) }")
    with pytest.raises(OnnxLiftError, match="cannot be run on the inputs of the first"):
        bisect(chain(), other)


def test_a_first_model_that_does_not_run_is_an_error() -> None:
    model = parsed("net (float[n,4] x, float[m,5] z) => (float[n,4] y) { y = Add(x, z) }")
    with pytest.raises(ChildError, match="an input that was made up is at fault"):
        bisect(model, copied(model, rename))
