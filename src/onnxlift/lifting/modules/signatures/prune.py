"""Remove results that the caller drops from the border of modules, and arguments that are then not read.

    a, b = self.block(x, n)   ->   b = self.block(x)        (if a is not read, and n was needed for a only)

The edges of the graph say what may cross a border. What really does is known only when the code is written, because
sizes are computed where they are used. This goes from the root down, until nothing changes.
"""

from __future__ import annotations

from onnxlift.lifting.code.expr import Call, Display, Expr, Local, Member
from onnxlift.lifting.code.reads import parts, values_read, variables_read
from onnxlift.lifting.code.statements import Assign, Return, walk_statements
from onnxlift.lifting.modules.module import Borrowed, Module, Stored
from onnxlift.lifting.modules.statements.dead_code import remove_dead_code


def prune(module: Module) -> int:
    """Prune the module and all below it; return how many calls of modules in it lost an argument."""
    remove_dead_code(module.body)
    seen: set[Module] = set()
    changes = 0
    while count := sum(_prune_calls(child, calls, seen) for child, calls in _calls(module)):
        changes += count
        remove_dead_code(module.body)
    _drop_unused_members(module)
    return changes


def _calls(module: Module) -> list[tuple[Module, list[Assign]]]:
    """Return the child modules, with the statements that call each."""
    found: dict[Module, list[Assign]] = {}
    for statement in walk_statements(module.body):
        child = called_module(statement.expr) if isinstance(statement, Assign) else None
        if child is not None and isinstance(statement, Assign):
            found.setdefault(child, []).append(statement)
    return list(found.items())


def called_module(expr: Expr) -> Module | None:
    """Return the module that `expr` calls. In a loop over modules, return the first of them."""
    if not isinstance(expr, Call):
        return None
    function = expr._function
    target = (
        function._target if isinstance(function, Member) else function._example if isinstance(function, Local) else None
    )
    return target if isinstance(target, Module) else None


def _prune_calls(child: Module, calls: list[Assign], seen: set[Module]) -> bool:
    """Remove results and arguments that the calls of a module do not need. Tell whether an argument was removed, so
    that more of the caller may be unused."""
    kept = [any(target is not None for target in targets) for targets in zip(*(c.targets for c in calls), strict=True)]
    if not all(kept):
        _drop_results(child, kept)
        for call in calls:
            call.targets = [target for target, is_kept in zip(call.targets, kept, strict=True) if is_kept]
    elif child in seen:
        return False
    seen.add(child)
    prune(child)
    before = list(child.inputs)
    drop_unused_inputs(child)
    for call in calls:
        assert isinstance(call.expr, Call)
        arguments = dict(zip(before, call.expr._args, strict=True))
        call.expr = Call(call.expr._function, [arguments[value] for value in child.inputs], {})
    return len(child.inputs) != len(before)


def _drop_results(module: Module, keep: list[bool]) -> None:
    last = module.body.statements[-1]
    assert isinstance(last, Return) and isinstance(last.expr, Display)
    results: list[Expr] = [e for e, kept in zip(last.expr._items, keep, strict=True) if kept]
    module.outputs = [v for v, kept in zip(module.outputs, keep, strict=True) if kept]
    last.expr = results[0] if len(results) == 1 else Display(results, "()")


def drop_unused_inputs(module: Module) -> None:
    """Remove the inputs of the module that its code does not read."""
    if module.sequential:
        return
    read = set(values_read(module.body))
    module.inputs = {value: operand for value, operand in module.inputs.items() if value in read}


def _drop_unused_members(module: Module) -> None:
    if module.sequential:
        return
    used = {part._target for part in parts(module.body) if isinstance(part, Member)}
    read = set(variables_read(module.body))
    constants = {stored for value, stored in module.constants.items() if value in read}
    borrowed = (stored for value, stored in module.constants.items() if value in read and isinstance(stored, Borrowed))
    used.update(stored.holders[0] for stored in borrowed)
    module.members = {
        path: member
        for path, member in module.members.items()
        if member in (constants if isinstance(member, Stored) else used)
    }
