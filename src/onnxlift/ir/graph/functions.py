"""The names of model-local functions."""

from __future__ import annotations

from onnxlift.errors import quote

FunctionId = tuple[str, str, str]
"""Domain, name and overload of a model-local function."""


def function_title(function: FunctionId) -> str:
    domain, name, overload = function
    title = f"{domain or 'ai.onnx'}::{name}" + (f":{overload}" if overload else "")
    return title if title.isprintable() and len(title) <= 200 else quote(title)
