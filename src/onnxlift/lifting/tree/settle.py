"""Find the order of execution in a module, and dissolve the modules inside it that have none.

    y = self.block(x); z = f(y); and self.block needs z   ->   the code of the block in its parent, around f

Plans on a cycle of the parent's items (a module called twice, nodes moved by an optimiser) are dissolved into the
parent, until no cycle is left. Plans that nobody called (a list of layers with other code between them) are dissolved
first, then all. Their layers keep their names (`self.attn.query`).
"""

from __future__ import annotations

import heapq

import onnx_ir as ir

from .plan import ModulePlan, moved_up


def settle(plan: ModulePlan, order: dict[ir.Node, int], reads: dict[ir.Node, list[ir.Value]]) -> None:
    """Dissolve the plans that cannot be called at one point in time, and sort the items of a plan, from the outside
    in."""
    while True:
        ordered, on_cycle = _topological(plan, order, reads)
        if not on_cycle:
            break
        uncalled = {item for item in on_cycle if isinstance(item, ModulePlan) and not item.called}
        dissolved = uncalled or on_cycle
        dissolved |= {call for item in dissolved if isinstance(item, ModulePlan) for call in item.calls}
        if not any(isinstance(item, ModulePlan) for item in dissolved):
            raise RuntimeError(f"{len(on_cycle)} nodes wait for one another")
        items: list[ir.Node | ModulePlan] = []
        for item in plan.items:
            items.extend(moved_up(item) if item in dissolved and isinstance(item, ModulePlan) else [item])
        plan.items = items
    plan.items = ordered
    for child in plan.children():
        settle(child, order, reads)


def _topological(
    plan: ModulePlan, order: dict[ir.Node, int], reads: dict[ir.Node, list[ir.Value]]
) -> tuple[list[ir.Node | ModulePlan], set[ir.Node | ModulePlan]]:
    """Return the items in an order in which each can run, as close to the model's own order as possible; and the items
    on a cycle, for which there is no such order."""
    item_of: dict[ir.Node, ir.Node | ModulePlan] = {}
    rank: dict[ir.Node | ModulePlan, int] = {}
    for item in plan.items:
        nodes = list(item.nodes()) if isinstance(item, ModulePlan) else [item]
        rank[item] = max((order[n] for n in nodes), default=0)
        for node in nodes:
            item_of[node] = item
    waits_for: dict[ir.Node | ModulePlan, set[ir.Node | ModulePlan]] = {item: set() for item in plan.items}
    wakes: dict[ir.Node | ModulePlan, set[ir.Node | ModulePlan]] = {item: set() for item in plan.items}
    for node, item in item_of.items():
        for value in reads[node]:
            producer = value.producer()
            source = item_of.get(producer) if producer is not None else None
            if source is not None and source is not item:
                waits_for[item].add(source)
                wakes[source].add(item)
    numbered = {item: index for index, item in enumerate(plan.items)}
    ready = [(rank[item], numbered[item], item) for item in plan.items if not waits_for[item]]
    heapq.heapify(ready)
    ordered: list[ir.Node | ModulePlan] = []
    while ready:
        _, _, item = heapq.heappop(ready)
        ordered.append(item)
        for waiting in wakes[item]:
            waits_for[waiting].discard(item)
            if not waits_for[waiting]:
                heapq.heappush(ready, (rank[waiting], numbered[waiting], waiting))
    left = set(plan.items) - set(ordered)
    return ordered, _on_cycle(left, waits_for)


def _on_cycle(
    items: set[ir.Node | ModulePlan], waits_for: dict[ir.Node | ModulePlan, set[ir.Node | ModulePlan]]
) -> set[ir.Node | ModulePlan]:
    """Return those of `items` that are on a cycle. Items that merely wait for a cycle are peeled off: nobody waits for
    them."""
    waiting = dict.fromkeys(items, 0)  # for each, how many of those that are left wait for it
    for item in items:
        for source in waits_for[item]:
            waiting[source] += 1
    peeled = [item for item, count in waiting.items() if not count]
    for item in peeled:
        for source in waits_for[item]:
            waiting[source] -= 1
            if not waiting[source]:
                peeled.append(source)
    return items - set(peeled)
