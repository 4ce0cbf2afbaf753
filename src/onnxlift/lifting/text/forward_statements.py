"""Find the statements of a generated file by parsing it.

This file imports little: `verify` uses it in a child process, which has enough to import already.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from onnxlift.lifting import kernels

_NO_FORWARD = ("__init__", "tie_weights")


def forward_statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield the statements of every `forward`, and of the methods that it is divided into, in the order of the text,
    with those of inner blocks. Classes of layers that onnxlift brings itself are left out: they are kernels, and no
    node of the model stands behind their lines."""
    for cls in tree.body:
        if isinstance(cls, ast.ClassDef) and cls.name not in kernels.layers():
            for function in cls.body:
                if isinstance(function, ast.FunctionDef) and function.name not in _NO_FORWARD:
                    yield from _statements(function.body)


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        if isinstance(statement, ast.Pass):  # stands for an empty block
            continue
        yield statement
        if isinstance(statement, ast.If | ast.For | ast.While | ast.With):
            yield from _statements(statement.body)
        if isinstance(statement, ast.If | ast.For | ast.While):
            yield from _statements(statement.orelse)
