"""Operators that move elements, make them, or look at their number, and compute nothing.

Views give their input another shape, and move nothing. What picks elements reads only those that it picks.
"""

from __future__ import annotations

from ..node import CostNode
from ..registry import Work, cost


@cost("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout", "BitCast")
def view(n: CostNode) -> Work:
    """The same elements under another shape. A Dropout does nothing unless it trains."""
    does_drop = n.op_type == "Dropout" and (n.has(2) or any(value.name for value in n.node.outputs[1:]))
    return Work() if does_drop else Work(reads=0, writes=0, is_view=True)


@cost("Shape", "Size", "SequenceLength", "OptionalHasElement")
def look(n: CostNode) -> Work:
    """Only the shape of the input is looked at."""
    return Work(reads=0)


@cost(
    *("Transpose", "Concat", "Split", "Pad", "Tile", "Expand", "DepthToSpace", "SpaceToDepth", "ReverseSequence"),
    *("Scatter", "ScatterElements", "ScatterND", "TensorScatter", "Trilu", "Compress", "CenterCropPad", "MaxUnpool"),
    *("Cast", "CastLike", "Constant", "ConstantOfShape", "EyeLike", "OneHot"),
    *("SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SplitToSequence"),
    *("Optional", "OptionalGetElement"),
)
@cost("UnfoldTensor", "Crop", domain="com.microsoft")
def move(n: CostNode) -> Work:
    """Elements are copied, or converted from one type to another."""
    return Work()


@cost("Gather", "GatherElements", "GatherND")
def pick(n: CostNode) -> Work:
    """Of the first input, only what is picked is read."""
    return Work(reads=n.output_bytes() + n.bytes(1))


@cost("SequenceAt", "ConcatFromSequence")
def take(n: CostNode) -> Work:
    """Of a sequence, only what becomes the output is read."""
    return Work(reads=n.output_bytes())


@cost("Slice")
def part(n: CostNode) -> Work:
    """Only what is left is read."""
    settings = sum((n.bytes(index) for index in range(1, len(n.inputs))), start=n.output_bytes())
    return Work(reads=settings)


@cost("Col2Im")
def fold_windows(n: CostNode) -> Work:
    """Elements of overlapping windows are added."""
    return Work(other=n.size())


@cost("StringConcat", "StringNormalizer", "StringSplit", "RegexFullMatch", "TfIdfVectorizer", "ImageDecoder")
def text(n: CostNode) -> Work:
    """Work on characters or on compressed images: it is not arithmetic."""
    return Work()


@cost("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial")
def draw(n: CostNode) -> Work:
    """A random number is one operation."""
    like = n.op_type.endswith("Like")
    return Work(other=n.output_size(), reads=0 if like else None)
