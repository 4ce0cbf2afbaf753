"""The shapes of the weights that a layer of PyTorch makes, from the arguments of its constructor.

A row of the table of layer kinds (`kinds.py`) names one of these functions, beside the constructor's signature. With
them, the weights that generated source will ask for are known without torch (`text/built_weights.py`). A function gets
all arguments of the constructor, defaults included, and returns the shape of each weight by its name in the state dict.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Shape = tuple[int, ...]
Shapes = dict[str, Shape]
ShapeRule = Callable[[Mapping[str, Any]], Shapes]


def linear(arguments: Mapping[str, Any]) -> Shapes:
    """Return the shapes of nn.Linear."""
    width = arguments["out_features"]
    return {"weight": (width, arguments["in_features"])} | _bias(arguments, width)


def bilinear(arguments: Mapping[str, Any]) -> Shapes:
    """Return the shapes of nn.Bilinear."""
    width = arguments["out_features"]
    return {"weight": (width, arguments["in1_features"], arguments["in2_features"])} | _bias(arguments, width)


def embedding(arguments: Mapping[str, Any]) -> Shapes:
    """Return the shapes of nn.Embedding."""
    return {"weight": (arguments["num_embeddings"], arguments["embedding_dim"])}


def conv(rank: int) -> ShapeRule:
    """Return the rule for a convolution over so many axes: nn.Conv1d, nn.Conv2d, nn.Conv3d."""

    def shapes(arguments: Mapping[str, Any]) -> Shapes:
        channels = arguments["out_channels"]
        inputs = arguments["in_channels"] // arguments["groups"]
        return {"weight": (channels, inputs, *_kernel(arguments, rank))} | _bias(arguments, channels)

    return shapes


def conv_transpose(rank: int) -> ShapeRule:
    """Return the rule for a transposed convolution over so many axes."""

    def shapes(arguments: Mapping[str, Any]) -> Shapes:
        channels = arguments["out_channels"]
        kernel = (arguments["in_channels"], channels // arguments["groups"], *_kernel(arguments, rank))
        return {"weight": kernel} | _bias(arguments, channels)

    return shapes


def channel_norm(arguments: Mapping[str, Any]) -> Shapes:
    """Return the shapes of a norm by channel: nn.BatchNorm2d, nn.InstanceNorm2d, nn.GroupNorm."""
    channels = (arguments["num_features"] if "num_features" in arguments else arguments["num_channels"],)
    shapes: dict[str, Shape] = {"weight": channels, "bias": channels} if arguments["affine"] else {}
    if arguments.get("track_running_stats", False):
        shapes |= {"running_mean": channels, "running_var": channels, "num_batches_tracked": ()}
    return shapes


def place_norm(arguments: Mapping[str, Any]) -> Shapes:
    """Return the shapes of nn.LayerNorm and nn.RMSNorm. The latter has no bias."""
    if not arguments["elementwise_affine"]:
        return {}
    shape = arguments["normalized_shape"]
    shape = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    return {"weight": shape} | ({"bias": shape} if arguments.get("bias", False) else {})


def recurrent(gates: int) -> ShapeRule:
    """Return the rule for nn.LSTM (four gates), nn.GRU (three) and nn.RNN (one)."""

    def shapes(arguments: Mapping[str, Any]) -> Shapes:
        hidden, directions = arguments["hidden_size"], 1 + arguments["bidirectional"]
        found: dict[str, Shape] = {}
        for layer in range(arguments["num_layers"]):
            inputs = arguments["input_size"] if layer == 0 else hidden * directions
            for end in ("", "_reverse")[:directions]:
                found |= _gates(gates, inputs, hidden, arguments["bias"], f"_l{layer}{end}")
        return found

    return shapes


def recurrent_cell(gates: int) -> ShapeRule:
    """Return the rule for nn.LSTMCell, nn.GRUCell and nn.RNNCell."""
    return lambda arguments: _gates(gates, arguments["input_size"], arguments["hidden_size"], arguments["bias"], "")


def multihead_attention(arguments: Mapping[str, Any]) -> Shapes:
    """Return the shapes of nn.MultiheadAttention. It has one matrix for queries, keys and values if these are of one
    width."""
    width = arguments["embed_dim"]
    keys, values = arguments["kdim"] or width, arguments["vdim"] or width
    found: dict[str, Shape] = {"in_proj_weight": (3 * width, width)}
    if (keys, values) != (width, width):
        widths = {"q": width, "k": keys, "v": values}
        found = {f"{name}_proj_weight": (width, inputs) for name, inputs in widths.items()}
    found["out_proj.weight"] = (width, width)
    if arguments["bias"]:
        found |= {"in_proj_bias": (3 * width,), "out_proj.bias": (width,)}
    if arguments["add_bias_kv"]:
        found |= dict.fromkeys(("bias_k", "bias_v"), (1, 1, width))
    return found


def prelu(arguments: Mapping[str, Any]) -> Shapes:
    """Return the shapes of nn.PReLU."""
    return {"weight": (arguments["num_parameters"],)}


def integer_linear(arguments: Mapping[str, Any]) -> Shapes:
    """Return the shapes of our own layers with a matrix of integers."""
    return linear(arguments) | _steps((arguments["out_features"] if arguments["per_channel"] else 1, 1))


def integer_conv(arguments: Mapping[str, Any]) -> Shapes:
    """Return the shapes of our own convolutions with kernels of integers."""
    size = arguments["kernel_size"]
    axes = len(size) if isinstance(size, tuple | list) else 2
    steps = (arguments["out_channels"] if arguments["per_channel"] else 1, 1, *(1 for _ in range(axes)))
    return conv(axes)(arguments) | _steps(steps)


def integer_linear_of_integers(arguments: Mapping[str, Any]) -> Shapes:
    """Return the shapes of our own layer with a matrix of integers that takes and gives integers."""
    return integer_linear(arguments) | _ENDS


def integer_conv_of_integers(arguments: Mapping[str, Any]) -> Shapes:
    """Return the shapes of our own convolution with kernels of integers that takes and gives integers."""
    return integer_conv(arguments) | _ENDS


_ENDS: Shapes = {f"{end}_{name}": () for end in ("input", "output") for name in ("scale", "zero_point")}


def integer_embedding(arguments: Mapping[str, Any]) -> Shapes:
    """Return the shapes of our own embedding with a table of integers."""
    return embedding(arguments) | _steps((arguments["num_embeddings"], 1) if arguments["per_channel"] else ())


def block_quantized_linear(arguments: Mapping[str, Any]) -> Shapes:
    """Return the shapes of our own layer whose matrix is packed into bytes, block by block."""
    width, size, bits = arguments["out_features"], arguments["block_size"], arguments["bits"]
    blocks = -(-arguments["in_features"] // size)
    found: dict[str, Shape] = {"weight": (width, blocks, size * bits // 8), "scales": (width, blocks)}
    if arguments["zero_points"]:
        found["zero_points"] = (width, -(-blocks * bits // 8))
    return found | _bias(arguments, width)


def weight_normed(weight: Shape, dim: int | None) -> tuple[Shape, Shape]:
    """Return the shapes of the two parts from which `weight_norm` computes a weight: lengths, and directions. -1 means
    all axes, like None."""
    if dim is None or dim == -1:
        return (), weight
    return tuple(size if axis == dim else 1 for axis, size in enumerate(weight)), weight


def spectral_normed(weight: Shape, dim: int) -> tuple[Shape, Shape, Shape]:
    """Return the shapes of the three parts from which `spectral_norm` computes a weight: itself, and a vector for each
    side of the matrix that it is taken as."""
    rest = 1
    for axis, size in enumerate(weight):
        rest *= 1 if axis == dim % len(weight) else size
    return weight, (weight[dim],), (rest,)


def _bias(arguments: Mapping[str, Any], width: int) -> dict[str, Shape]:
    return {"bias": (width,)} if arguments["bias"] else {}


def _kernel(arguments: Mapping[str, Any], rank: int) -> Shape:
    size = arguments["kernel_size"]
    return tuple(size) if isinstance(size, tuple | list) else (size,) * rank


def _steps(shape: Shape) -> dict[str, Shape]:
    return {"scale": shape, "zero_point": shape}


def _gates(gates: int, inputs: int, hidden: int, bias: bool, end: str) -> dict[str, Shape]:
    rows = gates * hidden
    found: dict[str, Shape] = {f"weight_ih{end}": (rows, inputs), f"weight_hh{end}": (rows, hidden)}
    return found | (dict.fromkeys((f"bias_ih{end}", f"bias_hh{end}"), (rows,)) if bias else {})
