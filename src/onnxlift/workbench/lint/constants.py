"""Constant nodes of a model that is mended: as initialisers, so that what follows from them is known."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import onnx_ir as ir

from onnxlift.ir.inference.infer import infer
from onnxlift.rewriting.normal_form import constant_nodes


def know_constants(model: ir.Model) -> None:
    """Make Constant nodes initialisers, as they are when rules are asked. Those of functions stay nodes."""
    with without_functions(model):
        constant_nodes.run(model)
    infer(model)


@contextmanager
def without_functions(model: ir.Model) -> Iterator[None]:
    """Keep the functions out of sight for a while: a function in a file cannot hold initialisers."""
    functions = dict(model.functions)
    model.functions.clear()
    try:
        yield
    finally:
        model.functions.update(functions)
