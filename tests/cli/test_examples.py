"""The examples of `--help` run: each one, on models that have the names it speaks of."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner

import onnxlift
from onnxlift import cli
from onnxlift.cli.app import app

EXAMPLE = re.compile(r"^ +Example: onnxlift (.*)$", re.MULTILINE)
ELSEWHERE = {
    "batch": "tests/workbench/batch has the files that it runs on",
    "bench": "tests/workbench/bench: the first is unclear on a busy machine, the second compiles",
    "export": "tests/workbench/export: it compiles",
    "quantize": "tests/workbench/quantize: it needs pictures, or a llama",
    "run": "tests/workbench/run: it needs a picture, and a graphics card",
    "update": "tests/workbench/update: it needs trained weights",
}
FINDS = {"diff", "infer", "lint"}
"""Commands that exit with 1 if they find something, as they may here."""


def examples() -> list[str]:
    files = sorted(Path(cli.__path__[0]).glob("*.py"))
    found = [line for path in files for line in EXAMPLE.findall(path.read_text(encoding="utf-8"))]
    return [line for line in found if line.split()[0] not in ELSEWHERE]


def weight(name: str, *shape: int) -> onnx.TensorProto:
    data = np.random.default_rng(len(name)).standard_normal(shape).astype(np.float32)
    return numpy_helper.from_array(data, name)


def model(
    nodes: Sequence[onnx.NodeProto], reads: str, kind: int, shape: list[str | int], gives: str, size: list[str | int]
) -> onnx.ModelProto:
    sizes = {
        "conv1.weight": (4, 3, 3, 3), "conv2.weight": (4, 4, 1, 1), "fc.weight": (4, 5), "words": (11, 4),
        "encoder.layer.0.dense.weight": (4, 4), "encoder.layer.1.dense.weight": (4, 4),
    }  # fmt: skip
    used = {name for node in nodes for name in node.input}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(reads, kind, shape)],
        [helper.make_tensor_value_info(gives, TensorProto.FLOAT, size)],
        [weight(name, *shape) for name, shape in sizes.items() if name in used],
    )
    domains = [helper.make_opsetid(each, 17 if not each else 1) for each in ("", "com.microsoft")]
    return helper.make_model(graph, opset_imports=domains, ir_version=8)


def resnet() -> onnx.ModelProto:
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "conv1.weight"], ["c1"], name="conv1", pads=[0, 0, 0, 0]),
        node("Relu", ["c1"], ["relu1_out"], name="relu1"),
        node("Sigmoid", ["relu1_out"], ["s"], name="gate"),
        node("Relu", ["s"], ["/layer1/Relu_output_0"], name="/layer1/Relu"),
        node("Conv", ["/layer1/Relu_output_0", "conv2.weight"], ["c2"], name="conv2"),
        node("Relu", ["c2"], ["/layer2/Relu_output_0"], name="/layer2/Relu"),
        node("GlobalAveragePool", ["/layer2/Relu_output_0"], ["p"], name="pool"),
        node("Flatten", ["p"], ["f"], name="flatten"),
        node("MatMul", ["f", "fc.weight"], ["495"], name="fc"),
    ]
    return model(nodes, "x", TensorProto.FLOAT, ["batch", 3, 8, 8], "495", ["batch", 5])


def bert() -> onnx.ModelProto:
    nodes = [helper.make_node("Gather", ["words", "tokens"], ["h0"], name="/embeddings/Gather")]
    for i in range(2):
        scope = f"/encoder/layer.{i}"
        dense = f"{scope}/dense/MatMul_output_0"
        nodes += [
            helper.make_node("MatMul", [f"h{i}", f"encoder.layer.{i}.dense.weight"], [dense], f"{scope}/dense/MatMul"),
            helper.make_node("Relu", [dense], [f"{scope}/act/Relu_output_0"], f"{scope}/act/Relu"),
            helper.make_node("Add", [f"{scope}/act/Relu_output_0", f"h{i}"], [f"h{i + 1}"], f"{scope}/Add"),
        ]
    return model(nodes, "tokens", TensorProto.INT64, ["batch", "sequence"], "h2", ["batch", "sequence", 4])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the examples name."""
    root = tmp_path_factory.mktemp("examples")
    made = {"resnet50": resnet(), "model": resnet(), "before": resnet(), "bert": bert()}
    made["encoder"] = model(
        [helper.make_node("Relu", ["x"], ["hidden"])], "x", TensorProto.FLOAT, ["n", 4], "hidden", ["n", 4]
    )
    made["decoder"] = model(
        [helper.make_node("Exp", ["encoder_states"], ["y"])],
        "encoder_states",
        TensorProto.FLOAT,
        ["n", 4],
        "y",
        ["n", 4],
    )
    made["optimised"] = model(
        [helper.make_node("Gelu", ["x"], ["y"], domain="com.microsoft")],
        "x",
        TensorProto.FLOAT,
        ["n", 4],
        "y",
        ["n", 4],
    )
    for name, proto in made.items():
        onnx.save(proto, root / f"{name}.onnx")
    onnxlift.quantize(root / "resnet50.onnx", mode="dynamic", speed=False).save(root / "resnet50-int8.onnx")
    (root / "models").mkdir()
    for name in ("resnet50", "bert"):
        shutil.copy(root / f"{name}.onnx", root / "models")
    simple = onnxlift.simplify(root / "resnet50.onnx", verify=False)
    for name in ("after", "smaller"):
        simple.save(root / f"{name}.onnx")
    for name in ("bert", "model"):
        onnxlift.lift(root / f"{name}.onnx").save(root / "out")
    np.savez(root / "tokens.npz", tokens=np.array([[1, 2, 3]]))
    (root / "script.py").write_text('m.rename("495", "logits")\n')
    return root


@pytest.mark.parametrize("example", examples())
def test_an_example_runs(example: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    arguments = shlex.split(example)
    if "-o" in arguments:
        written = Path(arguments[arguments.index("-o") + 1])
        written.unlink(missing_ok=True) if written.suffix else shutil.rmtree(written, ignore_errors=True)
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code in ((0, 1) if arguments[0] in FINDS else (0,)), (result.output, result.exception)
    if "-o" in arguments and arguments[0] != "bisect":
        assert written.exists()


def test_every_command_has_an_example() -> None:
    """Those that are run elsewhere, too."""
    for path in Path(cli.__path__[0]).glob("*.py"):
        text = path.read_text(encoding="utf-8")
        if f"\ndef {path.stem}(" in text:
            assert EXAMPLE.search(text) or path.stem == "version", path.stem
