"""All example models. They need torch and transformers, and so are apart from what defines an example."""

from __future__ import annotations

from pathlib import Path

import onnx

from models import handmade, torch_models
from models.architectures import ARCHITECTURES
from models.network import examples

EXAMPLES = (*handmade.EXAMPLES, *torch_models.EXAMPLES)


def save(name: str, path: Path) -> None:
    """Build the model of that name, an example or an architecture, and write it to the path."""
    by_name = {example.name: example for example in (*examples(ARCHITECTURES), *EXAMPLES)}
    onnx.save(by_name[name].build(), path)
