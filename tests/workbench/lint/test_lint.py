"""lint in Python: what it takes, what is chosen, what it returns, and what becomes of models that are refused."""

from __future__ import annotations

import copy
import io
import json
import subprocess
import sys
from itertools import pairwise

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import numpy_helper, parser

from onnxlift.errors import InvalidModelError, LoadError, OnnxLiftError
from onnxlift.workbench.lint.lint import lint
from onnxlift.workbench.lint.table import chosen, names
from onnxlift.workbench.runtimes import RUNTIMES, runtime_for
from onnxlift.workbench.simplify import simplify

from .cases import CASES, FLOAT32, MIXED, branches, model, normal


def rules(report):
    return [finding.rule for finding in report.findings]


def run(proto, **feeds):
    return onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feeds)


def test_findings_come_with_the_worst_first():
    assert rules(lint(MIXED)) == ["OL303", "OL401", "OL402", "OL404", "OL405"]


@pytest.mark.parametrize("form", ["path", "bytes", "file", "proto", "ir", "report"])
def test_it_takes_what_lift_takes(form, tmp_path):
    path = tmp_path / "mixed.onnx"
    onnx.save(MIXED, path)
    source = {
        "path": lambda: path,
        "bytes": path.read_bytes,
        "file": lambda: io.BytesIO(path.read_bytes()),
        "proto": lambda: MIXED,
        "ir": lambda: ir.load(path),
        "report": lambda: simplify(path, verify=False),
    }[form]()
    report = lint(source)
    assert "OL303" in rules(report)
    assert report.name == {"path": "mixed.onnx", "report": "mixed.onnx"}.get(form, "g")
    if form == "file":
        assert report.fix(verify=False).mended["OL401"] == 1  # it was read once, and is needed again


@pytest.mark.parametrize(
    ("select", "ignore", "expected"),
    [
        (["OL4"], [], {"OL401", "OL402", "OL404", "OL405"}),
        ("OL303,OL401", [], {"OL303", "OL401"}),
        (["dead-node"], [], {"OL401"}),
        ([], ["OL4"], {"OL303"}),
        ([], "OL", set()),
        (["OL4"], ["OL401"], {"OL402", "OL404", "OL405"}),
        (["OL401"], ["OL4"], {"OL401"}),
        (["ALL"], ["OL4"], {"OL303"}),
    ],
)
def test_rules_are_chosen_by_identifier_prefix_or_name(select, ignore, expected):
    assert set(rules(lint(MIXED, select=select, ignore=ignore))) == expected


def test_all_rules_can_be_chosen_one_by_one():
    assert chosen() == frozenset(names())
    assert all(chosen([identifier]) == {identifier} for identifier in names())


@pytest.mark.parametrize("text", ["OL9", "E501", "dead", "ol401"])
def test_a_rule_that_there_is_not_is_an_error(text):
    with pytest.raises(OnnxLiftError, match=f"--select '{text}' names no rule"):
        lint(MIXED, select=[text])


def test_the_answer_depends_on_what_is_bad_enough():
    info = model("a = Identity(x) y = Relu(a)")
    assert lint(info) and not lint(info, fail_on="info")
    assert not lint(MIXED) and lint(MIXED, fail_on="error")
    with pytest.raises(OnnxLiftError, match="fail_on is 'fatal'"):
        lint(info, fail_on="fatal")


def test_a_model_that_the_gate_refuses_gets_its_findings_as_errors():
    broken = model("a = Relu(x, x) b = Softmax<axis = 5>(x) y = Squeeze<axes = [0]>(x)", named=False)
    report = lint(broken)
    assert rules(report) == ["OL021", "OL030", "OL050", "OL101", "OL101", "OL101"]
    assert {finding.severity for finding in report.findings[:3]} == {"error"}
    assert "it is an input since opset 13" in str(report)
    assert "rely on a model that passes the gate" in report.notes[0]
    with pytest.raises(InvalidModelError):
        report.fix()


def test_a_file_whose_form_is_broken_gets_its_findings_as_errors():
    report = lint(model("a = Relu(x) a = Neg(x) y = Add(a, nowhere)"))
    assert rules(report) == ["OL005", "OL006"]
    assert not report
    assert lint(model("a = Relu(x) a = Neg(x) y = Add(a, nowhere)"), select=["OL3"]).passed


def test_pads_that_are_no_list_of_both_ends_are_found():
    conv = model(
        "y = Conv<pads = [1, 1]>(x, w)", "float[n, 3, 8, 8] x", "float[n, 2, 8, 8] y", weights={"w": normal(2, 3, 3, 3)}
    )
    (finding,) = lint(conv).findings
    assert (finding.rule, finding.name) == ("OL080", "window-axes")
    assert "pads has 2 numbers; for 2 spatial axes it must have 4" in finding.text


def test_a_fault_in_a_function_that_only_a_call_shows_is_found():
    function = '<domain: "acme", opset_import: ["" : 20]> pick <axis> (a) => (b) { b = Softmax<axis: int = @axis>(a) }'
    called = model("y = acme.pick<axis = 7>(x)", domains=', "acme" : 1', functions=function)
    assert "OL050" in rules(lint(called))
    fine = model("y = acme.pick<axis = 1>(x)", domains=', "acme" : 1', functions=function)
    assert lint(fine).passed


def test_what_cannot_be_read_is_an_error_and_no_finding():
    with pytest.raises(LoadError):
        lint(b"no model")


def test_subgraphs_and_functions_are_looked_at():
    inner = branches("q = Identity(a) r = Dropout(q) t = Abs(r)")
    assert {"OL404", "OL405"} <= set(rules(lint(inner)))
    function = '<domain: "acme", opset_import: ["" : 20]> block (a) => (b) { c = Identity(a) b = Neg(c) }'
    report = lint(model("y = acme.block(x)", domains=', "acme" : 1', functions=function), select="OL404")
    (finding,) = report.findings
    assert finding.place.endswith("(Identity) of function acme::block")
    fixed = report.fix(verify=False).proto()
    assert [node.op_type for node in fixed.functions[0].node] == ["Neg"]


def test_fixes_run_until_nothing_is_left_for_them():
    proto = model(
        "c = Constant<value = bool {1}>() n = Exp(x) "
        "y = If (c) <then_branch = tb () => (float[n, 4] t) { t = Abs(x) }, "
        "else_branch = eb () => (float[n, 4] o) { o = Neg(n) }>"
    )
    fix = lint(proto, select="OL4").fix(verify=False)
    assert fix.mended == {
        "OL401": 1,
        "OL402": 1,
        "OL407": 1,
    }  # Exp was read by the other branch, c by the If
    assert fix.left.findings == ()
    assert [node.op_type for node in fix.model.graph] == ["Abs"]


def test_fixes_leave_the_constants_of_functions_where_they_are():
    """A function in a file cannot hold initialisers."""

    def choice(result, x):
        then, other = f"(float[n, 4] p) {{ p = Abs({x}) }}", f"(float[n, 4] q) {{ q = Neg({x}) }}"
        known = "k = Constant<value = bool {1}>()"
        return f"{known} {result} = If (k) <then_branch = t () => {then}, else_branch = e () => {other}>"

    function = f'<domain: "acme", opset_import: ["" : 20]> pick (a) => (b) {{ {choice("b", "a")} }}'
    body = choice("m", "x") + " y = acme.pick(m)"
    proto = model(body, domains=', "acme" : 1', functions=function)
    report = lint(proto, select="OL4")
    assert [(finding.rule, finding.fixable) for finding in report.findings] == [("OL407", True), ("OL407", False)]
    fix = report.fix(verify=False)
    assert [node.op_type for node in fix.model.graph] == ["Abs", "pick"]
    assert [node.op_type for node in fix.proto().functions[0].node] == ["Constant", "If"]
    x = normal(3, 4)
    np.testing.assert_array_equal(run(fix.proto(), x=x)[0], np.abs(x))


def test_a_fix_is_verified_and_gives_the_same_numbers():
    fix = lint(MIXED, ignore="OL3").fix()
    assert fix and fix.ok and fix.verification.passed
    assert fix.mended == {"OL401": 1, "OL402": 1, "OL404": 1, "OL405": 1}
    assert [node.op_type for node in fix.model.graph] == ["MatMul"]
    x = normal(3, 4)
    np.testing.assert_array_equal(run(fix.proto(), x=x)[0], run(MIXED, x=x)[0])
    assert "fixed          4 (OL401 1, OL402 1, OL404 1, OL405 1)" in str(fix)
    assert fix.to_bytes() == lint(MIXED, ignore="OL3").fix(verify=False).to_bytes()


def test_only_the_rules_that_are_chosen_are_fixed():
    fix = lint(MIXED, select="OL404").fix(verify=False)
    assert [node.op_type for node in fix.model.graph] == ["Dropout", "Neg", "MatMul"]


def test_a_fix_can_be_good_and_leave_what_it_cannot_mend():
    fix = lint(MIXED).fix(verify=False)
    assert fix.passed and not fix.ok
    assert rules(fix.left) == ["OL303"]


def test_a_thousand_equal_findings_are_a_few_lines():
    chain = " ".join(f"v{i + 1} = Identity(v{i})" for i in range(1000))
    text = str(lint(model(f"v0 = Abs(x) {chain} y = Relu(v1000)"), select="OL404"))
    assert len(text.splitlines()) == 5
    assert "OL404 info: identity, 1,000 places" in text
    assert "and 997 more: it passes its input on, unchanged." in text
    every = lint(model(f"v0 = Abs(x) {chain} y = Relu(v1000)"), select="OL404").text(every_place=True)
    assert len(every.splitlines()) == 1004


def test_hostile_names_are_quoted():
    proto = model("a = Identity(x) y = Relu(a)")
    proto.graph.node[0].name = "bad\x1b[31m\nname"
    text = str(lint(proto))
    assert "\x1b" not in text and r"bad\x1b[31m\nname" in text


def test_the_report_as_plain_data():
    report = lint(MIXED)
    data = json.loads(json.dumps(report.to_dict()))
    assert data["passed"] is False
    assert data["counts"] == {"error": 0, "warning": 3, "info": 2}
    assert data["fixable"] == 4
    assert data["findings"][0] == {
        "rule": "OL303",
        "name": "zero-weight",
        "severity": "warning",
        "place": "weight 'w'",
        "text": "all its 16 numbers are 0 (the matrix of MatMul 'matmul3').",
        "advice": report.findings[0].advice,
        "node": None,
        "value": "w",
        "fixable": False,
    }
    assert data["findings"][1]["node"] == "neg2"


def test_weights_are_not_looked_at_if_nobody_wants_that():
    broken, _ = CASES["OL301"].broken[0]
    assert rules(lint(broken)) == ["OL301"]
    assert lint(broken, weights=False).findings == ()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_numbers_are_found_in_every_float_and_across_pieces(dtype):
    array = np.ones((3, 1_000_000), dtype)
    array[2, -1] = np.nan
    array[0, 0] = 2
    kind = {2: "float16", 4: "float", 8: "double"}[array.itemsize]
    proto = model("y = MatMul(x, w)", f"{kind}[n, 3] x", f"{kind}[n, 1000000] y", weights={"w": array})
    assert "1 of its 3,000,000 numbers are NaN" in str(lint(proto, select="OL301"))


def test_external_data_is_read_piece_by_piece(tmp_path):
    """More weights than memory would be allowed: the child reports its own peak."""
    path = tmp_path / "large.onnx"
    layers, size = 12, 2048
    body = " ".join(f"v{i + 1} = MatMul(v{i}, w{i})" for i in range(layers))
    proto = model(f"v0 = Abs(x) {body} y = Relu(v{layers})", f"float[n, {size}] x", f"float[n, {size}] y")
    array = np.zeros((size, size), FLOAT32)
    array[0, 0] = 1
    for i in range(layers):
        array[0, 1] = i
        proto.graph.initializer.append(numpy_helper.from_array(array, f"w{i}"))
    onnx.save(proto, path, save_as_external_data=True, location="large.data")
    script = (
        "import resource, sys\n"
        "from onnxlift.workbench.lint.lint import lint\n"
        "from onnxlift.ir.load import load\n"
        "load(sys.argv[1])\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "report = lint(sys.argv[1])\n"
        "print(report.passed, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    out = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True).stdout
    passed, grown = out.split()
    assert passed == "True"
    assert int(grown) < 60_000, "kB, of 200 MB of weights"


def test_a_weight_that_is_shared_in_its_file_is_no_copy(tmp_path):
    proto = copy.deepcopy(CASES["OL308"].broken[0][0])  # onnx.save takes the weights out of it
    path = tmp_path / "tied.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="tied.data", size_threshold=0)
    assert rules(lint(path, select="OL308")) == ["OL308"]
    tied = onnx.load(path, load_external_data=False)
    del tied.graph.initializer[1].external_data[:]
    tied.graph.initializer[1].external_data.extend(tied.graph.initializer[0].external_data)
    (tmp_path / "tied.onnx").write_bytes(tied.SerializeToString())
    assert rules(lint(path, select="OL308")) == []


def test_runtimes_are_named_as_pip_would():
    assert runtime_for("onnxruntime==1.17.3") is runtime_for("onnxruntime == 1.17") is RUNTIMES["onnxruntime"]["1.17"]
    for text, message in [
        ("onnxruntime", "names no release of a runtime"),
        ("tensorrt==10.0", "nothing is known of the runtime 'tensorrt'"),
        ("onnxruntime==9.9", "the table has the releases 1.0 to 1.31"),
    ]:
        with pytest.raises(OnnxLiftError, match=message):
            lint(MIXED, target=text)


def test_the_table_of_runtimes_says_what_the_installed_one_takes():
    version = ".".join(onnxruntime.__version__.split(".")[:2])
    runtime = RUNTIMES["onnxruntime"].get(version)
    if runtime is None:
        pytest.skip(f"nothing is known of {version}")

    def takes(opset, ir_version):
        proto = model("y = Relu(x)", opset=opset, ir_version=ir_version)
        try:
            run(proto, x=np.ones((1, 4), FLOAT32))
        except Exception:
            return False
        return True

    assert takes(runtime.opset, runtime.ir_version)
    assert not takes(runtime.opset + 1, runtime.ir_version)
    assert not takes(7, runtime.ir_version + 1)


def test_newer_releases_never_take_less():
    releases = list(RUNTIMES["onnxruntime"].values())
    for older, newer in pairwise(releases):
        assert older.opset <= newer.opset and older.ir_version <= newer.ir_version and older.ml_opset <= newer.ml_opset


def test_a_sound_model_has_nothing_to_find():
    text = """<ir_version: 10, opset_import: ["" : 20]> net (float[n, 4] x) => (float[n, 4] y) { y = Relu(x) }"""
    assert str(lint(parser.parse_model(text), ignore="OL101")) == "net: nothing found"
