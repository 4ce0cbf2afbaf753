"""Tables that PyTorch's exporter folded the names away from, and what only looks like them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper

import onnxlift
from onnxlift.rewriting.restoring import folded_names
from rewriting.graphs import normal_form, parse, run

ROWS = "%index : [num_users=1] = call_function[target=torch.ops.aten.index.Tensor](args = (%p_pos_weight, [%ids]), ...)"
COLUMNS = ROWS.replace("[%ids]", "[None, %ids]")
LOOKUP = "g (int64[n, 3] ids) => (float[n, 3, 5] y) { i = Unsqueeze(ids, last) y = GatherND(val_7, i) }"
SUM = "g (float[n, 4, 5] x) => (float[n, 4, 5] y) { y = Add(x, embedding) }"


def folded(
    text: str, name: str, sources: Sequence[str], operation: str = ROWS, shape: tuple[int, ...] = (4, 5)
) -> onnx.ModelProto:
    """A model with a constant of this name, and what the exporter says of it."""
    model = parse(text)
    table = np.random.default_rng(5).standard_normal(shape).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(table, name))
    model.graph.initializer.append(numpy_helper.from_array(np.array([-1]), "last"))
    for node in model.graph.node:
        node.metadata_props.add(key="pkg.torch.onnx.fx_node", value=operation)
    info = model.graph.value_info.add(name=name)
    info.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    info.metadata_props.add(key="pkg.onnxscript.optimizer.folded_from", value=repr(list(sources)))
    return model


def renamed(model: onnx.ModelProto) -> bool:
    return "pos.weight" in normal_form(model).graph.initializers


def test_a_table_that_rows_are_looked_up_in() -> None:
    model = folded(LOOKUP, "val_7", ["pos.weight"])
    lifted = onnxlift.lift(model)
    assert "self.pos = nn.Embedding(4, 5)" in lifted.source and "return self.pos(ids)" in lifted.source
    ids = np.array([[0, 3, 2], [1, 1, 3]])
    np.testing.assert_array_equal(lifted.module()(torch.from_numpy(ids)).detach(), run(model, {"ids": ids})[0])


def test_an_embedding_of_all_positions() -> None:
    model = folded(SUM, "embedding", ["arange", "pos.weight", "val_1"])
    lifted = onnxlift.lift(model)
    assert "self.pos = nn.Embedding(4, 5)" in lifted.source and "return x + self.pos.weight" in lifted.source
    x = np.random.default_rng(6).standard_normal((2, 4, 5)).astype(np.float32)
    np.testing.assert_array_equal(lifted.module()(torch.from_numpy(x)).detach(), run(model, {"x": x})[0])
    assert [name for name, _ in lifted.module().named_parameters()] == ["pos.weight"]


@pytest.mark.parametrize("positions", ["position_ids", "net.position_ids", "positions"])
def test_an_embedding_of_the_positions_that_a_buffer_has(positions: str) -> None:
    model = folded(SUM, "embedding", ["pos.weight", positions], shape=(1, 4, 5))
    lifted = onnxlift.lift(model)
    assert "self.pos = nn.Embedding(4, 5)" in lifted.source
    assert "self.pos(torch.arange(4, device=x.device).unsqueeze(0))" in lifted.source
    x = np.random.default_rng(6).standard_normal((2, 4, 5)).astype(np.float32)
    np.testing.assert_array_equal(lifted.module()(torch.from_numpy(x)).detach(), run(model, {"x": x})[0])
    assert [name for name, _ in lifted.module().named_parameters()] == ["pos.weight"]


@pytest.mark.parametrize(
    ("sources", "shape"),
    [
        (["pos.weight", "position_ids", "slice_1"], (1, 4, 5)),  # some of them
        (["pos.weight", "token_type_ids"], (1, 4, 5)),  # any rows
        (["pos.weight", "position_ids"], (2, 4, 5)),
        (["pos.weight", "other.weight", "position_ids"], (1, 4, 5)),
    ],
)
def test_what_was_looked_up_elsewhere_keeps_its_name(sources: list[str], shape: tuple[int, ...]) -> None:
    text = SUM.replace("n, 4, 5", "2, 4, 5")
    assert not renamed(folded(text, "embedding", sources, shape=shape))


def test_a_table_that_a_caller_can_override_keeps_its_name() -> None:
    model = folded(SUM, "embedding", ["pos.weight", "position_ids"], shape=(1, 4, 5))
    model.graph.input.add(name="embedding").type.CopyFrom(
        onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, (1, 4, 5))
    )
    assert not renamed(model)


@pytest.mark.parametrize(
    ("text", "name", "sources", "operation"),
    [
        (LOOKUP, "val_7", ["pos.weight"], COLUMNS),  # the transposed table
        (LOOKUP, "val_7", ["pos.weight", "mul"], ROWS),  # other numbers
        (LOOKUP, "val_7", ["pos.weight", "scale.weight"], ROWS),
        (LOOKUP.replace("val_7", "exp"), "exp", ["pos.weight"], ROWS),
        (SUM, "embedding", ["pos.weight", "arange", "neg"], ROWS),  # other positions
        (SUM, "embedding", ["pos.weight", "positions"], ROWS),
        (SUM.replace("embedding", "val_7"), "val_7", ["pos.weight"], ROWS),  # read by no lookup
    ],
)
def test_what_was_computed_otherwise_keeps_its_name(text: str, name: str, sources: list[str], operation: str) -> None:
    assert not renamed(folded(text, name, sources, operation))


def test_a_parameter_that_is_still_there_keeps_its_name() -> None:
    text = "g (float[n, 4, 5] x) => (float[n, 4, 5] y) { z = Mul(x, other) y = Add(z, embedding) }"
    model = folded(text, "embedding", ["arange", "pos.weight"])
    model.graph.initializer.append(numpy_helper.from_array(np.ones((4, 5), np.float32), "pos.weight"))
    model.graph.node[0].input[1] = "pos.weight"
    assert folded_names.run(normal_form(model)) == 0


def test_of_two_copies_none_is_the_parameter() -> None:
    text = "g (float[n, 4, 5] x) => (float[n, 4, 5] y) { z = Mul(x, embedding_1) y = Add(z, embedding) }"
    model = folded(text, "embedding", ["arange", "pos.weight"])
    copy = model.graph.initializer.add()
    copy.CopyFrom(model.graph.initializer[0])
    copy.name = "embedding_1"
    info = model.graph.value_info.add()
    info.CopyFrom(model.graph.value_info[0])
    info.name = "embedding_1"
    assert not renamed(model)


@pytest.mark.parametrize("note", ["[" * 5000, "['pos.weight'", "{'pos.weight'}", "[1]", "['arange', 'pos.weight'] + 1"])
def test_notes_that_are_no_lists_of_names_say_nothing(note: str) -> None:
    model = folded(SUM, "embedding", [])
    model.graph.value_info[0].metadata_props[0].value = note
    assert not renamed(model)


SCALED = "g (float[n, 4, 5, 5] x) => (float[n, 4, 5, 5] y) { y = Mul(x, unsqueeze_1) }"


def scaled(sources: Sequence[str], shape: tuple[int, ...] = (4, 1, 1), name: str = "unsqueeze_1") -> onnx.ModelProto:
    return folded(SCALED.replace("unsqueeze_1", name), name, sources, shape=shape)


def test_a_parameter_that_got_new_axes() -> None:
    model = scaled(["block.layer_scale", "unsqueeze", "val_24"])
    lifted = onnxlift.lift(model)
    assert "self.block.layer_scale[:, None, None]" in lifted.source
    assert {name: value.shape for name, value in lifted.state_dict.items()} == {"block.layer_scale": (4,)}
    x = np.random.default_rng(6).standard_normal((2, 4, 5, 5)).astype(np.float32)
    np.testing.assert_array_equal(lifted.module()(torch.from_numpy(x)).detach(), run(model, {"x": x})[0])


@pytest.mark.parametrize(
    ("name", "sources", "shape", "text"),
    [
        ("unsqueeze", ["scale", "val_2"], (1, 4, 5, 5), "x * self.scale\n"),  # of the model itself
        ("view_3", ["scale", "val_2", "val_3"], (1, 4, 1, 1), "x * self.scale[:, None, None]\n"),
        ("reshape", ["scale", "val_2", "val_3"], (4, 1, 1), "x * self.scale[:, None, None]\n"),
        ("alias", ["scale"], (1, 4, 5, 5), "x * self.scale\n"),
    ],
)
def test_a_parameter_behind_moves_that_change_no_number(
    name: str, sources: list[str], shape: tuple[int, ...], text: str
) -> None:
    model = scaled(sources, shape, name)
    lifted = onnxlift.lift(model)
    assert text in lifted.source, lifted.source
    assert [key for key, _ in lifted.module().named_parameters()] == ["scale"]
    x = np.random.default_rng(6).standard_normal((2, 4, 5, 5)).astype(np.float32)
    np.testing.assert_array_equal(lifted.module()(torch.from_numpy(x)).detach(), run(model, {"x": x})[0])


@pytest.mark.parametrize(
    "model",
    [
        scaled(["block.scale", "val_24"], (4, 5, 5), name="view"),  # of what shape?
        scaled(["block.scale", "exp"], (4, 1, 1), name="view"),
        scaled(["block.scale", "other.scale"], name="alias"),
        scaled(["ones_2"], name="alias"),
        scaled(["block.inv_freq"], name="alias"),
        scaled(["block.scale", "block.mean"], name="alias"),
        scaled(["block.layer_scale", "unsqueeze", "exp", "val_24"]),  # other numbers
        scaled(["block.layer_scale", "other.scale", "unsqueeze"]),
        scaled(["block.layer_scale", "val_24"]),  # which of the axes is new?
        scaled(["block.layer_scale", "unsqueeze"], (1, 4, 1, 1)),
        scaled(["block.layer_scale", "unsqueeze"], name="mul_1"),
        scaled(["block.attn_mask", "unsqueeze", "val_24"]),
    ],
)
def test_what_is_no_parameter_with_new_axes_stays(model: onnx.ModelProto) -> None:
    assert not any(name.startswith(("block.", "ones")) for name in normal_form(model).graph.initializers)


QUERIES = "g (int64[3] n) => (float[a, b, c] y) { y = Tile(val_7, n) }"
REPEAT = (
    "%repeat : [num_users=1] = call_function[target=torch.ops.aten.repeat.default]"
    "(args = (%unsqueeze_3, [1, %n, 1]), kwargs = {})"
)
NEW_AXIS = ["pos.weight", "unsqueeze_3", "val_1"]


@pytest.mark.parametrize(("shape", "axis"), [((4, 1, 5), 1), ((1, 4, 5), 0)])
def test_learned_queries_that_are_repeated(shape: tuple[int, ...], axis: int) -> None:
    model = folded(QUERIES, "val_7", NEW_AXIS, REPEAT, shape)
    lifted = onnxlift.lift(model)
    assert f"self.pos.weight.unsqueeze({axis})" in lifted.source
    assert [(name, tuple(p.shape)) for name, p in lifted.module().named_parameters()] == [("pos.weight", (4, 5))]
    times = np.array([1, 3, 2])
    np.testing.assert_array_equal(lifted.module()(torch.from_numpy(times)).detach(), run(model, {"n": times})[0])


@pytest.mark.parametrize(
    ("sources", "operation", "shape"),
    [
        (NEW_AXIS, REPEAT, (1, 1, 5)),  # one of the axes may be the parameter's own, or that of repeat
        (["pos.weight", "val_1"], REPEAT, (1, 4, 5)),
        (["pos.weight", "exp", "unsqueeze_3"], REPEAT, (4, 1, 5)),
        (["pos.weight", "other.weight", "unsqueeze_3"], REPEAT, (4, 1, 5)),
        (["pos.weight", "unsqueeze_4"], REPEAT, (4, 1, 5)),  # it is another one that is repeated
        (NEW_AXIS, REPEAT.replace("repeat.default", "tile.default"), (4, 1, 5)),
        (NEW_AXIS, REPEAT.replace("%unsqueeze_3", "%permute_3"), (4, 1, 5)),
    ],
)
def test_what_may_have_had_another_shape_keeps_its_name(
    sources: list[str], operation: str, shape: tuple[int, ...]
) -> None:
    assert not renamed(folded(QUERIES, "val_7", sources, operation, shape))
