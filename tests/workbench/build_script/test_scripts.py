"""What a script says, and that it can be run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import safetensors
from onnx import TensorProto, helper, numpy_helper, parser
from typer.testing import CliRunner

import onnxlift
from onnxlift.cli.app import app
from onnxlift.errors import OnnxLiftError


def script(text: str, **weights: np.ndarray) -> str:
    """The script of a model in ONNX's text form; it was found to make the same model."""
    model = parser.parse_model(text)
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    report = onnxlift.build_script(model)
    assert report.passed, report
    return report.source


HEAD = '<ir_version: 10, opset_import: ["" : 20]>'


def test_arithmetic_is_pythons() -> None:
    source = script(f"""{HEAD} g (float[n, 4] x, float[n, 4] y) => (float[n, 4] z)
        {{ one = Constant<value = float {{1.0}}>() a = Add(x, one) b = Mul(a, y) c = Neg(b) z = Sub(c, x) }}""")
    assert "-((x + 1.0) * y)" in source and " - x" in source


def test_a_division_of_ints_is_the_operator() -> None:
    source = script(f"{HEAD} g (int64[n] x, int64[n] y, float[n] a) => (int64[n] z, float[n] b) "
                    "{ z = Div(x, y) b = Div(a, a) }")  # fmt: skip
    assert "op.Div(x, y)" in source and "a / a" in source


def test_defaults_are_left_out() -> None:
    source = script(
        f"{HEAD} g (float[n, 4] x) => (float[n, 4] z) {{ a = Softmax<axis = -1>(x) z = Elu<alpha = 0.5>(a) }}"
    )
    assert "op.Elu(op.Softmax(x), alpha=0.5)" in source


def test_numbers_keep_their_types() -> None:
    source = script(f"""{HEAD} g (double[n] x, int32[n] i) => (double[n] y, int32[n] j, int64[n] k)
        {{ c = Constant<value = double {{0.1}}>() y = Mul(x, c) d = Constant<value = int32 {{3}}>() j = Add(i, d)
           e = Constant<value = int64[1] {{0}}>() f = Shape(x) g2 = Gather(f, e) h = Shape(i) k = Mul(g2, h) }}""")
    assert "x * 0.1" in source and "i + 3" in source


def test_what_the_builder_would_compute_at_once_stays() -> None:
    source = script(f"""{HEAD} g (float[6] x) => (float[a, b] y)
        {{ p = Constant<value = int64[1] {{2}}>() q = Constant<value = int64[1] {{3}}>() s = Concat<axis = 0>(p, q)
           y = Reshape(x, s) }}""")
    assert "op.Concat(" in source


def test_a_branch_and_a_loop() -> None:
    source = script(f"""{HEAD} g (float[4] x, bool c, int64 n) => (float[4] y, float[4] z)
        {{ y = If(c) <then_branch = t () => (float[4] a) {{ a = Exp(x) }},
                      else_branch = e () => (float[4] b) {{ d = Neg(x) b = Relu(d) }}>
           yes = Constant<value = bool {{1}}>()
           z = Loop(n, yes, x) <body = l (int64 i, bool go, float[4] s) => (bool go2, float[4] s2)
                {{ go2 = Identity(c) s2 = Add(s, x) }}> }}""")
    assert "build.if_(c, then, otherwise)" in source and "build.loop(n, True, body, x)" in source
    assert ("def then():" in source and "return op.Exp(x)" in source.replace("\n", " ")) or "op.Exp(x)" in source


def test_a_loop_that_reads_its_condition() -> None:
    script(f"""{HEAD} g (float[4] x, bool c, int64 n) => (float[4] z)
        {{ z = Loop(n, c, x) <body = l (int64 i, bool go, float[4] s) => (bool go, float[4] s2)
                {{ k = Cast<to = 1>(go) s2 = Add(s, k) }}> }}""")


def test_functions_of_the_model() -> None:
    source = script("""<ir_version: 10, opset_import: ["" : 20, "my.arch" : 2]>
        g (float[n, 4] x) => (float[n, 4] y) { a = my.arch.Scaled<factor = 3.0>(x, x) y = my.arch.Scaled(a, x) }
        <domain: "my.arch", opset_import: ["" : 20]>
        Scaled<factor: float = 2.0>(x, other) => (y)
        { f = Constant<value_float: float = @factor>() b = Mul(x, f) y = Add(b, other) }""")
    assert '@build.function(domain="my.arch", version=2)' in source
    assert "*, factor: float = 2.0" in source and "factor=3.0" in source


def test_operators_that_onnx_does_not_have() -> None:
    source = script("""<ir_version: 10, opset_import: ["" : 20, "com.acme" : 3]>
        g (float[n, 4] x) => (float[n, 4] y, float[n] z)
        { a = com.acme.Roll<shift = 2>(x) y = com.acme.Roll<shift = 1, mode = "wrap">(a)
          z, b = com.acme.Pair(x, y) }""")
    assert "build.custom(" in source and '"mode?": str' in source


def layered(count: int) -> onnx.ModelProto:
    nodes, weights, value = [], [], "x"
    for index in range(count):
        path = f"/encoder/layer.{index}"
        key = f"encoder.layer.{index}"
        for name, shape in (("up", (4, 8)), ("down", (8, 4))):
            array = np.random.default_rng(index).standard_normal(shape).astype(np.float32)
            weights.append(numpy_helper.from_array(array, f"{key}.{name}.weight"))
        nodes += [
            helper.make_node("MatMul", [value, f"{key}.up.weight"], [f"{path}/u"], f"{path}/up/MatMul"),
            helper.make_node("Relu", [f"{path}/u"], [f"{path}/r"], f"{path}/Relu"),
            helper.make_node("MatMul", [f"{path}/r", f"{key}.down.weight"], [f"{path}/d"], f"{path}/down/MatMul"),
            helper.make_node("Add", [f"{path}/d", value], [f"{path}/o"], f"{path}/Add"),
        ]
        value = f"{path}/o"
    nodes.append(helper.make_node("Identity", [value], ["y"], "/Identity"))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_equal_modules_are_one_function() -> None:
    report = onnxlift.build_script(layered(3))
    assert report and report.functions <= 2
    assert report.source.count('weights("up.weight")') == 1 and "def layer(x, name):" in report.source


def test_what_the_file_says_of_itself_is_kept() -> None:
    model = layered(1)
    model.producer_name, model.producer_version, model.domain, model.model_version = "me", "2", "my.domain", 7
    model.doc_string, model.graph.doc_string = "all", 'the "graph"\n'
    model.metadata_props.add(key="a", value="b")
    model.opset_import.add(domain="com.microsoft", version=1)
    report = onnxlift.build_script(model)
    assert report, report
    made = run(report.source, report)
    assert (made.producer_name, made.model_version, made.graph.doc_string) == ("me", 7, 'the "graph"\n')


def run(
    source: str, report: onnxlift.workbench.build_script.BuildScriptReport, folder: Path | None = None
) -> onnx.ModelProto:
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "a.py"
        report.save(path)
        names = {"__name__": "a", "__file__": str(path)}
        exec(compile(source, str(path), "exec"), names)
        return names["build_model"]().proto()


def test_inputs_with_default_values_and_dead_nodes() -> None:
    model = parser.parse_model(f"{HEAD} g (float[4] x, float[4] w) => (float[4] y) {{ dead = Exp(x) y = Add(x, w) }}")
    model.graph.initializer.append(numpy_helper.from_array(np.arange(4, dtype=np.float32), "w"))
    report = onnxlift.build_script(model)
    assert report, report
    assert "default=" in report.source and "kept=[" in report.source


UNWRITTEN = ("UNDEFINED", "STRING", "FLOAT6E2M3", "FLOAT6E3M2")


def test_all_element_types_come_back() -> None:
    kinds = [kind for name, kind in TensorProto.DataType.items() if name not in UNWRITTEN]
    tensors = []
    for kind in kinds:
        dtype = helper.tensor_dtype_to_np_dtype(kind)
        array = (np.arange(24) % 2).astype(dtype).reshape(2, 12)
        tensors.append(numpy_helper.from_array(array, f"t{kind}"))
    graph = helper.make_graph(
        [helper.make_node("Identity", [tensor.name], [f"y{tensor.name}"]) for tensor in tensors],
        "g",
        [],
        [helper.make_tensor_value_info(f"y{tensor.name}", tensor.data_type, [2, 12]) for tensor in tensors],
        tensors,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=13)
    report = onnxlift.build_script(model)
    assert report, report


HOSTILE = (
    '"); import os; os.abort() #',
    "a\\",
    "'''",
    '"""',
    "__import__('os')",
    "name",
    "op",
    "build",
    "{x}",
    "lambda",
)


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_breaks_out(name: str, tmp_path: Path) -> None:
    graph = helper.make_graph(
        [
            helper.make_node("Add", [name, f"{name}w"], [f"{name}1"], name=f"/{name}/{name}"),
            helper.make_node("Roll", [f"{name}1"], [f"{name}2"], domain=f"com.{name}", mode=name),
            helper.make_node("Exp", [f"{name}2"], [f"{name}3"], name=f"/{name}/x/{name}"),
        ],
        name,
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [f"n{name}", 9])],
        [helper.make_tensor_value_info(f"{name}3", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.arange(9, dtype=np.float32), f"{name}w")],
        doc_string=name,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid(f"com.{name}", 1)])
    model.producer_name = name
    model.metadata_props.add(key=name, value=name)
    report = onnxlift.build_script(model)
    assert report, report


@pytest.mark.parametrize("name", ["__import__('os').abort()", "x", "build"])
def test_a_reference_to_an_attribute_is_no_code(name: str) -> None:
    model = parser.parse_model("""<ir_version: 10, opset_import: ["" : 20, "local" : 1]>
        g (float[4] x) => (float[4] y) { y = local.Scaled<alpha = 0.5>(x) }
        <opset_import: ["" : 20], domain: "local"> Scaled <alpha> (x) => (y) { y = Elu<alpha: float = @alpha>(x) }""")
    assert onnxlift.build_script(model)
    model.functions[0].node[0].attribute[0].ref_attr_name = name
    with pytest.raises(OnnxLiftError, match="does not declare it"):
        onnxlift.build_script(model)


def test_the_script_runs_on_its_own(tmp_path: Path) -> None:
    onnx.save(layered(2), tmp_path / "net.onnx")
    result = CliRunner().invoke(app, ["build-script", str(tmp_path / "net.onnx"), "-o", str(tmp_path / "net_build.py")])
    assert result.exit_code == 0, result.output
    subprocess.run([sys.executable, "net_build.py"], cwd=tmp_path, check=True)
    assert onnxlift.diff(tmp_path / "net.onnx", tmp_path / "net_build.onnx")


def test_a_function_returns_what_its_last_line_makes() -> None:
    report = onnxlift.build_script(layered(3))
    assert report, report
    assert "        return x_1 + x\n" in report.source and '        return layer(x, "layer.2")\n' in report.source


def test_sizes_are_called_sizes() -> None:
    source = script(f"""{HEAD} g (float[n, m] x) => (float[k, 2] y, float[k, 2] z)
        {{ s = Shape(x) i = Constant<value = int64[1] {{1}}>() j = Gather(s, i) t = Constant<value = int64[1] {{2}}>()
           c = Concat<axis = 0>(j, t) d = Relu(x) y = Reshape(d, c) z = Reshape(x, c) }}""")
    assert "sizes = op.Concat(op.Gather(op.Shape(x), [1]), [2], axis=0)" in source


def test_an_output_that_nothing_reads_has_no_name() -> None:
    source = script(f"""{HEAD} g (float[n, 4] x) => (int64[n, 1] index)
        {{ k = Constant<value = int64[1] {{1}}>() unread, index = TopK(x, k) }}""")
    assert "_, index = op.TopK(x, [1])" in source


def test_functions_that_nothing_calls_are_left_out_and_told() -> None:
    model = parser.parse_model("""<ir_version: 10, opset_import: ["" : 20, "local" : 1]>
        g (float[4] x) => (float[4] y) { y = local.Outer(x) }
        <opset_import: ["" : 20], domain: "local"> Inner (x) => (y) { y = Relu(x) }
        <opset_import: ["" : 20, "local" : 1], domain: "local"> Outer (x) => (y) { y = local.Inner(x) }
        <opset_import: ["" : 20, "local" : 1], domain: "local"> Spare (x) => (y) { y = local.Inner(x) }""")
    report = onnxlift.build_script(model)
    assert report and report.functions == 2
    assert report.notes == ("nothing calls function local::Spare: it is left out",)


def test_outputs_of_microsofts_operators_stay() -> None:
    head = HEAD.replace("20]", '20, "com.microsoft" : 1]')
    for outputs in ("d, a, b, c", "d"):
        body = f"{{ {outputs} = com.microsoft.SkipLayerNormalization(x, x, w) y = Relu(d) }}"
        source = script(f"{head} g (float[n, 2, 4] x, float[4] w) => (float[n, 2, 4] y) {body}")
        assert ("outputs=4" in source) is ("a" in outputs)
    model = parser.parse_model(f"{head} g (float[n, 2, 4] x, float[4] w) => (float[n, 2, 4] y) {body}")
    model.graph.node[0].output.extend(["", "", ""])  # as ONNX Runtime writes what it leaves out
    report = onnxlift.build_script(model)
    assert report and "outputs=" not in report.source


def test_names_of_pytorchs_operations_are_no_names() -> None:
    model = parser.parse_model(f"{HEAD} g (float[n] x) => (float[n] y) {{ getitem_3 = Relu(x) y = Add(getitem_3, x) }}")
    model.graph.node[0].metadata_props.add(key="pkg.torch.onnx.fx_node", value="%relu : [num_users=1] = ...")
    report = onnxlift.build_script(model)
    assert report and "getitem" not in report.source


def test_long_texts_are_beside_the_script(tmp_path: Path) -> None:
    model = layered(1)
    model.metadata_props.add(key="licence", value="All rights reserved. " * 20)
    model.graph.doc_string, model.doc_string = "x" * 201, "\u00e9" * 300
    report = onnxlift.build_script(model)
    assert report, report
    assert (
        'metadata={"licence": weights.text("licence")}' in report.source and 'doc=weights.text("doc")' in report.source
    )
    report.save(tmp_path / "net.py")
    assert safetensors.safe_open(tmp_path / "net.safetensors", "np").metadata()["doc"] == "x" * 201
    with pytest.raises(OnnxLiftError, match=r"no text 'licenc' in net.safetensors; did you mean licence\?"):
        onnxlift.build.weights(tmp_path / "net.safetensors").text("licenc")
    small = parser.parse_model(f"{HEAD} g (float[4] x) => (float[4] y) {{ y = Exp(x) }}")
    small.doc_string = "x" * 300
    assert "weights" not in onnxlift.build_script(small).source  # one file is better than two


def test_the_same_model_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        onnxlift.build_script(layered(2)).save(tmp_path / name / "net.py")
    for file in ("net.py", "net.safetensors"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_files_that_are_there_stay(tmp_path: Path) -> None:
    report = onnxlift.build_script(layered(1))
    report.save(tmp_path / "net.py")
    with pytest.raises(OnnxLiftError, match="already holds"):
        report.save(tmp_path / "net.py")
    with pytest.raises(OnnxLiftError, match=r"end in \.py"):
        report.save(tmp_path / "net.onnx")
    report.save(tmp_path / "net.py", force=True)


def test_pipes(tmp_path: Path) -> None:
    small = parser.parse_model(f"{HEAD} g (float[4] x) => (float[4] y) {{ y = Exp(x) }}")
    result = CliRunner().invoke(app, ["build-script", "-", "-o", "-", "-q"], input=small.SerializeToString())
    assert result.exit_code == 0 and "op.Exp(x)" in result.stdout
    result = CliRunner().invoke(app, ["build-script", "-", "-o", "-"], input=layered(1).SerializeToString())
    assert result.exit_code == 2 and "weights from a file beside it" in result.output


def test_what_cannot_be_written_is_one_paragraph(tmp_path: Path) -> None:
    model = parser.parse_model(f"{HEAD} g (float[4] x) => (float[4] y) {{ y = com.acme.Odd<name = 3>(x) }}")
    model.opset_import.add(domain="com.acme", version=1)
    onnx.save(model, tmp_path / "odd.onnx")
    result = CliRunner().invoke(app, ["build-script", str(tmp_path / "odd.onnx"), "-o", str(tmp_path / "odd.py")])
    assert result.exit_code == 2 and "has no way to declare" in result.output
    assert not (tmp_path / "odd.py").exists()


def test_external_data_is_streamed(tmp_path: Path) -> None:
    onnx.save(layered(2), tmp_path / "net.onnx", save_as_external_data=True, location="net.data", size_threshold=0)
    report = onnxlift.build_script(tmp_path / "net.onnx")
    assert report, report
    assert {path.name for path in report.save(tmp_path / "net_build.py")} == {"net_build.py", "net_build.safetensors"}
