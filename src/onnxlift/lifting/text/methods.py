"""Divide a forward that is too long into methods of its class.

    def forward(self, x):             def stem(self, x):
        ...                               ...
        ... (90 statements)               return x, y
        return scores, boxes    ->
                                      def head(self, x, y):
                                          ...
                                          return scores, boxes

                                      def forward(self, x):
                                          x, y = self.stem(x)
                                          return self.head(x, y)

Applies to a forward of more than `LONGEST` statements, where few variables cross from one part to the next
(`narrow_cuts.py`). The statements are those of the forward, in their order and with the names that they had. A method
takes what it reads of the variables that are there before it, and gives what is read behind it. If there are very many
methods, their calls are divided again.

Sound because nothing is computed otherwise or elsewhere: only what a statement may read decides, and a variable crosses
only where it is written in any case. Keys, members and classes stay as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from onnxlift.lifting.code.naming import Candidate
from onnxlift.lifting.code.statements import Statement
from onnxlift.lifting.names.method_names import method_parts, name_method

from .name_flow import Flow, flow_of
from .narrow_cuts import LONGEST, SHORTEST, find_cuts
from .source_map import Origin

INDENT = "        "
MOST_LEFT = 0.8  # of the statements in one piece; if more are left together, dividing them has not helped


@dataclass(eq=False)
class Piece:
    """A statement of a method as it is written, with those that are nested in it. `written` are these statements; None
    for one that is no statement of the model. `types` are those of the variables that it writes; None for a variable
    of the code, which stands for no value of the model."""

    lines: list[str]
    origins: list[Origin]
    written: Sequence[Statement | None]
    types: Mapping[str, str | None]
    returns: bool = False
    flow: Flow = field(init=False)

    def __post_init__(self) -> None:
        self.flow = flow_of(self.lines)


@dataclass(eq=False)
class Method:
    """A method: its name with the reason, its parameters and results with their types, and what it does."""

    name: str
    why: Candidate
    parameters: Mapping[str, str]
    results: Mapping[str, str]
    pieces: Sequence[Piece]

    @property
    def returns(self) -> bool:
        """Tell whether it ends with the end of the forward."""
        return self.pieces[-1].returns

    def head(self, returned: str) -> str:
        """Write the line with `def`. `returned` is the type of what forward returns."""
        parameters = ", ".join(["self", *(f"{name}: {type}" for name, type in self.parameters.items())])
        types = [*self.results.values()] or ["None"]
        own = types[0] if len(types) == 1 else f"tuple[{', '.join(types)}]"
        return f"def {self.name}({parameters}) -> {returned if self.returns else own}:"

    def call(self) -> Piece:
        """Return the statement of the forward that calls it."""
        text = f"self.{self.name}({', '.join(self.parameters)})"
        given = "return " if self.returns else f"{', '.join(self.results)} = " if self.results else ""
        nodes = dict.fromkeys(node for piece in self.pieces for origin in piece.origins for node in origin.nodes)
        return Piece([f"{INDENT}{given}{text}"], [Origin(tuple(nodes), ())], [None], self.results, self.returns)

    @property
    def body(self) -> Sequence[Piece]:
        """What it does, and what it returns: `return self.conv(x)` rather than `x = self.conv(x)` and `return x`."""
        *others, last = self.pieces
        results = ", ".join(self.results)
        given = f"{INDENT}{results} = "
        if self.returns or not results:
            return self.pieces
        if len(self.results) == 1 and len(last.written) == 1 and last.lines[0].startswith(given):
            lines = [f"{INDENT}return {last.lines[0].removeprefix(given)}", *last.lines[1:]]
            return [*others, Piece(lines, last.origins, last.written, {}, returns=True)]
        return [*self.pieces, Piece([f"{INDENT}return {results}"], [Origin((), ())], [None], {})]


def divide(
    pieces: Sequence[Piece], parameters: Mapping[str, str], taken: set[str], layers: Collection[str]
) -> tuple[list[Method], Sequence[Piece]]:
    """Return the methods, in an order in which each comes before those that call it, and what is left of the forward.

    `parameters` are those of the forward with their types, `taken` the names that no method can have, `layers` the
    members that are no tensors.
    """
    methods: list[Method] = []
    length = sum(len(piece.origins) for piece in pieces)
    while length > LONGEST:
        found, rest = _divide_once(pieces, parameters, {*taken}, layers, of_methods=bool(methods))
        shorter = sum(len(piece.origins) for piece in rest)
        longest = max((sum(len(piece.origins) for piece in method.pieces) for method in found), default=length)
        if max(longest, shorter) > max(LONGEST, MOST_LEFT * length):
            break
        methods += found
        taken = taken | {method.name for method in found}
        pieces, length = rest, shorter
    return methods, pieces


def _divide_once(
    pieces: Sequence[Piece],
    parameters: Mapping[str, str],
    taken: set[str],
    layers: Collection[str],
    *,
    of_methods: bool,
) -> tuple[list[Method], list[Piece]]:
    untyped = {name for piece in pieces for name, type in piece.types.items() if type is None}
    untyped |= {name for piece in pieces for name in piece.flow.may_write if name not in piece.types}
    flows, lengths = [piece.flow for piece in pieces], [len(piece.origins) for piece in pieces]
    cuts = find_cuts(flows, lengths, parameters, untyped)
    parts = [pieces[start:end] for start, end in zip([0, *cuts], [*cuts, len(pieces)], strict=True)]
    needed = _needed_behind(parts)
    texts = ["\n".join(line for piece in part for line in piece.lines) for part in parts]
    whats = method_parts(texts, layers, of_methods=of_methods)
    types = dict(parameters)
    order = {name: place for place, name in enumerate(types)}  # in which parameters and results are written
    methods: list[Method] = []
    rest: list[Piece] = []
    for part, behind, what in zip(parts, needed, whats, strict=True):
        flow = _joined(part)
        kept = {name for name in behind if name not in flow.writes}  # what it gives, but may leave as it was
        read = sorted((name for name in flow.reads.keys() | kept if name in order), key=order.__getitem__)
        taking = {name: types[name] for name in read}
        for name, type in ((name, type) for piece in part for name, type in piece.types.items() if type is not None):
            order.setdefault(name, len(order))
            types[name] = type
        if len(parts) > 1 and sum(len(piece.origins) for piece in part) > SHORTEST // 2:
            giving = {name: types[name] for name in sorted(behind, key=order.__getitem__)}
            name, why = name_method(what, taken)
            method = Method(name, why, taking, giving, part)
            methods.append(method)
            taken.add(name)
            rest.append(method.call())
        else:
            rest += part
    return methods, rest


def _needed_behind(parts: Sequence[Sequence[Piece]]) -> list[set[str]]:
    """Return for each part which of the names that it may write are read behind it."""
    alive: set[str] = set()
    needed: list[set[str]] = []
    for part in reversed(parts):
        flow = _joined(part)
        needed.append(alive & flow.may_write.keys())
        alive.difference_update(flow.writes)
        alive.update(flow.reads)
    return needed[::-1]


def _joined(part: Sequence[Piece]) -> Flow:
    flow = Flow()
    for piece in part:
        flow.then(piece.flow)
    return flow
