"""MultiheadAttention, and the layers of a transformer's encoder."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from math import sqrt

import numpy as np

from onnxlift.build import constant, init, op
from onnxlift.build.errors import BuildError, at_the_users_line
from onnxlift.build.types import Dtype
from onnxlift.build.value import Value
from onnxlift.ir.graph.types import FLOATS

from .container import ModuleList
from .linear import Dropout, Linear, linear
from .module import Layer, Module, check_input, positive
from .normalisation import LayerNorm
from .parameter import Parameter
from .spelling import mean, softmax, squeezed, unsqueezed


class MultiheadAttention(Module):
    """Attention in several heads. Inputs are (L, N, E), or (N, L, E) if batch_first, or (L, E) without a batch."""

    @at_the_users_line
    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        *,
        dtype: Dtype | None = None,
    ) -> None:
        positive("MultiheadAttention", embed_dim=embed_dim, num_heads=num_heads)
        if embed_dim % num_heads:
            raise BuildError(
                f"MultiheadAttention: embed_dim is {embed_dim}, which cannot be divided into {num_heads} heads."
            )
        if add_bias_kv or add_zero_attn:
            raise BuildError("MultiheadAttention: it has no rows to add: leave out add_bias_kv and add_zero_attn.")
        self.embed_dim, self.num_heads, self.batch_first = embed_dim, num_heads, batch_first
        self.kdim, self.vdim = embed_dim if kdim is None else kdim, embed_dim if vdim is None else vdim
        xavier = init.xavier_uniform()
        self.in_proj_weight = self.q_proj_weight = self.k_proj_weight = self.v_proj_weight = None
        if self.kdim == self.vdim == embed_dim:
            self.in_proj_weight = Parameter((3 * embed_dim, embed_dim), dtype=dtype, init=xavier)
        else:
            self.q_proj_weight = Parameter((embed_dim, embed_dim), dtype=dtype, init=xavier)
            self.k_proj_weight = Parameter((embed_dim, self.kdim), dtype=dtype, init=xavier)
            self.v_proj_weight = Parameter((embed_dim, self.vdim), dtype=dtype, init=xavier)
        self.in_proj_bias = Parameter((3 * embed_dim,), dtype=dtype) if bias else None
        self.out_proj = Linear(embed_dim, embed_dim, bias, dtype=dtype)
        if self.out_proj.bias is not None:
            self.out_proj.bias.init = init.zeros()

    @at_the_users_line
    def __call__(
        self,
        query: Value,
        key: Value,
        value: Value,
        key_padding_mask: Value | None = None,
        need_weights: bool = True,
        attn_mask: Value | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Value, Value | None]:
        """Make the nodes, and return what attention gives, and its weights."""
        made: tuple[Value, Value | None] = Module.__call__(
            self, query, key, value, key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal
        )
        return made

    def forward(
        self,
        query: Value,
        key: Value,
        value: Value,
        key_padding_mask: Value | None = None,
        need_weights: bool = True,
        attn_mask: Value | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Value, Value | None]:
        """Return what attention gives, and its weights: the mean of all heads, or those of each.

        In a mask of bools, True is what is left out; one of floats is added. `is_causal` without a mask leaves out all
        keys behind the query."""
        check_input(self, query, -1, self.embed_dim, "embed_dim", (2, 3))
        check_input(self, key, -1, self.kdim, "kdim", (2, 3))
        check_input(self, value, -1, self.vdim, "vdim", (2, 3))
        if len({each.rank for each in (query, key, value)}) > 1:
            self.refuse(f"its inputs are {query!r}, {key!r} and {value!r}, and must have the same number of axes.")
        single = query.rank == 2
        if single:
            query, key, value = self._each(query, key, value, lambda each: unsqueezed(each, [0]))
            key_padding_mask = None if key_padding_mask is None else unsqueezed(key_padding_mask, [0])
        elif not self.batch_first:
            query, key, value = self._each(query, key, value, lambda each: op.Transpose(each, perm=[1, 0, 2]))
        output, weights = self._attended(query, key, value, key_padding_mask, attn_mask, is_causal)
        if average_attn_weights:
            weights = mean(weights, [1], keepdims=0)
        if single:
            output, weights = squeezed(output, [0]), squeezed(weights, [0])
        elif not self.batch_first:
            output = op.Transpose(output, perm=[1, 0, 2])
        return output, weights if need_weights else None

    @staticmethod
    def _each(query: Value, key: Value, value: Value, change: Callable[[Value], Value]) -> tuple[Value, Value, Value]:
        """Change the inputs: those that are the same one stay the same."""
        changed = {each: change(each) for each in dict.fromkeys((query, key, value))}
        return changed[query], changed[key], changed[value]

    def _projected(self, query: Value, key: Value, value: Value) -> tuple[Value, Value, Value]:
        if self.in_proj_weight is not None and query == key == value:
            first, second, third = op.Split(linear(query, self.in_proj_weight, self.in_proj_bias), outputs=3, axis=-1)
            return first, second, third
        biases = (None,) * 3 if self.in_proj_bias is None else op.Split(self.in_proj_bias, outputs=3, axis=0)
        weights: tuple[Value | None, ...]
        if self.in_proj_weight is not None:
            weights = op.Split(self.in_proj_weight, outputs=3, axis=0)
        else:
            weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        first, second, third = (
            linear(each, weight, bias)  # type: ignore[arg-type]
            for each, weight, bias in zip((query, key, value), weights, biases, strict=True)
        )
        return first, second, third

    def _attended(
        self,
        query: Value,
        key: Value,
        value: Value,
        key_padding_mask: Value | None,
        attn_mask: Value | None,
        is_causal: bool,
    ) -> tuple[Value, Value]:
        size = self.embed_dim // self.num_heads
        heads = [op.Reshape(each, [0, 0, self.num_heads, size]) for each in self._projected(query, key, value)]
        q, v = (op.Transpose(heads[index], perm=[0, 2, 1, 3]) for index in (0, 2))
        scores = (q @ op.Transpose(heads[1], perm=[0, 2, 3, 1])) * (1 / sqrt(size))
        if attn_mask is not None and attn_mask.rank == 3:
            sizes = op.Concat([-1, self.num_heads], op.Shape(attn_mask)[1:], axis=0)
            attn_mask = op.Reshape(attn_mask, sizes)
        if attn_mask is None and is_causal:
            rows, columns = (op.Range(0, op.Shape(each)[1], 1) for each in (query, key))
            attn_mask = unsqueezed(columns, [0]) > unsqueezed(rows, [1])
        if key_padding_mask is not None:
            key_padding_mask = unsqueezed(key_padding_mask, [1, 2])
        for mask in (attn_mask, key_padding_mask):
            if mask is not None and mask.dtype in FLOATS:
                scores = scores + mask
            elif mask is not None:
                scores = op.Where(mask, constant(-np.inf, dtype=query.dtype), scores)
        weights = softmax(scores, 3)
        joined = op.Reshape(op.Transpose(weights @ v, perm=[0, 2, 1, 3]), [0, 0, self.embed_dim])
        return self.out_proj(joined), weights


MultiHeadAttention = MultiheadAttention

Activation = str | Callable[[Value], Value]


class TransformerEncoderLayer(Module):
    """Self-attention and two linear layers, each added to its input and normalised."""

    is_network = True

    @at_the_users_line
    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        *,
        dtype: Dtype | None = None,
    ) -> None:
        if activation not in ("relu", "gelu") and not callable(activation):
            raise BuildError(
                f'TransformerEncoderLayer: activation is {activation!r}, and must be "relu", "gelu" or a function.'
            )
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, dtype=dtype)
        self.linear1 = Linear(d_model, dim_feedforward, bias, dtype=dtype)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, dtype=dtype)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self._activation = activation

    @at_the_users_line
    def __call__(
        self,
        src: Value,
        src_mask: Value | None = None,
        src_key_padding_mask: Value | None = None,
        is_causal: bool = False,
    ) -> Value:
        """Make the nodes of the layer, and return what it gives."""
        made: Value = Module.__call__(self, src, src_mask, src_key_padding_mask, is_causal)
        return made

    def forward(
        self,
        src: Value,
        src_mask: Value | None = None,
        src_key_padding_mask: Value | None = None,
        is_causal: bool = False,
    ) -> Value:
        """Return what the layer gives."""

        def attended(x: Value) -> Value:
            made, _ = self.self_attn(
                x, x, x, src_key_padding_mask, need_weights=False, attn_mask=src_mask, is_causal=is_causal
            )
            return self.dropout1(made)

        if self.norm_first:
            x = src + attended(self.norm1(src))
            return x + self._feed_forward(self.norm2(x))
        x = self.norm1(src + attended(src))
        return self.norm2(x + self._feed_forward(x))

    def _feed_forward(self, x: Value) -> Value:
        x = self.linear1(x)
        if callable(self._activation):
            x = self._activation(x)
        else:
            x = op.Relu(x) if self._activation == "relu" else gelu(x)
        return self.dropout2(self.linear2(self.dropout(x)))


def gelu(x: Value) -> Value:
    """Return x times the chance that a normal number is smaller."""
    from .activation import GELU

    return GELU().forward(x)


class TransformerEncoder(Module):
    """Some layers like `encoder_layer`, one after the other, and a norm."""

    is_network = True

    @at_the_users_line
    def __init__(self, encoder_layer: TransformerEncoderLayer, num_layers: int, norm: Layer | None = None) -> None:
        positive("TransformerEncoder", num_layers=num_layers)
        self.layers = ModuleList(deepcopy(encoder_layer) for _ in range(num_layers))
        self.norm = norm

    @at_the_users_line
    def __call__(
        self,
        src: Value,
        mask: Value | None = None,
        src_key_padding_mask: Value | None = None,
        is_causal: bool = False,
    ) -> Value:
        """Make the nodes of the layers, and return what the last gives."""
        made: Value = Module.__call__(self, src, mask, src_key_padding_mask, is_causal)
        return made

    def forward(
        self,
        src: Value,
        mask: Value | None = None,
        src_key_padding_mask: Value | None = None,
        is_causal: bool = False,
    ) -> Value:
        """Return what the last layer gives."""
        for layer in self.layers:
            src = layer(src, mask, src_key_padding_mask, is_causal)
        return src if self.norm is None else self.norm(src)
