"""Templates of what is no plain tensor (sequences, optionals, strings), and of operators that sort and count."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from fuzz.builder import Builder, UnsuitableError
from fuzz.shapes import axis_of
from fuzz.sizes import ROOMY

WORDS = np.array(["the", "cat", "Sat", "", "on", "a b", "MAT"], object)


def edited_sequence(b: Builder) -> None:
    """Insert, erase, count, and pick."""
    x = b.pick("f", ranks=[1, 2, 3])
    if b.choose.random() < 0.5:
        make = b.make_node("SequenceEmpty", [], dtype=int(helper.np_dtype_to_tensor_dtype(x.dtype)))
        nodes = [make, b.make_node("SequenceInsert", [make.output[0], x.name])]
    else:
        nodes = [b.make_node("SequenceConstruct", [x.name, x.name])]
    position = [b.operand(np.asarray(b.choose.choice([0, -1]))).name] if b.choose.random() < 0.6 else []
    nodes.append(b.make_node("SequenceInsert", [nodes[-1].output[0], b.one("Neg", x).name, *position]))
    if b.choose.random() < 0.5:
        index = [b.operand(np.asarray(0)).name] if b.choose.random() < 0.5 else []
        nodes.append(b.make_node("SequenceErase", [nodes[-1].output[0], *index]))
    length = b.make_node("SequenceLength", [nodes[-1].output[0]])
    last = b.make_node("SequenceAt", [nodes[-1].output[0], b.operand(np.asarray(-1)).name])
    b.add([*nodes, length, last], [length.output[0], last.output[0]])


def optional(b: Builder) -> None:
    x = b.pick("f")
    make = b.make_node("Optional", [x.name])
    has = b.make_node("OptionalHasElement", [make.output[0]])
    get = b.make_node("OptionalGetElement", [make.output[0]])
    b.add([make, has, get], [has.output[0], get.output[0]])


def mapped_sequence(b: Builder) -> None:
    x = b.pick("f", ranks=[2, 3], where=lambda v: v.dtype == np.float32)
    item = b.names.value("Body")
    body = b.body()
    inner = body.make_node(b.choose.choice(["Tanh", "Abs", "Softmax"]), [item])
    info = helper.make_tensor_value_info(item, onnx.TensorProto.FLOAT, None)
    result = helper.make_tensor_value_info(inner.output[0], onnx.TensorProto.FLOAT, None)
    graph = helper.make_graph([inner], "body", [info], [result])
    split = b.make_node("SplitToSequence", [x.name], axis=b.choose.choice([0, 1]))
    mapped = b.make_node("SequenceMap", [split.output[0]], body=graph)
    join = b.make_node("ConcatFromSequence", [mapped.output[0]], axis=0)
    b.add([split, mapped, join], [join.output[0]])


def strings(b: Builder) -> None:
    """Texts, from which a truth or a number comes in the end."""
    count = b.choose.choice([2, 5])
    first, second = (
        b.constant(np.array([b.choose.choice(WORDS) for _ in range(count)], object), "text") for _ in range(2)
    )
    roll = b.choose.random()
    if roll < 0.4:
        joined = b.make_node("StringConcat", [first.name, second.name])
        match = b.make_node("RegexFullMatch", [joined.output[0]], pattern=b.choose.choice(["[a-z]+", ".*t", "the.*"]))
        b.add([joined, match], [match.output[0]])
    elif roll < 0.6:
        # With a delimiter ONNX Runtime counts no part in an empty text, where ONNX's reference counts one.
        delimiter = b.choose.choice([None, "a"]) if all(first.array) else None
        split = b.make_node("StringSplit", [first.name], 2, delimiter=delimiter)
        b.add([split], [split.output[1]])
    else:
        actions = b.choose.choice(["NONE", "LOWER", "UPPER"])
        normal = b.make_node("StringNormalizer", [first.name], case_change_action=actions, is_case_sensitive=1)
        size = b.make_node("Shape", [normal.output[0]])
        same = b.make_node("Equal", [normal.output[0], second.name])
        b.add(
            [normal, size, *([same] if b.opset >= 19 else [])],
            [size.output[0], *([same.output[0]] if b.opset >= 19 else [])],
        )


def n_grams(b: Builder) -> None:
    tokens = b.operand(b.integers(1, 9, (2, 6)).astype(b.choose.choice([np.int32, np.int64])), "tokens")
    b.one(
        "TfIdfVectorizer",
        tokens,
        mode=b.choose.choice(["TF", "IDF", "TFIDF"]),
        min_gram_length=1,
        max_gram_length=2,
        max_skip_count=b.choose.choice([0, 2]),
        ngram_counts=[0, 4],
        ngram_indexes=[0, 1, 2, 3, 4, 5, 6],
        pool_int64s=[2, 3, 5, 4, 5, 6, 7, 8, 6, 7],
    )


def unique(b: Builder) -> None:
    x = b.pick("i", ranks=ROOMY, where=lambda v: v.dtype == np.int64)
    axis = b.choose.choice([None, axis_of(b, x)])
    b.node(
        "Unique",
        [x],
        b.choose.choice([1, 4]),
        axis=axis,
        sorted=b.choose.choice([None, 1, 0]) if axis is None else None,
    )


def shifted_bits(b: Builder) -> None:
    x = b.pick("iu", where=lambda v: v.kind == "i" and v.dtype == np.int64)
    unsigned = b.one("Cast", b.one("Abs", x), to=b.choose.choice([2, 12, 13]))
    amount = b.operand(np.asarray(b.choose.choice([0, 1, 3]), unsigned.dtype))
    b.one("BitShift", unsigned, amount, direction=b.choose.choice(["LEFT", "RIGHT"]))


def cumulative_product(b: Builder) -> None:
    x = b.pick("f", ranks=ROOMY)
    flags = {name: b.choose.choice([None, 0, 1]) for name in ("exclusive", "reverse")}
    b.one("CumProd", x, b.operand(np.asarray(axis_of(b, x))), **flags)


def updated_cache(b: Builder) -> None:
    x = b.pick("f", ranks=[3, 4], where=lambda v: v.shape[-2] > 1 and v.dtype == np.float32)
    shape = list(x.shape)
    shape[-2] = 1
    places = b.operand(b.integers(0, x.shape[-2], (x.shape[0],)), "places")
    b.one("TensorScatter", x, b.operand(b.like(x, shape)), places, mode=b.choose.choice([None, "linear", "circular"]))


def small_integers(b: Builder) -> None:
    """Arithmetic that wraps, in types that PyTorch has little for."""
    x = b.pick("i", where=lambda v: v.dtype == np.int64)
    dtype = b.choose.choice([np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.uint64])
    element = int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
    y = b.one("Cast", b.one("Abs", x), to=element)
    op_type = b.choose.choice(
        ["Add", "Sub", "Mul", "Div", "Max", "Min", "Mod", "Greater", "Equal", "Where", "Gather", "Slice"]
    )
    other = b.operand(np.asarray(b.choose.choice([1, 2, 3]), dtype))
    if op_type == "Where":
        b.one("Where", b.one("Cast", x, to=9), y, other)
    elif op_type in ("Gather", "Slice"):
        if not y.rank:
            raise UnsuitableError
        b.one("Gather", y, b.operand([0, -1] if b.opset >= 11 else [0]), axis=0)
    else:
        b.one(op_type, y, other)


def in_bfloat16(b: Builder) -> None:
    """Rounded, moved and brought back: what ONNX Runtime does with bfloat16, which it hands out to nobody."""
    x = b.pick("f", ranks=ROOMY)
    first = b.make_node("Cast", [x.name], to=int(onnx.TensorProto.BFLOAT16))
    y, op_type = first.output[0], b.choose.choice(["Transpose", "Reshape", "Concat", "Flatten", "Gather", "Identity"])
    second = {"Reshape": [-1], "Gather": [0]}
    inputs = [y, b.constant(second[op_type]).name] if op_type in second else [y, y] if op_type == "Concat" else [y]
    move = b.make_node(op_type, inputs, axis=0 if op_type == "Concat" else None)
    last = b.make_node("Cast", [move.output[0]], to=b.choose.choice([1, 1, 10, 11]))
    b.add([first, move, last], [last.output[0]])


TEMPLATES = {
    edited_sequence: (11, 1),
    optional: (15, 1),
    mapped_sequence: (17, 1),
    strings: (20, 1),
    n_grams: (9, 1),
    unique: (11, 1),
    shifted_bits: (11, 1),
    cumulative_product: (26, 3),
    updated_cache: (24, 2),
    small_integers: (9, 2),
    in_bfloat16: (13, 2),
}
