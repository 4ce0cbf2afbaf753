"""A bias that depends on offsets in a window comes back as a table, with the numbers that it was computed from."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.numpy_helper
import onnxruntime
import pytest
import torch

import onnxlift
from onnxlift.ir.origin.metadata import CLASSES, FOLDED_FROM, NAME_SCOPES, string_list
from onnxlift.rewriting.idioms.attention import relative_positions
from rewriting.idioms.recognising import parse, simplified

RANDOM = np.random.default_rng(11)
HEADS, HEIGHT, WIDTH = 3, 2, 4
LENGTH = HEIGHT * WIDTH
SCORES = "kt = Transpose <perm = [0, 1, 3, 2]> (k) scores = MatMul(q, kt)"
BODY = f"{SCORES} y = Add(scores, val_7)"
MASK = "mask = Sin(q) m = ReduceMean <keepdims = 1> (mask) both = Add(m, val_7)"
TILED = "times = Constant <value_ints = [2, 1, 1, 1]> () tiled = Tile(both, times)"
NOTE = ["index", "attn.table", "attn.positions_index", "val_3", "view_1", "view_2", "permute_1"]
ROWS_NOTE = ["attn.table", "attn.positions_index", "val_3"]
MOVES = f"""shape = Constant <value_ints = [{LENGTH}, {LENGTH}, {HEADS}]> () pairs = Reshape(val_7, shape)
    heads = Transpose <perm = [2, 0, 1]> (pairs)"""


def index(height: int, width: int) -> np.ndarray:
    """Written as the Swin Transformer has it."""
    place = np.stack(np.meshgrid(np.arange(height), np.arange(width), indexing="ij")).reshape(2, -1)
    offset = place[:, :, None] - place[:, None, :]
    return (offset[0] + height - 1) * (2 * width - 1) + offset[1] + width - 1


def a_table(height: int = HEIGHT, width: int = WIDTH) -> np.ndarray:
    return RANDOM.standard_normal(((2 * height - 1) * (2 * width - 1), HEADS)).astype(np.float32)


def bias_of(table: np.ndarray, height: int = HEIGHT, width: int = WIDTH) -> np.ndarray:
    return np.ascontiguousarray(table[index(height, width)].transpose(2, 0, 1))


def model(bias: np.ndarray, body: str = BODY, note: list[str] | None = None, name: str = "val_7") -> onnx.ModelProto:
    queries, keys = bias.shape[-2:]
    kind = "float" if bias.dtype == np.float32 else "int32"
    inputs = f"{kind}[batch, {HEADS}, {queries}, 5] q, {kind}[batch, {HEADS}, {keys}, 5] k"
    proto = parse(f"g ({inputs}) => ({kind}[batch, {HEADS}, {queries}, {keys}] y) {{ {body} }}", val_7=bias)
    proto.graph.initializer[0].name = name
    for node in proto.graph.node:
        node.input[:] = [name if read == "val_7" else read for read in node.input]
    if note is not None:
        proto.graph.value_info.add(name=name).metadata_props.add(key=FOLDED_FROM, value=repr(note))
    return proto


def tables(proto: onnx.ModelProto) -> dict[str, np.ndarray]:
    """The tables in the lifted state dict; its numbers are those of ONNX Runtime."""
    lifted = onnxlift.lift(proto)
    shapes = [[size.dim_value or 2 for size in value.type.tensor_type.shape.dim] for value in proto.graph.input]
    kind = onnx.helper.tensor_dtype_to_np_dtype(proto.graph.input[0].type.tensor_type.elem_type)
    inputs = [(2 * RANDOM.standard_normal(shape)).astype(kind) for shape in shapes]
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    (expected,) = session.run(None, {value.name: array for value, array in zip(proto.graph.input, inputs, strict=True)})
    result = lifted.module()(*map(torch.from_numpy, inputs))
    np.testing.assert_allclose(result.detach().numpy(), expected, rtol=1e-5, atol=1e-5)
    assert result.shape == expected.shape
    return {name: array for name, array in {**lifted.state_dict, **lifted.constants}.items() if "table" in name}


@pytest.mark.parametrize(("height", "width"), [(2, 2), (4, 4), (2, 4), (4, 2), (3, 5)])
def test_the_table_has_the_numbers_it_was_computed_from(height: int, width: int) -> None:
    table = a_table(height, width)
    found = tables(model(bias_of(table, height, width)))
    assert [*found] == ["relative_position_bias_table"]
    np.testing.assert_array_equal(found["relative_position_bias_table"], table)


@pytest.mark.parametrize(
    "body",
    [
        BODY.replace("Add(scores, val_7)", "Add(val_7, scores)"),
        BODY.replace("y = Add(scores", "half = Constant <value_float = 0.5> () s = Mul(scores, half) y = Add(s"),
        f"{MASK} {BODY.replace('val_7', 'both')}",
        f"{MASK} {SCORES} total = Add(scores, both) y = Softmax(total)",
        f"{MASK} {SCORES} {TILED} y = Add(scores, tiled)",
    ],
    ids=["the other way round", "scaled scores", "with a mask", "with a mask that goes on", "with a mask of windows"],
)
def test_all_spellings(body: str) -> None:
    assert len(tables(model(bias_of(a_table()), body))) == 1


def test_a_constant_of_any_name() -> None:
    proto = model(bias_of(a_table()), name="bias")
    value = proto.graph.initializer.pop()
    proto.graph.node.insert(0, onnx.helper.make_node("Constant", [], ["bias"], value=value))
    assert [*tables(proto)] == ["relative_position_bias_table"]


def test_each_table_has_its_name() -> None:
    first, second = a_table(), a_table()
    again = "hundredth = Constant <value_float = 0.01> () t = Mul(biased, hundredth) s = MatMul(t, t)"
    proto = model(bias_of(first), f"{SCORES} biased = Add(scores, val_7) {again} y = Add(s, val_8)")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(bias_of(second), "val_8"))
    found = tables(proto)
    np.testing.assert_array_equal(found["relative_position_bias_table"], first)
    np.testing.assert_array_equal(found["relative_position_bias_table_1"], second)


def test_a_name_that_is_the_exporters_own() -> None:
    found = tables(model(bias_of(a_table()), name="onnx::Add_91"))
    assert [*found] == ["relative_position_bias_table"]


def test_the_exporter_has_noted_the_names() -> None:
    table = a_table()
    lifted = onnxlift.lift(model(bias_of(table), note=NOTE))
    np.testing.assert_array_equal(lifted.state_dict["attn.table"], table)
    np.testing.assert_array_equal(lifted.constants["attn.positions_index"], index(HEIGHT, WIDTH))


@pytest.mark.parametrize("note", [["view_2" if name == "view_1" else name for name in NOTE], [*NOTE[:5], *NOTE[6:]]])
def test_an_index_that_was_not_reshaped_itself_has_one_axis(note: list[str]) -> None:
    lifted = onnxlift.lift(model(bias_of(a_table()), note=[*dict.fromkeys(note)]))
    np.testing.assert_array_equal(lifted.constants["attn.positions_index"], index(HEIGHT, WIDTH).reshape(-1))


def moved(
    body: str = f"{MOVES} {SCORES} y = Add(scores, heads)", note: list[str] | None = ROWS_NOTE
) -> onnx.ModelProto:
    """The exporter has looked up the rows, which nodes of the graph move to where they are added."""
    proto = model(bias_of(TABLE), body, note)
    rows = np.ascontiguousarray(TABLE[index(HEIGHT, WIDTH).reshape(-1)])
    proto.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(rows, "val_7"))
    return proto


TABLE = a_table()


def test_rows_that_are_moved_afterwards() -> None:
    lifted = onnxlift.lift(moved())
    np.testing.assert_array_equal(tables(moved())["attn.table"], TABLE)
    np.testing.assert_array_equal(lifted.constants["attn.positions_index"], index(HEIGHT, WIDTH).reshape(-1))
    assert "self.table[self.positions_index].unflatten(0, (8, 8)).permute(2, 0, 1)" in lifted.source
    assert len(tables(moved(note=None))) == 1


@pytest.mark.parametrize(
    "body",
    [
        f"{MOVES} {SCORES} other = Add(scores, heads) extra = ReduceMax <keepdims = 0> (pairs) y = Add(other, extra)",
        f"{MOVES} {SCORES} other = Add(scores, heads) extra = ReduceMax <keepdims = 0> (val_7) y = Add(other, extra)",
    ],
)
def test_rows_that_others_read_too_stay(body: str) -> None:
    assert tables(moved(body)) == {}


def test_rows_that_are_moved_by_computed_sizes_stay() -> None:
    sizes = f"all = Shape <start = 2, end = 3> (q) heads = Constant <value_ints = [{HEADS}]> ()"
    computed = f"{sizes} shape = Concat <axis = 0> (all, all, heads) {MOVES.partition('()')[2].replace('heads', 'h')}"
    proto = moved(f"{computed} {SCORES} y = Add(scores, h)")
    assert "self.table" not in onnxlift.lift(proto, simplify=False).source
    assert "self.table" in onnxlift.lift(proto).source


def test_an_axis_of_size_one_in_front() -> None:
    assert len(tables(model(bias_of(a_table())[None]))) == 1


def with_token(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Written as BEiT has it: a table with rows for a class token, and its bias."""
    table = np.concatenate([table, RANDOM.standard_normal((3, HEADS)).astype(np.float32)])
    places = np.zeros((1 + LENGTH, 1 + LENGTH), np.int64)
    places[1:, 1:] = index(HEIGHT, WIDTH)
    places[0, 0:] = len(table) - 3
    places[0:, 0] = len(table) - 2
    places[0, 0] = len(table) - 1
    return table, np.ascontiguousarray(table[places].transpose(2, 0, 1))


def test_a_class_token_in_front_of_the_window() -> None:
    table, bias = with_token(a_table())
    (found,) = tables(model(bias)).values()
    np.testing.assert_array_equal(found, table)


@pytest.mark.parametrize("place", [(1, 0, 4), (2, 5, 0), (0, 3, 2)])
def test_a_class_token_that_tells_places_apart_stays(place: tuple[int, int, int]) -> None:
    _, bias = with_token(a_table())
    bias[place] += 1
    assert not tables(model(bias))


COMPUTED = [
    *("arange_4", "arange_5", "stack", "sub_12", "add_39", "add_40", "mul_22", "sum_1", "zeros", "fill_1", "copy_2"),
    *("select_scatter_3", "slice_scatter", "attn.lifted_tensor_0", "attn.table", "index", "val_3"),
]


def test_the_exporter_has_noted_how_the_index_was_computed() -> None:
    proto = model(bias_of(a_table()), note=COMPUTED)
    assert [*tables(proto)] == ["attn.table"]
    assert [*onnxlift.lift(proto).constants] == ["attn.relative_position_index"]


@pytest.mark.parametrize("more", ["mul_23", "add_41", "exp"])
def test_more_arithmetic_than_an_index_takes(more: str) -> None:
    assert not tables(model(bias_of(a_table()), note=[*COMPUTED, more]))


def test_a_constant_that_a_module_computed_is_looked_up_there() -> None:
    lifted = onnxlift.lift(model(bias_of(a_table()), name="/attn/bias/Transpose_output_0"))
    assert [*lifted.state_dict] == ["attn.bias.relative_position_bias_table"]


def almost(bias: np.ndarray) -> np.ndarray:
    bias[1, 2, 3] += np.float32(1e-6)
    return bias


def by_distance() -> np.ndarray:
    place = np.arange(LENGTH)
    return -np.abs(place - place[:, None])[None].astype(np.float32) * np.array([[[1.0]], [[0.5]], [[0.25]]], np.float32)


def by_distance_but_for_a_token() -> np.ndarray:
    bias = RANDOM.standard_normal((HEADS, 1 + LENGTH, 1 + LENGTH)).astype(np.float32)
    bias[:, 1:, 1:], bias[:, 0, 1:], bias[:, 1:, 0] = by_distance(), bias[:, 0, :1], bias[:, :1, 0]
    return bias


@pytest.mark.parametrize(
    "proto",
    [
        model(almost(bias_of(a_table()))),
        model(RANDOM.standard_normal((HEADS, LENGTH, LENGTH)).astype(np.float32)),
        model(by_distance()),
        model(bias_of(a_table()), name="attn.bias"),
        model(bias_of(a_table()), BODY.replace("Add(scores, val_7)", "Mul(scores, val_7)")),
        model(bias_of(a_table()), f"{SCORES} t = Add(scores, val_7) y = Mul(t, val_7)"),
        model(bias_of(a_table()), note=[*NOTE, "sigmoid"]),
        model(bias_of(a_table()), note=[*NOTE, "attn.mlp.weight"]),
        model(bias_of(a_table()), note=["val_3"]),
        model(bias_of(a_table()), note=[*NOTE, "attn.other_index"]),
        model((99 * bias_of(a_table())).astype(np.int32)),
        model(bias_of(a_table()), f"{SCORES} s = Sin(scores) y = Add(s, val_7)"),
        model(RANDOM.standard_normal((HEADS, 6, 4)).astype(np.float32)),
        model(by_distance_but_for_a_token()),
        model(bias_of(a_table()), f"{MASK} {SCORES} y = Mul(scores, both)"),
        model(bias_of(a_table()), f"{MASK} {SCORES} s = Sin(scores) y = Add(s, both)"),
        model(bias_of(a_table()), f"{MASK} {SCORES} t = Add(scores, both) y = Add(t, both)"),
        model(bias_of(a_table()), f"{MASK} {SCORES} {TILED} t = Add(scores, tiled) y = Add(t, tiled)"),
    ],
    ids=[
        *("a number that differs", "any numbers", "by distance", "a parameter", "a factor", "read by others"),
        *("computed with more", "computed from more", "computed from nothing", "two indices", "integers"),
        *("not added to scores", "more queries than keys", "by distance but for a token"),
        *("a mask that is a factor", "a mask of no scores", "a mask that others read", "windows that others read"),
    ],
)
def test_what_is_no_such_table_stays(proto: onnx.ModelProto) -> None:
    assert not tables(proto)


def test_a_bias_of_windows_that_differ_stays() -> None:
    proto = model(np.stack([bias_of(a_table()), bias_of(a_table())]))
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 2
    proto.graph.input[1].type.tensor_type.shape.dim[0].dim_value = 2
    assert not tables(proto)


@pytest.mark.parametrize(
    ("heads", "axes"), [((), 3), ((), 4), ((1,), 4)], ids=["one head", "one head of four axes", "an axis of size one"]
)
def test_scores_have_fewer_axes_than_what_is_looked_up(heads: tuple[int, ...], axes: int) -> None:
    """They would get more from it."""
    bias = bias_of(a_table())[0].reshape(*heads, *(1 for _ in range(axes - 3)), LENGTH, LENGTH)
    proto = model(bias, BODY.replace("0, 1, 3, 2", "1, 0"))
    for value in (*proto.graph.input, *proto.graph.output):
        del value.type.tensor_type.shape.dim[: 2 if value.name != "y" else 4 - bias.ndim]
    assert not tables(proto)


def test_a_huge_bias_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    bias = bias_of(a_table())
    monkeypatch.setattr(relative_positions, "LARGEST", bias.size)
    assert tables(model(bias))
    monkeypatch.setattr(relative_positions, "LARGEST", bias.size - 1)
    assert not tables(model(bias))


@pytest.mark.parametrize(
    ("table", "scopes", "expected"),
    [
        ("attn.bias.table", ["", "attn", "add_3"], ["", "attn", "attn.bias", "add_3"]),
        ("attn.table", ["", "attn", "add_3"], ["", "attn", "add_3"]),
        ("other.bias.table", ["", "attn", "add_3"], ["", "attn", "add_3"]),
        ("attn.bias.table", ["attn", "add_3"], ["attn", "add_3"]),
    ],
    ids=["in a module there", "there", "elsewhere", "not told of all modules"],
)
def test_the_table_is_looked_up_in_the_module_that_owns_it(table: str, scopes: list[str], expected: list[str]) -> None:
    proto = model(bias_of(a_table()), note=[table, "index"])
    for node in proto.graph.node:
        node.metadata_props.add(key=NAME_SCOPES, value=repr(scopes))
        node.metadata_props.add(key=CLASSES, value=repr(["Net", "Attention", "aten.add.Tensor"]))
    lookups = [node for node in simplified(proto).graph if node.op_type == "Gather"]
    assert [string_list(node.metadata_props[NAME_SCOPES]) for node in lookups] == [expected]


def test_a_bias_of_one_number_is_no_table() -> None:
    sizes = f"batch, {HEADS}, n"
    text = f"g (float[{sizes}, 5] q, float[{sizes}, 5] k) => (float[{sizes}, n] y) {{ {BODY} }}"
    proto = parse(text, val_7=np.array([0.5], np.float32))
    assert relative_positions.run(simplified(proto)) == 0
