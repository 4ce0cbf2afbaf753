"""A wrong program gets a message at its own line, which says what was expected, what came, and how to mend it."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

import onnxlift
from onnxlift import build

_, SETUP, *BLOCKS = Path(__file__).with_name("wrong_programs.txt").read_text(encoding="utf-8").split("\n\n")


def wrong_programs() -> Iterator[tuple[str, str, str]]:
    """What is wrong, the program, and its message."""
    kind = ""
    for block in BLOCKS:
        program, _, message = block.strip().partition("\n--> ")
        if program.startswith("== "):
            kind = program.removeprefix("== ")
        else:
            yield kind, program, message


CASES = list(wrong_programs())


@pytest.mark.parametrize(("kind", "program", "message"), CASES, ids=[f"{kind}: {text}" for kind, text, _ in CASES])
def test_a_wrong_program_is_told_at_its_own_line(kind: str, program: str, message: str) -> None:
    names: dict[str, object] = {}
    exec(compile(SETUP, "setup.py", "exec"), names)
    lines = program.splitlines()
    line = next((number for number, text in enumerate(lines, 1) if text.endswith("# here")), len(lines))
    with pytest.raises(build.BuildError) as caught:
        exec(compile(program, "program.py", "exec"), names)
    assert (str(caught.value), caught.value.line) == (f"program.py:{line}: {message}", ("program.py", line))


def test_there_are_a_hundred_of_them() -> None:
    assert len(CASES) >= 100 and len({program for _, program, _ in CASES}) == len(CASES)


def test_the_traceback_ends_at_the_users_line() -> None:
    x = build.input("x", "float32", [3])
    try:
        op_of(x)
    except build.BuildError as error:
        frames = traceback.extract_tb(error.__traceback__)
    assert [frame.name for frame in frames] == ["test_the_traceback_ends_at_the_users_line", "op_of", "call"]


def op_of(x: build.Value) -> build.Value:
    return build.op.Softmax(x, axis=3)


def test_the_users_frames_inside_a_body_are_kept() -> None:
    x = build.input("x", "float32", [3])

    def body(i: build.Value, y: build.Value) -> build.Value:
        return op_of(y)

    try:
        build.loop(3, None, body, x)
    except build.BuildError as error:
        frames = traceback.extract_tb(error.__traceback__)
    assert [frame.name for frame in frames][-3:] == ["body", "op_of", "call"]


def test_errors_are_those_of_onnxlift() -> None:
    assert issubclass(build.BuildError, onnxlift.OnnxLiftError)
    assert not hasattr(build.op, "Cnov")
