"""Rules on the equation of an Einsum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from onnxlift.errors import quote
from onnxlift.ir.inference.equations import is_equation
from onnxlift.ir.inference.node_view import Unknown

from .rule import Subject, rule, shape_text


@rule("OL092", "einsum-equation", "Einsum")
def the_equation_is_one(n: Subject) -> Iterable[str]:
    """The equation has a term of letters for each operand; a result has letters of these, each once."""
    try:
        equation = n.attribute("equation", None)
    except Unknown:
        return
    if not isinstance(equation, str):
        return  # another rule tells
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if not is_equation(equation):
        yield f"its equation {quote(equation)} is none: a term is made of letters, and of one '...' at most."
        return
    if len(terms) != len(n.inputs):
        yield f"its equation {quote(equation)} has {len(terms)} terms, and the node has {len(n.inputs)} operands."
    letters = set(left) - {",", "."}
    result = Counter(right.replace("...", ""))
    unknown = sorted(set(result) - letters)
    if unknown:
        yield f"the result of its equation {quote(equation)} has {unknown[0]!r}, which no operand has."
    elif any(count > 1 for count in result.values()):
        yield f"the result of its equation {quote(equation)} has a letter twice."
    elif arrow and "..." in right and "..." not in left:
        yield f"the result of its equation {quote(equation)} has '...', which no operand has."


@rule("OL093", "einsum-sizes", "Einsum", about_sizes=True)
def operands_fit_the_equation(n: Subject) -> Iterable[str]:
    """Each operand has an axis for each letter of its term, and a letter stands for one size."""
    equation = n.attribute("equation").replace(" ", "")
    terms = equation.partition("->")[0].split(",")
    sizes: dict[str, int] = {}
    for index, term in enumerate(terms[: len(n.inputs)]):
        try:
            shape = n.shape(index)
        except Unknown:
            continue
        before, dots, after = term.partition("...")
        if len(before + after) > len(shape) or (not dots and len(before) < len(shape)):
            yield f"operand {index} is {shape_text(shape)}, which does not fit {term!r} of its equation."
            return
        ends = len(shape) - len(after)
        for letter, size in (*zip(before, shape, strict=False), *zip(after, shape[ends:], strict=True)):
            if isinstance(size, int) and size != 1 and sizes.setdefault(letter, size) != size:
                yield f"letter {letter!r} of its equation stands for {sizes[letter]} and for {size}."
                return
