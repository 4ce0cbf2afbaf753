"""Name the blocks and layers that have no name in the model, by what they do.

Blocks in a row are a list: `layers` if they attend or are linear, `blocks` if they convolve, with a number if there are
several such lists. If one of two rows attends to what the other has made, they are `encoder_layers` and
`decoder_layers`. Other blocks that are there once on each side get these words, too. A block that holds only embeddings
is `embeddings`.

The branches of a block are `attention` and `mlp`. If one of several attends to something else than the others, they are
`self_attn` and `cross_attn`. Layers are named by their part in an attention (`q_proj`), in an MLP (`up_proj`) or beside
a residual block (`downsample`), and otherwise by their kind and a number (`conv1`, `bn1`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import islice

import onnx_ir as ir

from onnxlift.ir.origin.tensors import origin_of
from onnxlift.lifting.ops.layer_nodes import family_of, kind_of

from .flow import Flow, RepeatedBlock, attends, is_convolution, is_layer, residual_sum
from .paths import ModulePaths, Path, weights_of

_CLASSES = {"encoder_layers": "EncoderLayer", "decoder_layers": "DecoderLayer"}
_MEANS = {"GlobalAveragePool", "ReduceMean"}


def name_blocks(
    flow: Flow, blocks: Sequence[RepeatedBlock], paths: ModulePaths, holder: Path = (), taken: Collection[str] = ()
) -> None:
    """Give the nodes of `blocks` their paths, in the module `holder`, where other names are `taken`."""
    _Naming(flow, paths).name(blocks, holder, taken)


def name_projections(graph: ir.Graph, paths: ModulePaths) -> int:
    """Give a path to nameless layers that make queries, keys and values in a module that has a name. The names of
    `F.linear(x, self.q_proj.weight)` are lost if an exporter transposes the weight."""
    changes = 0
    modules: dict[Path, list[ir.Node]] = {}
    for node in graph:
        path = paths.by_node.get(node, ())
        modules.setdefault(path[:-1] if node in paths.owned else path, []).append(node)
    for path, nodes in modules.items():
        taken = {paths.by_node[node] for node in nodes}
        for node, name in _attention_names(nodes).items() if path else ():
            nameless = paths.by_node[node] == path and all(origin_of(value).is_nameless for value in weights_of(node))
            if nameless and (*path, name) not in taken:
                paths.by_node[node] = (*path, name)
                paths.nameless.discard(node)
                changes += 1
    return changes


MOST_ATTENTIONS = 8  # in a block; a block with more is no layer of a decoder

Row = tuple[str, list[RepeatedBlock]]
"""The word for a row of blocks, and the blocks."""


class _Naming:
    def __init__(self, flow: Flow, paths: ModulePaths) -> None:
        self.flow = flow
        self.paths = paths

    def name(self, blocks: Sequence[RepeatedBlock], prefix: Path, taken: Collection[str] = ()) -> None:
        """Give the blocks that lie in the module at `prefix` their paths, beside modules whose names are `taken`."""
        rows = self._on_two_sides(list(self._rows(blocks)))
        count = Counter(word for word, _ in rows)
        number: Counter[str] = Counter()
        for word, row in rows:
            number[word] += 1
            name = word if count[word] == 1 else f"{word}{number[word]}"
            while name in taken:
                number[word] += 1
                name = f"{word}{number[word]}"
            for index, block in enumerate(row):
                self._enter(block, (*prefix, name, str(index)) if len(row) > 1 else (*prefix, name))

    def _on_two_sides(self, rows: list[Row]) -> list[Row]:
        """Return the rows, with words that tell an encoder from its decoder. The decoder is the one row that attends to
        something else."""
        attending = [i for i, (_, row) in enumerate(rows) if not row[0].branch and self._attends(row[0])]
        if len(attending) != 2 or [self._crosses(rows[i][1][0]) for i in attending] != [False, True]:
            return rows
        sides = ["encoder" if i <= attending[0] else "decoder" for i in range(len(rows))]
        places: dict[str, list[str]] = {}
        for side, (word, _) in zip(sides, rows, strict=True):
            places.setdefault(word, []).append(side)
        return [
            (f"{side}_{word}" if places[word] == ["encoder", "decoder"] else word, row)
            for side, (word, row) in zip(sides, rows, strict=True)
        ]

    def _rows(self, blocks: Sequence[RepeatedBlock]) -> Iterator[Row]:
        """Yield rows of blocks that follow each other and do the same kind of thing, each with the word for it."""
        rows: list[list[RepeatedBlock]] = []
        for block in blocks:
            before = rows[-1][-1] if rows else None
            follows = before is not None and before.end == block.start and not block.branch
            if before is not None and follows and self._kind(before) == self._kind(block):
                rows[-1].append(block)
            else:
                rows.append([block])
        crosses = [row[0].branch and self._crosses(row[0]) for row in rows]
        for row, is_cross in zip(rows, crosses, strict=True):
            if row[0].branch and self._attends(row[0]):
                yield ("cross_attn" if is_cross else "self_attn") if any(crosses) else "attention", row
            elif row[0].branch:
                yield "mlp", row
            elif len(row) > 1 and any(not child.branch for child in row[0].children):
                yield "stages", row
            elif len(row) > 1:
                yield ("blocks" if self._kind(row[0]) == "conv" else "layers"), row
            else:
                yield ("embeddings" if self._embeds(row[0]) else "block"), row

    def _enter(self, block: RepeatedBlock, path: Path) -> None:
        self.paths.called.add(path)
        self.paths.classes[path] = _CLASSES.get(path[-2] if len(path) > 1 else "") or self._class(block)
        self.paths.guessed_classes.add(path)
        inner = {position for child in block.children for position in range(child.start, child.end)}
        direct = [self.flow.nodes[p] for p in range(block.start, block.end) if p not in inner]
        names = _layer_names(direct, self._crosses(block))
        for node in direct:
            self.paths.by_node[node] = (*path, *names[node].split(".")) if node in names else path
        self.name(block.children, path)

    def _class(self, block: RepeatedBlock) -> str:
        if block.branch:
            return "Attention" if self._attends(block) else "MLP"
        if any(not child.branch for child in block.children):
            return "Stage"
        if self._attends(block):
            return "TransformerBlock"
        if self._embeds(block):
            return "Embeddings"
        total = residual_sum(self._nodes(block))
        if self._kind(block) != "conv":
            return "MLPBlock" if total is not None else "Block"
        entries = self.flow.entries((block.start, block.end))
        if _excites(self._nodes(block)):
            return "SqueezeExcite"
        if total is None:
            return "ConvBlock"
        return "ResidualBlock" if any(value in entries for value in total.inputs) else "DownsampleBlock"

    def _nodes(self, block: RepeatedBlock) -> list[ir.Node]:
        return self.flow.nodes[block.start : block.end]

    def _attends(self, block: RepeatedBlock) -> bool:
        return attends(self._nodes(block))

    def _crosses(self, block: RepeatedBlock) -> bool:
        """Tell whether an attention of the block takes its keys from something else than its queries."""
        nodes = self._nodes(block)
        inside = set(nodes)
        attentions = [node for node in nodes if node.op_type in ("Attention", "MultiheadAttention")]
        return len(attentions) <= MOST_ATTENTIONS and any(_is_cross(node, inside) for node in attentions)

    def _embeds(self, block: RepeatedBlock) -> bool:
        """Tell whether all layers of the block are embeddings, perhaps with norms."""
        families = {family_of(node) for node in self._nodes(block) if is_layer(node)}
        return "embedding" in families and families <= {"embedding", "norm"}

    def _kind(self, block: RepeatedBlock) -> str:
        if any(not child.branch for child in block.children):
            return "stage"
        if self._attends(block):
            return "attention"
        return "conv" if any(is_convolution(node) for node in self._nodes(block)) else "linear"


def _excites(nodes: Sequence[ir.Node]) -> bool:
    """Tell whether nodes multiply their input with a value computed from its mean over all places (squeeze and
    excitation), and perhaps add the input to that."""
    first, last = nodes[0], nodes[-1]
    if last.op_type == "Add" and first.inputs[0] in last.inputs and nodes[-2].outputs[0] in last.inputs:
        last = nodes[-2]
    return first.op_type in _MEANS and last.op_type == "Mul" and first.inputs[0] in last.inputs


def _layer_names(nodes: Sequence[ir.Node], crosses: bool) -> dict[ir.Node, str]:
    """Return the name of each layer among the nodes of a module. The module `crosses` if one of its attentions attends
    to something else than its own input."""
    layers = [node for node in nodes if is_layer(node)]
    names = {
        **_attention_names(nodes),
        **(_multihead_names(nodes) if crosses else {}),
        **_mlp_names(nodes, layers),
        **_shortcut_names(nodes),
    }
    words = {node: _word(node) for node in layers}
    count = Counter(words[node] for node in layers if node not in names)
    number: Counter[str] = Counter()
    for node in layers:
        if node not in names:
            word = words[node]
            number[word] += 1
            names[node] = word if count[word] == 1 else f"{word}{number[word]}"
    return names


def _word(node: ir.Node) -> str:
    kind = kind_of(node)
    return "layer" if kind is None else kind.word


def _is_linear(node: ir.Node) -> bool:
    return family_of(node) == "linear"


def _attention_names(nodes: Sequence[ir.Node]) -> dict[ir.Node, str]:
    """Name the layers that make queries, keys and values, the norms of these, and the layer behind the attention."""
    attentions = [node for node in nodes if node.op_type == "Attention"]
    if len(attentions) != 1:
        return {}
    [attention] = attentions
    inside = set(nodes)
    names: dict[ir.Node, str] = {}
    makers: dict[ir.Node, str] = {}
    for letter, operand in zip("qkv", attention.inputs, strict=False):
        for node in _before(operand, inside):
            if _is_linear(node):
                makers[node] = makers.get(node, "") + letter
            elif is_layer(node):
                names[node] = f"{letter}_norm"
    names.update((node, f"{letters}_proj") for node, letters in makers.items())
    behind = [node for node in nodes if is_layer(node) and _is_linear(node) and node not in names]
    if len(behind) == 1:
        names[behind[0]] = "out_proj"
    return names


def _is_cross(node: ir.Node, inside: set[ir.Node]) -> bool:
    """Tell whether a node attends with queries of one value to keys of another."""
    if node.op_type == "MultiheadAttention":
        queries, keys = ([value] for value in node.inputs[:2])
    else:
        queries, keys = (
            [maker.inputs[0] for maker in _before(value, inside) if _is_linear(maker)] for value in node.inputs[:2]
        )
    return not _sources(keys, inside) <= _sources(queries, inside)


def _sources(values: Sequence[ir.Value | None], inside: set[ir.Node]) -> set[ir.Value]:
    """Return the values from outside that `values` are computed from."""
    waiting = list(values)
    seen: set[ir.Value] = set()
    found: set[ir.Value] = set()
    while waiting:
        value = waiting.pop()
        if value is None or value in seen or value.const_value is not None:
            continue
        seen.add(value)
        node = value.producer()
        if node is not None and node in inside:
            waiting.extend(node.inputs)
        else:
            found.add(value)
    return found


def _multihead_names(nodes: Sequence[ir.Node]) -> dict[ir.Node, str]:
    """Name the multi-head attentions of a block in which one attends to something else."""
    inside = set(nodes)
    words = {
        node: "cross_attn" if _is_cross(node, inside) else "self_attn"
        for node in nodes
        if node.op_type == "MultiheadAttention"
    }
    return words if len(set(words.values())) == len(words) else {}


def _before(value: ir.Value | None, inside: set[ir.Node]) -> Iterator[ir.Node]:
    """Yield the layers that a value comes from. Each way back ends at its first linear layer."""
    waiting, seen = [value], set[ir.Node]()
    while waiting:
        value = waiting.pop()
        node = value.producer() if value is not None else None
        if node is None or node in seen or node not in inside:
            continue
        seen.add(node)
        if is_layer(node):
            yield node
        if not (is_layer(node) and _is_linear(node)):
            waiting.extend(node.inputs)


def _shortcut_names(nodes: Sequence[ir.Node]) -> dict[ir.Node, str]:
    """Name the convolution in the short branch of a residual sum, and the norm behind it, `downsample`, if the other
    branch is longer."""
    total = residual_sum(nodes)
    if total is None:
        return {}
    inside = set(nodes)
    branches = sorted((_chain(value, inside) for value in total.inputs), key=len)
    short = branches[0][::-1]
    if not short or len(branches[-1]) <= len(short) or not is_convolution(short[0]):
        return {}
    if len(short) == 1:
        return {short[0]: "downsample"}
    return {node: f"downsample.{i}" for i, node in enumerate(short)} if all(map(is_layer, short)) else {}


def _chain(value: ir.Value | None, inside: set[ir.Node]) -> list[ir.Node]:
    """Return the nodes that a value comes from, by the first input of each, from the last node to the first."""
    found: list[ir.Node] = []
    while value is not None and (node := value.producer()) is not None and node in inside:
        found.append(node)
        value = node.inputs[0]
    return found


def _mlp_names(nodes: Sequence[ir.Node], layers: Sequence[ir.Node]) -> dict[ir.Node, str]:
    """Name the layers of an MLP: `down(act(up(x)))`, or `down(act(gate(x)) * up(x))`."""
    if not all(_is_linear(node) for node in layers) or any(n.op_type == "Attention" for n in nodes):
        return {}
    if len(layers) == 2:
        return dict(zip(layers, ("up_proj", "down_proj"), strict=True))
    if len(layers) == 3 and layers[0].inputs[0] is layers[1].inputs[0] is not layers[2].inputs[0]:
        gate, up = layers[:2]
        if any(user.op_type == "Mul" for user, _ in islice(gate.outputs[0].uses(), 1)):
            gate, up = up, gate
        return {gate: "gate_proj", up: "up_proj", layers[2]: "down_proj"}
    return {}
