"""The text of Python functions: statements with names for their values, and modules as functions that are called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from onnxlift.lifting.code.identifiers import identifier, unique

from .blocks import Block
from .code import ATOM, TERNARY, Code, LocalFunction, Part, Read, Statement
from .constants import Constants
from .literals import quoted, typed_text
from .names import Names, kind_of, told_name, word_of
from .paths import class_of, steps

LONGEST_INLINED = 60
"""An expression of so many characters may stand inside another one."""
INDENT = "    "

WeightText = Callable[[ir.Value, Block | None], str]
"""Writes a weight where it is read, inside of the module that is being written."""


@dataclass
class Written:
    """The functions of modules, by their kind: their names, and whether they are told where they lie."""

    names: dict[int, str] = field(default_factory=dict)
    labelled: dict[int, bool] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)


class Writer:
    """Writes functions. `is_written` tells values that stand where they are read: weights."""

    def __init__(
        self, weight: Callable[[ir.Value, Block | None], str | None], constants: Constants, taken: set[str]
    ) -> None:
        self.weight = weight
        self.constants = constants
        self.taken = taken
        self.done = Written()

    def module_functions(self, root: Block) -> list[str]:
        """Return the text of a function for each kind of block."""
        blocks = list(root.blocks())
        labels: dict[int, set[str]] = {}
        for block in blocks:
            labels.setdefault(block.kind, set()).add(block.label)
        self.counts = Counter(block.kind for block in blocks)
        self._name_functions(blocks, labels)
        lines: list[str] = []
        for block in blocks:
            if block.kind in self.done.labelled:
                continue
            self.done.labelled[block.kind] = len(labels[block.kind]) > 1
            lines += ["", "", *self._module(block)]
        return lines

    def _name_functions(self, blocks: list[Block], labels: dict[int, set[str]]) -> None:
        for block in reversed(blocks):  # the outer ones first: they get the plainest names
            if block.kind in self.done.names:
                continue
            name = unique(_function_name(block, labels[block.kind]), self.taken)
            self.taken.add(name)
            self.done.names[block.kind] = name

    def _module(self, block: Block) -> list[str]:
        labelled = self.done.labelled[block.kind]
        body = Body(self, block, Names(self.taken), self.constants)
        parameters = body.parameters(block.inputs, shared=self.counts[block.kind] > 1)
        if labelled:
            parameters.append("name")
        node = _first_node(block)
        told = class_of(node, block.path) if node is not None else ""
        label = "name" if labelled else quoted(block.label)
        scope = f"with build.scope({label}{f', {quoted(told)}' if told else ''}):"
        lines = body.lines(block.items, block.outputs)
        indented = [f"{INDENT * 2}{line}" if line else line for line in lines]
        return [f"def {self.done.names[block.kind]}({', '.join(parameters)}):", f"{INDENT}{scope}", *indented]

    def function(
        self,
        name: str,
        parameters: Sequence[tuple[ir.Value, str]],
        more: Sequence[str],
        items: list[Statement],
        results: Sequence[ir.Value],
        before: Callable[[Names], list[str]],
        constants: Constants,
        kept: Sequence[ir.Value] = (),
    ) -> list[str]:
        """Return the text of a function of the model."""
        names = Names(self.taken)
        for value, parameter in parameters:
            names.take(value, parameter, -1, len(items) + 1)
        body = Body(self, None, names, constants)
        head = before(names)
        lines = [*head, *body.lines(items, results, kept)]
        return [f"def {name}({', '.join(more)}):", *(f"{INDENT}{line}" for line in lines)]


class Body:
    """The statements of one function."""

    def __init__(self, writer: Writer, block: Block | None, names: Names, constants: Constants) -> None:
        self.writer = writer
        self.block = block
        self.names = names
        self.constants = constants
        self.inlined: dict[ir.Value, Code] = {}

    def parameters(self, values: Iterable[ir.Value], *, shared: bool) -> list[str]:
        """Name the values that a function takes: by what they are, if it is called with several."""
        found: list[str] = []
        for value in values:
            wanted = (None if shared else told_name(value)) or kind_of(value) or ("other" if "x" in found else "x")
            found.append(self.names.take(value, wanted, -1, 10**9))
        # What is read for the last time may give its name to what follows: the true ends are set in `lines`.
        return found

    def lines(
        self,
        items: Sequence[Statement | Block],
        results: Sequence[ir.Value],
        kept: Sequence[ir.Value] = (),
        *,
        returns: bool = True,
    ) -> list[str]:
        """Return the statements, and what the function returns."""
        left = self._inline(list(items), {*results, *kept})
        if returns and not kept and left and self._is_only_result(left, results):
            last_one = left.pop()
            assert isinstance(last_one, Statement)
            self.inlined[results[0]] = last_one.code
        last = self._last_reads(left, [*results, *kept])
        for value, name in self.names.of.items():
            self.names.until[name] = last.get(value, -1)
        found: list[str] = []
        ending = left.pop() if returns and not kept and left and _gives(left[-1], results) else None
        for now, item in enumerate(left):
            found += self._block(item, now, last) if isinstance(item, Block) else self._statement(item, now, last)
        if kept:
            found.append(f"build.keep({', '.join(map(self.text, kept))})")
        if isinstance(ending, Block):
            found.append(f"return {self._call(ending)}")
        elif returns:
            found.append(f"return {', '.join(map(self.text, results))}")
        return found

    def _is_only_result(self, items: Sequence[Statement | Block], results: Sequence[ir.Value]) -> bool:
        """Tell whether the last statement makes the only result, which can be returned as it is written."""
        last = items[-1]
        if not isinstance(last, Statement) or last.unpacks or last.functions or len(results) != 1:
            return False
        return last.targets == (results[0],) and not any(results[0] in self._reads(item) for item in items)

    def _reads(self, item: Statement | Block) -> list[ir.Value]:
        return item.inputs if isinstance(item, Block) else item.reads()

    def _inline(self, items: list[Statement | Block], results: set[ir.Value]) -> list[Statement | Block]:
        """Write what is read once, by another expression, inside of that, as far as lines stay short."""
        counts: Counter[ir.Value] = Counter()
        direct: Counter[ir.Value] = Counter()
        for item in items:
            counts.update(self._reads(item))
            if isinstance(item, Statement):
                direct.update(item.code.reads())
        left: list[Statement | Block] = []
        for index, item in enumerate(items):
            following = items[index + 1] if index + 1 < len(items) else None
            if isinstance(item, Statement) and self._may_be_inlined(item, following, counts, direct, results):
                target = item.targets[0]
                assert target is not None
                self.inlined[target] = item.code
            else:
                left.append(item)
        return left

    def _may_be_inlined(
        self,
        item: Statement,
        following: Statement | Block | None,
        counts: Counter[ir.Value],
        direct: Counter[ir.Value],
        results: set[ir.Value],
    ) -> bool:
        if item.unpacks or item.functions or len(item.targets) != 1 or not isinstance(following, Statement):
            return False
        value = item.targets[0]
        if value is None or value in results or counts[value] != 1 or direct[value] != 1 or told_name(value):
            return False
        if value not in following.code.reads() or following.functions:
            return False
        return self._length(item.code) <= LONGEST_INLINED and self._depth(item.code) < 3

    def _length(self, code: Code) -> int:
        total = 0
        for part in code.parts:
            if isinstance(part, str):
                total += len(part)
            elif isinstance(part, Read):
                inner = self.inlined.get(part.value)
                total += self._length(inner) if inner is not None else 4 if self._weight(part.value) is None else 20
        return total

    def _depth(self, code: Code) -> int:
        inner = [self.inlined[value] for value in code.reads() if value in self.inlined]
        return 1 + max(map(self._depth, inner), default=0)

    def _last_reads(self, items: Sequence[Statement | Block], results: Sequence[ir.Value]) -> dict[ir.Value, int]:
        last: dict[ir.Value, int] = {}
        for now, read in enumerate([*map(self._reads, items), results]):
            waiting = list(read)
            while waiting:
                value = waiting.pop()
                if value in self.inlined:
                    waiting.extend(self.inlined[value].reads())
                else:
                    last[value] = now
        return last

    # text

    def _weight(self, value: ir.Value) -> str | None:
        return None if value in self.names.of else self.writer.weight(value, self.block)

    def text(self, value: ir.Value, strength: int = TERNARY) -> str:
        """Return a value as it is read here."""
        code = self.inlined.get(value)
        if code is not None:
            text = self.code(code)
            return f"({text})" if code.strength < strength else text
        tensor = self.constants.tensor(value)
        if tensor is not None and self.constants.is_inline(value):
            return typed_text(tensor)
        return self._weight(value) or self.names.of[value]

    def code(self, code: Code) -> str:
        """Return an expression."""
        return "".join(self._part(part) for part in code.parts)

    def _part(self, part: Part) -> str:
        if isinstance(part, str):
            return part
        if isinstance(part, Read):
            return self.text(part.value, part.strength)
        return self._local[part]

    def _statement(self, statement: Statement, now: int, last: dict[ir.Value, int]) -> list[str]:
        lines: list[str] = []
        self._local: dict[LocalFunction, str] = {}
        for function in statement.functions:
            lines += self._local_function(function, now)
        text = self.code(statement.code)
        targets = [
            "_" if target is None else self.names.result(statement, target, now, last) for target in statement.targets
        ]
        if statement.unpacks and len(targets) == 1:
            return [*lines, f"({targets[0]},) = {text}"]
        return [*lines, f"{', '.join(targets)} = {text}"]

    def _local_function(self, function: LocalFunction, now: int) -> list[str]:
        visible = {name for name, until in self.names.until.items() if until >= now}
        name = unique(identifier(function.hint), self.names.outer | visible | set(self._local.values()))
        self._local[function] = name
        inner = InnerBody(self, Names(self.names.outer | visible | {*self._local.values()}))
        found = [inner.names.take(value, told_name(value) or "x", -1, 10**9) for value in function.parameters]
        lines = inner.lines(function.statements, function.results, function.kept)
        return [f"def {name}({', '.join(found)}):", *(f"{INDENT}{line}" for line in lines), ""]

    def _block(self, block: Block, now: int, last: dict[ir.Value, int]) -> list[str]:
        call = self._call(block)
        targets = [self._block_result(block, value, now, last) for value in block.outputs]
        return [f"{', '.join(targets)} = {call}" if targets else call]

    def _call(self, block: Block) -> str:
        arguments = [self.text(value) for value in block.inputs]
        if self.writer.done.labelled[block.kind]:
            arguments.append(quoted(block.label))
        return f"{self.writer.done.names[block.kind]}({', '.join(arguments)})"

    def _block_result(self, block: Block, value: ir.Value, now: int, last: dict[ir.Value, int]) -> str:
        told = told_name(value)
        until = last.get(value, now)
        if told is not None:
            return self.names.take(value, told, now, until)
        for read in block.inputs:
            name = self.names.of.get(read)
            is_free = name is not None and last.get(read, -1) <= now and self.names.until.get(name, -1) <= now
            if is_free and name is not None and name.startswith("x"):
                return self.names.take(value, name, now, until)
        return self.names.take(value, "x", now, until)


class InnerBody(Body):
    """The statements of a function inside another one, which reads the variables of that one."""

    def __init__(self, around: Body, names: Names) -> None:
        super().__init__(around.writer, around.block, names, around.constants)
        self._around = around

    def text(self, value: ir.Value, strength: int = TERNARY) -> str:
        if value in self.names.of or value in self.inlined:
            return super().text(value, strength)
        return self._around.text(value, max(strength, ATOM) if value in self._around.inlined else strength)


def _gives(item: Statement | Block, results: Sequence[ir.Value]) -> bool:
    """Tell whether a module gives exactly these results, so that its call can be returned."""
    return isinstance(item, Block) and bool(results) and item.outputs == list(results)


def _first_node(block: Block) -> ir.Node | None:
    for item in block.items:
        node = _first_node(item) if isinstance(item, Block) else item.node
        if node is not None:
            return node
    return None


def _function_name(block: Block, labels: set[str]) -> str:
    words = {word_of(steps(label)[-1] if steps(label) else label) for label in labels}
    node = _first_node(block)
    told = class_of(node, block.path) if node is not None else ""
    if told:
        from onnxlift.build.nodes import snake

        return identifier(snake(told), "block")
    return min(words, key=lambda word: (len(word), word))
