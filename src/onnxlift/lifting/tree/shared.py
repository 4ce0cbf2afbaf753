"""Find the values that come into many blocks from outside, as opposed to values that flow from block to block.

A value is shared if nodes of one kind read it, each as the same operand, and
1. they stand at different depths (the bias of all attentions), or
2. their results meet, in different places, a value that was not made from it alone (the output of an encoder, from
   which each layer of a decoder makes its own keys and values).

The branches of an inception block share nothing in this sense: they begin at one depth and meet each other. A residual
is not shared either: its readers are a norm or a convolution, and a sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import onnx_ir as ir

LONGEST_WAY = 32  # nodes from a reader to the node where its result meets another value
LARGEST_FORK = 1000  # nodes from the beginning of branches to the node where they meet
STEPS = 64  # steps of the search for a common origin, for each node


def find_shared(
    values: Iterable[ir.Value], depth: Mapping[ir.Node, int], needs: Mapping[ir.Node, Sequence[ir.Node]]
) -> Iterator[ir.Value]:
    """Yield those of `values` that are shared. `depth` counts the layers up to each node, `needs` gives the nodes that
    each node reads from."""
    origins = _origins(needs)
    for value in values:
        readers: dict[tuple[str, int], list[ir.Node]] = {}
        for user, index in value.uses():
            if user in depth:
                readers.setdefault((user.op_type, index), []).append(user)
        groups = [group for group in readers.values() if len(group) > 1]
        if any(_is_shared(value.producer(), group, depth, needs, origins) for group in groups):
            yield value


def _is_shared(
    node: ir.Node | None,
    readers: Sequence[ir.Node],
    depth: Mapping[ir.Node, int],
    needs: Mapping[ir.Node, Sequence[ir.Node]],
    origins: Mapping[ir.Node, ir.Node | None],
) -> bool:
    if len({depth[reader] for reader in readers}) > 1:
        return True
    meetings = {meeting for reader in readers if (meeting := _meeting(reader, depth, needs)) is not None}
    return sum(1 for meeting in meetings if not _comes_from(meeting, node, depth, origins)) > 1


def _meeting(node: ir.Node, depth: Mapping[ir.Node, int], needs: Mapping[ir.Node, Sequence[ir.Node]]) -> ir.Node | None:
    """Return the first node from `node` on that also reads from another node."""
    for _ in range(LONGEST_WAY):
        if len(needs[node]) > 1:
            return node
        user = next((user for value in node.outputs for user, _ in value.uses() if user in depth), None)
        if user is None:
            return None
        node = user
    return None


def _comes_from(
    node: ir.Node, source: ir.Node | None, depth: Mapping[ir.Node, int], origins: Mapping[ir.Node, ir.Node | None]
) -> bool:
    """Tell whether all that `node` is computed from was computed from `source`."""
    if source is None or source not in depth:
        return False
    origin: ir.Node | None = node
    for _ in range(LARGEST_FORK):
        if origin is None or origin is source or depth[origin] < depth[source]:
            break
        origin = origins[origin]
    return origin is source


def _origins(needs: Mapping[ir.Node, Sequence[ir.Node]]) -> dict[ir.Node, ir.Node | None]:
    """Return for each node the last one that all ways to it go through (its immediate dominator); None if there is
    none, or if it is too far away."""
    origins: dict[ir.Node, ir.Node | None] = {}
    level: dict[ir.Node, int] = {}
    budget = STEPS * len(needs)
    for node, sources in needs.items():
        common: ir.Node | None = sources[0] if sources else None
        for other in sources[1:]:
            step: ir.Node | None = other
            while common is not step and common is not None and step is not None and budget > 0:
                budget -= 1
                if level[common] >= level[step]:
                    common = origins[common]
                else:
                    step = origins[step]
            common = common if common is step else None
        origins[node] = common
        level[node] = 0 if common is None else level[common] + 1
    return origins
