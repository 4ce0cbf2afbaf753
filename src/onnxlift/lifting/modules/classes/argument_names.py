"""Names for the arguments of a class, by the roles that their numbers have where they stand.

in_channels and num_features   ->   channels          out_features   ->   out_dim
kernel_size                    ->   kernel            heads, size    ->   heads
"""

from __future__ import annotations

from collections.abc import Sequence

_TOGETHER: Sequence[tuple[frozenset[str], str]] = (
    (frozenset({"in_channels", "out_channels", "num_features", "num_channels", "channels"}), "channels"),
    (
        frozenset(
            {"in_features", "out_features", "normalized_shape", "embedding_dim", "dim", "input_size", "hidden_size"}
            | {"in_dim", "out_dim"}
        ),
        "dim",
    ),
)
_SHORT = {
    "num_features": "channels",
    "normalized_shape": "dim",
    "in_features": "in_dim",
    "out_features": "out_dim",
    "kernel_size": "kernel",
}


def argument_name(roles: Sequence[str], taken: set[str], is_end: bool) -> str:
    """Choose a name for a number of the constructor: the role that it has in its places, or the general word if it has
    several roles; `hidden` for a width that a block has only inside, and at neither end."""
    name = roles[0]
    if len(set(roles)) > 1:
        specific = [r for r in roles if r not in ("size", "start", "scale", "shape", "groups", "length", "hidden")]
        name = "heads" if "heads" in specific else specific[0] if specific else name
        for words, word in _TOGETHER:
            if len(words.intersection(specific)) > 1 and words.issuperset(specific):
                name = word
    name = _SHORT.get(name, name)
    if name in ("channels", "dim"):
        is_hidden = _is_read(roles) and not is_end
        special = "hidden" if is_hidden else f"out_{name}" if name in taken else name
        name = name if special in taken else special
    return numbered(name, taken)


def _is_read(roles: Sequence[str]) -> bool:
    """Tell whether a layer takes what has this width."""
    return any(role.startswith(("in_", "input_")) for role in roles)


def numbered(name: str, taken: set[str]) -> str:
    """Return the name, with a number behind it where it is taken."""
    number, candidate = 2, name
    while candidate in taken:
        candidate, number = f"{name}{number}", number + 1
    return candidate
