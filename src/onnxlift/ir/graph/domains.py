"""Domains and functions of a model by name."""

from __future__ import annotations

from onnxlift.errors import quote

FunctionId = tuple[str, str, str]
"""Domain, name and overload of a model-local function."""


def plain_domain(domain: str) -> str:
    """Return the domain as a key: the default domain has two spellings."""
    return "" if domain == "ai.onnx" else domain


def function_title(function: FunctionId) -> str:
    domain, name, overload = function
    title = f"{domain or 'ai.onnx'}::{name}" + (f":{overload}" if overload else "")
    return title if title.isprintable() and len(title) <= 200 else quote(title)
