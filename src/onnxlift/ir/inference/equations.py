"""Whether a text is the equation of an Einsum."""

from __future__ import annotations

import re

_TERM = r"[A-Za-z]*(\.\.\.)?[A-Za-z]*"
_EQUATION = re.compile(rf"{_TERM}(,{_TERM})*(->{_TERM})?")


def is_equation(text: str) -> bool:
    """Tell whether a text is made of terms of letters, with one `...` at most in each, and perhaps of a result.

    Anything else must not be given to onnx: its inference never ends for an equation such as `%s`."""
    return _EQUATION.fullmatch(text.replace(" ", "")) is not None
