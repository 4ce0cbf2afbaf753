"""Every operator at every revision of its schema that the installed onnx defines."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from matrix.case import Revision, cases, revisions
from matrix.gaps import REFUSED, WITHOUT_ORACLE
from matrix.running import lift_case, run_case, unformatted
from matrix.tables import TABLE


@pytest.fixture(autouse=True)
def fast() -> Iterator[None]:
    with unformatted():
        yield


@pytest.mark.parametrize("revision", revisions(), ids=lambda revision: revision.name)
def test_revision(revision: Revision) -> None:
    problems, checked, without_oracle = [], 0, []
    for case in cases(revision, TABLE[revision.key]):
        for result in run_case(case):
            if result.refused:
                if result.oracle or result.refused != REFUSED.get(revision.key):
                    problems.append(f"{case.name} is refused, known to {result.oracle or 'nobody'}: {result.refused}")
            elif result.error:
                problems.append(
                    f"{case.name}, sizes {result.form}, against {result.oracle or 'nobody'}: {result.error}"
                )
            elif result.oracle:
                checked += 1
            else:
                without_oracle.append(case.name)
    assert not problems, "\n\n".join([f"{len(problems)} problems", *problems[:10]])
    assert checked, "no case of the table fits this revision and has an oracle: it needs a row"
    assert bool(without_oracle) == (revision.name in WITHOUT_ORACLE), without_oracle


def test_every_operator_has_a_table() -> None:
    assert {revision.key for revision in revisions()} == TABLE.keys()


@pytest.mark.parametrize("key", REFUSED, ids="::".join)
def test_what_is_refused_still_is(key: tuple[str, str]) -> None:
    found = {
        result.refused
        for revision in revisions()
        if revision.key == key
        for case in cases(revision, TABLE[key])
        for result in lift_case(case)
        if result.refused
    }
    assert found == {REFUSED[key]}


def test_what_has_no_oracle_exists() -> None:
    assert WITHOUT_ORACLE.keys() <= {revision.name for revision in revisions()}
