"""What holds of a model once it is loaded, from whatever it was loaded."""

from __future__ import annotations

import io
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from onnxlift.errors import LoadError
from onnxlift.ir.graph.types import ONNX_TYPE
from onnxlift.ir.load import load
from onnxlift.ir.reading import wire
from onnxlift.ir.reading.tensors import FileTensor

RNG = np.random.default_rng(7)


def parse(body: str, more: str = "", inputs: str = "float[2, 3] x", outputs: str = "float[2, 3] y") -> onnx.ModelProto:
    return parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 17, "me" : 1]> g ({inputs}) => ({outputs}) {{ {body} }} {more}'
    )


def weighted(rows: int = 400) -> onnx.ModelProto:
    """y = x @ w + b, where w is large enough to be cut out and b is not."""
    proto = parse("m = MatMul(x, w) y = Add(m, b)", inputs=f"float[2, {rows}] x")
    proto.graph.initializer.extend(
        [
            numpy_helper.from_array(RNG.standard_normal((rows, 3)).astype(np.float32), "w"),
            numpy_helper.from_array(RNG.standard_normal(3).astype(np.float32), "b"),
        ]
    )
    return proto


def run(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def assert_same(before: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> ir.Model:
    """Loading changes the form of a model, and not what it computes."""
    model = load(before)
    for expected, actual in zip(run(before, feeds), run(ir.to_proto(model), feeds), strict=True):
        np.testing.assert_array_equal(expected, actual)
    return model


def in_a_file(proto: onnx.ModelProto, folder: Path) -> Path:
    onnx.save(proto, folder / "model.onnx")
    return folder / "model.onnx"


SOURCES: dict[str, Callable[[onnx.ModelProto, Path], object]] = {
    "path": in_a_file,
    "str": lambda proto, folder: str(in_a_file(proto, folder)),
    "bytes": lambda proto, folder: proto.SerializeToString(),
    "bytearray": lambda proto, folder: bytearray(proto.SerializeToString()),
    "memoryview": lambda proto, folder: memoryview(proto.SerializeToString()),
    "open file": lambda proto, folder: io.BytesIO(proto.SerializeToString()),
    "ModelProto": lambda proto, folder: proto,
    "onnx_ir.Model": lambda proto, folder: ir.from_proto(proto),
}


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_gives_the_same_model(source: str, tmp_path: Path) -> None:
    proto = weighted()
    model = load(SOURCES[source](proto, tmp_path))
    assert [node.op_type for node in model.graph] == ["MatMul", "Add"]
    for tensor in proto.graph.initializer:
        loaded = model.graph.initializers[tensor.name].const_value
        np.testing.assert_array_equal(loaded.numpy(), numpy_helper.to_array(tensor))
        assert loaded.tobytes() == tensor.raw_data


def test_the_callers_objects_do_not_change() -> None:
    proto = weighted()
    proto.graph.input.append(helper.make_tensor_value_info("b", TensorProto.FLOAT, [3]))
    theirs, before = ir.from_proto(proto), proto.SerializeToString()
    text = str(theirs.graph)
    for model in (load(proto), load(theirs)):
        model.graph.initializers["w"].name = "renamed"
        assert [value.name for value in model.graph.inputs] == ["x"]
    assert proto.SerializeToString() == before
    assert str(theirs.graph) == text
    assert theirs.graph.initializers["w"].const_value.name == "w"


def test_something_else_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="not <class 'int'>"):
        load(3)  # type: ignore[arg-type]


def test_a_file_in_text_mode() -> None:
    with pytest.raises(LoadError, match="mode 'rb'"):
        load(io.StringIO("abc"))  # type: ignore[arg-type]


# Weights


def test_weights_of_a_file_are_not_read(tmp_path: Path) -> None:
    path = in_a_file(weighted(rows=1_000_000), tmp_path)
    tracemalloc.start()
    model = load(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000  # of 12 MB
    weight = model.graph.initializers["w"].const_value
    assert isinstance(weight, FileTensor)
    assert weight.nbytes == 12_000_000
    with (tmp_path / "copy").open("wb") as file:
        file.write(b"head")
        weight.tofile(file)
        file.write(b"tail")
    assert (tmp_path / "copy").read_bytes() == b"head" + weight.tobytes() + b"tail"


def test_weights_of_bytes_are_views() -> None:
    data = weighted().SerializeToString()
    array = load(data).graph.initializers["w"].const_value.numpy()
    address = array.__array_interface__["data"][0]
    start = np.frombuffer(data, np.uint8).__array_interface__["data"][0]
    assert start < address < start + len(data)
    assert not array.flags.writeable


def test_a_file_that_changes_after_loading_is_noticed(tmp_path: Path) -> None:
    path = in_a_file(weighted(), tmp_path)
    model = load(path)
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(LoadError, match="has changed since the model was loaded"):
        model.graph.initializers["w"].const_value.numpy()


DTYPES = [
    np.float32,
    np.float64,
    np.float16,
    ml_dtypes.bfloat16,
    ml_dtypes.float8_e4m3fn,
    ml_dtypes.float8_e5m2,
    np.int64,
    np.int8,
    np.uint32,
    np.bool_,
    np.complex64,
    ml_dtypes.int4,
    ml_dtypes.uint4,
    ml_dtypes.float4_e2m1fn,
]


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("count", [5, 5001])
def test_every_type_of_weight(dtype: type, count: int, tmp_path: Path) -> None:
    proto = parse("y = Neg(x)")
    array = RNG.integers(-7 if np.dtype(dtype).name[0] != "u" else 0, 7, (count, 3)).astype(dtype)
    proto.graph.initializer.append(numpy_helper.from_array(array, "w"))
    for source in (in_a_file(proto, tmp_path), proto):
        tensor = load(source).graph.initializers["w"].const_value
        assert tensor.numpy().dtype == array.dtype
        np.testing.assert_array_equal(tensor.numpy(), array)
        assert tensor.tobytes() == proto.graph.initializer[-1].raw_data


def test_weights_in_constants_subgraphs_and_functions(tmp_path: Path) -> None:
    big = {name: RNG.standard_normal((2, 300)).astype(np.float32) for name in "abc"}
    proto = parse(
        "c = Constant<value = bool {1}>() k = Constant<value = float[1] {1}>() "
        "r = If(c) <then_branch = t () => (float[n] t) { t = me.F(x) },"
        "else_branch = e () => (float[n] e) { e = Abs(k) }> y = Neg(r)",
        '<domain: "me", opset_import: ["" : 17]> F (a) => (b) { b = Constant<value = float[1] {1}>() }',
    )
    tensors = (
        proto.graph.node[1].attribute[0].t,
        proto.functions[0].node[0].attribute[0].t,
        proto.graph.node[2].attribute[0].g.initializer.add(),
    )
    for (name, array), tensor in zip(big.items(), tensors, strict=True):
        tensor.CopyFrom(numpy_helper.from_array(array, name))
    model = load(in_a_file(proto, tmp_path))
    loaded = (
        model.graph[1].attributes["value"].as_tensor(),
        next(iter(model.functions.values()))[0].attributes["value"].as_tensor(),
        model.graph[2].attributes["then_branch"].as_graph().initializers["c"].const_value,
    )
    for array, tensor in zip(big.values(), loaded, strict=True):
        assert isinstance(tensor, FileTensor)
        np.testing.assert_array_equal(tensor.numpy(), array)


def test_protobuf_decides_what_odd_encodings_mean() -> None:
    """A graph in two parts is merged, and of two `raw_data` the last one counts, as protobuf has it."""
    first, second = weighted(), onnx.ModelProto()
    second.graph.initializer.append(numpy_helper.from_array(RNG.standard_normal(500).astype(np.float32), "late"))
    tensor, newer = first.graph.initializer[0], RNG.standard_normal((400, 3)).astype(np.float32)
    old = tensor.SerializeToString()
    twice = old + TensorProto(raw_data=newer.tobytes()).SerializeToString()
    assert TensorProto.FromString(twice).raw_data == newer.tobytes()
    del first.graph.initializer[0]
    parts = [first, second, b"\x3a" + wire._varint(len(b := b"\x2a" + wire._varint(len(twice)) + twice)) + b]
    model = load(b"".join(part if isinstance(part, bytes) else part.SerializeToString() for part in parts))
    np.testing.assert_array_equal(model.graph.initializers["w"].const_value.numpy(), newer)
    late = numpy_helper.to_array(second.graph.initializer[0])
    np.testing.assert_array_equal(model.graph.initializers["late"].const_value.numpy(), late)


def test_the_wire_table_agrees_with_onnx() -> None:
    tables = {
        onnx.ModelProto: (wire.MODEL, {"graph", "functions"}),
        onnx.GraphProto: (wire.GRAPH, {"node", "initializer"}),
        onnx.FunctionProto: (wire.FUNCTION, {"node", "attribute_proto"}),
        onnx.NodeProto: (wire.NODE, {"attribute"}),
        onnx.AttributeProto: (wire.ATTRIBUTE, {"t", "g", "tensors", "graphs"}),
        onnx.TensorProto: (wire.TENSOR, {"raw_data"}),
    }
    for message, (table, names) in tables.items():
        assert {message.DESCRIPTOR.fields_by_number[number].name for number in table} == names


def test_the_number_of_fields_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_FIELDS", 1000)
    with pytest.raises(LoadError, match="more than 1,000 fields"):
        load(b"\x08\x09\x3a\xd0\x0f" + b"\x0a\x00" * 1000)


def test_damage_anywhere_is_a_load_error() -> None:
    data, rng = weighted().SerializeToString(), np.random.default_rng(5)
    for _ in range(400):
        damaged = bytearray(data)
        for position in rng.integers(0, len(data), 3):
            # Half of the damage goes where the structure is, since most of the file is weights.
            damaged[position if rng.random() < 0.5 else int(position) % 120] = int(rng.integers(256))
        try:
            model = load(bytes(damaged[: rng.integers(len(data))] if rng.random() < 0.2 else damaged))
        except LoadError:
            continue
        for value in model.graph.initializers.values():
            assert value.const_value.numpy().shape == tuple(value.const_value.shape)


# The normal form


def test_a_sorted_graph_keeps_its_order() -> None:
    body = "[d] d = Neg(x) [a] a = Abs(x) [c] c = Add(a, d) [b] b = Neg(d) [y] y = Mul(b, c)"
    assert [node.name for node in load(parse(body)).graph] == ["d", "a", "c", "b", "y"]


def test_nodes_are_sorted() -> None:
    proto = parse("[d] d = Neg(x) [a] a = Abs(x) [c] c = Sub(a, d) [b] b = Neg(d) [y] y = Mul(b, c)")
    shuffled = onnx.ModelProto()
    shuffled.CopyFrom(proto)
    shuffled.graph.ClearField("node")
    shuffled.graph.node.extend(proto.graph.node[i] for i in (4, 2, 3, 1, 0))
    model = load(shuffled)
    # Of those that are ready, the first of the file comes next.
    assert [node.name for node in model.graph] == ["a", "d", "c", "b", "y"]
    feeds = {"x": RNG.standard_normal((2, 3)).astype(np.float32)}
    np.testing.assert_array_equal(run(ir.to_proto(model), feeds)[0], run(proto, feeds)[0])


def test_a_node_comes_after_what_its_subgraph_captures() -> None:
    model = load(
        parse(
            "[if] r = If(c) <then_branch = t () => (float[n] t) { [u] t = Neg(s) [v] s = Abs(late) },"
            "else_branch = e () => (float[n] e) { e = Abs(x) }> [y] y = Neg(r) [late] late = Exp(x)",
            inputs="float[2, 3] x, bool c",
        )
    )
    assert [node.name for node in model.graph] == ["late", "if", "y"]
    assert [node.name for node in model.graph[1].attributes["then_branch"].as_graph()] == ["v", "u"]


def test_functions_are_sorted() -> None:
    function = '<domain: "me", opset_import: ["" : 17]> F (a) => (b) { b = Neg(c) c = Abs(a) }'
    model = load(parse("y = me.F(x)", function))
    assert [node.op_type for node in next(iter(model.functions.values()))] == ["Abs", "Neg"]


def test_nodes_get_unique_names() -> None:
    proto = parse(
        "a = Neg(x) [n] b = Abs(a) [n] c = Neg(b) [n_1] d = Abs(c) [Neg_4] e = Neg(d) f = Neg(e) [n] y = Abs(f)"
    )
    names = [node.name for node in load(proto).graph]
    assert names == ["Neg_0", "n", "n_2", "n_1", "Neg_4", "Neg_5", "n_3"]


def test_an_initialiser_is_not_an_input() -> None:
    proto = weighted(rows=3)
    proto.graph.input.insert(0, helper.make_tensor_value_info("w", TensorProto.FLOAT, ["wrong", 3]))
    model = assert_same(proto, {"x": RNG.standard_normal((2, 3)).astype(np.float32)})
    assert [value.name for value in model.graph.inputs] == ["x"]
    assert model.graph.initializers["w"].shape == ir.Shape([3, 3])


def test_types_of_intermediate_values_are_dropped_unless_nobody_else_knows_them() -> None:
    proto = parse("a = Neg(x) b = me.Custom(a) c = me.F(b) y = Abs(c)", '<domain: "me"> F (a) => (b) { b = me.G(a) }')
    proto.graph.value_info.extend(
        helper.make_tensor_value_info(name, TensorProto.DOUBLE, [9, 9]) for name in ("a", "b", "c")
    )
    types = {node.outputs[0].name: node.outputs[0].dtype for node in load(proto).graph}
    assert types == {"a": None, "b": ir.DataType.DOUBLE, "c": None, "y": ir.DataType.FLOAT}


@pytest.mark.parametrize("coordinates", [False, True])
def test_sparse_initialisers_become_dense(coordinates: bool) -> None:
    dense = np.zeros((2, 3), np.float32)
    dense[0, 2], dense[1, 1] = 1.5, -2.5
    indices = np.array([[0, 2], [1, 1]]) if coordinates else np.array([2, 4])
    proto = parse("y = Add(x, s)")
    values = numpy_helper.from_array(np.array([1.5, -2.5], np.float32), "s")
    proto.graph.sparse_initializer.append(
        helper.make_sparse_tensor(values, numpy_helper.from_array(indices), dense.shape)
    )
    np.testing.assert_array_equal(load(proto).graph.initializers["s"].const_value.numpy(), dense)


def test_the_values_of_a_sparse_initialiser_may_lie_in_a_file(tmp_path: Path) -> None:
    values = numpy_helper.from_array(np.array([1.5, -2.5], np.float32), "s")
    (tmp_path / "values.bin").write_bytes(values.raw_data)
    values.ClearField("raw_data")
    values.data_location = onnx.TensorProto.EXTERNAL
    values.external_data.add(key="location", value="values.bin")
    proto = parse("y = Add(x, s)")
    proto.graph.sparse_initializer.append(
        helper.make_sparse_tensor(values, numpy_helper.from_array(np.array([2, 4])), [2, 3])
    )
    (tmp_path / "model.onnx").write_bytes(proto.SerializeToString())
    dense = load(tmp_path / "model.onnx").graph.initializers["s"].const_value.numpy()
    np.testing.assert_array_equal(dense, [[0, 0, 1.5], [0, -2.5, 0]])


def test_an_empty_sparse_tensor_has_no_sizes_that_overflow() -> None:
    proto = parse("y = Add(x, s)")
    sparse = proto.graph.sparse_initializer.add(dims=[0, 1 << 62, 8])
    sparse.values.CopyFrom(numpy_helper.from_array(np.zeros(0, np.float32), "s"))
    sparse.indices.CopyFrom(numpy_helper.from_array(np.zeros(0, np.int64)))
    with pytest.raises(LoadError, match="when it is made dense"):
        load(proto)


def test_a_sparse_constant_becomes_dense() -> None:
    values = numpy_helper.from_array(np.array([1.5], np.float32))
    sparse = helper.make_sparse_tensor(values, numpy_helper.from_array(np.array([1])), [3])
    proto = parse("y = Add(x, s)", inputs="float[2, 3] x, float[3] s")
    del proto.graph.input[1]
    proto.graph.node.insert(0, helper.make_node("Constant", [], ["s"], sparse_value=sparse))
    np.testing.assert_array_equal(load(proto).graph[0].attributes["value"].as_tensor().numpy(), [0, 1.5, 0])


def test_a_subgraph_may_return_an_outer_value() -> None:
    model = load(
        parse(
            "a = Neg(x) a_1 = Abs(x) y = If(c) <then_branch = t () => (float[n] a) { },"
            "else_branch = e () => (float[n] e) { e = Mul(a, a_1) }>",
            inputs="float[2, 3] x, bool c",
        )
    )
    x = RNG.standard_normal((2, 3)).astype(np.float32)
    (result,) = run(ir.to_proto(model), {"x": x, "c": np.array(True)})
    np.testing.assert_array_equal(result, -x)


def test_a_subgraph_may_return_inputs_of_the_model() -> None:
    model = load(
        parse(
            "y, z = If(c) <then_branch = t () => (float[n] x, float[n] x_1) { },"
            "else_branch = e () => (float[n] e, float[n] f) { e = Neg(x) f = Abs(x) }>",
            inputs="float[2, 3] x, float[2, 3] x_1, bool c",
            outputs="float[2, 3] y, float[2, 3] z",
        )
    )
    feeds = {name: RNG.standard_normal((2, 3)).astype(np.float32) for name in ("x", "x_1")}
    for result, expected in zip(run(ir.to_proto(model), {**feeds, "c": np.array(True)}), feeds.values(), strict=True):
        np.testing.assert_array_equal(result, expected)


def test_maps_are_kept_beside_the_value() -> None:
    proto = parse("y = me.Custom(x)")
    proto.graph.output[0].CopyFrom(
        helper.make_value_info("y", helper.make_sequence_type_proto(helper.make_map_type_proto(7, _float_tensor())))
    )
    output = load(proto).graph.outputs[0]
    assert output.type is None
    assert output.meta[ONNX_TYPE].sequence_type.elem_type.map_type.key_type == TensorProto.INT64


def _float_tensor() -> onnx.TypeProto:
    return helper.make_tensor_type_proto(TensorProto.FLOAT, [])


def test_negative_sizes_are_unknown() -> None:
    proto = parse("y = Neg(x)")
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -1
    shape = load(proto).graph.inputs[0].shape
    assert shape is not None
    assert isinstance(shape[0], ir.SymbolicDim)
    assert shape[0].value is None
    assert shape[1] == 3


def test_both_spellings_of_the_default_domain() -> None:
    proto = parse("y = Neg(x)")
    proto.opset_import[0].domain = proto.graph.node[0].domain = "ai.onnx"
    model = load(proto)
    assert model.opset_imports == {"": 17, "me": 1}
    assert model.graph[0].domain == ""


def test_metadata_is_kept() -> None:
    proto = parse("y = Neg(x)")
    proto.producer_name, proto.doc_string = "pytorch", "text"
    proto.metadata_props.add(key="k", value="v")
    proto.graph.node[0].metadata_props.add(key="pkg.torch.onnx.name_scopes", value="['', 'neg']")
    model = load(proto)
    assert (model.producer_name, model.doc_string, model.metadata_props["k"]) == ("pytorch", "text", "v")
    assert model.graph[0].metadata_props == {"pkg.torch.onnx.name_scopes": "['', 'neg']"}


def test_a_graph_may_have_no_nodes_and_no_name() -> None:
    proto = parse("", outputs="float[2, 3] x")
    proto.graph.ClearField("name")
    model = load(proto)
    assert list(model.graph) == []
    assert model.graph.outputs[0] is model.graph.inputs[0]


def test_a_model_of_other_domains_needs_no_default_opset() -> None:
    proto = parse("y = ai.onnx.ml.Scaler(x)")
    del proto.opset_import[:]
    proto.opset_import.add(domain="ai.onnx.ml", version=3)
    assert load(proto).graph[0].op_type == "Scaler"


def test_unknown_operators_are_for_later() -> None:
    assert [node.op_type for node in load(parse("a = NoSuchOp(x) y = com.acme.Mel(a)")).graph] == ["NoSuchOp", "Mel"]
