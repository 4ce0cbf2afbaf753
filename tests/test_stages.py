"""The machinery of stages: order, rounds, what is counted, skipped and observed."""

from __future__ import annotations

from typing import Any

import pytest

import onnxlift
from models.handmade import transformer_block
from onnxlift.pipeline import STAGES
from onnxlift.stages import Record, Stage, Step, in_order

Log = list[str]


def noting(name: str, counts: int = 0, **options: Any) -> Step:
    """A step that writes its name into the subject, and says that it changed so much."""

    def run(subject: Log) -> int:
        subject.append(name)
        return counts

    return Step(name, run, **options)


def test_steps_are_sorted_by_what_they_come_after_and_then_by_name() -> None:
    steps = [noting("c"), noting("a", after={"b": "it needs b"}), noting("b", after={"c": "it needs c"}), noting("d")]
    assert [step.name for step in in_order(steps, "test")] == ["c", "b", "a", "d"]


def test_another_priority_gives_another_order_that_is_declared() -> None:
    stage = Stage("test", "", (noting("a"), noting("b"), noting("c", after={"a": "it needs a"})))
    assert [step.name for step in stage.shuffled({"a": 3, "b": 2, "c": 1}.__getitem__).steps] == ["b", "a", "c"]


@pytest.mark.parametrize(
    ("after", "message"),
    [({"x": "why"}, "'a' comes after \\['x'\\], unknown to the stage 'test'"), ({"b": "why"}, "wait for each other")],
)
def test_an_order_that_cannot_be_kept_is_an_error(after: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Stage("test", "", (noting("a", after=after), noting("b", after={"a": "it needs a"})))


def test_what_is_skipped_does_not_run_unless_it_always_does() -> None:
    stage = Stage("test", "", (noting("a"), noting("b", optional=False), noting("c")))
    subject: Log = []
    Record(skip=["a", "b"]).run(stage, subject)
    assert subject == ["b", "c"]


def test_changes_are_counted_and_observed() -> None:
    stage = Stage("test", "", (noting("a", 2), noting("b"), noting("c", 1)))
    seen: list[str] = []
    record = Record(observer=lambda name, subject: seen.append(name))
    record.run(stage, [])
    record.run(stage, [])
    assert record.fired() == {"test": {"a": 4, "c": 2}}
    assert seen == ["a", "c", "a", "c"]
    assert record.at == ("test", "c")


def test_a_stage_repeats_until_it_is_at_rest() -> None:
    def run(subject: Log) -> int:
        subject.append("again")
        return len(subject) < 5

    between: Log = []
    stage = Stage(
        "test", "", (Step("again", run, repeats=True),), rounds=9, between=lambda _: between.append("between")
    )
    record, subject = Record(), []
    record.run(stage, subject)
    assert len(subject) == 5 and len(between) == 4 and record.restless == []


def test_a_stage_that_does_not_come_to_rest_says_so() -> None:
    record = Record()
    record.run(Stage("test", "", (noting("a", 1, repeats=True), noting("b", 1)), rounds=3), [])
    assert record.restless == ["test"] and record.fired() == {"test": {"a": 3, "b": 3}}


def test_a_change_that_does_not_repeat_calls_for_no_other_round() -> None:
    subject: Log = []
    Record().run(Stage("test", "", (noting("a", 1),), rounds=3), subject)
    assert subject == ["a"]


def test_steps_get_what_they_ask_for_of_the_environment() -> None:
    def run(subject: Log, *, wanted: str = "nothing") -> int:
        subject.append(wanted)
        return 0

    subject: Log = []
    stage = Stage("test", "", (Step("a", run),))
    Record().run(stage, subject, wanted="this", other="that")
    Record().run(stage, subject)
    assert subject == ["this", "nothing"]


def test_a_name_of_an_optional_step_means_one_step() -> None:
    names = [step.name for stage in STAGES for step in stage.steps if step.optional]
    assert len(names) == len(set(names))


def test_every_stage_of_a_lift_is_in_the_record() -> None:
    lifted = onnxlift.lift(transformer_block())
    assert {*lifted.record.changes} == {stage.name for stage in STAGES}


@pytest.mark.parametrize("name", [step.name for stage in STAGES[7:] for step in stage.steps if step.optional])
def test_each_step_on_modules_can_be_left_out(name: str) -> None:
    lifted = onnxlift.lift(transformer_block(), skip_passes=[name])
    assert all(name not in steps for steps in lifted.report.steps.values())
    compile(lifted.source, "model.py", "exec")
