"""Find which nodes to keep in float so that the outputs are good enough, with few tries.

The nodes are tried in the order of the noise that each adds by itself: the first 1, 2, 4, ... of them are kept, then the
number is bisected. Noise of one node may not reach the outputs at all, so at the end some are given back: a node that is
not needed is quantised after all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

MOST_GIVEN_BACK = 12

Reaches = Callable[[frozenset[str]], bool]
"""Tell whether the outputs are good enough if these nodes are kept."""


def find_kept(ranking: Sequence[str], reaches: Reaches) -> frozenset[str] | None:
    """Return the nodes to keep, from a ranking with the noisiest first; None if that would have to be all of them."""
    enough = _first_enough(ranking, reaches)
    if enough is None:
        return None
    kept = set(ranking[:enough])
    for name in list(reversed(ranking[:enough]))[1 : MOST_GIVEN_BACK + 1]:
        # The last of the ranking is needed: without it, it was not enough.
        if reaches(frozenset(kept - {name})):
            kept.remove(name)
    return frozenset(kept)


def _first_enough(ranking: Sequence[str], reaches: Reaches) -> int | None:
    """Return the smallest number of nodes from the front of the ranking that is enough; None if it is all."""
    low, high = 0, 1
    while high < len(ranking) and not reaches(frozenset(ranking[:high])):
        low, high = high, high * 2
    high = min(high, len(ranking))
    while high - low > 1:
        middle = (low + high) // 2
        if reaches(frozenset(ranking[:middle])):
            high = middle
        else:
            low = middle
    return None if high == len(ranking) else high
