"""Ranked candidates: the first that is free wins, the others are known, and reasons are formatted when asked for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from onnxlift.lifting.code.naming import NUMBERED, Candidate, Listed, Rules


def in_graph(subject: str) -> Iterator[Candidate]:
    if not subject.startswith("val_"):
        yield Candidate(subject, "the ONNX value is called `{}`", (subject,))


def in_a_word(subject: str) -> Iterator[Candidate]:
    yield Candidate("mask", "it is of booleans", numbered=True)


RULES = Rules((in_graph, in_a_word))


@pytest.mark.parametrize(
    ("subject", "taken", "name"),
    [
        ("context", set(), "context"),
        ("context", {"context"}, "mask"),
        ("val_7", set(), "mask"),
        ("val_7", {"mask"}, "mask_1"),
        ("context", {"context", "mask", "mask_1"}, "mask_2"),
    ],
)
def test_the_first_candidate_that_is_free_wins_and_explaining_changes_nothing(
    subject: str, taken: set[str], name: str
) -> None:
    assert RULES.choose(subject, taken)[0] == name
    assert RULES.decide(subject, taken)[0] == name
    assert RULES.explain(subject, taken).text == name


def test_a_name_knows_its_reason_and_the_candidates_that_lost() -> None:
    name = RULES.explain("context")
    assert name.why == "the ONNX value is called `context`"
    assert [(lost.name, lost.why, lost.rank) for lost in name.lost] == [("mask", "it is of booleans", 1)]


def test_a_number_is_part_of_the_reason() -> None:
    assert RULES.explain("val_7", {"mask"}).why == f"it is of booleans; {NUMBERED}"
    text, chosen = RULES.decide("val_7", {"mask"})
    assert chosen.explain(text).why == f"it is of booleans; {NUMBERED}"


def test_the_rules_after_the_winner_are_not_asked() -> None:
    def never(subject: str) -> Iterator[Candidate]:
        raise AssertionError("asked in vain")
        yield

    assert Rules((in_a_word, never)).choose("x", set())[0] == "mask"


def test_names_of_the_model_are_no_format_strings() -> None:
    assert RULES.explain("{0.__class__}").why == "the ONNX value is called `{0.__class__}`"


def test_words_are_listed_once() -> None:
    assert f"{Listed(['dim', 'size', 'dim'])}" == "dim, size"
