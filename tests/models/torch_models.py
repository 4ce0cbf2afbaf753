"""The torch modules of the golden examples, each exported by both of torch's exporters."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import replace

from torch import nn

from models import sequence, vision
from models.network import BATCH, IMAGE, MASKED, SEQUENCE, Network, examples, floats, masked_tokens, tokens


def _language(name: str) -> Callable[[], nn.Module]:
    """A model of `models.language`, which is imported only when needed: transformers takes seconds to import."""
    return lambda: getattr(importlib.import_module("models.language"), name)()


NETWORKS = (
    Network("mlp", sequence.MLP, floats(12), {"x": BATCH}, "probs"),
    Network("cnn", vision.CNN, floats(3, 16, 16), {"x": BATCH}, "log_probs", optimise=False),
    Network("resnet", vision.ResNet, floats(3, 32, 32), {"x": BATCH}, "logits"),
    Network("mobilenet", vision.MobileNet, floats(3, 32, 32), {"x": BATCH}, "logits", optimise=False),
    Network("unet", vision.UNet, floats(3, 16, 16, resize=4), {"x": IMAGE}, "mask"),
    Network("vit", vision.ViT, floats(3, 32, 32), {"x": BATCH}, "logits"),
    Network("lstm", sequence.LSTMClassifier, tokens, {"tokens": SEQUENCE}, "logits", recurrent=True),
    Network("gru", sequence.GRUTagger, tokens, {"tokens": SEQUENCE}, "log_probs", recurrent=True),
    Network("bert", _language("Bert"), masked_tokens, MASKED, "last_hidden_state"),
    Network("bert_untrained", _language("Bert"), masked_tokens, MASKED, "last_hidden_state", trained=False),
    Network("gpt2", _language("GPT2"), masked_tokens, MASKED, "logits"),
    Network("llama", _language("Llama"), masked_tokens, MASKED, "logits"),
    Network("t5_encoder", _language("T5Encoder"), masked_tokens, MASKED, "last_hidden_state"),
)

UNFOLDED = tuple(
    replace(network, name=f"{network.name}_unfolded", optimise=False)
    for network in NETWORKS
    if network.name in ("resnet", "unet")
)
"""Those whose batch norms the exporters otherwise fold into convolutions."""

EXAMPLES = examples(NETWORKS)
UNFOLDED_EXAMPLES = examples(UNFOLDED)
