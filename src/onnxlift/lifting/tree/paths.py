"""Find the path of modules that a node belongs to, from what exporters leave in the file. The sources in order of
trust:

1. the exporter's metadata (`pkg.torch.onnx.name_scopes`, with the classes in `class_hierarchy`)
2. names of the node's own weights: `encoder.layer.0.query.weight` -> encoder, layer, 0, query
3. scopes in the node's name: `/encoder/layer.0/query/MatMul` -> encoder, layer, 0, query. If such a scope was the call
   of a model-local function, that function is its class. Modules that such scopes leave out (tree/gaps.py) are added.
   Modules that they go through, although the layers have another path (tree/detours.py), are left out.

A weight's name beats the others for the node that holds it as a layer. Optimisers move nodes between scopes (a
BatchNorm folded into the Conv before it), but leave weights their names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice, takewhile

import onnx_ir as ir

from onnxlift.ir.graph.marks import ROUNDING
from onnxlift.ir.graph.types import FLOATS, NUMBERS
from onnxlift.ir.graph.walk import subgraphs
from onnxlift.ir.origin.metadata import CLASSES, NAME_SCOPES, NO_MODULE, string_list
from onnxlift.ir.origin.module_paths import joined
from onnxlift.ir.origin.names import says_nothing, unquantised
from onnxlift.ir.origin.tensors import origin_of
from onnxlift.lifting.ops.layer_nodes import is_weighted, weight_places
from onnxlift.rewriting.normal_form.expansion import CALLS

from .between import join_between
from .detours import find_detours, without_detours
from .gaps import Path as Path
from .gaps import fill, find_gaps
from .scopes import scopes_in

DEEPEST = 24  # modules within modules; longer paths are cut, since a stranger wrote them
MOST_TIED = 16  # layers that share a weight; if there are more, they are one layer that is called again and again


@dataclass
class ModulePaths:
    """The module path of each node. `called` are the paths that are known to be modules with a `forward`, and not mere
    containers. `classes` are their class names, if the exporter tells."""

    by_node: dict[ir.Node, Path] = field(default_factory=dict)
    called: set[Path] = field(default_factory=set)
    classes: dict[Path, str] = field(default_factory=dict)

    undivided: set[Path] = field(default_factory=set)  # modules whose calls are not told apart
    guessed_classes: set[Path] = field(default_factory=set)  # whose name in `classes` is our own, and no exporter's
    guessed: bool = False  # True if the paths are our own, and not from names in the model
    completed: dict[ir.Node, Path] = field(default_factory=dict)  # corrected paths (tree/gaps.py, tree/detours.py)
    by_name: dict[str, Path] = field(default_factory=dict)
    of_layers: dict[ir.Value, bool] = field(default_factory=dict)  # True for a weight of a layer that has its name
    owned: set[ir.Node] = field(default_factory=set)  # nodes whose path comes from the names of their weights
    shortened: dict[ir.Node, Path] = field(default_factory=dict)  # of nodes alone in a scope, as the tree has it
    nameless: set[ir.Node] = field(default_factory=set)  # layers whose path is that of the module that holds them
    children: dict[Path, set[str]] = field(default_factory=dict)  # the names below each module, of nodes with names
    transcribed: bool = False  # True if all code is in the model itself, so that paths only say where layers lie
    copies: dict[ir.Node, Path] = field(default_factory=dict)  # copied nodes, for modules that compute the same again

    @cached_property
    def population(self) -> Counter[Path]:
        """The number of nodes of the model that lie at a path or below it, by path."""
        paths = (self.shortened.get(node, path) for node, path in self.by_node.items())
        return Counter(path[:depth] for path in paths for depth in range(len(path) + 1))

    def path_of(self, node: ir.Node) -> Path:
        """Return the path of a node of the main graph or of a subgraph; the root's if nothing is known."""
        path = self.shortened.get(node, self.by_node.get(node))
        if path is None:
            path = self.by_node[node] = _own_path(node, self) or ()
        return path


def find_paths(graph: ir.Graph) -> ModulePaths:
    """Find the path of every node of the main graph. A node that nothing is known about joins the nodes that use its
    values."""
    paths = ModulePaths()
    _complete_names(graph, paths)
    unknown: set[ir.Node] = set()
    for node in graph:
        path = _own_path(node, paths)
        if path is None:
            unknown.add(node)
        else:
            paths.by_node[node] = path
    join_neighbours(graph, paths, unknown)
    _strip_wrapper(paths, unknown)
    _forget_calls(paths)
    paths.by_name = {node.name: path for node, path in paths.by_node.items() if node.name}
    return paths


def find_inner_paths(graph: ir.Graph, paths: ModulePaths) -> int:
    """Add the paths of the nodes in branches and loops, at any depth. An If or a loop around layers is in the innermost
    module that holds them all."""
    found = 0
    for node in graph:
        for inner in subgraphs(node):
            unknown: set[ir.Node] = set()
            for each in inner:
                path = _own_path(each, paths)
                paths.by_node[each] = path or ()
                if path is None:
                    unknown.add(each)
            join_neighbours(inner, paths, unknown)
            found += len(inner) + find_inner_paths(inner, paths)
            layers = [_around(each, paths.by_node[each]) for each in inner if each in paths.owned]
            paths.by_node[node] = _common([paths.by_node.get(node, ()), *layers])
    return found


def join_neighbours(graph: ir.Graph, paths: ModulePaths, nodes: Collection[ir.Node]) -> None:
    """Let each of `nodes` be in the innermost module that holds all users of its values.

    If that module is around the one that makes the single value which the node works on, let it be in that inner one:
    it is the activation of a layer whose name an optimiser kept. What is rounded is rounded where it was made. But a
    layer whose own name is lost is in the innermost module around all that it reads and all that reads it, and so is
    its activation: a network before a head is no part of the head.
    """
    # Where no weight has a key of PyTorch's, the names of nodes say too little to tell what is lost.
    layers = {node for node in nodes if _has_lost_its_name(node, nodes)} if paths.owned else set()
    paths.nameless |= layers
    _join_users(graph, paths, nodes, layers)
    if paths.guessed:
        return
    lists, dictionaries = _containers(graph, paths, nodes)
    if layers:
        _leave_readers(graph, paths, nodes, layers, lists | dictionaries)
        _join_users(graph, paths, [node for node in nodes if node not in layers], layers)
    for node in graph:
        source = _only_source(node) if node in nodes and node not in layers else None
        if source is None:
            continue
        path = paths.by_node.get(source, ()) if source in layers else _around(source, paths.by_node.get(source, ()))
        while path in dictionaries:
            path = path[:-1]
        outer, inner = sorted((path, paths.by_node[node]), key=len)
        if node.op_type in ROUNDING and source in paths.by_node:
            paths.by_node[node] = path
        elif inner[: len(outer)] == outer:
            paths.by_node[node] = outer if source in layers else inner
    if paths.owned:
        free = {node for node in nodes if node in layers or not _is_layer(node)}
        join_between(
            graph,
            free,
            lists | dictionaries,
            lambda node: paths.by_node[node] if node in layers else _around(node, paths.by_node.get(node, ())),
            paths.by_node.__setitem__,
        )


def _join_users(graph: ir.Graph, paths: ModulePaths, nodes: Collection[ir.Node], layers: Collection[ir.Node]) -> None:
    """Let each of `nodes` be in the innermost module that holds all users of its values. The paths of `layers` are
    those of the modules that hold them."""
    for node in reversed(list(graph)):
        if node in nodes:
            users = {user for value in node.outputs for user, _ in value.uses() if user in paths.by_node}
            around = [paths.by_node[user] if user in layers else _around(user, paths.by_node[user]) for user in users]
            path = _common(around)
            paths.by_node[node] = _module(path, paths) if paths.guessed else path


def _has_lost_its_name(node: ir.Node, unknown: Collection[ir.Node]) -> bool:
    """Tell whether a node is a layer that nothing names: neither what adds its bias, nor another part of it that reads
    what it makes, and it is not the activation of another layer."""
    if not is_weighted(node) or node.op_type == "PRelu" or not weights_of(node):
        return False
    reader = _only_reader(node)
    while reader is not None and reader in unknown and not is_weighted(reader):
        reader = _only_reader(reader)
    return reader is None or is_weighted(reader)


def _only_reader(node: ir.Node) -> ir.Node | None:
    users = {user for value in node.outputs for user, _ in islice(value.uses(), 2)}
    return users.pop() if len(users) == 1 else None


def _leave_readers(
    graph: ir.Graph,
    paths: ModulePaths,
    nodes: Collection[ir.Node],
    layers: Collection[ir.Node],
    containers: Collection[Path],
) -> None:
    """Move each of `layers` out of the modules of its readers that hold nothing of what it reads, and out of
    containers, where it can have no name. What comes from outside may belong to any module, but not a layer that reads
    nothing else."""
    places: dict[ir.Node, Path] = {}
    for node in graph:
        if node not in nodes:
            places[node] = _around(node, paths.by_node[node])
            continue
        read = [value.producer() for value in node.inputs if value is not None and value.const_value is None]
        known = [places[source] for source in read if source in places]
        if node in layers:
            path = paths.by_node[node]
            if not _has_sibling(node, path, paths, layers):
                path = _common([_common(known), path])
            while path in containers:
                path = path[:-1]
            places[node] = paths.by_node[node] = path
        elif known:
            places[node] = _common(known)


def _has_sibling(node: ir.Node, module: Path, paths: ModulePaths, layers: Collection[ir.Node]) -> bool:
    """Tell whether a layer with a name, in the same module, reads what this one reads: as queries and values do beside
    keys that have no bias, and so no name."""
    readers = (user for value in node.inputs[:1] if value is not None for user, _ in islice(value.uses(), MOST_TIED))
    named = (user for user in readers if user not in layers and is_weighted(user) and user.op_type == node.op_type)
    return any(_around(user, paths.by_node.get(user, ()))[: len(module)] == module for user in named)


def _containers(graph: ir.Graph, paths: ModulePaths, unknown: Collection[ir.Node]) -> tuple[set[Path], set[Path]]:
    """Return the modules whose children have numbers as names, and those with other names that no attribute can have:
    lists and dictionaries of modules. Nodes of this graph and of those before it tell which children there are."""
    children = paths.children
    for path in {paths.by_node[node] for node in graph if node not in unknown and node in paths.by_node}:
        for end, part in enumerate(path):
            children.setdefault(path[:end], set()).add(part)
    lists = {path for path, names in children.items() if path and all(map(str.isdigit, names))}
    dictionaries = {
        path
        for path, names in children.items()
        if path and not all(name.isidentifier() or name.isdigit() for name in names)
    }
    return lists, dictionaries


def _only_source(node: ir.Node) -> ir.Node | None:
    """Return the node that makes the single value which `node` works on."""
    values = [value for value in node.inputs if value is not None and value.const_value is None]
    works = len(values) == 1 and len(node.outputs) == 1 and node.outputs[0].dtype in NUMBERS
    return values[0].producer() if works else None


def _module(path: Path, paths: ModulePaths) -> Path:
    """Return the innermost module around `path`, perhaps itself. A list of modules does not count."""
    while path and path not in paths.called:
        path = path[:-1]
    return path


def no_paths(graph: ir.Graph) -> ModulePaths:
    """Put every node into the root, whatever the names say."""
    return ModulePaths(by_node=dict.fromkeys(graph.all_nodes(), ()))


def layer_paths(graph: ir.Graph) -> ModulePaths:
    """Put every node into the root, but let layers lie where their names say."""
    found = find_paths(graph)
    find_inner_paths(graph, found)
    named = found.owned | found.nameless
    kept = {node: path for node, path in found.by_node.items() if node in named and is_weighted(node)}
    return ModulePaths(
        by_node={node: kept.get(node, ()) for node in graph.all_nodes()},
        owned=found.owned & kept.keys(),
        nameless=found.nameless,
        transcribed=True,
    )


def _strip_wrapper(paths: ModulePaths, unknown: Collection[ir.Node]) -> None:
    """Forget the scope that TensorFlow and Keras put around everything (`model/conv1/Conv2D`), but for the `unknown`
    nodes that converters add. A path that weights or PyTorch's exporter name stays."""
    if paths.owned or paths.classes or any((node.name or "/").startswith("/") for node in paths.by_node):
        return
    common = _common([path for node, path in paths.by_node.items() if node not in unknown])
    if common:
        paths.by_node = {node: path[len(common) :] for node, path in paths.by_node.items()}
        paths.called = {path[len(common) :] for path in paths.called if path[: len(common)] == common}


_COUNTED = re.compile(r"(.+)_(\d{1,6})")


def _forget_calls(paths: ModulePaths) -> None:
    """Remove the numbers of calls: `/layer_1/Add` -> layer. PyTorch's older exporter adds a number to the name of a
    module that is called again.

    `layer_1` is a call, and no module of that name, if no node holds weights there, and the weights of `layer` are read
    more than that many times. If `layer` has no weights, those of the module around it count. It is also a call if
    `/layer_1/Add` reads a constant that is called `layer.offset`.
    """
    readers: dict[tuple[object, ...], list[Path]] = {}
    for node, path in paths.by_node.items():
        weights = weights_of(node) if is_weighted(node) else ()
        if weights:
            readers.setdefault((node.op_type, *weights), []).append(path)
    calls: dict[Path, int] = {}
    for home, *others in readers.values():
        for depth in range(1, len(home) + 1):
            calls[home[:depth]] = min(1 + len(others), calls.get(home[:depth], 1 + len(others)))
    for home, again in _read_again(paths).items():
        calls.setdefault(home, 1 + len(again))
    if all(count == 1 for count in calls.values()):
        return
    for node, path in paths.by_node.items():
        known: Path = ()
        around = 1
        for part in path:
            counted = None if (*known, part) in calls else _COUNTED.fullmatch(part)
            base = (*known, counted[1]) if counted else ()
            is_call = counted is not None and int(counted[2]) < calls.get(base, around)
            known = base if is_call else (*known, part)
            around = calls.get(known, around)
        paths.by_node[node] = known


def _read_again(paths: ModulePaths) -> dict[Path, set[str]]:
    """Return the modules whose constants are read, by nodes that are no layers, under the names of further calls. Each
    module comes with these names: `layer` -> layer_1, layer_2."""
    found: dict[Path, set[str]] = {}
    for node, path in paths.by_node.items():
        counted = _COUNTED.fullmatch(path[-1]) if path and not is_weighted(node) else None
        if counted is not None:
            home = (*path[:-1], counted[1])
            if any(owner_of_weight(value) == home for value in weights_of(node)):
                found.setdefault(home, set()).add(path[-1])
    return found


def _complete_names(graph: ir.Graph, module_paths: ModulePaths) -> None:
    """Find the paths of those nodes whose names leave out modules, or go through modules that hold none of their
    layers. Among the modules that are left out, the items of a list are called; the others are not."""
    by_name = ModulePaths()
    layers = [node for node in graph.all_nodes() if is_weighted(node)]
    scopes_of = {node: _from_node_name(node, by_name) or () for node in layers}
    owners = {node: owner for node in layers if (owner := _from_weights(node, scopes_of[node]))}
    told = [(scopes_of[node], owner) for node, owner in owners.items()]
    gaps, detours = find_gaps(told), find_detours(told)
    if not gaps and not detours:
        return
    named = [(node, _from_node_name(node, by_name) or ()) for node in graph.all_nodes()]
    if not gaps:
        _leave_out(detours, named, module_paths, by_name.called - detours)
        return
    paths = fill([(scope, owners.get(node)) for node, scope in named], gaps)
    for (node, scope), path in zip(named, paths, strict=True):
        if path != scope:
            module_paths.completed[node] = path
            above, added = len(_common([scope, path])), len(path) - len(scope)
            called = [path[: above + added]] if path[above + added - 1].isdigit() else []
            called += [path[: end + added] for end in range(above + 1, len(scope) + 1)]
            module_paths.called.update(called, (path[:end] for end in range(above + 1)))


def _leave_out(
    detours: Collection[Path], named: Iterable[tuple[ir.Node, Path]], paths: ModulePaths, called: Collection[Path]
) -> None:
    for node, scope in named:
        around = [scope[:end] for end in range(len(scope) + 1)]
        if any(each in detours for each in around):
            paths.completed[node] = without_detours(scope, detours)
            paths.called.update(without_detours(each, detours) for each in around if each in called)


def _own_path(node: ir.Node, paths: ModulePaths) -> Path | None:
    by_exporter = _from_metadata(node, paths)
    if by_exporter is None:
        by_exporter = paths.completed[node] if node in paths.completed else _from_node_name(node, paths)
    # A parameter that is a node by itself is in the module that uses it, not in the one that its name tells.
    by_weights = _from_weights(node, by_exporter) if node.op_type != "Parameter" else None
    path = _choose(node, by_exporter, by_weights, paths)
    if path is not None and path == by_weights:
        paths.owned.add(node)
    return path


def _around(node: ir.Node, path: Path) -> Path:
    """Return the module that holds a node's code. For a layer, this is the module that holds the layer."""
    return path[:-1] if _is_layer(node) else path


def _is_layer(node: ir.Node) -> bool:
    """Tell whether a node holds weights, so that its path has its own name at the end. What rounds has none."""
    return is_weighted(node) and node.op_type not in ROUNDING and bool(weights_of(node))


def _common(paths: Sequence[Path]) -> Path:
    """Return the longest path with which all of `paths` begin."""
    if not paths:
        return ()
    low, high = min(paths), max(paths)
    return tuple(a for a, _ in takewhile(lambda pair: pair[0] == pair[1], zip(low, high, strict=False)))


def _choose(node: ir.Node, by_exporter: Path | None, by_weights: Path | None, paths: ModulePaths) -> Path | None:
    if by_weights is None:
        return by_exporter
    if by_exporter is None:
        is_code = _is_layers(node, by_weights, paths) or _is_read_outside(node, by_weights)
        return None if is_code and not is_weighted(node) else by_weights
    if is_weighted(node):
        # Optimisers move nodes to a neighbour. A weight from further away is shared, and belongs to another layer.
        is_near = by_weights[:-1] == by_exporter[:-1] or by_weights[: len(by_exporter)] == by_exporter
        is_own = by_weights == by_exporter or (is_near and not _is_tied(node, by_weights))
        return by_weights if is_own else by_exporter
    # An ordinary operator uses a parameter. The operator belongs to the parameter's owner only if that lies inside the
    # module that the exporter tells, and is no layer.
    is_inside = by_weights[: len(by_exporter)] == by_exporter and not _is_layers(node, by_weights, paths)
    return by_weights if is_inside else by_exporter


def _is_layers(node: ir.Node, owner: Path, paths: ModulePaths) -> bool:
    """Tell whether a weight that an operator reads belongs to a layer that is called under its own name."""
    tensors = [value for value in weights_of(node) if owner_of_weight(value) == owner]
    for value in tensors:
        if value not in paths.of_layers:
            layers = (user for user, _ in islice(value.uses(), MOST_TIED) if is_weighted(user))
            paths.of_layers[value] = any(_by_exporter(user) == owner for user in layers)
    return any(paths.of_layers[value] for value in tensors)


def _is_read_outside(node: ir.Node, owner: Path) -> bool:
    """Tell whether a node computes only from parameters of the module `owner`, and all its readers lie outside of that
    module. The newer exporter does not say which module cuts a parameter into pieces."""
    users = {user for value in node.outputs for user, _ in islice(value.uses(), MOST_TIED)}
    paths = [_by_exporter(user) for user in users]
    is_outside = bool(paths) and all(path is not None and path[: len(owner)] != owner for path in paths)
    return is_outside and all(value is None or value.const_value is not None for value in node.inputs)


def _is_tied(node: ir.Node, owner: Path) -> bool:
    """Tell whether a weight has the name of another layer than the node's own.

    That layer may be of another kind, such as the embedding whose matrix the output head beside it shares. It may never
    be called, such as `shared.weight` of an encoder's and a decoder's embedding. Or it is called by its own name, and
    this node has another name, even without the number of a further call.
    """
    tensors = [value for value in weights_of(node) if owner_of_weight(value) == owner]
    readers = {user for value in tensors for user, _ in islice(value.uses(), MOST_TIED + 1)}
    users = {user for user in readers if is_weighted(user)}
    paths = {user: _by_exporter(user) for user in users}
    owners = [user for user, path in paths.items() if path == owner]
    own = paths.get(node) or ()
    is_beside = bool(owners) and bool(own) and own[:-1] == owner[:-1] and _without_count(own[-1]) != owner[-1]
    is_other = is_beside or all(user.op_type != node.op_type for user in owners)
    return len(users) > 1 and len(readers) <= MOST_TIED and None not in paths.values() and is_other


def _without_count(name: str) -> str:
    counted = _COUNTED.fullmatch(name)
    return counted[1] if counted else name


def _by_exporter(node: ir.Node) -> Path | None:
    path = _from_metadata(node, ModulePaths())
    return path if path is not None else _from_node_name(node, ModulePaths())


def _from_metadata(node: ir.Node, paths: ModulePaths) -> Path | None:
    names = string_list(node.metadata_props.get(NAME_SCOPES))
    if not names or names[0] == NO_MODULE:
        return None
    classes = string_list(node.metadata_props.get(CLASSES)) or []
    path: Path = ()
    for index, name in enumerate(names[:-1]):  # the last one is the operation itself
        path = _parts(name) if name else ()
        paths.called.add(path)
        if index < len(classes):
            paths.classes.setdefault(path, classes[index].rpartition(".")[2])
    return path


def _from_node_name(node: ir.Node, paths: ModulePaths) -> Path | None:
    name = node.name or ""
    if "/" not in name.strip("/") and not name.startswith("/"):
        return None
    path: Path = ()
    paths.called.add(path)
    functions: Mapping[str, str] = node.meta.get(CALLS, {})
    components = scopes_in(name)[:DEEPEST]
    for depth, component in enumerate(components, 1):
        parts = tuple(p for p in _parts(component) if p)
        path = joined(path, parts)[:DEEPEST]
        paths.called.add(path)
        function = functions.get("/".join(components[:depth]))
        if function is not None:
            paths.classes.setdefault(path, function.rpartition(".")[2])
    return path


def _parts(text: str) -> Path:
    return tuple(text.split(".", DEEPEST)[:DEEPEST])


_FLAT = re.compile(
    r"^(?:(?:W|w|b|B|weight|bias|kernel)_(?P<after>\w+)|(?P<before>\w+?)_(?:W|R|B|b|w|weights?|bias|kernel|scale|gamma"
    r"|beta|mean|var|running_mean|running_var))$"
)


def _from_weights(node: ir.Node, by_exporter: Path | None) -> Path | None:
    """Return the owner of the node's named weights. If there are several, as with layers that share a matrix, the
    exporter's path decides, or else the longest. What was a constant of the code has no owner, if it is no layer's."""
    weights = (v for v in weights_of(node) if is_weighted(node) or not origin_of(v).is_constant)
    owners = [owner for value in weights if (owner := owner_of_weight(value)) is not None]
    if by_exporter in owners:
        return by_exporter
    return max(owners, key=len) if owners else None


def weights_of(node: ir.Node) -> list[ir.Value]:
    """Return the weights that a node holds: for a layer those that it has as a layer, for others all constants of
    floats."""
    positions = weight_places(node) or range(len(node.inputs))
    inputs = [node.inputs[i] for i in positions if i < len(node.inputs)]
    constants = [v for v in inputs if v is not None and v.const_value is not None and v.shape]
    return [v for v in constants if v.dtype in FLOATS or is_weighted(node)]


def owner_of_weight(weight: ir.Value) -> Path | None:
    """Return the module path in the name of a weight, or None. A name with `/` or `:` has one only if it is known as a
    key of PyTorch's: in the names of others, they part scopes and results."""
    return owner_of(weight.name, is_key=origin_of(weight).key is not None)


def owner_of(name: str | None, *, is_key: bool = False) -> Path | None:
    """Return the module path in the name of a weight: `encoder.layer.0.query.weight` -> (encoder, layer, 0, query).
    Return None for names that come from no module tree. `is_key` says that it is a key of the state dict."""
    if not name or says_nothing(name) or "." not in name or (not is_key and ("/" in name or ":" in name)):
        return None
    parts = tuple(name.split("."))
    return parts[:-1][:DEEPEST] if all(parts) else None


def flat_layer_name(name: str | None) -> str | None:
    """Return the layer in a name that has no dot before its last word: `fc_W`, `W_fc`, `attn.in_proj_weight` -> fc, fc,
    in_proj."""
    match = _FLAT.match(unquantised((name or "").rpartition(".")[2]))
    return (match["after"] or match["before"]) if match else None
