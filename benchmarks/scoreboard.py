"""docs/OPERATORS.md, and the figures in the README: what is supported, from the registry, and what works, from a run.

    python benchmarks/scoreboard.py

Runs ONNX's own suite, the opset matrix, and the tests of ONNX Runtime's operators, and watches what is lifted. What
fails is counted and shown. The same code gives the same text, so `git diff docs/OPERATORS.md` shows what has changed.
"""

from __future__ import annotations

import argparse
import os
import sys
import textwrap
import warnings
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import onnx
import pytest
from onnx.backend.test.loader import load_model_tests
from watching import Key, Lift, gradients, watching

from matrix.case import cases, revisions
from matrix.running import run_case, unformatted
from matrix.tables import TABLE
from onnxlift.ir.graph.marks import DOMAIN
from onnxlift.lifting.ops import registry
from onnxlift.rewriting import bodies

ROOT = Path(__file__).parent.parent
OPERATORS = ROOT / "docs" / "OPERATORS.md"
README = ROOT / "README.md"
BEGIN, END = "<!-- scoreboard -->", "<!-- end of scoreboard -->"
KINDS = ("layer", "call", "kernel")


@dataclass
class Score:
    """How many have passed, of how many."""

    passed: int = 0
    all: int = 0

    def count(self, passed: bool) -> None:
        self.passed += passed
        self.all += 1

    def __str__(self) -> str:
        return f"{self.passed:,} / {self.all:,}" if self.all else ""


@dataclass
class Entry:
    """What is found about an operator."""

    revisions: list[int] = field(default_factory=list)
    tests: Score = field(default_factory=Score)  # of the suite, or of its own tests if it is ONNX Runtime's
    matrix: Score = field(default_factory=Score)
    kinds: set[str] = field(default_factory=set)
    gradients: Counter[str] = field(default_factory=Counter)

    def saw(self, lift: Lift) -> None:
        """Note what the operator was lifted to, and whether it can be trained."""
        if lift.lifted is not None:
            self.kinds.add(lift.kind)
            self.gradients.update(gradients(lift))

    @property
    def gradient(self) -> str:
        """In a word; see the legend below."""
        found = self.gradients
        if found["wrong"]:
            return f"**{found['wrong']} differ**"
        if found["yes"]:
            return "in part" if found["no"] else "yes"
        if found["no"]:
            return "no"
        return "0" if found["zero"] else ""


Entries = defaultdict[Key, Entry]


class Watch:
    """A plugin of pytest that counts each test for the operators of these domains that are lifted in it."""

    def __init__(self, entries: Entries, domains: Collection[str]) -> None:
        self.entries = entries
        self.domains = domains
        self.outcomes: dict[str, bool] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        with watching() as lifts, unformatted():
            result = yield
        passed = self.outcomes[item.name]
        for key in {key for lift in lifts for key in lift.operators if key[0] in self.domains}:
            self.entries[key].tests.count(passed)
        for lift in lifts:
            if lift.only is not None and lift.only not in TABLE:
                self.entries[lift.only].saw(lift)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome == "failed":
            self.outcomes[report.nodeid.partition("::")[2]] = report.outcome == "passed"


def run_tests(entries: Entries, domains: Collection[str], paths: str) -> dict[str, bool]:
    """The names of the tests in the files of this pattern, and whether they passed; an expected failure has not."""
    watch = Watch(entries, domains)
    os.chdir(ROOT)
    files = sorted(str(path) for path in ROOT.glob(paths))
    pytest.main(["--no-header", "--tb=no", *files], plugins=[watch])
    return watch.outcomes


def run_matrix(entries: Entries) -> None:
    """Every case of the matrix in both its forms. What is refused has not passed."""
    newest = {revision.key: revision for revision in revisions()}
    for revision in revisions():
        entry = entries[revision.key]
        entry.revisions.append(revision.schema.since_version)
        for case in cases(revision, TABLE[revision.key]):
            with watching() as lifts, unformatted():
                results = run_case(case)
            for result in results:
                entry.matrix.count(not result.error and not result.refused)
            if revision is newest[revision.key]:
                for lift in lifts:
                    entry.saw(lift)


def operators() -> set[Key]:
    """All that onnxlift knows or ONNX defines."""
    known = {(operator.domain, operator.op_type) for operator in registry.operators() if operator.domain != DOMAIN}
    return known | set(bodies.operators()) | {revision.key for revision in revisions()}


def table(entries: Entries, domain: str) -> str:
    """The operators of a domain, a row each."""
    official = any(entries[key].revisions for key in entries if key[0] == domain)
    head = ["operator", "since", "suite", "matrix"] if official else ["operator", "tests"]
    rows = [[*head, "lifts to", "gradients"], ["---"] * (len(head) + 2)]
    for key in sorted(key for key in entries if key[0] == domain):
        entry = entries[key]
        kinds = ", ".join(kind for kind in KINDS if kind in entry.kinds)
        versions = [", ".join(map(str, entry.revisions)), str(entry.tests), str(entry.matrix)]
        rows.append([key[1], *(versions if official else [str(entry.tests)]), kinds, entry.gradient])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def summary(entries: Entries, suite: dict[str, bool]) -> str:
    """The figures that the README shows, too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy, about cases that divide by zero on purpose
        names = {case.name for case in load_model_tests(kind="node")}
    of_nodes, of_all = Score(), Score()
    for test, passed in suite.items():
        of_all.count(passed)
        if test.partition("[")[2].rstrip("]") in names:
            of_nodes.count(passed)
    matrix = Score(sum(e.matrix.passed for e in entries.values()), sum(e.matrix.all for e in entries.values()))
    official = [entry for entry in entries.values() if entry.revisions]
    own = Counter(domain for domain, _ in entries)["com.microsoft"]
    version = ".".join(onnx.__version__.split(".")[:2])
    tried = sum(len(entry.revisions) for entry in official)
    figures = (
        f"Of the {of_all.all:,} cases of ONNX's own suite (onnx {version}), {of_all.passed:,} pass through lifted "
        f"source, among them {of_nodes.passed:,} of the {of_nodes.all:,} that test single operators; and "
        f"{matrix.passed:,} of the {matrix.all:,} cases of the opset matrix, which tries all {tried:,} revisions of "
        f"the {len(official):,} operators of ONNX. {own} operators of ONNX Runtime are lifted as well."
    )
    return textwrap.fill(figures, 120)


TEXT = """# Operators

<!-- Written by `make scoreboard` from a run: do not edit. -->

{summary}

- **since**: the opsets (of the domain) in which the operator was defined anew. All of these are lifted.
- **suite**: cases of ONNX's own suite that have a node of this operator, those that pass of all
  ([which do not, and why](../tests/conformance/test_onnx_suite.py)).
- **matrix**: cases of [our own](../tests/matrix), for all types, with sizes open and fixed, that give what ONNX Runtime
  or ONNX's reference gives, of all ([which are refused, and of which neither knows](../tests/matrix/gaps.py)).
- **tests**: our own, against ONNX Runtime.
- **lifts to**: a *layer* of PyTorch, a *call* of its functions, or a *kernel*, a function with ONNX's meaning that is
  part of the lifted file. Which of them depends on the node: whether its weights are constant, its padding symmetric.
- **gradients**: measured in float32 and float64, one input after the other, against differences. *yes*: they agree;
  *0*: both are, as of a rounding; *in part*: not through inputs that say where or how (positions, scales); *no*: the
  result changes with the input, but there is no gradient; empty: there is nothing to derive. Some *differ*: where
  several elements are scattered to one place, and where numbers are rounded on the way, which makes steps.
"""


def write(entries: Entries, suite: dict[str, bool]) -> None:
    """Write the page, and its first paragraph into the README."""
    figures = summary(entries, suite)
    domains = sorted({domain for domain, _ in entries})
    sections = [f"## {domain or 'ai.onnx'}\n\n{table(entries, domain)}\n" for domain in domains]
    OPERATORS.write_text("\n".join([TEXT.format(summary=figures), *sections]), encoding="utf-8")
    before, _, rest = README.read_text(encoding="utf-8").partition(f"{BEGIN}\n")
    README.write_text(f"{before}{BEGIN}\n{figures}\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    print(figures)


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    warnings.simplefilter("ignore")
    found: Entries = defaultdict(Entry)
    official = {revision.schema.domain for revision in revisions()}
    suite = run_tests(found, official, "tests/conformance/test_onnx_suite.py")
    suite = {test: passed for test, passed in suite.items() if "test_case[" in test}
    run_matrix(found)
    run_tests(found, {"com.microsoft"}, "tests/lifting/ops/microsoft/test_*.py")
    write(defaultdict(Entry, {key: found[key] for key in operators()}), suite)


if __name__ == "__main__":
    main()
