"""Lifted from gpt2_dynamo.onnx: 149 nodes, opset 20.

Inputs   input_ids       int64    (batch, sequence)
         attention_mask  int64    (batch, sequence)
Outputs  logits          float32  (batch, sequence, 50)
Weights  gpt2.safetensors: 28,096 parameters
"""

import io
from pathlib import Path
from typing import BinaryIO

import torch
from safetensors.torch import load as load_bytes, load_file
from torch import Tensor, nn
from torch.nn import functional as F


class Conv1D(nn.Module):
    """transformer.h.*.attn.c_attn, transformer.h.*.attn.c_proj, ..., transformer.h.*.mlp.c_proj"""

    def __init__(self, in_dim: int, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(in_dim, dim))
        self.bias = nn.Parameter(torch.empty(dim))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight + self.bias


class GPT2Attention(nn.Module):
    """transformer.h.0.attn, transformer.h.1.attn"""

    def __init__(self) -> None:
        super().__init__()
        self.c_attn = Conv1D(32, 96)
        self.c_proj = Conv1D(32, 32)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        q, k, v = self.c_attn(x).chunk(3, -1)
        q = q.unflatten(-1, (4, 8)).transpose(1, 2)
        k = k.unflatten(-1, (4, 8)).transpose(1, 2)
        v = v.unflatten(-1, (4, 8)).transpose(1, 2)
        attn = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.c_proj(attn.transpose(1, 2).flatten(2))


class GPT2MLP(nn.Module):
    """transformer.h.0.mlp, transformer.h.1.mlp"""

    def __init__(self) -> None:
        super().__init__()
        self.c_fc = Conv1D(32, 128)
        self.c_proj = Conv1D(128, 32)

    def forward(self, x: Tensor) -> Tensor:
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))


class GPT2Block(nn.Module):
    """transformer.h.0, transformer.h.1"""

    def __init__(self) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(32)
        self.attn = GPT2Attention()
        self.ln_2 = nn.LayerNorm(32)
        self.mlp = GPT2MLP()

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.attn(self.ln_1(x), mask) + x
        return x + self.mlp(self.ln_2(x))


class GPT2Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wte = nn.Embedding(50, 32)
        self.wpe = nn.Embedding(32, 32)
        self.h = nn.ModuleList(GPT2Block() for _ in range(2))
        self.ln_f = nn.LayerNorm(32)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        positions = torch.arange(input_ids.shape[1], device=input_ids.device)
        x = self.wte(input_ids) + self.wpe(positions.unsqueeze(0))
        mask = (positions <= positions.unsqueeze(1)) & attention_mask.bool()[:, None, None]
        mask = torch.where(mask, 0.0, torch.finfo(torch.float32).min)
        for block in self.h:
            x = block(x, mask)
        return self.ln_f(x)


class GPT2(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.transformer = GPT2Model()
        self.lm_head = nn.Linear(32, 50, bias=False)
        self.tie_weights()

    def tie_weights(self) -> None:
        self.lm_head.weight = self.transformer.wte.weight

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        x = self.transformer(input_ids, attention_mask)
        return self.lm_head(x)


WEIGHTS = Path(__file__).with_name("gpt2.safetensors")


def initialise(model: nn.Module) -> None:
    """Give the parameters that belong to no layer of PyTorch small random values."""
    for module in model.modules():
        if not hasattr(module, "reset_parameters"):
            for name, parameter in module.named_parameters(recurse=False):
                if not name.startswith("original"):  # a layer computes its weight from it
                    nn.init.normal_(parameter, std=0.02)


def read_weights(
    source: str | Path | bytes | BinaryIO | dict[str, Tensor], device: str
) -> dict[str, Tensor]:
    """The tensors of a safetensors or .pt file (its path, its bytes, or open), or of a dict."""
    if isinstance(source, dict):
        return {name: tensor.to(device, copy=True) for name, tensor in source.items()}
    if isinstance(source, str | Path) and str(source).endswith(".safetensors"):
        return load_file(source, device=device)
    if isinstance(source, str | Path):
        source = Path(source).read_bytes()
    data = source if isinstance(source, bytes) else source.read()
    if data[8:9] == b"{":  # safetensors; a .pt file begins otherwise
        return {name: tensor.to(device) for name, tensor in load_bytes(data).items()}
    return torch.load(io.BytesIO(data), map_location=device, weights_only=True)


def under_all_names(weights: dict[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    """The weights, and those that are one under each of their names: files hold them once."""
    names = dict(model.named_parameters(remove_duplicate=False))
    held = {names[name]: weights[name] for name in weights if name in names}
    return weights | {
        name: held[parameter] for name, parameter in names.items() if parameter in held
    }


def load(
    path: str | Path | bytes | BinaryIO | dict[str, Tensor] | None = WEIGHTS,
    device: str = "cpu",
    dtype: torch.dtype | None = None,
) -> GPT2:
    """The model, ready to run; untrained if `path` is None, and in `dtype` if it is given."""
    with torch.device(device if path is None else "meta"):
        model = GPT2()
    if path is None:
        initialise(model)
    else:
        model.load_state_dict(under_all_names(read_weights(path, device), model), assign=True)
        model.tie_weights()
    return model.to(dtype).eval()
