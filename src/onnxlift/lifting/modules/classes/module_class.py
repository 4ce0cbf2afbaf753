"""Hold a class of the generated source, before it is text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from onnxlift.lifting.code.naming import Chosen
from onnxlift.lifting.code.statements import Statement, walk_statements
from onnxlift.lifting.modules.module import Module

from .class_arguments import Arguments
from .variants import Part


@dataclass(eq=False)
class ModuleClass:
    """The modules of one class. `example` is the instance that the class is written from: one that has all parts."""

    name: str
    example: Module
    instances: list[Module] = field(default_factory=list)
    constructor: Arguments = field(default_factory=Arguments)
    arguments: dict[Module, dict[str, Any]] = field(default_factory=dict)  # instance -> argument values
    parts: list[Part] = field(default_factory=list)
    absent: dict[Module, set[Part]] = field(default_factory=dict)  # instance -> the parts that it lacks

    named: Chosen | None = None  # the reason for the name of the class
    # The names of variables of forward, by position: its parameters and results, and the callers' names for arguments.
    parameter_names: dict[int, str] = field(default_factory=dict)
    result_names: dict[int, str] = field(default_factory=dict)
    called_with: dict[int, str] = field(default_factory=dict)

    def statements_of(self, instance: Module) -> Iterator[Statement | None]:
        """Yield for each statement of the example the one of an instance; None if the instance lacks it."""
        missing = {statement for part in self.absent.get(instance, ()) for statement in part.statements}
        own = walk_statements(instance.body)
        for statement in walk_statements(self.example.body):
            yield None if statement in missing else next(own)


ClassOf = dict[object, ModuleClass]
"""Module -> its class. Layers and weights have none, and neither has an `nn.Sequential` that is written out."""
