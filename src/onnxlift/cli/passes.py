"""`onnxlift passes`: which steps does a model go through?"""

from __future__ import annotations

from typing import Annotated

import typer

from .options import Json


def passes(
    stage: Annotated[str | None, typer.Option(help="Only this stage: simplifying, idioms, ...")] = None,
    json: Json = False,
) -> None:
    """List the steps that a model goes through: stage by stage, in the order in which they run.

    Those that are not marked as always done can be left out, by --skip-pass.

    Example: onnxlift passes --stage simplifying
    """
    from onnxlift.errors import OnnxLiftError
    from onnxlift.rewriting.stages import STAGES

    shown = [item for item in STAGES if stage in (None, item.name)]
    if not shown:
        raise OnnxLiftError(f"there is no stage {stage!r}; the stages are {', '.join(s.name for s in STAGES)}.")
    if json:
        from json import dumps

        print(
            dumps(
                {
                    item.name: [{"name": s.name, "summary": s.summary, "optional": s.optional} for s in item.steps]
                    for item in shown
                },
                indent=2,
            )
        )
        return
    for item in shown:
        print(f"{item.name}: {item.summary}")
        for step in item.steps:
            print(f"  {step.name:22} {step.summary}{'' if step.optional else ' (always done)'}")
