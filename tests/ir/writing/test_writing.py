"""Written files: whole, equal to what was read, with flat memory, and with external data where it is wanted."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from onnxlift.errors import OutputError
from onnxlift.ir.inference.infer import infer
from onnxlift.ir.load import load
from onnxlift.ir.writing.files import write_model
from onnxlift.ir.writing.proto import skeleton, to_proto
from onnxlift.ir.writing.stream import write_stream
from onnxlift.workbench.report import ModelReport, open_model

TEXT = """
<ir_version: 10, opset_import: ["" : 20, "local" : 1], producer_name: "somebody",
 metadata_props: ["author" : "me"]>
net (float[batch, 4] x, float[4] w, bool go, seq(int64[n]) s) => (float[batch, rest] y, seq(int64[n]) t, float[?] z)
<float[4] w = {1, 2, 3, 4}, float[batch, 4] h>
{
    h = Mul(x, w)
    y = If (go) <
        then_branch = a () => (float[batch, 4] p) { p = local.Twice(h) },
        else_branch = b () => (float[batch, 4] q) { q = Neg(h) }
    >
    t = Identity(s)
    z = Constant <value_floats = [1.0, 2.0]> ()
}
<domain: "local", opset_import: ["" : 20]>
Twice (u) => (v) { v = Add(u, u) }
"""


def rich() -> onnx.ModelProto:
    model = parser.parse_model(TEXT)
    model.graph.node[0].name = "scale"
    model.graph.node[0].ClearField("domain")
    model.graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    model.graph.doc_string = "a graph"
    return model


def matrix(rows: int = 64) -> onnx.ModelProto:
    weight = np.random.default_rng(0).standard_normal((rows, 300)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["p"], "product"), helper.make_node("Add", ["p", "b"], ["y"], "sum")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", rows])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 300])],
        [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(np.ones(1, np.float32), "b")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_what_was_read_is_written_again() -> None:
    model = rich()
    opened = open_model(model)
    infer(opened)
    written = to_proto(opened)
    assert written.graph.node[0] == model.graph.node[0]
    assert list(written.graph.input) == list(model.graph.input)
    assert list(written.graph.output) == list(model.graph.output)
    assert [tensor.name for tensor in written.graph.initializer] == ["w"]
    assert [(info.name, info.type) for info in written.graph.value_info] == [("h", model.graph.value_info[0].type)]
    assert (written.producer_name, written.metadata_props[0].value) == ("somebody", "me")
    assert written.graph.doc_string == "a graph"
    assert "unk__" not in str(written)
    onnx.checker.check_model(written, full_check=True)


def test_before_version_4_every_weight_is_an_input() -> None:
    model = matrix()
    model.ir_version = 3
    model.graph.input.extend(
        helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims) for tensor in model.graph.initializer
    )
    opened = open_model(model)
    assert [value.name for value in opened.graph.inputs] == ["x"]
    assert [value.name for value in to_proto(opened).graph.input] == ["x", "w", "b"]


def test_a_map_is_declared_again() -> None:
    proto = onnx.TypeProto()
    proto.sequence_type.elem_type.map_type.key_type = TensorProto.INT64
    proto.sequence_type.elem_type.map_type.value_type.tensor_type.elem_type = TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node("ZipMap", ["x"], ["y"], "zip", domain="ai.onnx.ml", classlabels_int64s=[3, 4])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2])],
        [helper.make_value_info("y", proto)],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    assert list(to_proto(open_model(model)).graph.output) == list(model.graph.output)


def test_a_shape_that_is_wrong_or_missing_is_told_right() -> None:
    model = matrix()
    model.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 17
    opened = open_model(model)
    infer(opened)
    assert to_proto(opened).graph.output[0].type.tensor_type.shape.dim[1].dim_value == 300
    model.graph.output[0].type.tensor_type.ClearField("shape")
    opened = open_model(model)
    infer(opened)
    assert len(to_proto(opened).graph.output[0].type.tensor_type.shape.dim) == 2


def test_the_stream_is_what_protobuf_writes() -> None:
    opened = open_model(matrix())
    file = io.BytesIO()
    write_stream(*skeleton(opened), file)
    assert onnx.ModelProto.FromString(file.getvalue()) == to_proto(opened)
    assert file.getvalue() == ModelReport("m", opened).to_bytes()


@pytest.mark.parametrize("external", ["auto", "never", "w.bin"])
def test_files_are_the_same_model(external: str, tmp_path: Path) -> None:
    model = matrix()
    files = write_model(open_model(model), tmp_path / "m.onnx", external_data=external)
    assert [file.name for file in files] == (["m.onnx", "w.bin"] if external == "w.bin" else ["m.onnx"])
    assert sorted(tmp_path.iterdir()) == sorted(files)
    loaded = onnx.load(tmp_path / "m.onnx")
    onnx.checker.check_model(str(tmp_path / "m.onnx"), full_check=True)
    for tensor, other in zip(loaded.graph.initializer, model.graph.initializer, strict=True):
        np.testing.assert_array_equal(numpy_helper.to_array(tensor), numpy_helper.to_array(other))
    raw = onnx.load(tmp_path / "m.onnx", load_external_data=False).graph.initializer
    assert [tensor.data_location for tensor in raw] == ([1, 0] if external == "w.bin" else [0, 0])  # few numbers stay


def test_the_same_model_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_model(open_model(matrix()), tmp_path / name / "m.onnx", external_data="w.bin")
    for name in ("m.onnx", "w.bin"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_a_file_may_be_replaced_by_what_was_read_from_it(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(matrix(), path)
    with pytest.raises(OutputError, match=r"already holds m\.onnx: pass --force"):
        write_model(open_model(path), path)
    write_model(open_model(path), path, force=True)
    np.testing.assert_array_equal(
        numpy_helper.to_array(onnx.load(path).graph.initializer[0]),
        numpy_helper.to_array(matrix().graph.initializer[0]),
    )


@pytest.mark.parametrize("name", ["../w.bin", "a/w.bin", "m.onnx", "..", "/w.bin"])
def test_weights_lie_beside_the_model(name: str, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="it lies beside the model"):
        write_model(open_model(matrix()), tmp_path / "m.onnx", external_data=name)
    assert list(tmp_path.iterdir()) == []


def test_an_operator_of_another_opset_is_refused() -> None:
    model = open_model(matrix())
    node = ir.Node("", "Softmax", [model.graph.node(0).outputs[0]], version=11, name="soft")
    model.graph.append(node)
    with pytest.raises(OutputError, match=r"node 'soft' \(Softmax\) is of opset 11, and the model imports 17"):
        to_proto(model)


def test_large_weights_pass_through_little_memory(tmp_path: Path) -> None:
    """300 MB of weights, within 150 MB more than the process takes anyway."""
    model = matrix(4)
    (tensor,) = [each for each in model.graph.initializer if each.name == "w"]
    rows = 250_000
    tensor.CopyFrom(TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[rows, 300]))
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "big.bin"), ("length", str(rows * 1200))):
        tensor.external_data.add(key=key, value=value)
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = rows
    with (tmp_path / "big.bin").open("wb") as file:
        file.truncate(rows * 1200)
    onnx.save(model, tmp_path / "m.onnx")
    code = (
        "import resource, sys; from pathlib import Path\n"
        "from onnxlift.workbench.report import open_model; from onnxlift.ir.writing.files import write_model\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "folder = Path(sys.argv[1])\n"
        "write_model(open_model(folder / 'm.onnx'), folder / 'out.onnx', external_data=sys.argv[2])\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    for external in ("never", "data.bin"):
        command = [sys.executable, "-c", code, str(tmp_path), external]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert int(done.stdout) < 150_000, external
        (tmp_path / "out.onnx").unlink()


def test_an_ir_model_is_read_with_the_interface_that_it_was_opened_with() -> None:
    opened = open_model(rich())
    infer(opened)
    again = to_proto(load(opened, faithful=True))
    assert again == to_proto(opened)
