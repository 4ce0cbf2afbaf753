"""`bench` measures models and engines by turns, and tells how they compare."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, helper, numpy_helper, parser

import onnxlift
from onnxlift.demo import transformer_block
from onnxlift.errors import OnnxLiftError, OutputError
from onnxlift.workbench.bench.contest import Samples
from onnxlift.workbench.bench.plot import Line, draw_plot
from onnxlift.workbench.bench.report import BenchReport, measured
from onnxlift.workbench.bench.statistics import Estimate


def products(count: int) -> ModelProto:
    """So many products of matrices, one after the other."""
    model = parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 20]> g (float[batch, 256] x) => (float[batch, 256] y) { y = Identity(x) }'
    )
    names = ["x", *(f"v{number}" for number in range(1, count)), "y"]
    del model.graph.node[:]
    model.graph.node.extend(helper.make_node("MatMul", [names[i], "w"], [names[i + 1]]) for i in range(count))
    model.graph.initializer.append(numpy_helper.from_array(np.eye(256, dtype=np.float32), "w"))
    return model


def test_engines_are_compared_with_the_first() -> None:
    options = {"dims": {"batch": 8}, "threads": 1, "rounds": 8, "runs": 5}
    report = onnxlift.bench(products(2), engines="ort,lifted", **options)
    first, second = report.rows
    assert (first.engine, second.engine) == ("ort", "lifted")
    assert first.ratio is None and second.ratio is not None and second.ratio.low <= second.ratio.value
    assert first.runs == 40 and first.batch == 8 and first.samples.memory > 0 and first.p99 is None
    assert first.throughput == pytest.approx(8 / first.mean.value)
    assert "p99 needs 100 runs" in str(report)
    json.dumps(report.to_dict())


def test_compiled_engines_run_beside_the_others() -> None:
    options = {"dims": {"batch": 2}, "threads": 1, "rounds": 2, "runs": 2}
    report = onnxlift.bench(products(1), engines=["ort", "compiled", "aoti"], **options)
    assert [row.engine for row in report.rows] == ["ort", "compiled", "aoti"]
    assert all(row.runs == 4 and row.batch == 2 and row.p50.value > 0 for row in report.rows)
    assert report.rows[1].samples.load > 5 * report.rows[0].samples.load  # it is compiled when it is opened


def test_a_sweep_gives_a_plot(tmp_path: Path) -> None:
    report = onnxlift.bench(products(1), products(2), sweep={"batch": [1, 8]}, threads=1, rounds=2, runs=2)
    found = [(row.model, row.sizes["batch"], row.batch) for row in report.rows]
    assert found == [("g", 1, 1), ("g (2)", 1, 1), ("g", 8, 8), ("g (2)", 8, 8)]
    assert [row.ratio is None for row in report.rows] == [True, False, True, False]
    (path,) = report.save(tmp_path / "plot.svg")
    plot = ElementTree.parse(path)
    assert len(plot.findall(".//{*}polyline")) == 2 and len(plot.findall(".//{*}circle")) == 4
    with pytest.raises(OutputError, match="already holds"):
        report.save(path)


def identity(shape: str) -> ModelProto:
    head = '<ir_version: 10, opset_import: ["" : 20]> g'
    return parser.parse_model(f"{head} (float[{shape}] x) => (float[{shape}] y) {{ y = Relu(x) }}")


def test_time_of_the_processor_leaves_out_what_others_do() -> None:
    report = onnxlift.bench(products(1), products(2), threads=1, rounds=3, runs=2, processor=True)
    assert report.clock == report.to_dict()["clock"] == "processor"
    assert "seconds of the processor" in str(report)
    assert all(second > 0 for row in report.rows for turn in row.samples.rounds for second in turn)


def test_models_that_are_compared_run_on_the_same_inputs() -> None:
    """Each would be given inputs of a size of its own, and the smaller one win."""
    report = onnxlift.bench(identity("4, 3"), identity("n, 3"), threads=1, rounds=2, runs=2)
    assert [row.batch for row in report.rows] == [1, 4]
    assert "ran on other inputs" not in str(report)


@pytest.mark.parametrize("other", ["n, 5", "n, 3, k", "5, 3"])
def test_a_model_that_takes_others_gets_its_own_and_is_named(other: str) -> None:
    report = onnxlift.bench(identity("4, 3"), identity(other), threads=1, rounds=2, runs=2)
    assert "g (2) ran on other inputs than g, whose inputs do not fit" in str(report)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engines": "ort,tensorrt"}, "no engine 'tensorrt': it is one of ort, lifted, compiled, aoti"),
        ({"engines": ""}, "name an engine"),
        ({"sweep": {"batch": [1], "seq": [2]}}, "over one dimension"),
        ({"sweep": {"batch": [0]}}, "sizes of 1 or more"),
        ({"sweep": {"bach": [1]}}, "no input has a dimension named bach; they are batch"),
        ({"threads": 0}, "at least 1"),
        ({"rounds": 0}, "greater than 0"),
        ({"providers": "cuda"}, "has no provider 'cuda'"),
    ],
)
def test_a_wrong_wish_is_one_paragraph(options: dict[str, object], message: str) -> None:
    with pytest.raises(OnnxLiftError, match=message):
        onnxlift.bench(transformer_block(), **options)


def test_a_contender_that_fails_is_named() -> None:
    model = parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 20, "a" : 1]> g (float[2] x) => (y) { y = a.B(x) }'
    )
    with pytest.raises(OnnxLiftError, match=r"g on ort failed: .*a:B"):
        onnxlift.bench(model, rounds=1, runs=1)


def rows(spread: float) -> BenchReport:
    """Two contenders of the same speed, whose rounds are more or less spread."""
    random = np.random.default_rng(3)
    both = [Samples(tuple(map(tuple, random.lognormal(0, spread, (30, 5)))), 0, 0, 0, 0) for _ in range(2)]
    found = [
        measured("m", name, {}, each, None if name == "a" else both[0], 1)
        for name, each in zip("ab", both, strict=True)
    ]
    return BenchReport("m", tuple(found))


def test_a_noisy_machine_tells_nothing_and_a_quiet_one_that_there_is_no_difference() -> None:
    quiet, noisy = rows(0.01), rows(1.0)
    assert quiet.passed and "no difference" in str(quiet)
    assert not noisy.passed and noisy.is_noisy and "too noisy to tell" in str(noisy)


def test_names_of_strangers_do_no_harm_in_a_plot() -> None:
    hostile = '</text><script>alert(1)</script>\x1b[2J"' + "x" * 500
    estimate = Estimate(1e-3, 0.9e-3, 1.1e-3)
    for points, swept in ((((0.0, estimate),), ""), (((1.0, estimate), (2.0, estimate)), hostile)):
        plot = draw_plot(hostile, [Line(hostile, points)], swept)
        assert not ElementTree.fromstring(plot).findall(".//{*}script") and "\x1b" not in plot
