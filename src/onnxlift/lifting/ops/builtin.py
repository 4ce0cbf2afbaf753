"""Load the operators that onnxlift itself defines."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache


@cache
def load_builtin() -> None:
    """Import every family of operators. Their decorators fill the tables of operators and of layer kinds."""
    package = importlib.import_module(__package__)
    for module in sorted(m.name for m in pkgutil.walk_packages(package.__path__, f"{__package__}.")):
        importlib.import_module(module)
