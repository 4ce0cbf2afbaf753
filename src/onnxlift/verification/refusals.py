"""Tell who is at fault if a side does not run: an input that was made up in the wrong size, or the lifted model.

If ONNX Runtime refuses the inputs as well, they are at fault. Then other sizes are tried, as far as we chose them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from .children.child import ChildError

GROWING = (16, 64, 128, 512, 1024, 4096, 16000)
"""Sizes to try where nothing tells which the model needs."""

NUMBERS = (64, 16, 128, 512)
"""Numbers to try for inputs of one integer, from which a model may compute sizes."""

MOST_ALONE = 4  # sizes that are tried one by one
MOST_TOLD = 4  # attempts that a message lists
_NODE = re.compile(r"while running (\w+) node\. Name:'([^']*)' Status Message: (.*)", re.DOTALL)


def other_sizes(chosen: Mapping[str, int], leading: Collection[str]) -> Iterator[dict[str, int]]:
    """Yield other sizes for those that we chose: a batch of one, as some models are made for, and larger sizes.

    `leading` are the sizes of first axes. They are most often batches, and grow only if there are no others."""
    batch = dict.fromkeys((name for name in chosen if name in leading), 1)
    if any(chosen[name] != 1 for name in batch):
        yield {**chosen, **batch}
    rest = [name for name in chosen if name not in leading] or list(chosen)
    for size in GROWING:
        grown = {name: max(size, chosen[name]) for name in rest}
        if grown != {name: chosen[name] for name in grown}:
            yield {**chosen, **batch, **grown}
        if 1 < len(rest) <= MOST_ALONE:  # sizes without names may be batches as well
            yield from ({**dict.fromkeys(chosen, 1), name: grown[name]} for name in rest)


def other_numbers(chosen: Mapping[str, int], leading: Collection[str]) -> Iterator[tuple[dict[str, int], int]]:
    """Yield numbers for inputs of one integer, with the sizes that we chose and with sizes as large as the number."""
    batch = dict.fromkeys((name for name in chosen if name in leading), 1)
    rest = [name for name in chosen if name not in leading] or list(chosen)
    for number in NUMBERS:
        yield dict(chosen), number
        yield {**chosen, **batch, **dict.fromkeys(rest, number)}, number


def refusal(error: ChildError) -> str:
    """Return the reason of ONNX Runtime, with the node that refused, as a clause of a message."""
    found = _NODE.search(str(error))
    if found is None:
        return str(error).splitlines()[0].rstrip(".")
    lines = found[3].strip().splitlines() or [""]
    reason = re.sub(r"^\S*?\.(?:cc|h):\d+ .*?(?=[A-Z])", "", lines[0]).strip()[:300].rstrip(".")
    node = f"node {found[2]!r} ({found[1]})" if found[2] else f"a node {found[1]} without a name"
    return f"{node} fails: {reason}"


def blame_inputs(
    error: ChildError, tried: Sequence[str], inputs: Sequence[str], is_made_up: bool, innocent: str = "the lifted model"
) -> ChildError:
    """Return the error for inputs that ONNX Runtime refuses as well: which, the sizes tried, and what to do.

    `innocent` is what would be blamed otherwise; "" if there is nothing else."""
    what = "an input that was made up" if is_made_up else "an input"
    more = f"; and {len(tried) - MOST_TOLD} more" if len(tried) > MOST_TOLD else ""
    also = f" It was tried with {'; '.join(tried[:MOST_TOLD])}{more}."
    name = inputs[0] if inputs else "x"
    blame = f"{what} is at fault, not {innocent}: ONNX Runtime refuses it too; {refusal(error)}"
    if not innocent:
        blame = f"ONNX Runtime refuses {what}; {refusal(error)}"
    return ChildError(
        f"{blame}.{also} Give sizes "
        f"that the model takes (--shape {name}=..., --dim NAME=...), or pass the inputs themselves (--input)."
    )
