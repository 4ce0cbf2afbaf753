"""Lift a mutant, save what came out, and say which kind of answer that was."""

from __future__ import annotations

import tempfile
import traceback
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import TracebackType

import onnxlift
from onnxlift.errors import OnnxLiftError

from .make import Mutant

SOURCE = Path(onnxlift.__file__).parent
MOST_MESSAGE = 6000
"""The longest message that is still an answer. It may list many nodes, and must not repeat what a stranger wrote."""


class Kind(StrEnum):
    """What came of a mutant. The first two are answers, the others are faults."""

    LIFTED = "lifted"
    REFUSED = "refused"
    INTERNAL = "internal error"
    TRACEBACK = "traceback"
    SIGNAL = "signal"
    SLOW = "over the time"
    LARGE = "over the memory"
    MESSAGE = "unreadable message"
    SOURCE = "broken output"

    @property
    def is_fault(self) -> bool:
        return self not in {Kind.LIFTED, Kind.REFUSED}


@dataclass(frozen=True)
class Verdict:
    number: int
    kind: Kind
    place: str = ""
    """Where in the source of onnxlift it happened, and what: equal for mutants with the same fault."""
    detail: str = ""
    seconds: float = 0.0
    megabytes: float = 0.0


class OutOfTimeError(BaseException):
    """The limit of time is reached. No handler of ordinary exceptions may take it for one."""


def judge(mutant: Mutant) -> Verdict:
    """What lifting and saving this mutant comes to."""
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        try:
            return _answer(mutant, here)
        except OnnxLiftError as error:
            return _refusal(mutant.number, error)
        except OutOfTimeError as error:
            return Verdict(
                mutant.number, Kind.SLOW, _place(error), "".join(traceback.format_tb(error.__traceback__)[-3:])
            )
        except MemoryError as error:
            return Verdict(mutant.number, Kind.LARGE, _place(error), str(error)[:300])
        except Exception as error:  # whatever else it is, it is a fault, and what we are looking for
            return Verdict(mutant.number, Kind.TRACEBACK, _place(error), f"{type(error).__name__}: {error}"[:300])


def _answer(mutant: Mutant, here: Path) -> Verdict:
    for name, data in mutant.files.items():
        (here / name).write_bytes(data)
    path = here / "model.onnx"
    if mutant.by_path:
        path.write_bytes(mutant.data)
    lifted = onnxlift.lift(path if mutant.by_path else mutant.data, **mutant.options)
    written = lifted.save(here / "out")
    text = written[0].read_text(encoding="utf-8")
    try:
        compile(text, "lifted.py", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError) as error:
        return Verdict(mutant.number, Kind.SOURCE, f"{type(error).__name__}: {error}"[:100])
    return Verdict(mutant.number, Kind.LIFTED)


def _refusal(number: int, error: OnnxLiftError) -> Verdict:
    message = str(error)
    if isinstance(error.__cause__, MemoryError):
        return Verdict(number, Kind.LARGE, _place(error.__cause__), message[:300])
    if type(error).__name__ == "InternalError":
        cause = error.__cause__ or error
        return Verdict(number, Kind.INTERNAL, _place(cause), message[:2000])
    if not message.strip() or len(message) > MOST_MESSAGE or not message.replace("\n", "").isprintable():
        return Verdict(number, Kind.MESSAGE, _place(error), f"{len(message)} characters: {message[:200]!a}")
    return Verdict(number, Kind.REFUSED, detail=message[:300])


def _place(error: BaseException) -> str:
    """The innermost line of onnxlift that the error went through, and the type of the error."""
    place = "outside"
    step: TracebackType | None = error.__traceback__
    while step is not None:
        file = Path(step.tb_frame.f_code.co_filename)
        if file.is_relative_to(SOURCE):
            place = f"{file.relative_to(SOURCE)}:{step.tb_lineno} {step.tb_frame.f_code.co_name}"
        step = step.tb_next
    return f"{place}: {type(error).__name__}"
