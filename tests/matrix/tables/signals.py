"""Windows, Fourier transforms, text, and quantisation."""

from __future__ import annotations

import numpy as np

from matrix.case import ELEMENTS, Row, each, floats, ints, row, some

WINDOW = [
    *(row(each(low=n, high=n), periodic=periodic) for n in (10, 7) for periodic in (0, 1)),
    row(ints(10).reshape(()), output_datatype=11),
]
WORDS = np.array([["the cat", "A b  c", ""], ["x,y,,z", " lead", "Über alles"]], object)
LINE = np.array(["Monday", "the", "Tuesday", "THE", "Wednesday"], object)
POOL = {"max_gram_length": 2, "max_skip_count": 3, "ngram_counts": [0, 4], "ngram_indexes": [0, 1, 2, 3, 4, 5, 6]}
TOKENS = np.array([[1, 1, 3, 3, 3, 7], [8, 6, 7, 5, 6, 8]], np.int32)
BYTES = np.random.default_rng(1).integers(0, 9, 24, np.uint8)
SCALE = {"low": 0.1, "high": 0.5}


def zero(dtype: str) -> np.ndarray:
    return np.array(3 if "float" not in dtype else 0).astype(ELEMENTS[f"tensor({dtype})"])


QUANTISED = ["uint8", "int8", "uint16", "int16", "uint4", "int4", "uint2", "int2"]
QUANTISED += ["float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "float4e2m1"]


def scalar(value: float, dtype: type = np.float32) -> np.ndarray:
    return np.array(value, dtype)


IMAGE = (some(2, 3, 6, 5, low=0, high=99), scalar(0.1), some(low=1, high=2))
KERNEL = (some(4, 3, 3, 3, low=0, high=9), scalar(0.2), some(low=1, high=2))
RESULT = (scalar(0.5), some(low=1, high=2))

ROWS: dict[str, list[Row]] = {
    **dict.fromkeys(("HannWindow", "HammingWindow", "BlackmanWindow"), WINDOW),
    "DFT": [
        row(each(2, 7, 1), until=17),
        row(floats(2, 7, 2), axis=1, inverse=1),
        row(floats(2, 7, 1), axis=1, onesided=1),
        row(floats(2, 7, 1), ints(5).reshape(()), axis=1),
        row(each(2, 7, 1), since=20),
        row(floats(2, 7, 3, 2), None, ints(1).reshape(()), inverse=1),
        row(floats(2, 7, 3, 1), ints(9).reshape(()), ints(-3).reshape(()), onesided=1),
    ],
    "STFT": [
        row(each(2, 20, 1), ints(4).reshape(()), each(8)),
        row(some(1, 21, 1), ints(5).reshape(()), None, ints(8).reshape(()), onesided=0),
        row(some(1, 20, 2), ints(4).reshape(()), some(8), ints(8).reshape(()), onesided=0),
    ],
    "MelWeightMatrix": [
        row(*(ints(n).reshape(()) for n in (8, 16, 8192)), scalar(0), scalar(4096)),
        row(*(ints(n).reshape(()) for n in (5, 20, 16000)), scalar(20), scalar(7600), output_datatype=11),
    ],
    "StringConcat": [row(some(2, 1, 3), some(2, 1)), row(some(), some(3)), row(some(0, 2), some(2))],
    "StringSplit": [
        row(WORDS, outputs=2),
        row(WORDS, outputs=2, delimiter=","),
        row(WORDS, outputs=2, maxsplit=1),
        row(np.zeros((0, 2), object), outputs=2),
    ],
    "RegexFullMatch": [
        row(LINE, pattern=".*day"),
        row(WORDS, pattern=r"[a-zA-Z ]+"),
        row(np.zeros((0,), object), pattern="a"),
    ],
    "StringNormalizer": [
        row(LINE),
        *(row(LINE, case_change_action=action) for action in ("LOWER", "UPPER", "NONE")),
        row(LINE, stopwords=["the"], is_case_sensitive=1),
        row(LINE, stopwords=["the"], is_case_sensitive=0, case_change_action="UPPER"),
        row(LINE[None], stopwords=["Monday"], is_case_sensitive=1),
    ],
    "TfIdfVectorizer": [
        *(
            row(TOKENS, mode=mode, min_gram_length=low, pool_int64s=[2, 3, 5, 4, 5, 6, 7, 8, 6, 7], **POOL)
            for mode in ("TF", "IDF", "TFIDF")
            for low in (1, 2)
        ),
        row(
            TOKENS[0].astype(np.int64),
            mode="TFIDF",
            min_gram_length=1,
            weights=[0.5, 2, 1, 3, 1, 1.5, 4],
            pool_int64s=[2, 3, 5, 4, 5, 6, 7, 8, 6, 7],
            **POOL,
        ),
        row(
            np.array(["a", "b", "a", "c"], object),
            mode="TF",
            min_gram_length=1,
            pool_strings=["a", "b", "c", "d", "a", "b", "b", "a", "a", "c"],
            **POOL,
        ),
    ],
    "QuantizeLinear": [
        *(row(floats(3, 5), scalar(0.1), zero(dtype)) for dtype in QUANTISED),
        row(floats(3, 5), scalar(0.02)),
        row(each(3, 5), scalar(0.1), zero("int8")),
        row(floats(3, 5), floats(5, **SCALE), np.arange(5, dtype=np.uint8), axis=1),
        row(floats(3, 5), floats(3, **SCALE), np.arange(3, dtype=np.int8), axis=-2),
        *(row(floats(3, 5, high=1000), scalar(1.5), zero("float8e4m3fn"), saturate=saturate) for saturate in (0, 1)),
        row(floats(3, 6), floats(3, 2, **SCALE), np.zeros((3, 2), np.uint8), axis=1, block_size=3),
        row(floats(3, 6), floats(2, 6, **SCALE), axis=0, block_size=2, output_dtype=3),
    ],
    "DequantizeLinear": [
        row(each(3, 5, low=0, high=9), scalar(0.1)),
        row(each(3, 5, low=0, high=9, without=("float",)), scalar(0.1), each(low=0, high=2)),
        row(each(3, 5, low=0, high=9), scalar(0.1), each(low=0, high=0)),
        row(np.arange(15, dtype=np.uint8).reshape(3, 5), floats(5, **SCALE), np.arange(5, dtype=np.uint8), axis=1),
        row(np.arange(-7, 8, dtype=np.int8).reshape(3, 5), floats(3, **SCALE), np.arange(3, dtype=np.int8), axis=-2),
        row(np.arange(-7, 8, dtype=np.int8).reshape(3, 5), scalar(0.1, np.float16), since=19),
        row(
            np.arange(18, dtype=np.uint8).reshape(3, 6),
            floats(3, 2, **SCALE),
            np.ones((3, 2), np.uint8),
            axis=1,
            block_size=3,
        ),
        row(np.arange(18, dtype=np.uint8).reshape(3, 6), floats(3, 2, **SCALE), axis=1, block_size=3, output_dtype=10),
    ],
    "DynamicQuantizeLinear": [
        row(some(3, 5), outputs=3),
        row(some(3, 5, low=1), outputs=3),
        row(some(2, 4, high=-1), outputs=3),
    ],
    "QLinearMatMul": [
        row(  # whole numbers, as the reference cuts factors of 8-bit floats to them
            *(each(3, 4, low=0, high=9, whole=True), scalar(0.1), some(low=1, high=2, whole=True)),
            *(each(4, 5, low=0, high=9, whole=True), scalar(0.2), some(low=1, high=2, whole=True)),
            *(scalar(0.05), np.array(2, np.uint8)),
        ),
        row(
            *(BYTES.reshape(2, 3, 4), scalar(0.1), np.array(1, np.uint8)),
            *(BYTES[:20].reshape(4, 5), floats(5, **SCALE), np.arange(5, dtype=np.uint8)),
            *(scalar(0.3), np.array(2, np.uint8)),
        ),
    ],
    "QLinearConv": [
        row(*IMAGE, *KERNEL, *RESULT, open_sizes=False),
        row(
            *IMAGE,
            KERNEL[0],
            floats(4, **SCALE),
            some(4, low=0, high=0),
            *RESULT,
            some(4),
            pads=[1, 1, 0, 1],
            open_sizes=False,
        ),
    ],
}
