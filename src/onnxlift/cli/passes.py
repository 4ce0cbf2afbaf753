"""`onnxlift passes` lists the steps that a model goes through, and says which of them can be left out."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import Json
from .outcome import Outcome

if TYPE_CHECKING:
    from onnxlift.stages import Stage

WIDTH = 100


def passes(
    stage: Annotated[str | None, typer.Option(metavar="NAME", help="Only this stage: simplifying, idioms, ...")] = None,
    json: Json = False,
) -> None:
    """List the steps that a model goes through, stage by stage, in their order.

    Any of them can be left out with `convert --skip-pass NAME`, but for those with a star: they always run. The last
    two stages are for `simplify` alone, which goes through normal form, simplifying, fusing and, with --fuse-standard,
    standard.

    Example: onnxlift passes --stage idioms
    """
    from onnxlift.errors import OnnxLiftError
    from onnxlift.pipeline import STAGES
    from onnxlift.rewriting.stages import FUSING, STANDARD

    every = (*STAGES, FUSING, STANDARD)
    chosen = [each for each in every if stage in (None, each.name)]
    if not chosen:
        names = ", ".join(each.name for each in every)
        raise OnnxLiftError(f"there is no stage {stage!r}; the stages are {names}.")
    text = "\n\n".join(map(_listing, chosen))
    Outcome(True, {"stages": [_entry(each) for each in chosen]}, text).show("passes", None, json=json)


def _entry(stage: Stage) -> dict[str, Any]:
    """Return the stage as plain dicts and lists, for `--json`."""
    steps = [
        {"name": step.name, "summary": step.summary, "optional": step.optional, "after": dict(step.after)}
        for step in stage.steps
    ]
    return {"name": stage.name, "summary": stage.summary, "steps": steps}


def _listing(stage: Stage) -> str:
    """Return the stage as text for people: a line for each step, or several where the summary is long."""
    column = max(len(step.name) for step in stage.steps) + 2
    lines = [f"{stage.name}: {stage.summary}"]
    for step in stage.steps:
        title = f"  {step.name:{column}}{' ' if step.optional else '*'} "
        lines += textwrap.wrap(
            step.summary, WIDTH, initial_indent=title, subsequent_indent=" " * len(title), break_on_hyphens=False
        )
    return "\n".join(lines)
