"""The program of the child process: `python -m onnxlift.workbench.quantize.worker FOLDER`.

It reads FOLDER/task.json, takes the steps of the task, and writes FOLDER/answer.json. What is the fault of samples or
of a script is told as `trouble`, in a sentence for the user; what ONNX Runtime says, as `error`, with the node if it
is known.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx

from onnxlift.errors import OnnxLiftError
from onnxlift.verification.children.child import ANSWER

from ..runtime.file_inputs import PictureSettings
from .recipe import Recipe
from .samples import Sample, Slot, read_samples

Answer = dict[str, Any]


def main(folder: Path) -> None:
    task: dict[str, Any] = json.loads((folder / "task.json").read_text(encoding="utf-8"))
    logging.disable(logging.WARNING)
    steps = {"calibrate": _calibrate, "quantize": _quantize, "measure": _measure, "time": _time}
    answer: Answer = {}
    try:
        for step in task["steps"]:
            answer |= steps[step]({**task, **answer})
    except OnnxLiftError as error:
        answer = {"trouble": str(error)}
    except Exception as error:  # of a user's script, or of ONNX Runtime: it is told, whatever it is
        answer = _failure(error, task)
    (folder / "answer.part").write_text(json.dumps(answer), encoding="utf-8")
    (folder / "answer.part").replace(folder / ANSWER)


def _failure(error: Exception, task: dict[str, Any]) -> Answer:
    text = f"{type(error).__name__}: {str(error).strip()[:1000]}"
    script = task.get("samples")
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == script]
    if isinstance(error, SyntaxError) and error.filename == script:
        lines.append(error.lineno)
    if lines:
        return {"trouble": f"the script {script!r} failed in line {lines[-1]}: {text.rstrip('.')}."}
    from onnxlift.unforeseen import node_at  # it is slow to import

    node = node_at(error.__traceback__)
    return {"error": f"{text.rstrip('.')}{f', at {node}' if node else ''}."}


def _samples(task: dict[str, Any], most: int | None = None) -> Iterator[Sample]:
    slots = [Slot(**{**each, "shape": each["shape"] and tuple(each["shape"])}) for each in task["slots"]]
    return read_samples(Path(task["samples"]), slots, most, PictureSettings(**task["pictures"]))


def _calibrate(task: dict[str, Any]) -> Answer:
    """Find the ranges of activations; and what this processor asks of weights."""
    from .calibrating import find_ranges
    from .engine import op_types_of, out_of_range, saturates

    recipe, model = Recipe.of(task["recipe"]), Path(task["model"])
    if recipe.runs_engine and recipe.reduce_range is None:
        recipe = replace(recipe, reduce_range=saturates())
    answer: Answer = {"recipe": recipe.to_dict(), "ranges": {}, "calibrated_on": 0, "out_of_range": []}
    if recipe.mode == "dynamic":
        return answer
    # float16 asks for the ranges of all values, whoever computes them.
    op_types = op_types_of(recipe) if recipe.runs_engine else []
    ranges, count = find_ranges(
        model, lambda: _samples(task), op_types, recipe.method, recipe.percentile, task["is_large"]
    )
    wide = out_of_range(onnx.load(model, load_external_data=False), ranges)
    return {**answer, "ranges": ranges, "calibrated_on": count, "out_of_range": wide}


def _quantize(task: dict[str, Any]) -> Answer:
    """Quantise the model; a QOperator model also in the form QDQ, in which layers are found by name."""
    from .engine import quantize_file

    recipe, model = Recipe.of(task["recipe"]), Path(task["model"])
    keep = {*task["keep"], *task["out_of_range"]}
    forms = {task["layers_in"]: replace(recipe, format="qdq"), task["result"]: recipe}
    for path, form in forms.items():
        quantize_file(model, Path(path), form, task["ranges"], keep, task["is_large"])
    return {}


def _measure(task: dict[str, Any]) -> Answer:
    """Measure the noise of outputs, and of layers if the task names the two models to compare for that."""
    from .measuring import fits_together, measure_layers, measure_outputs

    answer: Answer = {"layers": None}
    if task["wants_outputs"]:
        places = (Path(task["original"]), Path(task["folder"]), Path(task["result"]))
        noises = measure_outputs(*places, _samples({**task, "samples": task["measured"]}, task["most"]))
        answer["outputs"] = {name: noise.to_dict() for name, noise in noises.items()}
        answer["measured_on"] = max((noise.samples for noise in noises.values()), default=0)
    pair = Path(task["model"]), Path(task["layers_in"])
    if task["wants_layers"] and fits_together(*pair):
        slices, own, total = measure_layers(
            *pair, _samples({**task, "samples": task["measured"]}, task["most"]), with_totals=task["wants_totals"]
        )
        answer["layers"] = [
            {
                "name": each.node.name,
                "op_type": each.node.op_type,
                "value": each.value,
                "own": own[each.value].to_dict(),
                "total": total[each.value].to_dict() if each.value in total else None,
            }
            for each in slices
        ]
    return answer


def _time(task: dict[str, Any]) -> Answer:
    from .measuring import measure_speed

    (sample,) = _samples({**task, "samples": task["measured"]}, 1)
    return {"speed": measure_speed(Path(task["original"]), Path(task["folder"]), Path(task["result"]), sample)}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
