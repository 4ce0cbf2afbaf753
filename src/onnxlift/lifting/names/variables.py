"""Name the variables of one `forward`.

A value gets the first of these that it can have: its name in the graph, if a reader can make something of it; the name
of the variable that it replaces, if that one is read here for the last time (`x = self.layer1(x)`); the word for what
it is (`query`, `mask`, `scores`); a plain letter. The rules are in variable_rules.py. `x` is the value that is being
worked on. A value that waits to be joined later to what is computed from it, as in a U-Net, gets its own word instead.
Two values share a name only if the first is not read any more when the second is written.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import onnx_ir as ir

from onnxlift.ir.graph.types import type_of
from onnxlift.lifting.code.expr import (
    Attribute,
    Call,
    Display,
    Expr,
    Local,
    Ref,
    variable,
    walk,
)
from onnxlift.lifting.code.naming import Candidate, ChosenName, Rules, distinct
from onnxlift.lifting.code.reads import variables_behind
from onnxlift.lifting.code.statements import (
    Assign,
    Block,
    ForLoop,
    Statement,
    WhileLoop,
    blocks,
    expressions,
    walk_statements,
)
from onnxlift.lifting.modules.module import Module
from onnxlift.lifting.modules.statements.inline import Inlined, main_line
from onnxlift.lifting.ops.operand import Dims, Scalar, Tensor

from .attention_roles import AttentionRoles
from .role_signs import counted_in, written_by
from .variable_roles import Hints, Roles
from .variable_rules import LOCALS, LOOP_VARIABLES, PARAMETERS, RESULTS, Birth, is_sizes
from .words import Words


@dataclass
class Life:
    """The time from the statement that first writes a variable to the last one that may read it."""

    birth: int
    death: int
    statement: Statement | None = None
    first_read: int = 0
    joined: int = 0  # when it was last appended to something else


class Variables:
    """The names of all variables of a module's forward: `names` by value, and `parameters`. `explain` gives the
    reasons."""

    def __init__(self, module: Module, inlined: Inlined, hints: Hints) -> None:
        self.module = module
        self.inlined = inlined
        self.names: dict[object, str] = {}
        self.won: dict[object, Candidate] = {}
        attention = AttentionRoles(module, inlined)
        self.roles = Roles(module, inlined, hints, attention)
        self.words = Words(module, inlined, attention, self.names)
        self.member_names = {path[0] for path in module.members}
        self.main = next(iter(module.inputs), None)  # the main input
        self.lives: dict[object, Life] = {}
        self.used: set[str] = set()
        # The tensor that says where tensors belong (`x.device`). Only another tensor may take over its name.
        self.anchor = next((v for v, o in module.inputs.items() if isinstance(o, Tensor) and self._is_tensor(v)), None)
        self.clock = 0
        self._measure_lives()
        for rules, birth in self._births():
            name, self.won[birth.key] = rules.choose(birth, birth.taken)
            self._give(birth.key, name)

    @property
    def parameters(self) -> list[str]:
        """The names of forward's parameters, in order."""
        return [self.names[value] for value in self.module.inputs]

    @cached_property
    def of_inputs(self) -> set[str]:
        """The names of forward's parameters."""
        return {*self.parameters}

    def explain(self) -> dict[object, ChosenName]:
        """Return the reasons for each variable's name. This names all variables once more, and asks every rule."""
        found: dict[object, ChosenName] = {}
        self.names.clear()
        self.used.clear()
        for rules, birth in self._births():
            name = rules.explain(birth, birth.taken)
            roles = [role._replace(rank=name.won.rank) for role in self.roles.lost(birth.key)]
            found[birth.key] = ChosenName(
                name.text, name.won, distinct((*name.lost, *roles), name.won.name), name.change
            )
            self._give(birth.key, name.text)
        return found

    def _measure_lives(self) -> None:
        for value in self.module.inputs:
            self.lives[value] = Life(0, 0)
        self._visit(self.module.body)

    def _visit(self, block: Block) -> None:
        for statement in block.statements:
            counted = [target for expr in expressions(statement) for target in counted_in(expr, self.inlined)]
            self.clock += 2 if counted else 1
            now = self.clock
            # The variables of a comprehension are alive together with all that its statement reads or writes.
            self.lives.update((target, Life(now - 1, now + 1)) for target in counted)
            for expr in expressions(statement):
                for key in variables_behind(expr, self.inlined):
                    if key in self.lives:
                        self.lives[key].death = max(self.lives[key].death, now)
                        self.lives[key].first_read = self.lives[key].first_read or now
                for key in self._appended(expr):
                    if key in self.lives:
                        self.lives[key].joined = now
            for key in written_by(statement):
                self.lives.setdefault(key, Life(now, now, statement))
            for inner in blocks(statement):
                self._visit(inner)
            if isinstance(statement, ForLoop | WhileLoop):
                self._prolong(statement, now)

    def _prolong(self, loop: ForLoop | WhileLoop, start: int) -> None:
        """Let outer variables live until the loop ends: the next iteration reads again what this one read or wrote."""
        for statement in (loop, *walk_statements(loop.body)):
            reads = (key for expr in expressions(statement) for key in variables_behind(expr, self.inlined))
            for key in (*reads, *written_by(statement)):
                if key in self.lives and self.lives[key].birth <= start:
                    self.lives[key].death = self.clock

    def _births(self) -> Iterator[tuple[Rules[Birth], Birth]]:
        """Yield each variable when it is first written, with the rules for it. Its `taken` holds the names that it
        can't have.

        The caller must give it a name before asking for the next variable.
        """
        self._holder: dict[str, object] = {}  # name -> the variable that had it last
        alive: set[str] = set()  # names whose value is still needed after this statement
        ends: list[tuple[int, str]] = []
        for key, life in sorted(self.lives.items(), key=lambda item: item[1].birth):
            if key in self.module.constants:
                continue
            while life.birth and ends and ends[0][0] <= life.birth:
                _, name = heapq.heappop(ends)
                if self.lives[self._holder[name]].death <= life.birth:
                    alive.discard(name)
            taken = alive
            together = written_by(life.statement)
            if len(together) > 1:  # written by the same statement, so the names must differ
                taken = alive | {self.names[other] for other in together if other in self.names}
            if self.anchor in self.names and not self._is_tensor(key):
                taken = taken | {self.names[self.anchor]}
            yield _rules_for(key, life), Birth(self, key, life.statement, taken)
            alive.add(self.names[key])
            heapq.heappush(ends, (life.death, self.names[key]))

    def _give(self, key: object, name: str) -> None:
        self.names[key] = name
        self.used.add(name)
        self._holder[name] = key

    def _is_tensor(self, key: object) -> bool:
        """Tell whether a variable has a device. Numbers, sizes, lists and strings have none."""
        if not isinstance(key, ir.Value) or self.is_number(key):
            return False
        return type_of(key).kind == "tensor" and key.dtype != ir.DataType.STRING

    def is_number(self, key: object) -> bool:
        """Tell whether a variable holds a Python number, not a tensor."""
        if isinstance(key, ir.Value) and isinstance(self.module.inputs.get(key), Scalar | Dims):
            return True
        if key in self.module.sizes:
            return True
        life = self.lives.get(key)
        return life is not None and isinstance(life.statement, Assign) and is_sizes(life.statement.expr)

    def is_last_holder(self, key: object, name: str) -> bool:
        """Tell whether no other variable has got this name since this one got it."""
        return self._holder.get(name) is key

    def _appended(self, expr: Expr) -> Iterable[object]:
        """Yield the variables that are appended to another: `torch.cat((a, b, c))` -> b, c."""
        for part in walk(expr):
            match part:
                case Ref() | Local():
                    inner = self.inlined.get(variable(part))
                    if inner is not None:
                        yield from self._appended(inner)
                case Call(_function=Attribute(_name="cat"), _args=[Display(_items=[_, *others]), *_]):
                    for other in others:
                        yield from main_line(other, self.inlined)

    def word(self, expr: Expr) -> str | None:
        """Return the name of the variable that an expression is, or else the word for the result of the expression."""
        key = variable(expr)
        if key is not None and key not in self.inlined:
            return self.names.get(key)
        return self.words.text_of(expr)


def _rules_for(key: object, life: Life) -> Rules[Birth]:
    if isinstance(key, Local):
        return LOCALS
    if life.birth == 0:
        return PARAMETERS
    return LOOP_VARIABLES if isinstance(life.statement, ForLoop) else RESULTS
