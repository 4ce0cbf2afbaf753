"""Local response normalisation, and what differs from it in one place."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from rewriting.idioms.recognising import Data, found, parse

POOL = "AveragePool <kernel_shape = [3, 1, 1]>"
NORM = f"""s = Mul(x, x) u = Unsqueeze(s, axis) d = Pad(u, pads) p = {POOL} (d)
    q = Squeeze(p, axis) m = Mul(q, alpha) k = Add(m, two) w = Pow(k, beta) y = Div(x, w)"""
SHAPE = "batch, 5, 6, 7"


def model(body: str = NORM, shape: str = SHAPE, outputs: str = "", opset: int = 18, **changed: Data) -> onnx.ModelProto:
    known: dict[str, Data] = {"axis": np.array([1]), "pads": np.array([0, 0, 1, 0, 0, 0, 0, 1, 0, 0])}
    known |= {"alpha": 0.5, "two": 2.0, "beta": 0.7, "nothing": 0.0} | changed
    used = {name: value for name, value in known.items() if f" {name})" in body or f" {name}," in body}
    y = outputs or f"float[{shape}] y"
    return parse(f"g (float[{shape}] x) => ({y}) {{ {body} }}", opset, **used)


@pytest.mark.parametrize("pad", ["Pad(u, pads)", "Pad(u, pads, nothing)", 'Pad <mode = "constant"> (u, pads)'])
def test_the_layer(pad: str) -> None:
    assert found(model(NORM.replace("Pad(u, pads)", pad))) == ["LRN"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("s = Mul(x, x)", "a = Abs(x) s = Mul(x, a)"),
        ("s = Mul(x, x)", "a = Abs(x) s = Mul(a, x)"),
        ("Pad(", 'Pad <mode = "edge"> ('),
        ("Pad(u, pads)", "Pad(u, pads, two)"),
        ("[3, 1, 1]", "[3, 3, 1], pads = [0, 1, 0, 0, 1, 0]"),
        ("[3, 1, 1]", "[5, 1, 1], pads = [1, 0, 0, 1, 0, 0]"),
        ("Div(x, w)", "Div(w, x)"),
    ],
    ids=[
        "other second factor",
        "other first factor",
        "the edge",
        "no zeros",
        "rows too",
        "pads that do not count",
        "upside down",
    ],
)
def test_other_averages_stay(old: str, new: str) -> None:
    assert "LRN" not in found(model(NORM.replace(old, new)))


def test_a_window_across_another_axis_stays() -> None:
    assert "LRN" not in found(model(axis=np.array([2])))


def test_a_result_with_another_axis_stays() -> None:
    body = NORM.replace("Squeeze(p, axis)", "Reshape(p, row)")
    outputs = "float[1, batch, 5, 6, 7] y"
    assert "LRN" not in found(model(body, outputs=outputs, row=np.array([1, -1, 5, 6, 7])))


def test_a_pool_of_every_second_channel_stays() -> None:
    body = NORM.replace("[3, 1, 1]", '[3, 1, 1], strides = [2, 1, 1], auto_pad = "SAME_UPPER"')
    assert "LRN" not in found(model(body, "batch, 2, 6, 7"))


def test_a_window_with_holes_stays() -> None:
    body = NORM.replace("[3, 1, 1]", "[2, 1, 1], dilations = [2, 1, 1]")
    assert "LRN" not in found(model(body, opset=19))


def test_pads_of_axes_in_another_order_stay() -> None:
    """Those of the channels are on the rows: eight channels of six rows become six of eight."""
    body = NORM.replace("(u, pads)", "(u, pads, nothing, order)").replace("Squeeze(p, axis)", "Reshape(p, whole)")
    known = {"order": np.array([0, 1, 3, 2, 4]), "whole": np.array([-1, 8, 6, 7])}
    assert "LRN" not in found(model(body, "batch, 8, 6, 7", **known))


def test_pads_as_an_attribute_stay() -> None:
    body = NORM.replace("Pad(u, pads)", "Pad <pads = [0, 0, 1, 0, 0, 0, 0, 1, 0, 0]> (u)")
    body = body.replace("Unsqueeze(s, axis)", "Unsqueeze <axes = [1]> (s)")
    body = body.replace("Squeeze(p, axis)", "Squeeze <axes = [1]> (p)")
    assert "LRN" not in found(model(body, opset=10))


@pytest.mark.parametrize(
    ("value", "shape"),
    [
        ("s", SHAPE),
        ("u", "batch, 1, 5, 6, 7"),
        ("d", "batch, 1, 7, 6, 7"),
        ("p", "batch, 1, 5, 6, 7"),
        *((value, SHAPE) for value in "qmkw"),
    ],
)
def test_what_is_read_elsewhere_stays(value: str, shape: str) -> None:
    proto = model(f"{NORM} o = Exp({value})", outputs=f"float[{SHAPE}] y, float[{shape}] o")
    assert "LRN" not in found(proto)


def test_a_power_with_more_axes_stays() -> None:
    deep = np.full((1, 1, 1, 1, 1), 0.7, np.float32)
    assert "LRN" not in found(model(outputs=f"float[1, {SHAPE}] y", beta=deep))


def test_channels_without_places_stay() -> None:
    body = NORM.replace("[3, 1, 1]", "[3]")
    assert "LRN" not in found(model(body, "batch, 5", pads=np.array([0, 0, 1, 0, 0, 1])))


def test_a_window_across_rows_stays() -> None:
    """Five channels of seven rows become seven of five, which as many numbers fit into."""
    body = NORM.replace("[3, 1, 1]", "[1, 3, 1]").replace("Squeeze(p, axis)", "Reshape(p, whole)")
    assert "LRN" not in found(model(body, "batch, 5, 7, 6", whole=np.array([-1, 5, 7, 6])))
