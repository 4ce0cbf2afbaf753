"""What is said about the package holds: its version, its types, the versions of what it needs."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import onnxlift

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def pins(name: str) -> dict[str, str]:
    """Package -> version of a file of constraints."""
    return dict(re.findall(r"^([\w-]+)==(\S+)$", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE))


def test_the_version_is_one_and_the_changelog_knows_it() -> None:
    assert PROJECT["version"] == onnxlift.__version__
    assert f"\n## {onnxlift.__version__} - " in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_package_says_that_it_has_types() -> None:
    assert "Typing :: Typed" in PROJECT["classifiers"]
    assert (ROOT / "src" / "onnxlift" / "py.typed").exists()


def test_the_lowest_versions_that_are_tested_are_those_that_are_declared() -> None:
    """But for torch: constraints-lowest.txt says why."""
    extras = PROJECT["optional-dependencies"]
    needed = [*PROJECT["dependencies"], *extras["verify"], *extras["draw"], *extras["batch"]]
    declared = dict(dependency.split(">=") for dependency in needed)
    tested = pins("constraints-lowest.txt")
    assert tested.keys() == declared.keys()
    for name in declared.keys() - {"torch"}:
        lowest = [*map(int, declared[name].split(".")), 0, 0]
        assert lowest[:3] == list(map(int, tested[name].split("."))), name


def test_every_direct_dependency_is_pinned() -> None:
    known = {name.lower().replace("_", "-") for name in pins("constraints.txt")}
    extras = [item for extra in PROJECT["optional-dependencies"].values() for item in extra]
    for dependency in (*PROJECT["dependencies"], *extras):
        name = re.match(r"[\w-]+", dependency)
        assert name is not None
        assert name[0] == "onnxlift" or name[0].lower().replace("_", "-") in known, dependency
