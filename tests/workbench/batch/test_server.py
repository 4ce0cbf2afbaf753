"""The server of a batch: what it warms up with, and how long its children stay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest

from onnxlift.workbench.batch.child import MOST_TASKS
from onnxlift.workbench.batch.children import Children, Ended, Limits
from onnxlift.workbench.batch.samples import samples
from onnxlift.workbench.batch.work import work

from .small import POISON, good, poisoned, save


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


class Place:
    """A folder for models, and what the operators of the folder poison note in it: the process that lifts each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def lifted(self, *operators: str, memory: int = 4 << 30) -> list[Ended]:
        """Lift a model of each operator (or a good one, for ""), one after the other, by one server."""
        tasks = []
        for number, operator in enumerate(operators):
            model = save(poisoned(operator) if operator else good(), self.folder / f"{number}.onnx")
            steps = [{"step": "convert", "options": {}, "save": True}]
            own = {"model": str(model), "folder": str(self.folder / f"{number}"), "stem": "a", "steps": steps}
            tasks.append({**own, "shapes": {}, "inputs": [], "examples": {}, "given": {}})
        with Children("work") as children:
            ended = dict(children.run(tasks, Limits(60, memory)))
        return [ended[number] for number in range(len(operators))]

    @property
    def processes(self) -> list[str]:
        return (self.folder / "notes").read_text(encoding="utf-8").split()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("PYTHONPATH", str(POISON))
    monkeypatch.setenv("POISON_NOTES", str(tmp_path / "notes"))
    return Place(tmp_path)


def passed(ended: Ended) -> list[bool]:
    return [told["passed"] for told in ended.told if "step" in told]


def test_a_child_stays_for_the_next_models_until_one_ends_it(place: Place) -> None:
    results = place.lifted("Note", "Unknown", "Note", "Crash", "Note", "Note")
    assert [each.kind for each in results] == ["", "", "", "crash", "", ""]
    assert [passed(each) for each in results] == [[True], [False], [True], [], [True], [True]]
    first, second, third, fourth = place.processes
    assert first == second != third == fourth
    assert all((place.folder / f"{number}/a.py").exists() for number in (0, 2, 4, 5))


@pytest.mark.parametrize("what", ["LeaveMemory", "LeaveThread", "LeaveProcess"])
def test_a_child_does_not_stay_if_something_is_left_in_it(place: Place, what: str) -> None:
    results = place.lifted("Note", what, "Note")
    assert [passed(each) for each in results] == [[True]] * 3
    first, second, third = place.processes
    assert first == second != third and not Path(f"/proc/{second}").exists()


def test_a_child_does_not_stay_for_ever(place: Place) -> None:
    place.lifted("Note", *[""] * (MOST_TASKS - 1), "Note")
    first, second = place.processes
    assert first != second


def test_what_may_be_the_fault_of_an_earlier_model_is_tried_again_in_a_fresh_child(place: Place) -> None:
    results = place.lifted("Second", "Second")
    assert [each.kind for each in results] == ["", ""]
    assert [passed(each) for each in results] == [[True], [True]]
    first, second, third = place.processes
    assert first == second != third


def test_too_much_memory_counts_in_a_fresh_child_only(place: Place) -> None:
    results = place.lifted("Note", "Hoard", "Note", memory=700_000_000)
    assert [each.kind for each in results] == ["", "memory", ""]
    assert results[1].peak > 700_000_000 > results[2].peak > 0
