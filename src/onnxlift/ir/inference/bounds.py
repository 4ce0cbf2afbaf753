"""What is known of sizes beyond their names: those that a window slides over are large enough for one.

A convolution fails where its input is smaller than its kernel. So the size that it leaves is at least 1 in every run
that does not fail, though `(s + 10)//20 - 1` alone does not say so: it is what `range(size)` counts, and nothing else
than what `(s//10 - 3) / 2 + 1` gives in ONNX, which rounds towards zero.

Exporters compute sizes first and use them in convolutions later. `Bounds` remembers what it was asked in vain, so that
inference can ask again.
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
        """From now on it is known that `size` is at least `lowest`."""
        variable, number = symbolic.split_number(size)
        self._lowest[variable] = max(lowest - number, self._lowest.get(variable, lowest - number))

    def is_nonnegative(self, size: Dim) -> bool:
        """Whether `size >= 0` in every run that does not fail."""
        if symbolic.is_nonnegative(size) or self._reaches_zero(size):
            return True
        self._unknown.add(size)
        return False

    def learnt_answers(self) -> bool:
        """Whether something can be answered by now that could not when it was asked."""
        return any(map(self._reaches_zero, self._unknown))

    def _reaches_zero(self, size: Dim) -> bool:
        variable, number = symbolic.split_number(size)
        return variable in self._lowest and self._lowest[variable] + number >= 0
