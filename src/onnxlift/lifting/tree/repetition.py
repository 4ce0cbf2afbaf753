"""Find modules in a graph without names, or with mere numbers for names: code that is there several times becomes a
module.

    norm, q, k, v, attention, out, add, norm, up, gelu, down, add, norm, q, ...   ->   layers.0, layers.1, ...

The graph is laid out in a line and cut into pieces (see flow.py). Then:
1. A sequence of pieces (a body) that is there several times becomes a block, each time. First come bodies that follow
   each other (the layers of a transformer), and of these first the body that saves most. But residual blocks of
   convolutions become blocks one by one, even if there is only one of a kind. Then come an attention with its MLP,
   single pieces, and whatever else repeats.
2. In a row of blocks there is a choice where a block begins. It begins where fewest values go out, and best before a
   fork.
3. A block has at least two layers and four nodes, one result (results of the model aside) and few inputs.
4. Blocks in a row become a list. The same rules apply again inside a block. The branch of a residual sum becomes a
   module (the attention and the MLP of a layer).

A cut is only a proposal: build.py takes out whatever could not be called at one point in time. All decisions depend
only on the graph, and on what is the same in all instances of a block. So the instances can share a class.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

import onnx_ir as ir

from onnxlift.ir.origin.names import is_counted_weight, says_nothing
from onnxlift.lifting.ops.layer_nodes import kind_of

from .flow import (
    Flow,
    Piece,
    RepeatedBlock,
    attends,
    depth_first,
    find_flow,
    is_convolution,
    is_layer,
    residual_sum,
)
from .paths import ModulePaths, Path, join_neighbours
from .reads import outer_reads
from .roles import name_blocks
from .runs import find_repeats, find_runs, is_run
from .sizes import read_sizes_outside
from .weights import mark_weights

FEWEST_LAYERS, FEWEST_NODES = 2, 4
MOST_INPUTS = 8
LARGEST_RESIDUAL = 40  # nodes; a larger piece has blocks inside
ROUNDS = 8  # times that pieces are split which no other is equal to
STEPS = 64  # steps of the search for a body, for each piece


def find_repetition(graph: ir.Graph, module_paths: ModulePaths, *, only_weights: bool = False) -> int:
    """Give the nodes of repeated blocks a path, and weights a name, in a graph where no name says anything; return the
    number of runs of blocks. With `only_weights`, there are to be no blocks."""
    are_counted = _are_counted(graph)
    if any(module_paths.by_node.values()) and not are_counted:
        return 0 if only_weights else _find_between_names(graph, module_paths)
    flow = find_flow(graph)
    mark_weights(graph, flow, are_counted)
    if only_weights:
        return 0
    paths = module_paths.by_node
    module_paths.by_node = {node: path for node, path in paths.items() if node.graph is not graph}
    pieces, symbols = _pieces(flow)
    blocks = Search(flow, pieces, symbols).blocks(0, len(pieces))
    if not blocks:
        module_paths.by_node = paths
    else:
        module_paths.owned.clear()
        module_paths.nameless.clear()
        name_blocks(flow, blocks, module_paths)
        module_paths.guessed = True
        join_neighbours(graph, module_paths, {node for node in graph if node not in flow.position})
        read_sizes_outside(graph, module_paths)
        for node, path in paths.items():
            if not path:
                module_paths.by_node.setdefault(node, path)  # names that said nothing before do not speak now
        _sort(graph, flow)
    return len(blocks)


def _find_between_names(graph: ir.Graph, module_paths: ModulePaths) -> int:
    """Give the nodes of repeated blocks a path where layers have lost their names; return the number of blocks. Modules
    that have names stay as they are, and hold the blocks."""
    paths = module_paths.by_node
    holders = Counter(paths[node] for node in module_paths.nameless if node.graph is graph)
    if not any(count >= FEWEST_LAYERS for count in holders.values()):
        return 0
    flow = find_flow(graph)
    pieces, numbers = _pieces(flow)
    homes = [{paths[node] for node in flow.nodes[slice(*piece)]} for piece in pieces]
    found: dict[Path, list[RepeatedBlock]] = {}
    for holder in holders:
        symbols = [
            symbol if home == {holder} else -1 - i for i, (symbol, home) in enumerate(zip(numbers, homes, strict=True))
        ]
        found[holder] = Search(flow, pieces, symbols).blocks(0, len(pieces))
    if not any(found.values()):
        return 0
    around = {node for node in graph if paths[node] in found and node not in flow.position}
    for holder, blocks in found.items():
        depth = len(holder)
        taken = {path[depth] for path in paths.values() if path[:depth] == holder and len(path) > depth}
        name_blocks(flow, blocks, module_paths, holder, taken)
    module_paths.nameless = {node for node in module_paths.nameless if paths[node] in found}
    join_neighbours(graph, module_paths, around)
    read_sizes_outside(graph, module_paths)
    _sort(graph, flow)
    return sum(map(len, found.values()))


def _are_counted(graph: ir.Graph) -> bool:
    """Tell whether the names of weights are mere counts, like `conv2d_394.w_0`: the number of a layer among those of
    its kind."""
    names = [name for name in graph.initializers if "." in name and not says_nothing(name)]
    return bool(names) and all(is_counted_weight(name) for name in names)


def _sort(graph: ir.Graph, flow: Flow) -> None:
    """Bring the nodes into the order of the line, so that the code of equal blocks is in the same order, too."""
    nodes = list(graph)
    needs = {node: [p for v in outer_reads(node) if (p := v.producer()) is not None] for node in nodes}
    ordered = list(depth_first([*flow.nodes, *nodes], needs))
    graph.remove(nodes)
    graph.extend(ordered)


def _pieces(flow: Flow) -> tuple[list[Piece], list[int]]:
    """Return the pieces of the line, and a number for each. Equal pieces have the same number."""
    numbers: dict[object, int] = {}
    pieces = [(piece, numbers.setdefault(flow.describe(piece), len(numbers))) for piece in flow.pieces()]
    for _ in range(ROUNDS):
        count = Counter(symbol for _, symbol in pieces)
        parts: list[tuple[Piece, int]] = []
        for piece, symbol in pieces:
            whole = count[symbol] > 1 or piece[1] - piece[0] == 1 or _is_residual(flow, piece)
            smaller = [piece] if whole else flow.split(piece)
            if len(smaller) == 1:
                parts.append((piece, symbol))
            else:
                parts.extend((part, numbers.setdefault(flow.describe(part), len(numbers))) for part in smaller)
        if len(parts) == len(pieces):
            break
        pieces = parts
    pieces = _rejoined(flow, pieces, numbers)
    return [piece for piece, _ in pieces], [symbol for _, symbol in pieces]


def _rejoined(flow: Flow, pieces: list[tuple[Piece, int]], numbers: Mapping[object, int]) -> list[tuple[Piece, int]]:
    """Return the pieces, and join those that together are equal to a whole one: something larger was split, and they
    with it."""
    count = Counter(symbol for (start, end), symbol in pieces if end - start >= FEWEST_NODES)
    lengths: dict[str, dict[int, None]] = {}  # of whole pieces that are there several times, by their first operator
    for (start, end), symbol in pieces:
        if count[symbol] > 1:
            lengths.setdefault(flow.nodes[start].op_type, {})[end - start] = None
    place_of = {end: index for index, ((_, end), _) in enumerate(pieces)}
    budget = STEPS * len(flow.nodes)
    joined: list[tuple[Piece, int]] = []
    index = 0
    while index < len(pieces):
        (start, end), symbol = pieces[index]
        for length in sorted(lengths.get(flow.nodes[start].op_type, ()), reverse=True):
            if budget > 0 and start + length > end and start + length in place_of:
                budget -= length
                whole = numbers.get(flow.describe((start, start + length)))
                if whole is not None and count[whole] > 1:
                    end, symbol, index = start + length, whole, place_of[start + length]
                    break
        joined.append(((start, end), symbol))
        index += 1
    return joined


def _is_residual(flow: Flow, piece: Piece) -> bool:
    """Tell whether a piece is a residual block of convolutions. It is a block even if no other is equal to it."""
    nodes = flow.nodes[slice(*piece)]
    convolutions = sum(1 for node in nodes if is_convolution(node) and is_layer(node))
    joins = len(nodes) <= LARGEST_RESIDUAL and residual_sum(nodes) is not None
    return joins and convolutions >= FEWEST_LAYERS and len(flow.entries(piece)) == 1


class Search:
    """The search for blocks in the pieces of one line."""

    def __init__(self, flow: Flow, pieces: list[Piece], symbols: list[int]) -> None:
        self.flow = flow
        self.pieces = pieces
        self.symbols = symbols
        self.layers = list(accumulate((is_layer(node) for node in flow.nodes), initial=0))  # before each position

    def blocks(self, low: int, high: int, inside: bool = False) -> list[RepeatedBlock]:
        """Return the blocks among the pieces from `low` to `high`, in order. `inside` says that these pieces are in
        another block."""
        symbols = self.symbols[low:high]
        where = _positions(symbols)
        found: list[RepeatedBlock] = []

        def take(body: Sequence[int]) -> bool:
            """Make a block at each place of a body, if more than one place is still free and can be a block."""
            if min(body) < 0:
                return False
            places = [(low + s, low + s + len(body)) for s in _places(body, symbols, where)]
            places = [place for place in places if self._is_block(*place)]
            if len(places) > 1:
                found.extend(self._instances(places))
                for start, end in places:
                    symbols[start - low : end - low] = [-1] * (end - start)
            return len(places) > 1

        for body in self._bodies(symbols, where, low):
            take(body)
        for i in range(len(symbols) - 1):
            if min(symbols[i : i + 2]) >= 0 and self._is_layer_of_two(low + i):
                take(symbols[i : i + 2])
        singles = [i for i in range(len(symbols)) if symbols[i] >= 0 and self._is_single(low + i, inside)]
        for symbol in dict.fromkeys(symbols[i] for i in singles):
            take([symbol])
        residual = [i for i in singles if symbols[i] >= 0 and _is_residual(self.flow, self.pieces[low + i])]
        for i in residual if found or len(residual) > 1 else ():
            found.extend(self._instances([(low + i, low + i + 1)]))
            symbols[i] = -1
        for _ in range(ROUNDS):
            if not [True for start, end in self._stretches(symbols, where, low) if take(symbols[start:end])]:
                break
        return sorted(found, key=lambda block: block.start)

    def _bodies(
        self, symbols: Sequence[int], where: Mapping[int, Sequence[int]], low: int
    ) -> Iterator[tuple[int, ...]]:
        """Yield the bodies that follow themselves, the one that saves most first."""
        budget = STEPS * len(symbols)
        runs = [run for run in find_runs(symbols) if self._is_worth_it(low + run.start, low + run.start + run.period)]
        saved = {run: (run.count - 1) * self._size(low + run.start, low + run.start + run.period) for run in runs}
        for run in sorted(runs, key=lambda run: (-saved[run], run)):
            start = run.start + self._rotation(low + run.start, run.period, run.rest)
            budget -= len(where.get(symbols[start], ())) * run.period
            if budget > 0 and not self._is_mixed(low + start, low + start + run.period):
                first, last = self._core(low + start, low + start + run.period)
                body, core = symbols[start : start + run.period], symbols[first - low : last - low]
                more = len(list(_places(core, symbols, where))) > len(list(_places(body, symbols, where)))
                yield tuple(core if more and not is_run(core) else body)

    def _core(self, first: int, last: int) -> Piece:
        """Return a range of pieces without the pools and the like at both ends: other places of a body may lack
        those."""
        while last - first > 1 and not any(is_layer(node) for node in self._nodes(first, first + 1)):
            first += 1
        while last - first > 1 and not any(is_layer(node) for node in self._nodes(last - 1, last)):
            last -= 1
        return first, last

    def _is_mixed(self, first: int, last: int) -> bool:
        """Tell whether a body consists of residual blocks of convolutions and what stands between them. These become
        blocks one by one, whatever their order."""
        kinds = [kind_of(node) for node in self._nodes(first, last) if is_layer(node)]
        of_images = all(kind is not None and kind.channels for kind in kinds)
        pieces = self.pieces[first:last]
        return len(pieces) > 1 and of_images and any(_is_residual(self.flow, piece) for piece in pieces)

    def _stretches(self, symbols: Sequence[int], where: Mapping[int, Sequence[int]], low: int) -> list[Piece]:
        """Return the ranges of pieces that are there several times, the one that saves most first."""
        budget = STEPS * len(symbols)
        saved: list[tuple[int, Piece]] = []
        for start, end in sorted(find_repeats(symbols)):
            budget -= len(where[symbols[start]]) * (end - start)
            if budget > 0 and self._is_worth_it(low + start, low + end) and not is_run(symbols[start:end]):
                count = sum(1 for _ in _places(symbols[start:end], symbols, where))
                saved.append(((1 - count) * self._size(low + start, low + end), (start, end)))
        return [place for _, place in sorted(saved)]

    def _is_layer_of_two(self, index: int) -> bool:
        """Tell whether a piece and the next are an attention and an MLP, each added to its input."""
        first, second = (self._nodes(i, i + 1) for i in (index, index + 1))
        added = all(residual_sum(nodes) is not None and len(nodes) >= FEWEST_NODES for nodes in (first, second))
        return added and attends(first) and not attends(second)

    def _is_single(self, index: int, inside: bool) -> bool:
        """Tell whether a piece is a block by itself. Inside a block, only pieces with convolutions are: others are
        branches."""
        convolves = any(is_convolution(node) for node in self._nodes(index, index + 1))
        return (convolves or not inside) and self._is_block(index, index + 1)

    def _rotation(self, start: int, period: int, rest: int) -> int:
        """Return how many pieces after `start` the first block begins (rule 2). The second block is judged, since the
        first may have more in it."""

        def cost(shift: int) -> tuple[int, bool, bool, int]:
            first = start + period + shift
            place = self._range(first, first + period)
            ends = not any(is_layer(node) for node in self._nodes(first - 1, first))  # a pool, for example
            return len(self.flow.results(place)), not self._is_fork(first), not ends, shift

        return min(range(min(rest + 1, period, STEPS)), key=cost)

    def _is_fork(self, index: int) -> bool:
        """Tell whether the values that come into a piece are read more than once in it."""
        nodes = self._nodes(index, index + 1)
        entries = set(self.flow.entries(self.pieces[index]))
        return sum(1 for node in nodes for value in node.inputs if value in entries) > 1

    def _is_block(self, first: int, last: int) -> bool:
        place = self._range(first, last)
        inner = [v for v in self.flow.results(place) if self.flow.last_read.get(v, 0) >= place[1]]
        return self._is_worth_it(first, last) and len(inner) <= 1 and len(self.flow.entries(place)) <= MOST_INPUTS

    def _is_worth_it(self, first: int, last: int) -> bool:
        start, end = self._range(first, last)
        return self.layers[end] - self.layers[start] >= FEWEST_LAYERS and end - start >= FEWEST_NODES

    def _instances(self, places: list[Piece]) -> Iterator[RepeatedBlock]:
        """Yield a block for each of these places, where the pieces are equal. The blocks inside are found only once."""
        first, last = places[0]
        model = RepeatedBlock(*self._range(first, last))
        if last - first > 1:
            model.children = self.blocks(first, last, inside=True)
        covered = {position for child in model.children for position in range(child.start, child.end)}
        branches = [self._branch(piece) for piece in self.pieces[first:last] if piece[0] not in covered]
        model.children = sorted([*model.children, *filter(None, branches)], key=lambda block: block.start)
        for start, _ in places:
            yield model.moved(self.pieces[start][0] - model.start)

    def _branch(self, piece: Piece) -> RepeatedBlock | None:
        """Return the branch of a residual sum: the part of a piece that is added to the piece's input, without the norm
        at its beginning. It is an attention or an MLP."""
        start, end = piece
        nodes = self.flow.nodes
        total = residual_sum(nodes[start:end])
        entries = self.flow.entries(piece)
        if total is None or not entries or entries[0] not in total.inputs:
            return None
        end = self.flow.position[total]
        while start < end and is_layer(nodes[start]) and "Norm" in nodes[start].op_type:
            start += 1
        results = self.flow.results((start, end))
        if any(map(is_convolution, nodes[start:end])) or len(results) != 1 or results[0] not in total.inputs:
            return None
        if self.layers[end] - self.layers[start] < FEWEST_LAYERS or len(self.flow.entries((start, end))) > MOST_INPUTS:
            return None
        return RepeatedBlock(start, end, branch=True)

    def _range(self, first: int, last: int) -> Piece:
        return self.pieces[first][0], self.pieces[last - 1][1]

    def _size(self, first: int, last: int) -> int:
        start, end = self._range(first, last)
        return end - start

    def _nodes(self, first: int, last: int) -> list[ir.Node]:
        return self.flow.nodes[slice(*self._range(first, last))]


def _positions(symbols: Sequence[int]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for position, symbol in enumerate(symbols):
        found.setdefault(symbol, []).append(position)
    return found


def _places(body: Sequence[int], symbols: Sequence[int], where: Mapping[int, Sequence[int]]) -> Iterator[int]:
    """Yield the positions of `body` in `symbols` that don't overlap."""
    wanted, end = list(body), 0
    for start in where.get(wanted[0], ()):
        if start >= end and list(symbols[start : start + len(wanted)]) == wanted:
            yield start
            end = start + len(wanted)
