"""The tree of modules, cut so that each can be called as one function.

A plan becomes a module if that reads better than its code in the parent's `forward`, and only if it can be called at
one point in time: nothing that it computes may go out, through another item of the parent, and in again. Rules:
1. A plan with a single node is not a module: the node joins the parent (as the layer of that name, if it is one);
   but for a module around one layer (`downsample.0`, `output.dense`), and for a node that is no layer but uses a
   parameter that the weights' names place in this very plan (`x * gamma` of a LayerScale).
   The same for a plan with a single layer, called once or several times, and a reshape or two around it; and for an
   item of a list that is a layer with code around it, if nobody says that it is called, and others are the layer alone.
2. A plan without weights is not a module, unless the exporter names a class of the user's own for it and it has some
   length: activations, dropouts and pools are code of the parent; but for the steps of a chain (`steps.py`).
3. A container (`layers` of `layers.0`, never called itself) is no module: its children join the parent. So do layers
   beside each other with names that no attribute can have (`heads.0` and `heads.1`, `stride.(8, 8)`).
4. Plans on a cycle of the parent's items are dissolved into the parent (`settle.py`).
5. What several modules use is computed above them all, if it depends on nothing inside the first of them; but for
   positions, which each of them counts itself (`local_positions.py`), and for activations that relatives begin with
   (`local_activations.py`): of these there are copies in the graph by now. So are sizes of what comes from outside, if
   nobody inside uses them: equal ones were merged into the first module that measures.
6. In a branch or the body of a loop, a plan is a module only if nothing of it is elsewhere: its parts would be apart.
7. The calls of a module that is called several times are found (`calls.py`), and are plans of one path. They are what
   they are together: where one of them is dissolved, all are.
8. If modules of one kind first join different numbers of inputs (the layers of a DenseNet), their parent joins them, so
   that they can be of one class.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass

import onnx_ir as ir

from onnxlift.ir.graph.types import FLOATS
from onnxlift.ir.graph.walk import inner_nodes
from onnxlift.ir.origin.metadata import NAME_SCOPES
from onnxlift.ir.origin.tensors import origin_of
from onnxlift.lifting.ops.layer_nodes import family_of, is_weighted

from .borders import find_borders
from .calls import find_calls
from .flow import SIZES
from .paths import ModulePaths, Path, owner_of_weight
from .plan import ModulePlan, child_around, homes, is_within, kind, moved_up
from .reads import outer_reads
from .settle import settle
from .steps import find_steps

LARGEST_SLICE = 40
CLASS_NODES = 4  # below this many nodes, code without weights is no module of its own


@dataclass
class Division:
    """The nodes of a graph, divided among modules, before it is asked whether these can be called: the root plan, the
    place of each node in the order of execution, and the values that it reads."""

    root: ModulePlan
    order: dict[ir.Node, int]
    reads: dict[ir.Node, list[ir.Value]]


def build_tree(graph: ir.Graph, paths: ModulePaths) -> ModulePlan:
    """Return the root plan, which is the model itself. The graph stays as it is."""
    division = divide_nodes(graph, paths)
    root, order, reads = division.root, division.order, division.reads
    _hoist_shared(root, graph, reads)
    settle(root, order, reads)
    find_steps(root, paths)
    find_borders(root, graph, reads)
    return root


def divide_nodes(graph: ir.Graph, paths: ModulePaths) -> Division:
    """Divide the nodes of the main graph among modules, by rules 1 to 3, 7 and 8."""
    order = {node: index for index, node in enumerate(graph)}
    reads = {node: outer_reads(node) for node in order}
    root = _trie([node for node in order if node not in paths.copies], paths)
    _divide(root, order, paths)
    paths.shortened.clear()
    _dissolve_small(root, ChainMap(paths.shortened, paths.by_node), paths.owned)
    _hoist_joins(root, reads)
    _place_copies(root, order, paths.copies)
    return Division(root, order, reads)


def build_branch(graph: ir.Graph, paths: ModulePaths, around: ModulePlan) -> ModulePlan:
    """Return the plan of a branch, or of a loop's body, in the code of the module `around`."""
    order = {node: index for index, node in enumerate(graph)}
    root = _trie(order, paths, around.path)
    root.parent = around
    _dissolve_small(root, ChainMap(paths.shortened, paths.by_node), paths.owned)
    _dissolve_divided(root, paths)
    reads = {node: outer_reads(node) for node in order}
    settle(root, order, reads)
    find_borders(root, graph, reads)
    return root


def _place_copies(root: ModulePlan, order: dict[ir.Node, int], copies: dict[ir.Node, Path]) -> None:
    """Let each copy (`local_positions.py`, `local_activations.py`) be in the module with its path around those that
    read it, and come right before them. It has no say in what becomes a module."""
    home = homes(root)
    for copy, path in reversed(copies.items()):  # one that reads another was made after it
        readers = [user for value in copy.outputs for user, _ in value.uses() if user in home]
        plan = home[readers[0]] if readers else root
        while len(plan.path) > len(path) and plan.parent is not None:
            plan = plan.parent
        home[copy] = plan
        order[copy] = min((order[reader] for reader in readers), default=order[copy])
    for copy in copies:
        home[copy].items.append(copy)


def _dissolve_divided(plan: ModulePlan, paths: ModulePaths) -> None:
    """Dissolve the plans of a branch that have nodes elsewhere (rule 6)."""
    items: list[ir.Node | ModulePlan] = []
    for item in plan.items:
        if isinstance(item, ModulePlan):
            _dissolve_divided(item, paths)
        if isinstance(item, ModulePlan) and sum(map(_size, item.nodes())) < paths.population[item.path]:
            items.extend(moved_up(item))
        else:
            items.append(item)
    plan.items = items


def _size(node: ir.Node) -> int:
    """Return the number of nodes: this one and all in its branches."""
    return 1 + sum(1 for _ in inner_nodes(node))


def _divide(plan: ModulePlan, order: Mapping[ir.Node, int], paths: ModulePaths) -> list[ir.Node]:
    """Divide modules that are called several times (rule 7), from the outside in. What the calls of a module share is
    computed by the module that calls it; it is given back if this plan is none."""
    items: list[ir.Node | ModulePlan] = []
    shared: list[ir.Node] = []
    for item in plan.items:
        if not isinstance(item, ModulePlan):
            items.append(item)
            continue
        divided = None
        if item.called and item.path not in paths.undivided:
            divided = find_calls(sorted(item.nodes(), key=order.__getitem__), paths.by_node)
        calls = [item]
        if divided is not None:
            calls = [_trie(nodes, paths, item.path) for nodes in divided.calls]
            shared += divided.shared
            for call in calls:
                call.parent, call.calls = plan, calls
        for call in calls:
            shared += _divide(call, order, paths)
        items += calls
    plan.items = [*shared, *items] if plan.called else items
    return [] if plan.called else shared


def _trie(order: Iterable[ir.Node], paths: ModulePaths, base: Path = ()) -> ModulePlan:
    root = ModulePlan(base, class_hint=paths.classes.get(base), called=True)
    by_path: dict[Path, ModulePlan] = {base: root}

    def plan_at(path: Path) -> ModulePlan:
        found = by_path.get(path)
        if found is None:
            parent = plan_at(path[:-1])
            found = ModulePlan(path, [], paths.classes.get(path), path in paths.called, parent=parent)
            parent.items.append(found)
            by_path[path] = found
        return found

    for node in order:
        path = () if paths.transcribed else paths.by_node.get(node, ())
        plan_at(path if path[: len(base)] == base else base).items.append(node)
    return root


def _dissolve_small(plan: ModulePlan, paths: MutableMapping[ir.Node, Path], owned: set[ir.Node]) -> None:
    """Dissolve what is no module by rules 1 to 3, innermost first."""
    for child in plan.children():
        _dissolve_small(child, paths, owned)
    loose = _layers_with_loose_code(plan, paths)
    items: list[ir.Node | ModulePlan] = []
    for item in plan.items:
        if isinstance(item, ModulePlan) and (item in loose or not _is_module(item, paths, owned)):
            _shorten(item, paths, owned)
            items.extend(moved_up(item))
        else:
            items.append(item)
    plan.items = items


def _layers_with_loose_code(plan: ModulePlan, paths: Mapping[ir.Node, Path]) -> list[ModulePlan]:
    """Return the items of a list that are one layer with code around it, while others are that layer alone. The code
    has only joined what is near it, unless the exporter says that the item is called (rule 1)."""
    items: dict[Path, list[ModulePlan]] = {}
    for item in plan.children():
        layers = [node for node in item.nodes() if is_weighted(node)]
        if item.path[-1].isdigit() and not item.called and len(layers) == 1:
            items.setdefault(paths.get(layers[0], ())[len(item.path) :], []).append(item)
    alike = [found for found in items.values() if any(len(item.items) == 1 for item in found)]
    return [item for found in alike for item in found if len(item.items) > 1]


def _shorten(plan: ModulePlan, paths: MutableMapping[ir.Node, Path], owned: set[ir.Node]) -> None:
    """`dense/einsum/MatMul` -> dense: the only node of a plan has its name, unless it is known to lie deeper.

    `mixer/pool/AveragePool` -> mixer: so has the only node of a plan without weights that lies deeper than its code."""
    nodes = [item for item in plan.items if isinstance(item, ir.Node)]
    if len(nodes) == len(plan.items) > 1 and not any(map(_has_weights, nodes)):
        nodes = [node for node in nodes if len(paths.get(node, ())) > len(plan.path)]
    if len(nodes) == 1 and plan.path and not plan.children() and not _is_placed(nodes[0], owned):
        paths[nodes[0]] = plan.path


def _is_placed(node: ir.Node, owned: set[ir.Node]) -> bool:
    """Tell whether every step of a node's path is a module: its weights say so; or PyTorch does, of recurrent layers,
    whose weights its exporters turn round."""
    return node in owned or (family_of(node) == "recurrent" and _is_from_torch(node))


def _is_from_torch(node: ir.Node) -> bool:
    """Tell whether the path is PyTorch's own: the newer exporter has it in the metadata, the older one writes it like
    that of a file, `/encoder/rnn/LSTM`. Weights that they have turned round may have no names."""
    return NAME_SCOPES in node.metadata_props or (node.name or "").startswith("/")


def _is_module(plan: ModulePlan, paths: Mapping[ir.Node, Path], owned: set[ir.Node]) -> bool:
    if len(plan.items) == 1 and isinstance(plan.items[0], ir.Node):
        node = plan.items[0]
        inner = paths.get(node, ())[len(plan.path) :]
        if is_weighted(node) and node.op_type != "MatMul":
            is_inside = len(inner) == 1 and (inner[0].isdigit() or _is_placed(node, owned))
            return plan.called and _has_weights(node) and is_inside
        return plan.called and not inner and any(owner_of_weight(v) == plan.path for v in _parameters(node))
    if _is_layer(plan, paths):
        return False
    if not plan.called and (_is_list(plan) or _holds_layers_apart(plan, paths)):
        return False
    holds = _has_weights if _is_original(plan, owned) else _holds_weights
    if any(holds(node) for node in plan.nodes()):
        return True
    own_class = plan.class_hint is not None and not plan.class_hint.startswith("aten")
    return own_class and sum(1 for _ in plan.nodes()) >= CLASS_NODES


def _is_list(plan: ModulePlan) -> bool:
    return all(isinstance(item, ModulePlan) and item.path[-1].isdigit() for item in plan.items)


def _holds_layers_apart(plan: ModulePlan, paths: Mapping[ir.Node, Path]) -> bool:
    """Tell whether a plan is nothing but several layers, with names that no attribute can have, none of which reads
    what another one makes."""
    layers = [item for item in plan.items if isinstance(item, ir.Node) and is_weighted(item)]
    names = {paths.get(layer, ())[len(plan.path) :] for layer in layers}
    if len(layers) < len(plan.items) or len(names) < len(layers) or len(layers) < 2:
        return False
    made = {value for layer in layers for value in layer.outputs}
    is_apart = not any(value in made for layer in layers for value in layer.inputs)
    return is_apart and all(len(name) == 1 and not name[0].isidentifier() for name in names)


def _is_original(plan: ModulePlan, owned: set[ir.Node]) -> bool:
    """Tell whether a plan was a module of the original. TensorFlow has a scope for every operation, even for one that
    only reads a constant."""
    return plan.class_hint is not None or any(node in owned or _is_from_torch(node) for node in plan.nodes())


def _is_layer(plan: ModulePlan, paths: Mapping[ir.Node, Path]) -> bool:
    """Tell whether a plan is one layer with some code around it (a reshape before a linear layer), which may be called
    several times: it is the layer that has the name."""
    holders = [item for item in plan.items if isinstance(item, ir.Node) and _holds_weights(item)]
    if not holders or plan.children():
        return False
    layer, weights = holders[0], [*_parameters(holders[0])]
    if not is_weighted(layer) or any(paths.get(holder) != plan.path for holder in holders):
        return False
    if any(holder.op_type != layer.op_type or [*_parameters(holder)] != weights for holder in holders):
        return False
    # If it is this very plan that holds the weights, a module around the layer would rename them. Where they have no
    # names PyTorch's exporters still know: a layer inside would have a plan of its own.
    is_owner = any(owner_of_weight(weight) == plan.path for weight in weights) or (
        not any(owner_of_weight(weight) for weight in weights) and _is_from_torch(layer)
    )
    return len(plan.items) - len(holders) < (LARGEST_SLICE if is_owner else CLASS_NODES)


def _has_weights(node: ir.Node) -> bool:
    return any(True for _ in _parameters(node))


def _holds_weights(node: ir.Node) -> bool:
    """Tell whether a node needs what is trained, and not just a table of numbers."""
    return any(is_weighted(node) or origin_of(value).is_parameter for value in _parameters(node))


def _parameters(node: ir.Node) -> Iterator[ir.Value]:
    for value in node.inputs:
        if value is not None and value.const_value is not None and value.dtype in FLOATS and value.shape:
            yield value


def _hoist_joins(plan: ModulePlan, reads: dict[ir.Node, list[ir.Value]]) -> None:
    """Move joins of inputs to the parent (rule 8), for the children of a plan, and theirs."""
    relatives: dict[object, list[ModulePlan]] = {}
    for child in plan.children():
        _hoist_joins(child, reads)
        relatives.setdefault(kind(child), []).append(child)
    for children in relatives.values():
        joins = {child: _join_of_inputs(child, reads) for child in children} if len(children) > 1 else {}
        if len({len(join.inputs) if join is not None else 1 for join in joins.values()}) > 1:
            for child, join in joins.items():
                if join is not None:
                    child.items.remove(join)
                    plan.items.append(join)


def _join_of_inputs(plan: ModulePlan, reads: dict[ir.Node, list[ir.Value]]) -> ir.Node | None:
    """Find the node of a plan that joins values from outside, all of which nobody else inside reads."""
    nodes = set(plan.nodes())
    for node in plan.items:
        if isinstance(node, ir.Node) and node.op_type == "Concat":
            joined = set(node.inputs)
            outside = all(value is not None and value.producer() not in nodes for value in joined)
            if outside and not any(joined.intersection(reads[other]) for other in nodes if other is not node):
                return node
    return None


def _hoist_shared(root: ModulePlan, graph: ir.Graph, reads: dict[ir.Node, list[ir.Value]]) -> None:
    """Move up what several modules use (rule 5). A value that several modules use, computed in the first of them from
    what comes from outside it, is computed where all of them get it from: exporters and optimisers merge equal
    expressions (masks, positions) into the first module that has them."""
    home = homes(root)
    users: dict[ir.Value, list[ir.Node]] = {}
    for node, values in reads.items():
        for value in values:
            users.setdefault(value, []).append(node)
    moved: set[ModulePlan] = set()
    sizes: set[ir.Node] = set()  # of what comes from outside
    for node in graph:
        plan = home[node]
        if _is_size_from_outside(node, plan, home, sizes):
            sizes.add(node)
        places = [home[user] for value in node.outputs for user in users.get(value, ())]
        inside = [p for p in places if is_within(p, plan)]
        if plan is root or len(inside) == len(places) or not (inside or node in sizes):
            continue
        target = plan
        while not all(is_within(p, target) for p in places):
            assert target.parent is not None
            target = target.parent
        branches = {child_around(place, target) for place in (plan, *places)} - {target}
        for part in _slice(node, branches, target, home, reads):
            moved.add(home[part])
            home[part] = target
            target.items.append(part)
    for plan in moved:
        plan.items = [i for i in plan.items if isinstance(i, ModulePlan) or home[i] is plan]


def _is_size_from_outside(
    node: ir.Node, plan: ModulePlan, home: Mapping[ir.Node, ModulePlan], sizes: Collection[ir.Node]
) -> bool:
    """Tell whether a node of a plan measures what comes from outside, or only computes with such `sizes` and constants:
    anybody can do that."""
    if node.op_type not in SIZES and not all("dims" in value.meta for value in node.outputs):
        return False
    producers = (value.producer() for value in node.inputs if value is not None)
    return all(p is None or p in sizes or p not in home or not is_within(home[p], plan) for p in producers)


def _slice(
    node: ir.Node,
    branches: Collection[ModulePlan],
    target: ModulePlan,
    home: dict[ir.Node, ModulePlan],
    reads: dict[ir.Node, list[ir.Value]],
) -> list[ir.Node]:
    """`node` and what it is computed from inside these `branches` of `target`; nothing if that has weights, or is too
    much for a detail."""
    found: dict[ir.Node, None] = {}
    waiting = [node]
    while waiting:
        part = waiting.pop()
        if part in found or child_around(home[part], target) not in branches:
            continue
        if _holds_weights(part) or len(found) >= LARGEST_SLICE:
            return []
        found[part] = None
        for value in reads[part]:
            producer = value.producer()
            if producer is not None and producer in home:
                waiting.append(producer)
    return list(found)
