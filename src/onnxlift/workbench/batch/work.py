"""Work on one model, in a child of its own: all steps, one after the other, each told of as soon as it is done."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from onnxlift.errors import OnnxLiftError
from onnxlift.stages import Record
from onnxlift.unforeseen import answered
from onnxlift.workbench.report import ModelReport, name_of, open_model
from onnxlift.workbench.sizes import fix_sizes

from .steps import Step, is_saved

Tell = Callable[[Mapping[str, Any]], None]
SIZES = "sizes"
"""The step that gives inputs the shapes that the configuration says, before all others."""


def work(task: Mapping[str, Any], tell: Tell) -> None:
    """Run the steps of a task on its model, save what they make, and tell of each: that it begins, and how it ended.

    A step that gives no model for the next one does not keep the others from running."""
    steps = [Step.of(told) for told in task["steps"]]
    model: Any = Path(task["model"])
    given = {**task["given"], "name": task["stem"]}
    if task["shapes"]:
        result = _done(SIZES, partial(_with_sizes, model, task["shapes"]), tell)
        if result is None:
            return
        model = result
    values = example_values(task["examples"])
    if values or task["inputs"]:
        given["inputs"] = values or list(task["inputs"])
    for number, step in enumerate(steps):
        result = _done(step.name, partial(step.run, model, given), tell, _saver(steps, number, task))
        if step.verb.gives_model:
            if result is None:
                return
            model = result


def _saver(steps: Sequence[Step], number: int, task: Mapping[str, Any]) -> Callable[[Any], list[Path]] | None:
    """Return what saves the result of a step; None if it is not saved."""
    if not is_saved(steps, number):
        return None
    return lambda result: steps[number].save_result(result, Path(task["folder"]), task["stem"])


def _done(name: str, run: Callable[[], Any], tell: Tell, save: Callable[[Any], list[Path]] | None = None) -> Any:
    """Run a step and save its result; return it if it has passed, else None."""
    tell({"begins": name})
    begin = time.perf_counter()
    told: dict[str, Any] = {"step": name, "passed": False, "written": []}
    result = None
    try:
        with answered():
            result = run()
            report = result if hasattr(result, "to_dict") else result.report
            told["passed"] = bool(getattr(result, "passed", True))
            told |= {"text": str(report), "data": report.to_dict()}
            if save is not None and told["passed"]:
                told["written"] = [str(path) for path in save(result)]
    except OnnxLiftError as error:
        told |= {"passed": False, "error": str(error)}
    tell({**told, "seconds": time.perf_counter() - begin})
    return result if told["passed"] else None


def _with_sizes(source: Path, shapes: Mapping[str, Sequence[int]]) -> ModelReport:
    """Return the model with shapes that its inputs have from now on."""
    model = open_model(source, Record())
    fix_sizes(model, shapes, {})
    return ModelReport(name_of(source, model), model)


def example_values(examples: Mapping[str, Mapping[str, Any]]) -> dict[str, np.ndarray[Any, Any]]:
    """Return the values that inputs are given by name: zeros, ones or random numbers of a shape and a type."""
    random = np.random.default_rng(0)
    found: dict[str, np.ndarray[Any, Any]] = {}
    for name, each in examples.items():
        shape, dtype = tuple(each["shape"]), np.dtype(each["dtype"])
        if each["fill"] != "random":
            found[name] = (np.ones if each["fill"] == "ones" else np.zeros)(shape, dtype)
        elif dtype.kind == "f":
            found[name] = random.standard_normal(shape).astype(dtype)
        else:
            found[name] = random.integers(0, 2 if dtype.kind == "b" else 10, shape).astype(dtype)
    return found
