"""Which conditions of the idioms no test would miss.

    python benchmarks/conditions.py [IDIOM ...] [--folder FOLDER] [--tests PATH ...] [--jobs 2]

Each idiom is exact because of its conditions, and a condition that can be dropped without a test that fails is either
not needed or not tested. In turn each one is dropped: an operand of `and` and `or`, the test of an early `return` or
`continue`, of a `... if ... else None`, of a `case`, of a comprehension. First all tests run once beside code that
tells in which of them a condition decides anything; then each condition is dropped for good, and those tests run until
one fails. Left are those that decide nothing in any test ("never decides"), and those without which all tests pass
("is not missed").

Comparisons with None are for the types: without them the code would end in an error and not in other numbers. And a
condition in a line that ends with the comment `# for speed` only leaves out work that would come to nothing.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import contextlib
import gc
import importlib
import io
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "onnxlift"
LONGEST = 120  # seconds for all tests of one condition
OTHERS = 5  # so many times shorter a test of another file must be to come before one of the condition's own
OBSERVER = "__decides__"
FOR_SPEED = "# for speed"

# The tests of a condition, with their times; and of a process, the conditions that have decided something in it.
Deciding = dict[str, dict[str, float]]
seen: set[str] = set()
functions: dict[str, list[FunctionType]] = {}  # of each file


@dataclass(frozen=True)
class Condition:
    """A part of a test that can be dropped: the operand `index` of a BoolOp, or the whole."""

    path: Path
    line: int
    text: str
    place: int  # of the test among those of the file
    index: int | None

    @property
    def name(self) -> str:
        return f"{shown(self.path)}:{self.place}:{self.index}"

    def __str__(self) -> str:
        return f"{shown(self.path)}:{self.line}  {self.text}"


def shown(file: Path) -> str:
    """`rewriting/idioms/norms/rms_norm.py`: a file of the package, for a message."""
    return str(file.relative_to(SOURCE))


class Tests(ast.NodeTransformer):
    """Visits the tests of a file in a fixed order, and puts what `change` gives in the place of each."""

    def __init__(self, change: Callable[[ast.expr, int, bool], ast.expr]) -> None:
        self.change = change
        self.count = 0

    def _test(self, test: ast.expr, neutral: bool) -> ast.expr:
        """A test of which the value `neutral` would mean that there is none."""
        place, self.count = self.count, self.count + 1
        return ast.copy_location(self.change(test, place, neutral), test)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        return self._test(node, isinstance(node.op, ast.And))

    def visit_If(self, node: ast.If) -> ast.If:
        self.generic_visit(node)
        if not node.orelse and isinstance(node.body[-1], ast.Return | ast.Continue) and not _is_compound(node.test):
            node.test = self._test(node.test, neutral=False)
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.IfExp:
        self.generic_visit(node)
        is_nothing = ast.unparse(node.orelse) in ("None", "()", "[]", "{}", "False")
        if is_nothing and not _is_compound(node.test):
            node.test = self._test(node.test, neutral=True)
        return node

    def visit_match_case(self, node: ast.match_case) -> ast.match_case:
        self.generic_visit(node)
        if node.guard is not None and not _is_compound(node.guard):
            node.guard = self._test(node.guard, neutral=True)
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.comprehension:
        self.generic_visit(node)
        node.ifs = [test if _is_compound(test) else self._test(test, neutral=True) for test in node.ifs]
        return node


def _is_compound(test: ast.expr) -> bool:
    """Whether it has been visited as a test of its own."""
    return isinstance(test, ast.BoolOp) or (isinstance(test, ast.Call) and ast.unparse(test.func) == OBSERVER)


def _parts(test: ast.expr) -> list[tuple[int | None, ast.expr]]:
    """What can be dropped of a test. What gives a variable its value cannot."""
    whole = [*enumerate(test.values)] if isinstance(test, ast.BoolOp) else [(None, test)]
    if any(isinstance(part, ast.NamedExpr) for part in ast.walk(test)) or any(_is_default(part) for _, part in whole):
        return []
    return [(index, part) for index, part in whole if not _is_for_types(part)]


def _is_for_types(part: ast.expr) -> bool:
    text = ast.unparse(part)
    is_none = isinstance(part, ast.Compare) and text.endswith((" is None", " is not None"))
    return is_none or text.startswith(("isinstance(", "not isinstance("))


def _is_default(part: ast.expr) -> bool:
    """Whether it is the `()` of `shape or ()`, which is no condition."""
    return isinstance(part, ast.Constant | ast.Tuple | ast.List | ast.Dict)


def _without(test: ast.expr, index: int | None, neutral: bool) -> ast.expr:
    if index is None or not isinstance(test, ast.BoolOp):
        return ast.Constant(neutral)
    left = [part for place, part in enumerate(test.values) if place != index]
    return left[0] if len(left) == 1 else ast.BoolOp(test.op, left)


def conditions(file: Path) -> list[Condition]:
    """All conditions of a file that can be dropped."""
    found: list[Condition] = []
    lines = file.read_text().splitlines()

    def note(test: ast.expr, place: int, neutral: bool) -> ast.expr:
        for index, part in _parts(test):
            if not lines[part.lineno - 1].endswith(FOR_SPEED):
                found.append(Condition(file, part.lineno, ast.unparse(part), place, index))
        return test

    Tests(note).visit(ast.parse("\n".join(lines)))
    return found


def observed(tree: ast.Module, file: Path) -> ast.Module:
    """The code of a file with all its tests watched: `a or b` is `__decides__(name, a or b, ((0, b), (1, a)))`, with
    each of the three as a function."""

    def watch(test: ast.expr, place: int, neutral: bool) -> ast.expr:
        parts = _parts(test)
        if not parts:
            return test
        others = [
            ast.Tuple([ast.Constant(index), _function(_without(deepcopy(test), index, neutral))], ast.Load())
            for index, _ in parts
        ]
        name = ast.Constant(f"{shown(file)}:{place}")
        arguments = [name, _function(test), ast.Tuple([*others], ast.Load())]
        return ast.Call(ast.Name(OBSERVER, ast.Load()), arguments, [])

    return ast.fix_missing_locations(Tests(watch).visit(tree))


def _function(body: ast.expr) -> ast.Lambda:
    return ast.Lambda(ast.arguments([], [], None, [], [], None, []), body)


def decides(
    name: str, test: Callable[[], object], others: tuple[tuple[int | None, Callable[[], object]], ...]
) -> object:
    """The value of a test; notes which of its conditions have decided it."""
    result = test()
    for index, other in others:
        if (key := f"{name}:{index}") not in seen:
            try:
                is_other = bool(other()) != bool(result)
            except (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError):
                # What a condition keeps the next one from. Of other errors, the test that is watched would tell.
                is_other = True
            if is_other:
                seen.add(key)
    return result


def dropped(tree: ast.Module, condition: Condition) -> ast.Module:
    """The code of a file without a condition."""

    def drop(test: ast.expr, place: int, neutral: bool) -> ast.expr:
        return _without(test, condition.index, neutral) if place == condition.place else test

    return ast.fix_missing_locations(Tests(drop).visit(tree))


def find_functions(files: list[Path]) -> None:
    """Find the functions of all files at once, before other processes are started: it touches every object there is."""
    for file in files:
        module = importlib.import_module(".".join(file.relative_to(SOURCE.parent).with_suffix("").parts))
        if module.__file__ != str(file):
            raise ValueError(f"{module.__file__} is imported in place of {file}")
        functions[str(file)] = []
    for function in gc.get_objects():
        if type(function) is FunctionType and function.__code__.co_filename in functions:
            functions[function.__code__.co_filename].append(function)
    gc.freeze()


def change(file: Path, to: Callable[[ast.Module], ast.Module]) -> None:
    """Give the functions of a file other code, wherever they are known by now."""
    code = compile(to(ast.parse(file.read_text())), str(file), "exec", dont_inherit=True)
    codes = {_place(inner): inner for inner in _codes(code)}
    for function in functions[str(file)]:
        function.__code__ = codes[_place(function.__code__)]


def _codes(code: CodeType) -> Iterator[CodeType]:
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield inner
            yield from _codes(inner)


def _place(code: CodeType) -> tuple[str, int]:
    return code.co_qualname, code.co_firstlineno


class Collected:
    """The tests, which pytest collects once. In place of running them it does `work`; processes that are started there
    can run any of them without collecting them again."""

    def __init__(self, work: Callable[[Collected], list[str]]) -> None:
        self.work = work
        self.is_running = False
        self.result: list[str] | None = None

    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Is called by pytest once all tests are known."""
        if self.is_running:
            return None  # pytest goes on with its own loop
        self.session = session
        self.items = {item.nodeid: item for item in session.items}
        self.result = self.work(self)
        return True

    def all_pass(self, names: Iterable[str], plugin: object | None = None) -> bool:
        """Tell whether all of these tests pass. With a plugin all of them are run, else until one fails."""
        config = self.session.config
        if plugin is not None:
            config.pluginmanager.register(plugin)
        self.is_running = True
        self.session.items = [self.items[name] for name in names]
        config.option.maxfail = 0 if plugin is not None else 1
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):  # what the tests print
            os.dup2(nowhere, stream)
        with contextlib.suppress(self.session.Failed):
            config.hook.pytest_runtestloop(session=self.session)
        return self.session.testsfailed == 0


class Watch:
    """Notes in which tests the conditions decide something. A few tests fail while they are watched, because a
    condition that is asked twice acts twice; what has decided until then counts."""

    def __init__(self) -> None:
        self.deciding: Deciding = {}

    def pytest_runtest_protocol(self, item: object, nextitem: object) -> None:
        seen.clear()
        self.start = time.perf_counter()

    def pytest_runtest_logfinish(self, nodeid: str, location: object) -> None:
        for name in seen:
            self.deciding.setdefault(name, {})[nodeid] = time.perf_counter() - self.start


def deciding_tests(tests: Collected, files: list[Path]) -> Deciding:
    """Return the tests in which each condition decides something."""
    setattr(builtins, OBSERVER, decides)
    for file in files:
        change(file, partial(observed, file=file))
    watch = Watch()
    tests.all_pass(tests.items, watch)
    return watch.deciding


def is_missed(tests: Collected, condition: Condition, deciding: dict[str, float]) -> bool:
    """Tell whether a test fails without a condition. Short tests come first, most of all those of its own file."""
    change(condition.path, partial(dropped, condition=condition))
    own = f"test_{condition.path.stem}.py"
    nearest = sorted(deciding.items(), key=lambda item: item[1] * (1 if own in item[0] else OTHERS))
    total = 0.0
    return not tests.all_pass([test for test, seconds in nearest if (total := total + seconds) < LONGEST])


def collected(tests: list[str], work: Callable[[Collected], list[str]]) -> list[str]:
    """Import what takes long and collect the tests, once for all processes; return what the work gives."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    import torch

    torch.set_num_threads(1)
    os.chdir(ROOT)
    options = ["-q", "--capture=no", "-p", "no:xdist", "-p", "no:cacheprovider", "-W", "ignore"]
    plugin = Collected(work)
    with contextlib.redirect_stdout(io.StringIO()) as output:
        pytest.main([*options, *tests], plugins=[plugin])
    return [output.getvalue()] if plugin.result is None else plugin.result


def in_a_process(function: Callable[..., Any], *arguments: object) -> Any:
    """Return what a function gives in a process that began as this one is. (Those of a pool could not start others, as
    some tests do.)"""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=lambda: sender.send(function(*arguments)))
    process.start()
    sender.close()
    result = receiver.recv()
    process.join()
    return result


def report(tests: Collected, files: list[Path], jobs: int) -> list[str]:
    """Return a line for each condition that no test misses, and one that says how many are missed."""
    every = [condition for file in files for condition in conditions(file)]
    find_functions(files)
    with ThreadPoolExecutor(jobs) as threads:
        passing = threads.submit(in_a_process, tests.all_pass, tests.items)
        deciding: Deciding = threads.submit(in_a_process, deciding_tests, tests, files).result()
        if not passing.result():
            return ["a test fails with all conditions in place"]
        tried = [condition for condition in every if condition.name in deciding]
        left = [(condition, "never decides") for condition in every if condition.name not in deciding]
        print(f"{len(every)} conditions, of which {len(tried)} decide something in a test", file=sys.stderr)
        missed = threads.map(lambda each: in_a_process(is_missed, tests, each, deciding[each.name]), tried)
        for condition, is_one in zip(tried, missed, strict=True):
            if not is_one:
                left.append((condition, "is not missed"))
                print(f"{condition}", file=sys.stderr)
    left.sort(key=lambda item: (item[0].path, item[0].line))
    lines = [f"{condition}   # {why}" for condition, why in left]
    return [*lines, f"{len(every) - len(left)} of {len(every)} conditions are missed by a test"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("idioms", nargs="*", metavar="IDIOM", help="files without .py; all of them by default")
    parser.add_argument("--folder", default="rewriting/idioms", help="of src/onnxlift, with those below it")
    parser.add_argument("--tests", nargs="+", default=["tests/rewriting/idioms", "tests/ir/editing"])
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    files = sorted((SOURCE / options.folder).rglob("*.py"))
    unknown = set(options.idioms) - {file.stem for file in files}
    if unknown:
        names = ", ".join(sorted(unknown))
        parser.error(f"there is no file {names} below src/onnxlift/{options.folder}: give its --folder")
    files = [file for file in files if file.stem in options.idioms or not options.idioms]
    print(*collected(options.tests, lambda tests: report(tests, files, options.jobs)), sep="\n")


if __name__ == "__main__":
    main()
