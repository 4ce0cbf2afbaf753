"""Transformers built from a configuration alone: random weights, two layers, one output, no cache."""

from __future__ import annotations

from torch import Tensor
from transformers import (
    BertConfig,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    T5Config,
    T5EncoderModel,
)

VOCABULARY = 50
_SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 32,
}
_TOKENS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}


class Bert(BertModel):
    def __init__(self) -> None:
        super().__init__(BertConfig(**_SIZES), add_pooling_layer=False)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return super().forward(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state


class GPT2(GPT2LMHeadModel):
    """The output head is the embedding."""

    def __init__(self) -> None:
        sizes = {"vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 32}
        super().__init__(GPT2Config(**sizes, **_TOKENS))

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return super().forward(input_ids=input_ids, attention_mask=attention_mask, use_cache=False).logits


class Llama(LlamaForCausalLM):
    """Two heads of keys and values serve four of queries."""

    def __init__(self) -> None:
        super().__init__(LlamaConfig(**_SIZES, **_TOKENS, num_key_value_heads=2))

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return super().forward(input_ids=input_ids, attention_mask=attention_mask, use_cache=False).logits


class T5Encoder(T5EncoderModel):
    def __init__(self) -> None:
        super().__init__(T5Config(vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4))

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return super().forward(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
