"""All example models. They need torch and transformers, and so are apart from what defines an example."""

from __future__ import annotations

from pathlib import Path

import onnx

from models import handmade, torch_models

EXAMPLES = (*handmade.EXAMPLES, *torch_models.EXAMPLES)


def save(name: str, path: Path) -> None:
    """Build the example of that name, and write it to the path."""
    [example] = [example for example in (*EXAMPLES, *torch_models.UNFOLDED_EXAMPLES) if example.name == name]
    onnx.save(example.build(), path)
