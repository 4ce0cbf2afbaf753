"""Small models for a batch, good ones and bad ones."""

from __future__ import annotations

from pathlib import Path

import onnx

from workbench.models import parsed

POISON = Path(__file__).parent / "poison"
"""The folder with operators that end a process: in PYTHONPATH, every Python knows them."""
HEAD = '<ir_version: 10, opset_import: ["" : 20, "poison" : 1]>'


def good(scale: float = 2.0, size: str = "3") -> onnx.ModelProto:
    """A model of four nodes, of which simplifying leaves fewer."""
    body = "a = Identity(x) b = Mul(a, w) c = Relu(b) y = Add(c, c)"
    return parsed(f"good (float[{size}, 4] x) => (float[{size}, 4] y) {{ {body} }}", w=[scale, 2, 3, 4])


def poisoned(operator: str) -> onnx.ModelProto:
    """A model with an operator of the folder poison."""
    return parsed(f"bad (float[3, 4] x) => (float[3, 4] y) {{ y = poison.{operator}(x) }}", HEAD)


def save(model: onnx.ModelProto, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, path)
    return path
