"""What the original does not keep in its state dict, the lifted module does not either; so checkpoints fit both."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper, parser
from torch import Tensor, nn

import onnxlift
from models.network import BATCH, EXPORTERS, Exporter, Network, floats
from onnxlift.ir.origin.metadata import FOLDED_FROM, PERSISTENT, SIGNATURE, SIGNATURE_KIND

RANDOM = np.random.default_rng(7)


class Rotary(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("inv_freq", torch.rand(5), persistent=False)
        self.register_buffer("offset", torch.rand(5))

    def forward(self, x: Tensor) -> Tensor:
        return (x * self.inv_freq).cos() + self.offset


class Rotated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rotary = Rotary()
        self.fc = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.rotary(x))


def network(build: Callable[[], nn.Module]) -> Network:
    return Network("small", build, floats(5), {"x": BATCH}, "y", trained=False)


def test_a_checkpoint_of_the_original_loads_and_one_of_the_lifted_module_loads_there() -> None:
    exported = network(Rotated)
    original, other = exported.module(), Rotated()
    x = torch.randn(4, 5)
    lifted = onnxlift.lift(exported.export("dynamo"))
    assert [*lifted.constants] == ["rotary.inv_freq"]
    module = lifted.module()
    torch.testing.assert_close(module(x), original(x))
    module.load_state_dict(other.state_dict(), strict=True)
    other.rotary.inv_freq = original.rotary.inv_freq
    torch.testing.assert_close(module(x), other(x))
    other.load_state_dict(lifted.module().state_dict(), strict=True)
    torch.testing.assert_close(other(x), original(x))


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_what_the_exporter_computed_is_no_part_of_the_state(exporter: Exporter) -> None:
    class Table(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(5, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.fc(x + torch.tensor([[1.5, -2.0, 0.25, 9.0, 4.0]]))

    lifted = onnxlift.lift(network(Table).export(exporter))
    assert lifted.state_dict.keys() == Table().state_dict().keys()
    assert len(lifted.constants) == 1


def model(constant: str, metadata: dict[str, str] | None = None, weight: str = "fc.weight") -> onnx.ModelProto:
    nodes = [
        helper.make_node("Add", ["x", constant], ["s"]),
        helper.make_node("Cos", ["s"], ["c"]),
        helper.make_node("Gemm", ["c", weight], ["y"], transB=1),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", size]) for name, size in (("x", 4), ("y", 3))]
    graph = helper.make_graph(nodes, "tiny", ends[:1], ends[1:])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    for name, shape in {constant: (4,), weight: (3, 4)}.items():
        array = RANDOM.standard_normal(shape).astype(np.float32)
        proto.graph.initializer.append(numpy_helper.from_array(array, name))
    info = proto.graph.value_info.add(name=constant)
    for key, value in (metadata or {}).items():
        info.metadata_props.add(key=key, value=value)
    return proto


BUFFER = {SIGNATURE_KIND: "BUFFER"}


@pytest.mark.parametrize(
    ("proto", "constants"),
    [
        (model("rope.table", BUFFER | {PERSISTENT: "False"}), ["table"]),
        (model("rope.table", BUFFER | {PERSISTENT: "True"}), []),
        (model("val_7", BUFFER | {PERSISTENT: "True"}), []),
        (model("rope.table", BUFFER | {PERSISTENT: "perhaps"}), []),
        (model("val_7"), ["bias"]),
        (model("rope.table"), []),
        (model("ge", BUFFER | {FOLDED_FROM: "['cumsum']"}), ["bias"]),  # the name is that of an operation
        (model("val_7", weight="val_8"), []),  # nothing has a name: there is no original to agree with
    ],
    ids=["told", "told otherwise", "told of a made-up name", "told nonsense", "made up", "named", "folded", "nameless"],
)
def test_which_buffers_are_constants(proto: onnx.ModelProto, constants: list[str]) -> None:
    lifted = onnxlift.lift(proto)
    assert [key.rpartition(".")[2] for key in lifted.constants] == constants
    assert lifted.source.count("persistent=False") == 2 * len(constants)  # where it is made, and in `load`


@pytest.mark.parametrize(
    ("listed", "constants"),
    [("bias' persistent=True", []), ("bias' persistent=False", ["bias"]), ("other' persistent=True", ["bias"])],
)
def test_buffers_that_the_exporter_lists_as_persistent(listed: str, constants: list[str]) -> None:
    proto = model("val_7")  # a bias, by its use
    proto.graph.metadata_props.add(key=SIGNATURE, value=f"\n# inputs\nb_0: BUFFER target='{listed}\nx: USER_INPUT\n")
    assert [*onnxlift.lift(proto).constants] == constants


def test_integer_weights_belong_to_the_state() -> None:
    proto = parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 17]> q (uint8[n, 4] x, float[n, 3] z) => (int32[n, 5] y, float[n, 2] w) '
        "{ y = MatMulInteger(x, val_3) w = MatMul(z, head_weight) }"
    )
    proto.graph.initializer.append(numpy_helper.from_array(RANDOM.integers(-9, 9, (4, 5)).astype(np.int8), "val_3"))
    proto.graph.initializer.append(numpy_helper.from_array(RANDOM.random((3, 2)).astype(np.float32), "head_weight"))
    lifted = onnxlift.lift(proto)
    assert not lifted.constants and len(lifted.state_dict) == 2


@pytest.mark.parametrize("shard", ["5GB", "20B"])
def test_saved_constants_come_back_also_with_other_weights(shard: str, tmp_path: Path) -> None:
    proto = model("rope.table", BUFFER | {PERSISTENT: "False"})
    paths = onnxlift.lift(proto, name="tiny", max_shard_size=shard).save(tmp_path)
    assert "tiny.constants.safetensors" in [path.name for path in paths]
    x = RANDOM.standard_normal((3, 4)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    code = (
        "import numpy as np, torch, tiny\n"
        "from safetensors.torch import save_file\n"
        "model = tiny.load()\n"
        "save_file({k: 2 * v for k, v in model.state_dict().items()}, 'doubled.safetensors')\n"
        "x = torch.from_numpy(np.load('x.npy'))\n"
        "np.save('y.npy', model(x).detach())\n"
    )
    if shard == "5GB":
        code += "np.save('twice.npy', tiny.load('doubled.safetensors')(x).detach())\n"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    (expected,) = session.run(None, {"x": x})
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), expected, rtol=1e-5, atol=1e-6)
    if shard == "5GB":
        np.testing.assert_allclose(np.load(tmp_path / "twice.npy"), 2 * expected, rtol=1e-5, atol=1e-6)


def test_force_takes_constants_of_an_earlier_save_away(tmp_path: Path) -> None:
    onnxlift.lift(model("rope.table", BUFFER | {PERSISTENT: "False"}), name="tiny").save(tmp_path)
    onnxlift.lift(model("rope.table"), name="tiny").save(tmp_path, force=True)
    assert "tiny.constants.safetensors" not in [path.name for path in tmp_path.iterdir()]
