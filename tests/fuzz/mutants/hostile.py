"""Numbers, texts and sizes that programs stumble over."""

from __future__ import annotations

import random

INTEGERS = (
    *(0, 1, -1, 2, 3, -2, -3, 4, 5, 7, 8, 16, 17, 64, 100, 127, 128, 255, 256, 1000, 65535, 65536, 1 << 20),
    *((1 << 31) - 1, 1 << 31, -(1 << 31), -(1 << 31) - 1, (1 << 32) - 1, 1 << 32, 1 << 40, (1 << 53) + 1),
    *((1 << 62), (1 << 63) - 1, -(1 << 63), -(1 << 63) + 1),
)
FLOATS = (
    *(0.0, -0.0, 1.0, -1.0, 0.5, 1e-45, 1e-38, 1e-7, 3.4e38, -3.4e38),
    *(float("inf"), float("-inf"), float("nan"), 2.0**31, 2.0**63, 16777217.0, 1e-12),
)
TEXTS = (
    *(
        "",
        "x",
        "y",
        " ",
        "\n",
        "\0",
        '"',
        "'",
        '"""',
        "\\",
        "{}",
        "%s",
        "#",
        "_",
        "__class__",
        "self",
        "torch",
        "forward",
    ),
    *("class", "None", "0", "-1", "a.b", "a/b", "/", "//", ".", "..", "a..b", "a.weight", "a.bias", "a.0.weight"),
    *("é", "\u202e", "\ufeff", "\U0001f600", "\U0001d431", "a" * 300, "a." * 120, "/a" * 200, "a" * 70_000),
    *("../../etc/passwd", "/etc/passwd", "/dev/zero", "model.onnx", "data.bin", "NOTSET", "SAME_UPPER", "VALID"),
    *("ij,jk->ik", "...", "ii->i", "->", "i" * 200, "bilinear", "DCR", "constant", "LINEAR", "Relu", "reverse"),
)
DOMAINS = ("", "ai.onnx", "ai.onnx.ml", "com.microsoft", "onnxlift", "ai.onnx.training", "ai.onnx.preview", "me", "\n")
VERSIONS = (
    -1,
    0,
    1,
    2,
    5,
    6,
    7,
    8,
    9,
    10,
    11,
    12,
    13,
    14,
    15,
    16,
    17,
    18,
    19,
    20,
    21,
    22,
    23,
    24,
    25,
    26,
    27,
    28,
    1000,
)
SIZES = (
    *(0, 1, 1, 2, 3, 4, 5, 7, 8, 16, 100, 1000, 65536, -1, -2, 1 << 20, 1 << 28, (1 << 31) - 1, 1 << 31, 1 << 32),
    *(1 << 40, (1 << 62), (1 << 63) - 1, -(1 << 63)),
)
SYMBOLS = ("n", "batch", "", "n + 1", "1", "-1", "self", "unk__0", "n*m", "None", 'n"', "a" * 500)


def integer(choose: random.Random) -> int:
    return choose.choice(INTEGERS) if choose.random() < 0.8 else choose.getrandbits(64) - (1 << 63)


def integers(choose: random.Random) -> list[int]:
    draw = choose.random()
    if draw < 0.15:
        return []
    if draw < 0.2:
        return [choose.choice(INTEGERS)] * choose.choice((33, 64, 300, 5000))
    return [integer(choose) for _ in range(choose.randint(1, 8))]


def small_integers(choose: random.Random) -> list[int]:
    return [choose.randint(-3, 6) for _ in range(choose.randint(0, 5))]


def number(choose: random.Random) -> float:
    return choose.choice(FLOATS)


def text(choose: random.Random) -> str:
    return choose.choice(TEXTS)


def size(choose: random.Random) -> int:
    return choose.choice(SIZES)


def sizes(choose: random.Random) -> list[int]:
    draw = choose.random()
    if draw < 0.1:
        return []
    if draw < 0.15:
        return [choose.choice((0, 1, 2))] * choose.choice((31, 32, 33, 64, 65, 1000))
    return [size(choose) for _ in range(choose.randint(1, 6))]
