"""All architectures whose fidelity is measured: those of the golden examples, and more of each family."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
from torch import nn

from models import Inputs, audio, convnets, hybrids, regnet, shifted_windows, torch_models
from models.network import BATCH, MASKED, SEQUENCE, VOCABULARY, Network, floats, masked_tokens

_PIXELS = floats(3, 32, 32, name="pixel_values")
_TARGET = {0: "batch", 1: "target"}
_SEQ2SEQ = {**MASKED, "decoder_input_ids": _TARGET}


def _pretrained(kind: str, *arguments: Any, **sizes: Any) -> Callable[[], nn.Module]:
    """A model of `models.pretrained`, which is imported only when needed: transformers takes seconds to import."""
    return lambda: getattr(importlib.import_module("models.pretrained"), kind)(*arguments, **sizes)


def _encoder(name: str, model: str, **sizes: Any) -> Network:
    return Network(name, _pretrained("text", model, **sizes), masked_tokens, MASKED, "last_hidden_state")


def _decoder(name: str, model: str, **sizes: Any) -> Network:
    return Network(name, _pretrained("decoder", model, **sizes), masked_tokens, MASKED, "logits")


def _seq2seq(name: str, model: str, **sizes: Any) -> Network:
    return Network(name, _pretrained("seq2seq", model, **sizes), _pairs, _SEQ2SEQ, "logits")


def _vision(name: str, model: str, optimise: bool = True, **sizes: Any) -> Network:
    build = _pretrained("vision", model, **sizes)
    return Network(name, build, _PIXELS, {"pixel_values": BATCH}, "logits", optimise=optimise)


def _speech(name: str, model: str, **sizes: Any) -> Network:
    return Network(name, _pretrained("speech", model, **sizes), _samples, {"input_values": SEQUENCE}, "states")


def _pairs(random: np.random.Generator, batch: int) -> Inputs:
    return {**masked_tokens(random, batch), "decoder_input_ids": _target(random, batch)}


def _target(random: np.random.Generator, batch: int) -> np.ndarray:
    return random.integers(0, VOCABULARY, (batch, 4 + batch))


def _samples(random: np.random.Generator, batch: int) -> Inputs:
    return {"input_values": random.standard_normal((batch, 400 + 20 * batch)).astype(np.float32)}


def _waveform(random: np.random.Generator, batch: int) -> Inputs:
    return {"waveform": random.standard_normal((batch, 1, 70 + 6 * batch)).astype(np.float32)}


def _spectrogram(random: np.random.Generator, batch: int) -> Inputs:
    features = random.standard_normal((batch, 16, 40)).astype(np.float32)
    return {"input_features": features, "decoder_input_ids": _target(random, batch)}


_BART = {"d_model": 32, "max_position_embeddings": 64}
_LAYERS = {"num_hidden_layers": 3, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 48}
_PATCHES = {"image_size": 32, "patch_size": 8, **_LAYERS}
_STAGES = {"num_stages": 3, "hidden_sizes": [8, 12, 16], "depths": [2, 2, 3]}

ARCHITECTURES = (
    *(network for network in (*torch_models.NETWORKS, *torch_models.UNFOLDED) if network.trained),
    Network("resnet_bottleneck", convnets.BottleneckResNet, floats(3, 32, 32), {"x": BATCH}, "logits", optimise=False),
    Network("densenet", convnets.DenseNet, floats(3, 32, 32), {"x": BATCH}, "logits", optimise=False),
    Network("efficientnet", convnets.EfficientNet, floats(3, 32, 32), {"x": BATCH}, "logits", optimise=False),
    Network("regnet", regnet.RegNet, floats(3, 32, 32), {"x": BATCH}, "logits", optimise=False),
    Network("convnext", convnets.ConvNeXt, floats(3, 32, 32), {"x": BATCH}, "logits"),
    Network("efficientformer", hybrids.EfficientFormer, floats(3, 64, 64), {"x": BATCH}, "logits", optimise=False),
    Network("poolformer", hybrids.PoolFormer, floats(3, 32, 32), {"x": BATCH}, "logits"),
    Network("levit", hybrids.Levit, floats(3, 64, 64), {"x": BATCH}, "logits", optimise=False),
    Network("beit", hybrids.Beit, floats(3, 32, 32), {"x": BATCH}, "logits"),
    Network("swin", convnets.Swin, floats(3, 32, 32), {"x": BATCH}, "logits"),
    Network("swin_padded", shifted_windows.SwinTransformer, floats(3, 92, 96), {"x": BATCH}, "logits"),
    Network("conv_tasnet", audio.ConvTasNet, _waveform, {"waveform": {0: "batch", 2: "frames"}}, "voices"),
    _encoder("roberta", "RobertaModel", pad_token_id=1),
    _encoder("distilbert", "DistilBertModel", dim=32, hidden_dim=48, n_layers=3, n_heads=4),
    _encoder("electra", "ElectraModel", embedding_size=16),
    _encoder("deberta", "DebertaV2Model", relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=8),
    _encoder("albert", "AlbertModel", embedding_size=16),
    _encoder("mpnet", "MPNetModel"),
    _encoder("modernbert", "ModernBertModel", num_hidden_layers=4, global_attn_every_n_layers=2, local_attention=8),
    _decoder("mistral", "MistralForCausalLM", num_key_value_heads=2),
    _decoder("qwen2", "Qwen2ForCausalLM", num_key_value_heads=2),
    _decoder("gemma2", "Gemma2ForCausalLM", num_hidden_layers=6, num_key_value_heads=2, head_dim=8, sliding_window=12),
    _decoder("bloom", "BloomForCausalLM", n_layer=3, n_head=4),
    _decoder("gpt_neox", "GPTNeoXForCausalLM", rotary_pct=0.5),
    _decoder("gptj", "GPTJForCausalLM", n_embd=32, n_inner=48, n_layer=3, n_head=4, n_positions=64, rotary_dim=4),
    _decoder("opt", "OPTForCausalLM", ffn_dim=48, word_embed_proj_dim=32),
    _decoder("phi", "PhiForCausalLM"),
    _seq2seq("t5", "T5ForConditionalGeneration", d_model=32, d_kv=8, d_ff=48, num_layers=3, num_heads=4),
    _seq2seq("bart", "BartForConditionalGeneration", **_BART, encoder_layers=2, decoder_layers=2, encoder_ffn_dim=48,
             decoder_ffn_dim=48, encoder_attention_heads=4, decoder_attention_heads=4),
    _vision("vit_pretrained", "ViTForImageClassification", **_PATCHES),
    _vision("dinov2", "Dinov2ForImageClassification", **_PATCHES),
    _vision("deit", "DeiTForImageClassification", **_PATCHES),
    _vision("convnext_pretrained", "ConvNextForImageClassification", **_STAGES),
    _vision("swin_pretrained", "SwinForImageClassification", image_size=32, patch_size=4, embed_dim=12, depths=[2, 2],
            num_heads=[2, 4], window_size=4),
    _vision("segformer", "SegformerForSemanticSegmentation", num_encoder_blocks=2, depths=[2, 2], sr_ratios=[2, 1],
            hidden_sizes=[8, 16], patch_sizes=[7, 3], strides=[4, 2], num_attention_heads=[1, 2], mlp_ratios=[2, 2],
            decoder_hidden_size=16, optimise=False),
    _vision("resnet_pretrained", "ResNetForImageClassification", optimise=False, embedding_size=8,
            hidden_sizes=[16, 24], depths=[2, 2], layer_type="bottleneck"),
    _speech("wav2vec2", "Wav2Vec2Model"),
    _speech("hubert", "HubertModel", feat_extract_norm="layer", do_stable_layer_norm=True),
    Network("whisper", _pretrained("whisper", num_mel_bins=16, max_source_positions=20, max_target_positions=32),
            _spectrogram, {"input_features": BATCH, "decoder_input_ids": _TARGET}, "logits"),
)  # fmt: skip
