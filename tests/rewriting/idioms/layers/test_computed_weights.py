"""Layers that compute their weight: weight norm and spectral norm, of both kinds, as both exporters write them."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import nn
from torch.nn import utils

import onnxlift
from rewriting.idioms.recognising import assert_same_numbers, parse

OLD = ("fc.weight_g", "fc.weight_v")
NEW = ("fc.parametrizations.weight.original0", "fc.parametrizations.weight.original1")
SPECTRAL = ("fc.weight_orig", "fc.weight_u", "fc.weight_v")
V = '"fc.weight_v"'
WEIGHT = """n = ReduceL2 <keepdims = 1> ("fc.weight_v", axes) d = Div("fc.weight_v", n) w = Mul(d, "fc.weight_g")"""
LINEAR = """y = Gemm <transB = 1> (x, w, "fc.bias")"""
SINGULAR = """p = MatMul("fc.weight_orig", "fc.weight_v") s = MatMul("fc.weight_u", p) w = Div("fc.weight_orig", s)"""


def normed(
    weight: str = WEIGHT,
    layer: str = LINEAR,
    g: object = (4, 1),
    axes: tuple[int, ...] = (1,),
    names: tuple[str, str] = OLD,
    outputs: str = "float[batch, 4] y",
) -> onnx.ModelProto:
    """A linear layer from 6 to 4 features with this weight."""
    text = f"{weight} {layer}".replace(OLD[0], names[0]).replace(OLD[1], names[1])
    given = {"fc.bias": (4,), "axes": np.array(axes), names[0]: g, names[1]: (4, 6)}
    return parse(f"g (float[batch, 6] x) => ({outputs}) {{ {text} }}", **given)


def written(model: onnx.ModelProto) -> str:
    """The line that makes the layer, of a model whose numbers are right."""
    assert_same_numbers(model)
    lines = [line.strip() for line in onnxlift.lift(model).source.splitlines()]
    return next((line for line in lines if line.startswith("self.fc = ")), "")


@pytest.mark.parametrize(
    "weight",
    [
        WEIGHT,
        WEIGHT.replace("Mul(d, ", "Mul(").replace('_g")', '_g", d)'),
        f'n = ReduceL2 ({V}, axes) d = Div("fc.weight_g", n) w = Mul({V}, d)',
    ],
)
def test_weight_norm_in_any_order(weight: str) -> None:
    assert written(normed(weight)) == "self.fc = nn.utils.weight_norm(nn.Linear(6, 4))"


def test_the_names_say_which_function() -> None:
    model = normed(names=NEW)
    assert written(model) == "self.fc = nn.utils.parametrizations.weight_norm(nn.Linear(6, 4))"
    assert sorted(onnxlift.lift(model).state_dict) == ["fc.bias", *NEW]


def test_a_product_with_the_transpose() -> None:
    layer = "t = Transpose <perm = [1, 0]> (w) y = MatMul(x, t)"
    assert written(normed(layer=layer)) == "self.fc = nn.utils.weight_norm(nn.Linear(6, 4, bias=False))"


@pytest.mark.parametrize("axes", [(0,), (-2,)])
def test_another_axis(axes: tuple[int, ...]) -> None:
    assert written(normed(g=(1, 6), axes=axes)) == "self.fc = nn.utils.weight_norm(nn.Linear(6, 4), dim=1)"


@pytest.mark.parametrize("flat", [False, True])
def test_one_length_for_all(flat: bool) -> None:
    norm = f"f = Reshape({V}, axes) n = ReduceL2 <keepdims = 0> (f)" if flat else f"n = ReduceL2({V})"
    weight = f'{norm} d = Div({V}, n) w = Mul(d, "fc.weight_g")'
    assert written(normed(weight, g=1.5, axes=(-1,))) == "self.fc = nn.utils.weight_norm(nn.Linear(6, 4), dim=None)"


@pytest.mark.parametrize(
    "change",
    [
        {"g": (1, 6)},  # lengths along one axis, factors along the other
        {"g": 1.5},
        {"g": (1, 1), "axes": (0, 1)},  # dim=None has a length without axes
        {"names": ("fc.scale", "fc.weight_v")},
        {"names": ("other.weight_g", "fc.weight_v")},
        {"names": ("fc.weight_g", "fc.parametrizations.weight.original1")},
        {"weight": WEIGHT.replace("ReduceL2", "ReduceL1")},
        {"weight": f"e = Exp({V}) {WEIGHT.replace(f'({V}, axes', '(e, axes')}"},
        {"layer": LINEAR.replace("transB = 1", "transB = 1, alpha = 2.0")},
        {"layer": f"{LINEAR.replace('y =', 'z =')} r = ReduceSum <keepdims = 0> (w) y = Mul(z, r)"},
        {"layer": f"{LINEAR} l = Identity(n)", "outputs": "float[batch, 4] y, float[4, 1] l"},
        {"layer": f"{LINEAR} l = Identity(d)", "outputs": "float[batch, 4] y, float[4, 6] l"},
        {"layer": f"{LINEAR} l = Identity(w)", "outputs": "float[batch, 4] y, float[4, 6] l"},
    ],
)
def test_what_is_no_weight_norm(change: dict[str, object]) -> None:
    model = normed(**change)
    assert_same_numbers(model)
    assert "weight_norm" not in onnxlift.lift(model).source


def test_a_norm_of_no_axes_is_none() -> None:
    weight = f'n = ReduceL2 <noop_with_empty_axes = 1> ({V}) d = Div({V}, n) w = Mul(d, "fc.weight_g")'
    model = normed(weight, g=1.5)
    assert "weight_norm" not in onnxlift.lift(model).source


def test_lengths_of_rows_that_divide_columns() -> None:
    weight = f'n = ReduceL2 <keepdims = 0> ({V}, axes) d = Div({V}, n) w = Mul(d, "fc.weight_g")'
    parts = {"fc.bias": (6,), "axes": np.array([1]), "fc.weight_g": (6, 1), "fc.weight_v": (6, 6)}
    model = parse(f"g (float[batch, 6] x) => (float[batch, 6] y) {{ {weight} {LINEAR} }}", **parts)
    assert_same_numbers(model)
    assert "weight_norm" not in onnxlift.lift(model).source


MIDDLE = f"""t = Transpose <perm = [1, 0, 2]> ({V}) m = Reshape(t, rows) n = ReduceL2 <keepdims = 0> (m, axes)
    r = Reshape(n, column) l = Transpose <perm = [1, 0, 2]> (r) d = Div("fc.weight_g", l) w = Mul({V}, d)"""


def turned(weight: str = MIDDLE, **changed: object) -> onnx.ModelProto:
    """A transposed convolution from 4 to 4 channels, whose weight has a norm for each channel that comes out."""
    given = {"fc.weight_v": (4, 4, 3), "fc.weight_g": (1, 4, 1)} | changed
    shapes = {"rows": np.array([4, 12]), "column": np.array([4, 1, 1]), "axes": np.array([1])}
    return parse(
        f"g (float[batch, 4, 9] x) => (float[batch, 4, 11] y) {{ {weight} y = ConvTranspose(x, w) }}",
        **given | {k: v for k, v in shapes.items() if k in weight and k not in given},
    )


def test_lengths_along_an_axis_in_the_middle() -> None:
    expected = "self.fc = nn.utils.weight_norm(nn.ConvTranspose1d(4, 4, 3, bias=False), dim=1)"
    assert written(turned()) == expected


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("l = Transpose <perm = [1, 0, 2]> (r)", "l = Identity(r)"),  # lengths of columns that divide rows
        ("t = Transpose <perm = [1, 0, 2]>", "t = Identity"),
        ("t = Transpose <perm = [1, 0, 2]>", "t = Transpose <perm = [2, 0, 1]>"),  # rows are no channels
        (f"({V}) m", "(e) m"),
        ("n = ReduceL2 <keepdims = 0> (m, axes)", "n = ReduceL1 <keepdims = 0> (m, axes)"),
        ("w = Mul", "y2 = Identity(n) w = Mul"),
    ],
)
def test_what_is_no_length_along_an_axis(old: str, new: str) -> None:
    assert old in MIDDLE
    weight = MIDDLE.replace(old, new)
    weight = f"e = Exp({V}) {weight}" if "(e)" in weight else weight
    model = turned(weight)
    if "y2" in weight:
        model.graph.output.append(onnx.helper.make_tensor_value_info("y2", onnx.TensorProto.FLOAT, [4]))
    assert_same_numbers(model)
    assert "weight_norm" not in onnxlift.lift(model).source


def singular(text: str = f"{SINGULAR} {LINEAR}", **changed: object) -> onnx.ModelProto:
    """A linear layer from 6 to 4 features whose weight is divided by a singular value."""
    given = {"fc.bias": (4,), "fc.weight_orig": (4, 6), "fc.weight_u": (4,), "fc.weight_v": (6,)} | changed
    return parse(f"g (float[batch, 6] x) => (float[batch, 4] y) {{ {text} }}", **given)


def test_spectral_norm() -> None:
    assert written(singular()) == "self.fc = nn.utils.spectral_norm(nn.Linear(6, 4))"


def test_the_singular_value_by_another_axis() -> None:
    text = SINGULAR.replace('MatMul("fc.weight_orig",', "MatMul(t,").replace(
        "p =", 't = Transpose <perm = [1, 0]> ("fc.weight_orig") p ='
    )
    model = singular(f"{text} {LINEAR}", **{"fc.weight_u": (6,), "fc.weight_v": (4,)})
    assert written(model) == "self.fc = nn.utils.spectral_norm(nn.Linear(6, 4), dim=1)"


def test_a_matrix_that_the_exporter_folded() -> None:
    kernel = np.random.default_rng(1).standard_normal((4, 3, 2)).astype(np.float32)
    text = SINGULAR.replace('p = MatMul("fc.weight_orig",', "p = MatMul(folded,")

    def model(matrix: np.ndarray) -> onnx.ModelProto:
        parts = {"fc.weight_orig": kernel, "fc.weight_u": (4,), "fc.weight_v": (6,), "folded": matrix}
        return parse(f"g (float[batch, 3, 9] x) => (float[batch, 4, 8] y) {{ {text} y = Conv(x, w) }}", **parts)

    assert written(model(kernel.reshape(4, 6))) == "self.fc = nn.utils.spectral_norm(nn.Conv1d(3, 4, 2, bias=False))"
    assert "spectral_norm" not in written(model(kernel.reshape(4, 6)[::-1].copy()))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('MatMul("fc.weight_u", p)', 'MatMul("fc.weight_u", q)'),
        ('Div("fc.weight_orig", s)', 'Mul("fc.weight_orig", s)'),
        ('Div("fc.weight_orig", s)', "Div(e, s)"),
        ("(x, w,", "(z, w,"),
    ],
)
def test_what_is_no_spectral_norm(old: str, new: str) -> None:
    text = SINGULAR.replace("s =", 'q = Exp(p) e = Exp("fc.weight_orig") s =') + f" z = Mul(x, s) {LINEAR}"
    model = singular(text.replace(old, new))
    assert_same_numbers(model)
    assert "spectral_norm" not in onnxlift.lift(model).source


def test_other_names_are_no_spectral_norm() -> None:
    text = f"{SINGULAR} {LINEAR}".replace("fc.weight_u", "fc.left")
    given = {"fc.bias": (4,), "fc.weight_orig": (4, 6), "fc.left": (4,), "fc.weight_v": (6,)}
    model = parse(f"g (float[batch, 6] x) => (float[batch, 4] y) {{ {text} }}", **given)
    assert "spectral_norm" not in onnxlift.lift(model).source


def test_vectors_whose_copies_were_folded() -> None:
    """They have names of no module, but those of their matrix say which they were."""

    def model(u: str, shape: tuple[int, ...] = (4,)) -> onnx.ModelProto:
        names = {"fc.weight_orig": "fc.parametrizations.weight.original", "fc.weight_u": u, "fc.weight_v": "clone_2"}
        text = SINGULAR
        for old, new in names.items():
            text = text.replace(old, new)
        parts = {"fc.bias": (4,), "fc.parametrizations.weight.original": (4, 6), u: shape, "clone_2": (6,)}
        return parse(f"g (float[batch, 6] x) => (float[batch, 4] y) {{ {text} {LINEAR} }}", **parts)

    assert written(model("clone_1")) == "self.fc = nn.utils.parametrizations.spectral_norm(nn.Linear(6, 4))"
    keys = [f"fc.parametrizations.weight.{key}" for key in ("0._u", "0._v", "original")]
    assert sorted(onnxlift.lift(model("clone_1")).state_dict) == ["fc.bias", *keys]
    assert "spectral_norm" not in onnxlift.lift(model("gc.parametrizations.weight.0._u")).source
    assert "spectral_norm" not in onnxlift.lift(model("clone_1", (1, 4))).source


class Vocoder(nn.Module):
    """As those that make speech have it: convolutions up to the rate of the samples, all with a norm."""

    def __init__(self, norm: Callable[[nn.Module], nn.Module]) -> None:
        super().__init__()
        self.pre = norm(nn.Conv1d(5, 8, 7, padding=3))
        self.ups = nn.ModuleList([norm(nn.ConvTranspose1d(8, 4, 4, 2, 1)), norm(nn.ConvTranspose1d(4, 2, 4, 2, 1))])
        self.post = norm(nn.Conv1d(2, 1, 7, padding=3, bias=False))
        self.out = norm(nn.Linear(48, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pre(x)
        for up in self.ups:
            x = up(nn.functional.leaky_relu(x, 0.1))
        return self.out(self.post(nn.functional.leaky_relu(x)).tanh())


NORMS = {
    "weight_norm": utils.weight_norm,
    "parametrizations.weight_norm": utils.parametrizations.weight_norm,
    "spectral_norm": utils.spectral_norm,
    "parametrizations.spectral_norm": utils.parametrizations.spectral_norm,
}


def exported(module: nn.Module, x: torch.Tensor, exporter: str) -> bytes:
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if exporter == "dynamo":
            program = torch.onnx.export(module, (x,), dynamo=True, optimize=False, verbose=False)
            assert program is not None
            return program.model_proto.SerializeToString()
        torch.onnx.export(module, (x,), buffer, dynamo=False, do_constant_folding=exporter == "folding")
    return buffer.getvalue()


CASES = [(name, exporter) for name in NORMS for exporter in ("dynamo", "script", "folding")]
NO_VDOT = "parametrizations.spectral_norm"  # calls what torch's older exporter does not know


@pytest.mark.parametrize(("name", "exporter"), [case for case in CASES if case[0] != NO_VDOT or case[1] == "dynamo"])
def test_checkpoints_and_gradients_are_the_originals(name: str, exporter: str) -> None:
    torch.manual_seed(3)
    original, x = Vocoder(NORMS[name]).eval(), torch.randn(2, 5, 12)
    for parameter in original.parameters():  # away from where the norm leaves everything as it is
        parameter.data += 0.1 * torch.rand_like(parameter)
    proto = exported(original, x, exporter)
    module = onnxlift.lift(proto).module()
    mine, theirs = module.state_dict(), original.state_dict()
    assert mine.keys() == theirs.keys()
    assert all(torch.equal(mine[key], theirs[key]) for key in mine)
    module.load_state_dict(theirs, strict=True)
    original.load_state_dict(mine, strict=True)
    session = onnxruntime.InferenceSession(proto, providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    result = module(x)
    np.testing.assert_allclose(result.detach().numpy(), expected, rtol=1e-4, atol=1e-5)
    result.square().sum().backward()
    original(x).square().sum().backward()
    gradients = {key: parameter.grad for key, parameter in module.named_parameters()}
    for key, parameter in original.named_parameters():
        torch.testing.assert_close(gradients[key], parameter.grad)
