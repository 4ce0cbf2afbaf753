"""Lower bounds of sizes: a convolution shows that its input is large enough for one window.

A convolution fails if its input is smaller than its kernel. So the size of its output is at least 1 in every run that
does not fail, though the text of that size, like `(s + 10)//20 - 1`, does not show it. This is needed in two places:
`range(size)` counts exactly `size` elements only if the size is not negative; and a division in ONNX, such as
`(s//10 - 3) / 2`, rounds towards zero, which is the same as `//` only if the result is not negative.

Exporters compute sizes first and use them in convolutions later. `Bounds` remembers the questions that it could not
answer, so that inference can ask again.
"""

from __future__ import annotations

from onnxlift.ir.graph.shapes import Dim

from . import symbolic


class Bounds:
    """Lower bounds of sizes that hold in every run of one graph."""

    def __init__(self) -> None:
        self._lowest: dict[Dim, int] = {}
        self._unknown: set[Dim] = set()

    def learn(self, size: Dim, lowest: int) -> None:
        """Note that `size` is at least `lowest`."""
        variable, number = symbolic.split_number(size)
        self._lowest[variable] = max(lowest - number, self._lowest.get(variable, lowest - number))

    def is_nonnegative(self, size: Dim) -> bool:
        """Tell whether `size >= 0` is known to hold in every run that does not fail."""
        if symbolic.is_nonnegative(size) or self._reaches_zero(size):
            return True
        self._unknown.add(size)
        return False

    def learnt_answers(self) -> bool:
        """Tell whether a question that could not be answered when it was asked can be answered now."""
        return any(map(self._reaches_zero, self._unknown))

    def _reaches_zero(self, size: Dim) -> bool:
        variable, number = symbolic.split_number(size)
        return variable in self._lowest and self._lowest[variable] + number >= 0
