"""`onnxlift passes` lists the steps of all stages."""

from __future__ import annotations

import json
from collections.abc import Callable

from onnxlift.pipeline import STAGES
from onnxlift.rewriting.stages import FUSING, STANDARD

Run = Callable[..., tuple[int, str, str]]


def test_every_step_is_listed_with_its_summary_below_its_stage(run: Run) -> None:
    status, out, err = run("passes")
    assert (status, err) == (0, "")
    text = " ".join(out.split())
    places = [text.index(f"{stage.name}: {stage.summary}") for stage in STAGES]
    assert places == sorted(places)
    for stage in STAGES:
        for step in stage.steps:
            assert step.name in out and " ".join(step.summary.split()) in text


def test_steps_that_always_run_have_a_star(run: Run) -> None:
    _, out, _ = run("passes")
    lines = [line.split() for line in out.splitlines()]
    assert ["types", "*"] in [line[:2] for line in lines]
    assert ["linear", "A"] in [line[:2] for line in lines]


def test_lines_are_short_enough_for_a_terminal(run: Run) -> None:
    assert max(map(len, run("passes")[1].splitlines())) <= 100


def test_one_stage_alone(run: Run) -> None:
    _, out, _ = run("passes", "--stage", "simplifying")
    assert out.startswith("simplifying: ") and "no-ops" in out and "gelu" not in out
    status, out, err = run("passes", "--stage", "simplify")
    assert (status, out) == (2, "") and "the stages are reading, checking, building, normal form, restoring" in err


def test_json_says_what_each_step_comes_after_and_why(run: Run) -> None:
    stages = json.loads(run("passes", "--json")[1])["data"]["stages"]
    assert [stage["name"] for stage in stages] == [stage.name for stage in (*STAGES, FUSING, STANDARD)]
    for listed, stage in zip(stages, (*STAGES, FUSING, STANDARD), strict=True):
        assert listed["summary"] == stage.summary
        assert listed["steps"] == [
            {"name": step.name, "summary": step.summary, "optional": step.optional, "after": dict(step.after)}
            for step in stage.steps
        ]
