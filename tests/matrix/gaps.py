"""What the matrix cannot show. A test holds that both lists are exact."""

from __future__ import annotations

# Revision -> why nobody but us can tell what some case of it gives. It is still lifted and run.
WITHOUT_ORACLE = dict.fromkeys(
    ["GRU-1", "GRU-3", "LSTM-1", "RNN-1"],
    "`output_sequence` was given up in opset 7, before ONNX Runtime, and the reference does not know it",
)

_STRINGS = "its input is of strings"

# Operator -> the reasons for which some case that its schema allows is refused.
REFUSED: dict[tuple[str, str], list[str]] = {
    **{
        ("", op_type): [_STRINGS]
        for op_type in (
            *("CenterCropPad", "Col2Im", "NonZero", "RandomNormalLike", "RandomUniformLike"),
            *("Resize", "Trilu", "Upsample"),
        )
    },
    ("", "GridSample"): [_STRINGS, "linear interpolation between numbers that are not floating-point"],
    ("", "Pad"): ["it pads float8e8m0, which PyTorch cannot fill with a number", "its data are strings"],
    ("", "QLinearMatMul"): ["its factors are not of integers"],
    ("", "ReduceMean"): ["it takes the mean of uint64 numbers"],
    ("", "Tile"): ["in opset 1 the axis to tile must be constant and the rank known"],
    ("", "Unique"): ["complex numbers have no order"],
}
