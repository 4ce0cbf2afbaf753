"""Trained weights go back into the file that was lifted, and nothing else of it changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import numpy_helper
from torch import nn

import onnxlift
from onnxlift.workbench.update.checking import WeightsError
from onnxlift.workbench.update.verb import UpdateError, UpdateReport

from . import models

MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "linear": models.linear,
    "merged": models.merged,
    "recurrent": models.recurrent,
    "constants": models.constants,
    "branches": models.branches,
    "fused": models.fused,
    "norms": models.norms,
}


def trained(module: nn.Module) -> nn.Module:
    """The module with other weights: parameters, and the statistics of norms."""
    random = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for tensor in (*module.parameters(), *module.buffers()):
            if tensor.is_floating_point():
                tensor.add_(torch.rand(tensor.shape, generator=random).to(tensor) * 0.5)
    return module


def inputs_of(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    random = np.random.default_rng(1)
    found: dict[str, np.ndarray] = {}
    for value in model.graph.input:
        shape = [size.dim_value or 2 for size in value.type.tensor_type.shape.dim]
        is_flag = value.type.tensor_type.elem_type == onnx.TensorProto.BOOL
        dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        found[value.name] = np.array(True) if is_flag else random.standard_normal(shape).astype(dtype)
    return found


def run(model: bytes | Path, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        model if isinstance(model, bytes) else str(model), options, providers=["CPUExecutionProvider"]
    )
    found: list[np.ndarray] = session.run(None, inputs)
    return found


def assert_updated(model: onnx.ModelProto, module: nn.Module, file: bytes | Path, **tolerance: float) -> None:
    """ONNX Runtime computes with the file what the module does, which is not what it computes with the original."""
    inputs = inputs_of(model)
    with torch.no_grad():
        expected = module(*(torch.from_numpy(np.asarray(array)) for array in inputs.values()))
    (found,) = run(file, inputs)
    np.testing.assert_allclose(found, expected.numpy(), **(tolerance or {"rtol": 1e-4, "atol": 1e-5}))
    assert not np.allclose(run(model.SerializeToString(), inputs)[0], expected.numpy(), rtol=1e-2)


def without_numbers(model: onnx.ModelProto) -> onnx.ModelProto:
    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    for tensor in bare.graph.initializer:
        for field in ("raw_data", "float_data", "external_data", "data_location"):
            tensor.ClearField(field)
    return bare


@pytest.mark.parametrize("name", MODELS)
def test_the_file_computes_what_the_trained_module_does(name: str) -> None:
    model = MODELS[name]()
    lifted = onnxlift.lift(model)
    assert lifted.update(lifted.module(), verify=False).to_bytes() == model.SerializeToString()
    module = trained(lifted.module())
    report = lifted.update(module, verify=False)
    assert report.passed and len(report.weights) == report.total > 0
    assert_updated(model, module, report.to_bytes())
    state = onnxlift.lift(report).state_dict  # a report is a model for the next verb
    expected = module.state_dict()
    assert {key: array.tolist() for key, array in state.items()} == {key: expected[key].tolist() for key in state}


def test_all_but_numbers_stays() -> None:
    model = models.linear()
    model.graph.doc_string, model.graph.node[0].doc_string = "what it is", "the first"
    report = onnxlift.update(model, trained(onnxlift.convert(model)), verify=False)
    assert without_numbers(report.proto()) == without_numbers(model)


def test_only_what_was_trained_changes() -> None:
    model = models.linear()
    module = onnxlift.convert(model)
    with torch.no_grad():
        module.fc1.weight[2, 1] = 7.0
    report = onnxlift.update(model, module, verify=False)
    assert (report.weights, report.tensors, report.added) == (("fc1.weight",), ("fc1.weight",), ())
    old, new = (
        {tensor.name: numpy_helper.to_array(tensor) for tensor in each.graph.initializer}
        for each in (model, report.proto())
    )
    assert np.argwhere(old["fc1.weight"] != new["fc1.weight"]).tolist() == [[1, 2]]  # ONNX has it transposed
    assert all(np.array_equal(old[name], new[name]) for name in old if name != "fc1.weight")


def test_weights_that_were_stored_once_become_several() -> None:
    model = models.merged()
    module = onnxlift.convert(model)
    with torch.no_grad():
        module.conv1.bias.fill_(1), module.conv2.bias.fill_(2)
    report = onnxlift.update(model, module, verify=False)
    assert len(report.added) == 1
    graph = report.proto().graph
    held = {tensor.name: numpy_helper.to_array(tensor)[0] for tensor in graph.initializer}
    assert [held[node.input[2]] for node in graph.node if node.op_type == "Conv"] == [1, 2]
    assert_updated(model, module, report.to_bytes())
    onnx.checker.check_model(report.proto(), full_check=True)


def test_a_list_of_numbers_stays_one() -> None:
    model = models.constants()
    report = onnxlift.update(model, trained(onnxlift.convert(model)), verify=False)
    tensors = [node.attribute[0].t for node in report.proto().graph.node if node.op_type == "Constant"]
    assert [(bool(tensor.float_data), bool(tensor.raw_data)) for tensor in tensors] == [(False, True), (True, False)]


def exported(module: nn.Module, *inputs: torch.Tensor, dynamo: bool, path: Path) -> Path:
    options: dict[str, Any] = {"verbose": False, "external_data": False} if dynamo else {}
    torch.onnx.export(module.eval(), inputs, path, dynamo=dynamo, input_names=["x"], **options)
    return path


class Untrained(nn.Module):
    """Layers as they are before training: zeros and ones, of which exporters store equal ones once, or none at all."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)
        self.norm1, self.norm2 = nn.LayerNorm(8), nn.LayerNorm(8)
        self.conv = nn.Conv1d(3, 3, 1)
        for layer in (self.first, self.second, self.conv):
            nn.init.zeros_(layer.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(self.norm2(self.second(self.norm1(self.first(x)).relu())))


@pytest.mark.parametrize("dynamo", [False, True], ids=["script", "dynamo"])
def test_weights_of_an_untrained_module_part(dynamo: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    path = exported(Untrained(), torch.randn(2, 3, 8), dynamo=dynamo, path=tmp_path / "m.onnx")
    lifted = onnxlift.lift(path)
    module = trained(lifted.module())
    report = lifted.update(module, verify=False)
    assert len(report.added) >= 4
    assert_updated(onnx.load(path), module, report.to_bytes())
    assert set(onnxlift.lift(report).state_dict) == set(lifted.state_dict)


def external(model: onnx.ModelProto, folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    copy = onnx.load_from_string(model.SerializeToString())  # saving it takes the numbers out of it
    onnx.save(copy, folder / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    return folder / "m.onnx"


def test_external_data_stays_external(tmp_path: Path) -> None:
    model = models.linear()
    path = external(model, tmp_path)
    lifted = onnxlift.lift(path)
    module = trained(lifted.module())
    written = lifted.update(module, verify=False).save(tmp_path / "tuned.onnx")
    assert [file.name for file in written] == ["tuned.onnx", "tuned.onnx.data"]
    assert_updated(model, module, written[0])
    assert onnxlift.update(written[0], module).weights == ()
    single = lifted.update(module, verify=False).save(tmp_path / "one.onnx", external_data="never")
    assert single == [tmp_path / "one.onnx"]
    assert_updated(model, module, single[0].read_bytes())


def test_unchanged_external_data_is_copied_byte_for_byte(tmp_path: Path) -> None:
    path = external(models.linear(), tmp_path / "in")
    report = onnxlift.update(path, onnxlift.convert(path))
    assert report.passed and report.tensors == ()
    for file in report.save(tmp_path / "out" / "m.onnx"):
        assert file.read_bytes() == (tmp_path / "in" / file.name).read_bytes()
    beside = report.save(tmp_path / "in" / "copy.onnx")  # the original's data must not be replaced
    assert onnxlift.update(beside[0], onnxlift.convert(path)).weights == ()


def test_a_file_in_half_precision_takes_weights_that_were_trained_in_full() -> None:
    model = models.model(
        "y = Gemm <transB = 1> (x, fc_weight, fc_bias)",
        {"fc.weight": models.normal(3, 4).astype(np.float16), "fc.bias": models.normal(3).astype(np.float16)},
        "float16[n, 4] x",
        "float16[n, 3] y",
    )
    lifted = onnxlift.lift(model, dtype="float32")
    assert lifted.update(lifted.module(), verify=False).to_bytes() == model.SerializeToString()
    module = trained(lifted.module())
    report = lifted.update(module, verify=False)
    tensors = {tensor.name: numpy_helper.to_array(tensor) for tensor in report.proto().graph.initializer}
    np.testing.assert_array_equal(tensors["fc.weight"], module.fc.weight.detach().half().numpy())
    with pytest.raises(WeightsError, match=r"other types: 'fc\.weight' is float32, in the model float16"):
        onnxlift.update(model, module)


def test_options_of_the_lift_are_kept() -> None:
    model = models.linear()
    lifted = onnxlift.lift(model, structure="flat")
    module = trained(lifted.module())
    assert_updated(model, module, lifted.update(module, verify=False).to_bytes())


def test_tied_weights_may_be_given_once() -> None:
    table = models.normal(7, 4)
    model = models.model(
        "a = Gather(embed_weight, x) b = Relu(a) t = Transpose <perm = [1, 0]> (embed_weight) y = MatMul(b, t)",
        {"embed.weight": table},
        "int64[n] x",
        "float[n, 7] y",
    )
    lifted = onnxlift.lift(model)
    module = trained(lifted.module())
    state = {key: tensor for key, tensor in module.state_dict().items() if key == "embed.weight"}
    report = lifted.update(state, verify=False)
    assert report.tensors == ("embed.weight",)
    ids = np.array([1, 5])
    with torch.no_grad():
        expected = module(torch.from_numpy(ids)).numpy()
    np.testing.assert_allclose(run(report.to_bytes(), {"x": ids})[0], expected, rtol=1e-4, atol=1e-5)


def test_weights_of_another_model_are_told_in_one_message() -> None:
    model = models.linear()
    state = {key: np.array(value) for key, value in onnxlift.lift(model).state_dict.items()}
    del state["fc1.bias"]
    state["fc2.weight"], state["fc2.bias"] = state["fc2.weight"].T, state["fc2.bias"].astype(np.float64)
    state["head.weight"] = np.zeros(3)
    with pytest.raises(WeightsError) as caught:
        onnxlift.update(model, state)
    for text in (
        "missing: fc1.bias",
        "not in the model: head.weight",
        "'fc2.weight' is [5, 3], in the model [3, 5]",
        "'fc2.bias' is float64, in the model float32",
    ):
        assert text in str(caught.value)


def test_what_has_no_place_is_named_and_the_rest_can_be_trained() -> None:
    model = models.quantised()
    module = onnxlift.convert(model)
    with torch.no_grad():
        module.conv.weight.add_(1)
    assert onnxlift.update(model, module, verify=False).tensors == ("conv.weight",)
    with torch.no_grad():
        module.conv.bias.add_(1)
    with pytest.raises(UpdateError, match=r"1 of the weights cannot be put back.* conv\.bias: .*multiply.*--reexport"):
        onnxlift.update(model, module)


def test_what_has_no_place_can_be_exported_anew() -> None:
    model = models.quantised()
    module = trained(onnxlift.convert(model))
    report = onnxlift.update(model, module, reexport=True, timeout=600)
    assert isinstance(report, UpdateReport) and report.reexported and report.passed, str(report)
    assert "the graph is another one" in str(report)
    assert [value.name for value in report.proto().graph.input] == ["x"]
    assert_updated(model, module, report.to_bytes())


def test_a_function_that_is_called_twice_cannot_have_two_weights() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["" : 20, "own" : 1]> g (float[n, 4] x) => (float[n, 4] y) '
        "{ a = own.Scale(x) b = Relu(a) y = own.Scale(b) } "
        '<domain: "own", opset_import: ["" : 20]> Scale (x) => (y) '
        "{ w = Constant <value = float[4] {1.5, 2.5, 3.5, 4.5}> () y = Mul(x, w) }"
    )
    lifted = onnxlift.lift(model)
    same = lifted.update(lifted.state_dict, verify=False)
    assert same.to_bytes() == model.SerializeToString()
    one, other = lifted.state_dict
    both = {one: lifted.state_dict[one] + 1, other: lifted.state_dict[other] + 1}
    assert lifted.update(both).passed
    report = lifted.update({**both, other: lifted.state_dict[other]})
    assert not report.passed and other in report.lost


def test_a_result_that_does_not_lift_to_the_weights_has_not_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proof must be able to fail: here the new numbers are not put where they belong."""
    from onnxlift.workbench.update import solving

    monkeypatch.setattr(solving, "assembled", lambda target, parts: target.plain() * np.float32(2))
    model = models.linear()
    report = onnxlift.update(model, trained(onnxlift.convert(model)), timeout=600)
    assert not report.passed and "lifts to other numbers for fc1" in report.lost
    assert report.verification is not None and not report.verification.passed
