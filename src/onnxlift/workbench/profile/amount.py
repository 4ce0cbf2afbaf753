"""An amount that may lie in a range: from `low` to `high`, where `high` is unknown if nothing bounds it.

What an If does lies between its branches; what is unknown is at least zero, and is never taken for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .formula import UNKNOWN, Size, Sum, at, is_known, largest, names_in, smallest, text_of


@dataclass(frozen=True, slots=True)
class Amount:
    """From `low` to `high`; the same if it is known exactly."""

    low: Size = 0
    high: Size = 0

    @property
    def is_exact(self) -> bool:
        """Tell whether it is one number or one formula."""
        return self.low == self.high and is_known(self.high)

    @property
    def is_unknown(self) -> bool:
        """Tell whether nothing at all is known of it."""
        return self.low == 0 and not is_known(self.high)

    @property
    def is_bounded(self) -> bool:
        """Tell whether no part of it is unknown."""
        return is_known(self.high)

    @property
    def number(self) -> int | None:
        """The number that it is; None if it is a formula, a range, or unknown."""
        return self.low if isinstance(self.low, int) and self.is_exact else None

    @property
    def names(self) -> set[str]:
        """The named sizes that it depends on."""
        return names_in(self.low) | names_in(self.high)

    def __add__(self, other: Amount) -> Amount:
        low = self.low + other.low
        return Amount(low, low if self._is_one and other._is_one else self.high + other.high)

    def __mul__(self, other: Amount) -> Amount:
        low = self.low * other.low
        return Amount(low, low if self._is_one and other._is_one else self.high * other.high)

    @property
    def _is_one(self) -> bool:
        return self.low is self.high  # most are, and then half of the work is enough

    def at(self, sizes: Mapping[str, int]) -> Amount:
        """Return it with numbers in the place of names."""
        return Amount(at(self.low, sizes), at(self.high, sizes))

    def plain(self) -> Any:
        """Return it for JSON: a number, a formula, null if it is unknown, or a range with `least` and `most`."""
        if self.is_unknown:
            return None
        if self.is_exact:
            return _plain(self.low)
        return {"least": _plain(self.low), "most": _plain(self.high) if is_known(self.high) else None}

    def __str__(self) -> str:
        return self.text()

    def text(self, *, short: bool = False, longest: int | None = None) -> str:
        """Write it: `4.09G`, `12*batch`, `1k to 2k`, `at least 1k`, `?`; about as long as `longest` at most."""
        if self.is_unknown:
            return "?"
        low = text_of(self.low, short=short, longest=longest)
        if self.is_exact:
            return low
        high = f"{low} to {text_of(self.high, short=short, longest=longest)}"
        return high if self.is_bounded else f"at least {low}"


def exactly(size: Size) -> Amount:
    """Return an amount that is known, or unknown altogether."""
    return Amount(size, size) if is_known(size) else Amount(0, UNKNOWN)


def either(a: Amount, b: Amount) -> Amount:
    """Return the range that two amounts lie in, one of which it is."""
    return a if a == b else Amount(smallest([a.low, b.low]), largest([a.high, b.high]))


class AmountSum:
    """A sum of amounts that grows."""

    __slots__ = ("_exact", "_high", "_low")

    def __init__(self) -> None:
        self._exact = Sum()
        self._low: Sum | None = None
        self._high: Sum | None = None

    def add(self, amount: Amount) -> None:
        """Add an amount."""
        if amount.low is amount.high:
            self._exact.add(amount.low)
            return
        if self._low is None or self._high is None:
            self._low, self._high = Sum(), Sum()
        self._low.add(amount.low)
        self._high.add(amount.high)

    @property
    def amount(self) -> Amount:
        """The sum of all that was added."""
        exact = self._exact.size
        whole = Amount(exact, exact)
        if self._low is None or self._high is None:
            return whole
        return whole + Amount(self._low.size, self._high.size)


def _plain(size: Size) -> int | str:
    return size if isinstance(size, int) else text_of(size)
