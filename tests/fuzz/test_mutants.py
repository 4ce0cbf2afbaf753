"""Whatever a stranger sends gets an answer: 2,000 of the mutants of `benchmarks/mutants.py`, which runs any number."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fuzz.mutants.make import CHANGES, Nursery
from fuzz.mutants.seeds import seeds

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "mutants.py"
SAMPLE = 2000


@pytest.mark.timeout(900)
def test_a_sample_of_mutants_gets_answers() -> None:
    # In a process of its own: what is forked shall hold no threads, and nothing of torch.
    command = [sys.executable, str(BENCHMARK), "--count", str(SAMPLE), "--jobs", "1"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def nursery() -> Nursery:
    return Nursery(seeds())


def test_a_number_is_always_the_same_mutant(nursery: Nursery) -> None:
    command = [sys.executable, str(BENCHMARK), "--only", "7", "--digest"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert told.strip() == nursery.make(7).digest
    assert nursery.make(7).digest != nursery.make(8).digest


def test_every_change_is_made_to_some_model(nursery: Nursery) -> None:
    made = {change for number in range(1500) for change in nursery.make(number).changes}
    every = {f"{change.__module__.rpartition('.')[2]}.{change.__name__}" for change in CHANGES}
    assert every | {"bytes"} == made
