"""More architectures of transformers, built from a configuration alone: random weights, a few layers, one output."""

from __future__ import annotations

from typing import Any

import transformers
from torch import Tensor, nn

from models.network import VOCABULARY

TEXT = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
SEQ2SEQ = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "decoder_start_token_id": 1}
BART = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    **SEQ2SEQ,
}
SPEECH = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "conv_dim": (16, 16, 16),
    "conv_kernel": (10, 3, 2),
    "conv_stride": (5, 2, 2),
    "num_feat_extract_layers": 3,
    "num_conv_pos_embeddings": 8,
    "num_conv_pos_embedding_groups": 4,
    "apply_spec_augment": False,
}
STAGES = {"num_stages": 3, "hidden_sizes": [8, 12, 16], "depths": [2, 2, 3]}


def text(
    model: str, output: str = "last_hidden_state", options: dict[str, Any] | None = None, **sizes: Any
) -> nn.Module:
    """A model that reads tokens and a mask. `sizes` change or add to those that most configurations share."""
    base: Any = getattr(transformers, model)
    calling = options or {}

    class Text(base):  # type: ignore[misc]
        def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
            found = super().forward(input_ids=input_ids, attention_mask=attention_mask, **calling)
            return getattr(found, output)

    return _build(Text, base, TEXT | sizes)


def decoder(model: str, **sizes: Any) -> nn.Module:
    """A model of language that is asked for the next token, without a cache."""
    return text(model, "logits", {"use_cache": False}, **sizes)


def seq2seq(model: str, **sizes: Any) -> nn.Module:
    """A model with an encoder and a decoder."""
    base: Any = getattr(transformers, model)

    class Seq2Seq(base):  # type: ignore[misc]
        def forward(self, input_ids: Tensor, attention_mask: Tensor, decoder_input_ids: Tensor) -> Tensor:
            inputs = {"input_ids": input_ids, "attention_mask": attention_mask, "decoder_input_ids": decoder_input_ids}
            return super().forward(**inputs, use_cache=False).logits

    return _build(Seq2Seq, base, {"vocab_size": VOCABULARY, **SEQ2SEQ, **sizes})


def vision(model: str, **sizes: Any) -> nn.Module:
    """A model that classifies images, or their pixels."""
    base: Any = getattr(transformers, model)

    class Vision(base):  # type: ignore[misc]
        def forward(self, pixel_values: Tensor) -> Tensor:
            return super().forward(pixel_values=pixel_values).logits

    return _build(Vision, base, {"num_labels": 5, **sizes})


def speech(model: str, **sizes: Any) -> nn.Module:
    """A model that hears samples."""
    base: Any = getattr(transformers, model)

    class Speech(base):  # type: ignore[misc]
        def forward(self, input_values: Tensor) -> Tensor:
            return super().forward(input_values=input_values).last_hidden_state

    return _build(Speech, base, SPEECH | sizes)


def whisper(**sizes: Any) -> nn.Module:
    """A model that hears a spectrogram and writes tokens."""

    class Whisper(transformers.WhisperForConditionalGeneration):
        def forward(self, input_features: Tensor, decoder_input_ids: Tensor) -> Tensor:
            inputs = {"input_features": input_features, "decoder_input_ids": decoder_input_ids}
            return super().forward(**inputs, use_cache=False).logits

    return _build(Whisper, transformers.WhisperForConditionalGeneration, {"vocab_size": VOCABULARY, **BART, **sizes})


def _build(wrapper: Any, base: Any, sizes: dict[str, Any]) -> nn.Module:
    wrapper.__name__ = base.__name__  # what the exporter writes down
    known = base.config_class().to_dict()
    return wrapper(
        base.config_class(**{name: size for name, size in sizes.items() if name in known or name not in TEXT})
    )
