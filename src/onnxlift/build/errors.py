"""Errors of the builder: raised at the line of the user's own code, with all that is needed to mend it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import wraps
from types import FrameType
from typing import ParamSpec, TypeVar

from onnxlift.errors import OnnxLiftError

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep  # noqa: PTH100, PTH120 - compared as text

P = ParamSpec("P")
R = TypeVar("R")

Line = tuple[str, int]
"""A file and the number of a line in it."""


class BuildError(OnnxLiftError):
    """A mistake in a program that builds a model. `line` is the place in the user's own code: a file and a number."""

    def __init__(self, text: str, line: Line | None = None) -> None:
        self.text = text
        self.line = line or users_line()
        super().__init__(f"{line_text(self.line)}: {text}")


def users_line() -> Line:
    """Return the line outside onnxlift that is being executed."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_OURS) and frame.f_back is not None:
        frame = frame.f_back
    return ("?", 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def line_text(line: Line) -> str:
    """Write a line for a message: `model.py:12`, from the working directory if the file is below it."""
    file, number = line
    folder = os.getcwd() + os.sep  # noqa: PTH109 - compared as text
    return f"{file.removeprefix(folder)}:{number}"


def at_the_users_line(function: Callable[P, R]) -> Callable[P, R]:
    """Let errors of the builder come from the caller's line: the frames of onnxlift below it are cut off.

    They stay if there is code of the user's own among them, such as the body of a loop."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except BuildError as error:
            below = error.__traceback__.tb_next if error.__traceback__ is not None else None
            while below is not None and below.tb_frame.f_code.co_filename.startswith(_OURS):
                below = below.tb_next
            if below is not None:
                raise
            raise error.with_traceback(None) from None

    return call


def nearest(name: str, known: Iterable[str], what: str = "") -> str:
    """Return `; did you mean NAME?` for a name that is not known; an empty text if none is near."""
    by_lower = {each.lower(): each for each in known}
    found = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return f"; did you mean {what}{by_lower[found[0]]}?" if found else ""
