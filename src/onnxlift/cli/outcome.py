"""What a command says of a model: yes or no, for people and for programs."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any, TextIO

from onnxlift.envelope import envelope

YES, NO, TROUBLE = 0, 1, 2
"""The exit status, as diff and grep have it. Scripts can tell a wrong model (1) from a run that failed (2)."""


@dataclass(frozen=True)
class Outcome:
    """The answer of a command: whether it is yes (`ok`), the facts for programs, and the text for people.

    `error` says why there is no answer."""

    ok: bool
    data: dict[str, Any] = field(default_factory=dict)
    text: str = ""
    error: str = ""

    @property
    def status(self) -> int:
        return TROUBLE if self.error else YES if self.ok else NO

    def show(
        self,
        command: str,
        model: str | None,
        *,
        json: bool = False,
        quiet: bool = False,
        one_line: bool = False,
        file: TextIO | None = None,
    ) -> None:
        """Print it: the text, or the envelope that all commands share with `json`; an error to stderr in any case.

        If `quiet`, a text is printed only if the answer is no."""
        if self.error:
            print(f"onnxlift: {self.error}", file=sys.stderr)
        if json:
            from json import dumps

            print(dumps(self.envelope(command, model), indent=None if one_line else 2), file=file)
        elif self.text and not self.error and not (quiet and self.ok):
            print(self.text, file=file)

    def envelope(self, command: str, model: str | None) -> dict[str, Any]:
        """Return the JSON of this answer: the same envelope for all commands."""
        return envelope(command, model, self.ok, self.data, self.error)
