"""The command line, run in this process: what it prints, what it writes, and its exit status."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper, parser

import onnxlift
from ir.reading.broken_files import TABLE, BrokenFile
from models.handmade import beam_step, tiny_resnet, transformer_block


@pytest.fixture
def block(tmp_path: Path) -> Path:
    path = tmp_path / "block.onnx"
    onnx.save(transformer_block(), path)
    return path


def test_version_and_help(run) -> None:  # type: ignore[no-untyped-def]
    assert run("--version") == (0, f"onnxlift {onnxlift.__version__}\n", "")
    assert "convert" in run("--help")[1]
    for command in ("convert", "verify", "inspect", "ops", "passes"):
        status, out, _ = run(command, "--help")
        assert status == 0 and f"onnxlift {command}" in out and "Example" in out


def test_convert(run, block: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    status, out, err = run("convert", block, "-o", tmp_path / "out", "--name", "my block", "--skip-pass", "linear")
    assert (status, err) == (0, "")
    assert "30" in out and "my_block.py" in out
    written = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert written == ["my_block.graph.txt", "my_block.map.json", "my_block.py", "my_block.safetensors"]
    assert "nn.Linear" not in (tmp_path / "out" / "my_block.py").read_text()
    status, out, err = run("convert", block, "-o", tmp_path / "out", "--name", "my block")
    assert (status, out) == (2, "")
    assert err.startswith("onnxlift: ") and "--force" in err and "Traceback" not in err
    assert run("convert", block, "-o", tmp_path / "out", "--name", "my block", "--force", "--no-simplify")[0] == 0


def test_convert_explains_names_and_nodes_and_writes_nothing(run, block: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    out_folder = tmp_path / "out"
    name = "TransformerEncoderBlock"
    status, out, err = run("convert", block, "-o", out_folder, "--explain", "context", "--explain", name)
    assert (status, err) == (0, "") and not out_folder.exists()
    assert f"context: variable in {name}.forward, line " in out and f"{name}: class\n  why " in out
    node = next(node.name for node in onnx.load(block).graph.node if node.op_type == "Softmax")
    status, out, err = run("convert", block, "--explain", node)
    assert status == 0 and f"ONNX node {node}\n  steps     attention: part of Attention " in out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["block.onnx"]
    status, out, err = run("convert", block, "--explain", "contxt")
    assert (status, out) == (2, "")
    assert err.startswith("onnxlift: there is nothing called `contxt`") and "Did you mean `context`" in err


def test_convert_flat(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    onnx.save(tiny_resnet(), tmp_path / "net.onnx")
    assert run("convert", tmp_path / "net.onnx", "-o", tmp_path / "out", "--structure", "flat", "--verify")[0] == 0
    source = (tmp_path / "out" / "net.py").read_text(encoding="utf-8")
    assert source.count("\nclass ") == 1 and "nn.Linear" not in source and "nn.Conv2d" in source


def test_convert_and_verify(run, block: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    status, out, _ = run("convert", block, "-o", tmp_path, "--verify", "--max-shard-size", "100kB")
    assert status == 0
    assert "block-00001-of-0000" in out and "block.py matches ONNX Runtime" in out


def test_verify_with_options(run, block: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    seen: dict[str, object] = {}

    class Report:
        passed = False

        def to_dict(self) -> dict[str, object]:
            return {"passed": False}

    monkeypatch.setattr(
        "onnxlift.verification.verify.verify", lambda source, **options: seen.update(options) or Report()
    )
    status, out, _ = run(
        *("verify", block, "--shape", "a=b=1,3,224,224", "--shape", "s=", "--dim", "batch=4", "--input", "a.npy"),
        *("--rtol", 0.1, "--seed", 3, "--timeout", 9, "--memory", "2GB", "--trace", "--json"),
    )
    assert (status, json.loads(out)["data"]) == (1, {"passed": False})
    assert seen["shapes"] == {"a=b": (1, 3, 224, 224), "s": ()}
    assert seen["dims"] == {"batch": 4}
    assert (seen["inputs"], seen["rtol"], seen["seed"], seen["trace"]) == ([Path("a.npy")], 0.1, 3, True)


@pytest.mark.parametrize("option", ["--shape=x", "--shape=x=a,b", "--shape==3", "--dim=batch=1,2", "--dim=batch=-1"])
def test_options_that_cannot_be_read(run, option: str, block: Path) -> None:  # type: ignore[no-untyped-def]
    status, _, err = run("verify", block, option)
    assert status == 2 and "Traceback" not in err


def test_inspect(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "beam.onnx"
    onnx.save(beam_step(), path)
    status, out, _ = run("inspect", path)
    assert status == 0
    words = " ".join(out.split())  # columns are as wide as they need to be
    for text in ("x float32 (n, d)", "trace float32 (iterations, n)", "opset ai.onnx 21", "Greater"):
        assert text in words
    inspected = json.loads(run("inspect", path, "--json")[1])["data"]
    assert inspected["nodes"] == 10
    assert inspected["inputs"][0] == {"name": "x", "type": "float32", "shape": ["n", "d"]}
    assert {"domain": "", "op_type": "Greater", "count": 2, "lifted_by": "operator", "supported": True} in inspected[
        "operators"
    ]


def test_inspect_marks_what_is_not_supported_and_prints_no_escapes(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    model = parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 17, "com.acme" : 1]> g (float[n] x) => (float[n] y) '
        "{ a = com.acme.MelBank(x) y = Relu(a) }"
    )
    model.graph.node[0].op_type = "Mel\x1b[31mBank"
    model.producer_name = "evil\x07"
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    status, out, _ = run("inspect", tmp_path / "m.onnx")
    assert status == 0
    assert "NOT SUPPORTED" in out and "1 of 2 operators cannot be lifted" in out
    assert "\x1b" not in out and "\x07" not in out


def test_functions_count_as_supported(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    model = parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 17, "me" : 1]> g (float[n] x) => (float[n] y) { y = me.Twice(x) } '
        '<domain: "me", opset_import: ["" : 17]> Twice (a) => (b) { b = Add(a, a) }'
    )
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    out = run("inspect", tmp_path / "m.onnx")[1]
    assert "function of the model" in out and "NOT SUPPORTED" not in out


def test_ops(run) -> None:  # type: ignore[no-untyped-def]
    out = run("ops")[1]
    assert "Conv" in out and "onnxlift" not in out
    table = json.loads(run("ops", "--domain", "ai.onnx", "--json")[1])["data"]["operators"]
    assert list(table) == ["ai.onnx"] and "Softmax" in table["ai.onnx"]
    status, _, err = run("ops", "--domain", "nowhere")
    assert status == 2 and "the domains are ai.onnx" in err


def test_unsupported_operators_are_one_message(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    graph = helper.make_graph(
        [helper.make_node("MelBank", ["x"], ["y"], "front", domain="com.acme")],
        "g",
        [helper.make_tensor_value_info("x", 1, [3])],
        [helper.make_tensor_value_info("y", 1, [3])],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.acme", 1)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=9), tmp_path / "m.onnx")
    status, _, err = run("convert", tmp_path / "m.onnx", "-o", tmp_path / "out")
    assert status == 2
    assert err.startswith("onnxlift: cannot lift m.onnx: 1 operator is not supported")
    assert not (tmp_path / "out").exists()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("broken", TABLE, ids=lambda broken: broken.name)
def test_broken_files_are_one_message(run, broken: BrokenFile, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    # `inspect` does not look for external data, so it has no reason to complain about it.
    command = ["convert", "-o", tmp_path / "out"] if broken.name.startswith("external_") else ["inspect"]
    status, out, err = run(*command, broken.build(tmp_path))
    assert (status, out) == (2, "")
    assert err.startswith("onnxlift: ") and broken.says in err and err.count("\n") == 1


def test_neither_torch_nor_onnxruntime_is_imported(block: Path, tmp_path: Path) -> None:
    commands = [["inspect", str(block)], ["convert", str(block), "-o", str(tmp_path / "out")], ["ops"], ["passes"]]
    code = f"""
import sys
from onnxlift.cli import main
sys.modules["torch"] = sys.modules["onnxruntime"] = None  # an import of these would fail
for command in {commands!r}:
    sys.argv[1:] = command
    try:
        main()
    except SystemExit as end:
        assert not end.code, command
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_closed_pipe_is_no_error() -> None:
    command = f"{sys.executable} -m onnxlift ops | head -c 10"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.stdout == "ai.onnx: 1"[:10] or done.stdout.startswith("ai.onnx")
    assert "Traceback" not in done.stderr and "BrokenPipe" not in done.stderr


def test_messages_and_docstrings_have_the_name_of_the_file(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "class.onnx"
    onnx.save(
        parser.parse_model('<ir_version: 9, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Relu(x) }'),
        path,
    )
    status, _, _ = run("convert", path, "-o", tmp_path / "out", "--name", "other")
    assert status == 0
    assert (tmp_path / "out/other.py").read_text().startswith('"""Lifted from class.onnx: 1 node')
    unknown = '<ir_version: 9, opset_import: ["" : 17, "acme" : 1]> g (float[2] x) => (float[2] y) { y = acme.No(x) }'
    onnx.save(parser.parse_model(unknown), path)
    status, _, error = run("convert", path, "-o", tmp_path / "out", "--name", "other")
    assert status == 2 and "cannot lift class.onnx" in error


def test_inspect_needs_no_external_data(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "external.onnx"
    proto = parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 17]> g (float[2, 8] x) => (float[2, 8] y) { y = Mul(x, w) }'
    )
    proto.graph.initializer.append(numpy_helper.from_array(np.ones((2, 8), np.float32), "w"))
    onnx.save(proto, path, save_as_external_data=True, size_threshold=0, location="external.data")
    (tmp_path / "external.data").unlink()
    status, out, _ = run("inspect", path)
    assert status == 0 and "16 (64 bytes of weights)" in out
    assert run("convert", path, "-o", tmp_path / "out")[0] == 2


def test_a_precision_can_be_chosen(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "half.onnx"
    proto = parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 17]> g (float16[n, 4] x) => (float16[n, 4] y) { y = Mul(x, w) }'
    )
    proto.graph.initializer.append(numpy_helper.from_array(np.arange(1, 5, dtype=np.float16), "w"))
    onnx.save(proto, path)
    status, out, _ = run("convert", path, "-o", tmp_path / "half")
    assert status == 0 and "float16 takes seconds" in out
    status, out, _ = run("convert", path, "-o", tmp_path / "full", "--dtype", "float32", "--verify")
    assert status == 0 and "matches" in out and "takes seconds" not in out
    assert "float32  (n, 4)" in (tmp_path / "full/half.py").read_text()
    assert run("verify", path, "--dtype", "float32")[0] == 0
    status, _, error = run("verify", path, "--dtype", "int8")
    assert status == 2 and "it is one of float32" in error
