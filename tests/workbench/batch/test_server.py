"""The server of a batch, in this process: what it warms up with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx

from onnxlift.workbench.batch.samples import samples
from onnxlift.workbench.batch.work import work


def test_all_steps_pass_on_the_models_that_it_warms_up_with(tmp_path: Path) -> None:
    names = []
    for name, model in samples():
        onnx.checker.check_model(model, full_check=True)
        onnx.save(model, tmp_path / f"{name}.onnx")
        told: list[Any] = []
        steps = [("lint", {"fail_on": "error"}), ("simplify", {"verify": False}), ("convert", {})]
        task = {"model": str(tmp_path / f"{name}.onnx"), "folder": str(tmp_path / name), "stem": name, "shapes": {}}
        task |= {"steps": [{"step": step, "options": options, "save": True} for step, options in steps]}
        work({**task, "inputs": [], "examples": {}, "given": {}}, told.append)
        assert [row["passed"] for row in told if "step" in row] == [True, True, True], told
        names.append(name)
    assert names == ["images", "block"]
