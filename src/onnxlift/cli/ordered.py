"""Tell a command in which order its options were given: for `edit`, one step follows the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer
from typer.core import TyperCommand

_GIVEN = "onnxlift.given"


class OrderedCommand(TyperCommand):
    """A command that notes its options in the order of the command line."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        options, _, order = self.make_parser(ctx).parse_args(args=list(args))
        ctx.meta[_GIVEN] = list(_in_order(options, [parameter.name for parameter in order]))
        return super().parse_args(ctx, args)


def _in_order(options: dict[str, Any], order: list[str]) -> Iterator[tuple[str, Any]]:
    """Yield every option as often as it was given, each time with the value that it had there."""
    left = {name: iter(value) for name, value in options.items() if isinstance(value, list)}
    for name in order:
        yield name, next(left[name]) if name in left else options.get(name)


def given_options(context: typer.Context) -> list[tuple[str, Any]]:
    """Return the name of each option with its text, in the order of the command line."""
    found: list[tuple[str, Any]] = context.meta[_GIVEN]
    return found
