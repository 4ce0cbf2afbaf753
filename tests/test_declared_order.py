"""What the steps say about their order: real names, real reasons, and no more than is needed."""

from __future__ import annotations

import itertools

import pytest

from onnxlift.pipeline import STAGES
from onnxlift.stages import Stage, Step

DECLARED = [
    pytest.param(stage, step, earlier, reason, id=f"{step.name} after {earlier}")
    for stage in STAGES
    for step in stage.steps
    for earlier, reason in step.after.items()
]


@pytest.mark.parametrize(("stage", "step", "earlier", "reason"), DECLARED)
def test_a_step_that_comes_after_another_says_why(stage: Stage, step: Step, earlier: str, reason: str) -> None:
    assert earlier in {other.name for other in stage.steps}
    assert earlier != step.name
    assert len(reason.split()) >= 4, "a reason is a sentence"
    assert "as it was" not in reason
    assert not reason.endswith(".") and "  " not in reason


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_steps_have_summaries_that_are_sentences(stage: Stage) -> None:
    for step in stage.steps:
        assert step.summary[0].isupper() and step.summary.endswith(".") and len(step.summary.split()) >= 4, step.name


@pytest.mark.parametrize(("name", "share"), [("restoring", 0.2), ("simplifying", 0.3), ("idioms", 0.6)])
def test_the_order_is_left_open_where_nothing_depends_on_it(name: str, share: float) -> None:
    (stage,) = (stage for stage in STAGES if stage.name == name)
    before = _all_before(stage)
    pairs = list(itertools.combinations([step.name for step in stage.steps], 2))
    free = [pair for pair in pairs if pair[0] not in before[pair[1]] and pair[1] not in before[pair[0]]]
    assert len(free) >= share * len(pairs)


def _all_before(stage: Stage) -> dict[str, set[str]]:
    """Step -> the steps that come before it, by what it declares and by what those declare in turn."""
    before: dict[str, set[str]] = {}
    for step in stage.steps:
        before[step.name] = set(step.after).union(*(before[earlier] for earlier in step.after))
    return before
