"""An order of the nodes that does not depend on the file."""

from __future__ import annotations

from collections.abc import Mapping

from .view import Body, Item


def canonical_order(body: Body, ranks: Mapping[Item, int]) -> list[Item]:
    """Return the items in an order that depends on the edges, not on the file: each after those that it reads.

    From the outputs back, in the order of the inputs; by `ranks` where these have no order. Items that nothing leads to
    come last."""
    order: dict[Item, None] = {}
    roots = [body.maker[value][0] for value in body.outputs if value in body.maker]
    for root in (*roots, *body.items):
        stack: list[tuple[Item, bool]] = [(root, False)]
        while stack:
            item, is_done = stack.pop()
            if item in order:
                continue
            if is_done:
                order[item] = None
                continue
            stack.append((item, True))
            makers = [body.maker[value][0] for value in item.operands if value in body.maker]
            if item.is_commutative:
                makers.sort(key=lambda maker: ranks[maker])
            outer = (body.maker[value][0] for value in item.captured if value in body.maker)
            makers += sorted(outer, key=lambda maker: ranks[maker])
            stack.extend((maker, False) for maker in reversed(makers) if maker not in order)
    return list(order)
