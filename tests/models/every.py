"""All example models. They need torch and transformers, and so are apart from what defines an example."""

from __future__ import annotations

from models import handmade, torch_models

EXAMPLES = (*handmade.EXAMPLES, *torch_models.EXAMPLES)
