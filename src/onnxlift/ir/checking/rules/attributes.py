"""Rules on the attributes of a node: their names, types and values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import onnx
import onnx_ir as ir

from onnxlift.errors import quote
from onnxlift.ir.graph.schema import plain, schema_for

from .rule import Subject, rule

_KIND = {
    "FLOAT": "a float",
    "INT": "an int",
    "STRING": "a string",
    "TENSOR": "a tensor",
    "GRAPH": "a graph",
    "SPARSE_TENSOR": "a sparse tensor",
    "TYPE_PROTO": "a type",
    "FLOATS": "a list of floats",
    "INTS": "a list of ints",
    "STRINGS": "a list of strings",
    "TENSORS": "a list of tensors",
    "GRAPHS": "a list of graphs",
    "SPARSE_TENSORS": "a list of sparse tensors",
    "TYPE_PROTOS": "a list of types",
}

_PADDING = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")
_DIRECTION = ("forward", "reverse", "bidirectional")
_SCATTER = ("none", "add", "mul", "max", "min")
_TRANSFORM = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
_CHOICES: Mapping[str, Mapping[str, Sequence[str]]] = {
    **{op: {"auto_pad": _PADDING} for op in "Conv ConvInteger ConvTranspose QLinearConv DeformConv".split()},
    **{op: {"auto_pad": _PADDING} for op in "AveragePool MaxPool LpPool".split()},
    **{op: {"direction": _DIRECTION} for op in "RNN GRU LSTM".split()},
    **{op: {"reduction": _SCATTER} for op in "ScatterElements ScatterND".split()},
    **{
        op: {"reduction": ("none", "sum", "mean")} for op in "NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss".split()
    },
    "BitShift": {"direction": ("LEFT", "RIGHT")},
    "DepthToSpace": {"mode": ("DCR", "CRD")},
    "Gelu": {"approximate": ("none", "tanh")},
    "GridSample": {
        "mode": ("bilinear", "linear", "nearest", "bicubic", "cubic"),
        "padding_mode": ("zeros", "border", "reflection"),
    },
    "ImageDecoder": {"pixel_format": ("RGB", "BGR", "Grayscale")},
    "Pad": {"mode": ("constant", "reflect", "edge", "wrap")},
    "Resize": {
        "mode": ("nearest", "linear", "cubic"),
        "coordinate_transformation_mode": (
            "half_pixel",
            "half_pixel_symmetric",
            "pytorch_half_pixel",
            "align_corners",
            "asymmetric",
            "tf_half_pixel_for_nn",
            "tf_crop_and_resize",
        ),
        "nearest_mode": ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple"),
        "keep_aspect_ratio_policy": ("stretch", "not_larger", "not_smaller"),
    },
    "RoiAlign": {"mode": ("avg", "max"), "coordinate_transformation_mode": ("half_pixel", "output_half_pixel")},
    "StringNormalizer": {"case_change_action": ("LOWER", "UPPER", "NONE")},
    "TfIdfVectorizer": {"mode": ("TF", "IDF", "TFIDF")},
    "Upsample": {"mode": ("nearest", "linear", "bilinear")},
    "Normalizer": {"norm": ("MAX", "L1", "L2")},
    "LinearClassifier": {"post_transform": _TRANSFORM},
    "LinearRegressor": {"post_transform": _TRANSFORM},
    "SVMClassifier": {"kernel_type": ("LINEAR", "POLY", "RBF", "SIGMOID"), "post_transform": _TRANSFORM},
    "SVMRegressor": {"kernel_type": ("LINEAR", "POLY", "RBF", "SIGMOID"), "post_transform": _TRANSFORM},
    "TreeEnsembleClassifier": {"post_transform": _TRANSFORM},
    "TreeEnsembleRegressor": {"post_transform": _TRANSFORM, "aggregate_function": ("AVERAGE", "SUM", "MIN", "MAX")},
}
"""The texts that an attribute may have, by operator: their documents list them, and their schemas do not."""

_POSITIVE: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(("Conv", "ConvInteger", "ConvTranspose"), ("kernel_shape", "strides", "dilations", "group")),
    **dict.fromkeys(("QLinearConv", "DeformConv"), ("kernel_shape", "strides", "dilations", "group")),
    **dict.fromkeys(("AveragePool", "MaxPool", "LpPool", "MaxUnpool"), ("kernel_shape", "strides", "dilations")),
    **dict.fromkeys(("RNN", "GRU", "LSTM"), ("hidden_size",)),
    **dict.fromkeys(("DepthToSpace", "SpaceToDepth"), ("blocksize",)),
    "Attention": ("q_num_heads", "kv_num_heads"),
    "GroupNormalization": ("num_groups",),
    "LRN": ("size",),
    "LpNormalization": ("p",),
    "RoiAlign": ("output_height", "output_width"),
    "Split": ("num_outputs",),
    "RotaryEmbedding": (),
}
"""The attributes that count something, and so are 1 or more."""

_NOT_NEGATIVE: Mapping[str, Sequence[str]] = {
    **dict.fromkeys("Conv ConvInteger ConvTranspose QLinearConv DeformConv".split(), ("pads",)),
    **dict.fromkeys("AveragePool MaxPool LpPool MaxUnpool".split(), ("pads",)),
    "ConvTranspose": ("pads", "output_padding"),
    "GatherND": ("batch_dims",),
}

_NEEDED: Mapping[str, Sequence[str]] = {
    "CategoryMapper": ("cats_int64s", "cats_strings"),
    "FeatureVectorizer": ("inputdimensions",),
    "LinearRegressor": ("coefficients",),
    "LpPool": ("kernel_shape",),
    "RegexFullMatch": ("pattern",),
    "Reshape": ("shape",),
    "SVMClassifier": ("coefficients", "rho"),
    "SVMRegressor": ("coefficients", "rho"),
}
"""The attributes without which an operator has no meaning, though its schema calls them optional."""

_ONNX = ("", "ai.onnx.ml")
"""The domains whose operators these tables are about."""

_ELEMENT_TYPES: Mapping[str, str] = {
    **dict.fromkeys(("Cast", "BitCast"), "to"),
    **dict.fromkeys(("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial"), "dtype"),
    **dict.fromkeys(("Bernoulli", "EyeLike", "SequenceEmpty"), "dtype"),
}


@rule("OL030", "attribute-name")
def has_no_unknown_attribute(n: Subject) -> Iterable[str]:
    """A node has no attribute that its operator does not have. Names that begin with `__` are a runtime's own notes."""
    if n.schema is None or not n.node.attributes.data:
        return
    known = n.schema.attributes
    for name in n.node.attributes.data:
        if name not in known and not name.startswith("__"):
            moved = _became_an_input(n, name)
            told = f": it is an input since opset {moved}" if moved else _those(known)
            yield f"{n.node.op_type} has no attribute {quote(name)} in opset {n.opset}{told}."


@rule("OL031", "attribute-type")
def attributes_have_the_type_of_the_schema(n: Subject) -> Iterable[str]:
    """An attribute is of the type that the operator wants: a float is no int, and one int is no list."""
    if n.schema is None:
        return
    known: Mapping[str, Any] = n.schema.attributes
    for name, attribute in n.node.attributes.data.items():
        wanted = known[name].type.name if name in known else attribute.type.name
        if attribute.type.name != wanted:
            is_now, must_be = _KIND.get(attribute.type.name, "of an unknown type"), _KIND[wanted]
            yield f"its attribute {name} is {is_now}, and {n.node.op_type} wants {must_be}."


@rule("OL032", "attribute-missing")
def has_every_required_attribute(n: Subject) -> Iterable[str]:
    """No attribute that the operator requires is left out."""
    for name in () if n.schema is None else required_attributes(n.schema):
        if name not in n.node.attributes:
            yield f"it has no attribute {name}, which {n.node.op_type} requires."


@rule("OL033", "attribute-text")
def texts_are_among_those_that_are_defined(n: Subject) -> Iterable[str]:
    """An attribute that is one of several words is one of them. (Directions were often written in capitals.)"""
    if n.schema is None or n.node.domain not in _ONNX:
        return
    for name, words in _CHOICES.get(n.node.op_type, {}).items():
        text = _given(n, name)
        if isinstance(text, str) and text not in words and (name != "direction" or text.lower() not in words):
            yield f"its attribute {name} is {quote(text)}; it can be {', '.join(words)}."


@rule("OL034", "attribute-range")
def numbers_are_in_their_range(n: Subject) -> Iterable[str]:
    """What an attribute counts is 1 or more, and padding is not negative."""
    if n.schema is None or n.node.domain not in _ONNX:
        return
    for limits, least in ((_POSITIVE, 1), (_NOT_NEGATIVE, 0)):
        for name in limits.get(n.node.op_type, ()):
            numbers = _given(n, name)
            numbers = (numbers,) if isinstance(numbers, int) else numbers
            if isinstance(numbers, tuple) and any(isinstance(each, int) and each < least for each in numbers):
                yield f"its attribute {name} is {_shown(numbers)}; it must be {least} or more."


@rule("OL035", "attribute-element-type", *_ELEMENT_TYPES)
def element_types_exist(n: Subject) -> Iterable[str]:
    """An attribute that names an element type names one that ONNX has."""
    name = _ELEMENT_TYPES[n.node.op_type]
    number = _given(n, name)
    if isinstance(number, int) and (number <= 0 or number not in onnx.TensorProto.DataType.values()):
        yield f"its attribute {name} is {number}, which is no element type."


@rule("OL036", "attribute-permutation", "Transpose")
def permutations_have_each_axis_once(n: Subject) -> Iterable[str]:
    """The `perm` of a Transpose has each axis once."""
    axes = _given(n, "perm")
    if isinstance(axes, tuple) and sorted(axes) != list(range(len(axes))):
        yield f"its attribute perm is {_shown(axes)}, which is no permutation of 0 to {len(axes) - 1}."


@rule("OL037", "constant-value", "Constant")
def constants_have_one_value(n: Subject) -> Iterable[str]:
    """A Constant has exactly one of the attributes that give its value."""
    given = [name for name in n.node.attributes.data if not name.startswith("__")]
    if len(given) != 1:
        yield f"it has {len(given)} values, and a Constant has one: value, value_float, value_ints and the like."


def _became_an_input(n: Subject, name: str) -> int | None:
    """Return the opset since which an attribute of the operator is an input of the same name; None if it never was."""
    if n.schema is None or name not in (each.name for each in n.schema.inputs):
        return None
    schema: Any = n.schema
    while schema is not None and name in (each.name for each in schema.inputs):
        since = int(schema.since_version)
        schema = schema_for(n.node.domain, n.node.op_type, since - 1) if since > 1 else None
    return since if schema is not None and name in schema.attributes else None


@cache
def required_attributes(schema: Any) -> tuple[str, ...]:
    """Return the names of the attributes that an operator requires, by its schema or by what it means."""
    needed = _NEEDED.get(schema.name, ()) if schema.domain in _ONNX else ()
    return tuple(name for name, attribute in schema.attributes.items() if attribute.required or name in needed)


def _given(n: Subject, name: str) -> Any:
    """Return the value of an attribute that the node sets; None if it does not, or a caller of the function does."""
    attribute = n.node.attributes.data.get(name)
    if attribute is None or attribute.is_ref():
        return None
    if attribute.type in _SIMPLE:
        return plain(attribute.value)
    return None


_SIMPLE = frozenset({ir.AttributeType.INT, ir.AttributeType.INTS, ir.AttributeType.STRING, ir.AttributeType.FLOAT})


def _shown(numbers: tuple[int, ...]) -> str:
    text = ", ".join(map(str, numbers[:16])) + (", ..." if len(numbers) > 16 else "")
    return text if len(numbers) == 1 else f"[{text}]"


def _those(known: Iterable[str]) -> str:
    names = sorted(known)
    return f"; it has {', '.join(names)}" if names else "; it has none"
