"""The JSON that all commands answer with: one envelope, whatever is in it (docs/workbench/json.md)."""

from __future__ import annotations

from typing import Any

SCHEMA = "onnxlift/1"


def envelope(command: str, model: str | None, ok: bool, data: dict[str, Any], error: str = "") -> dict[str, Any]:
    """Return the answer of a command for programs; `error` says why there is no answer."""
    found = {"schema": SCHEMA, "command": command, "model": model, "ok": ok, "data": data}
    return {**found, "error": error} if error else found
