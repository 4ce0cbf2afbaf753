"""Every operator of ONNX as a function. Written by tools/operator_stubs.py."""

from typing import Any, overload

from onnxlift.build.types import Array, Dtype, Floats, Ints, Operand, Strings
from onnxlift.build.value import Value

from . import microsoft as microsoft
from . import ml as ml
from . import preview as preview
from . import training as training

def Abs(X: Operand, *, name: str | None = None) -> Value:
    """Absolute takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where absolute value, y =
    abs(x), is applied to the tensor elementwise.
    """

def Acos(input: Operand, *, name: str | None = None) -> Value:
    """Calculates the arccosine (inverse of cosine) of the given input tensor, element-wise."""

def Acosh(input: Operand, *, name: str | None = None) -> Value:
    """Calculates the hyperbolic arccosine of the given input tensor element-wise."""

def Add(
    A: Operand, B: Operand, *, axis: int | None = None, broadcast: int | None = None, name: str | None = None
) -> Value:
    """Performs element-wise binary addition (with Numpy-style broadcasting support)."""

def AffineGrid(theta: Operand, size: Operand, *, align_corners: int | None = None, name: str | None = None) -> Value:
    """Generates a 2D or 3D flow field (sampling grid), given a batch of affine matrices theta
    (https://pytorch.org/docs/stable/generated/torch.nn.functional.affine_grid.html).
    """

def And(
    A: Operand, B: Operand, *, axis: int | None = None, broadcast: int | None = None, name: str | None = None
) -> Value:
    """Returns the tensor resulted from performing the `and` logical operation elementwise on the input tensors `A`
    and `B` (with Numpy-style broadcasting support).
    """

def ArgMax(
    data: Operand,
    *,
    axis: int | None = None,
    keepdims: int | None = None,
    select_last_index: int | None = None,
    name: str | None = None,
) -> Value:
    """Computes the indices of the max elements of the input tensor's element along the provided axis."""

def ArgMin(
    data: Operand,
    *,
    axis: int | None = None,
    keepdims: int | None = None,
    select_last_index: int | None = None,
    name: str | None = None,
) -> Value:
    """Computes the indices of the min elements of the input tensor's element along the provided axis."""

def Asin(input: Operand, *, name: str | None = None) -> Value:
    """Calculates the arcsine (inverse of sine) of the given input tensor, element-wise."""

def Asinh(input: Operand, *, name: str | None = None) -> Value:
    """Calculates the hyperbolic arcsine of the given input tensor element-wise."""

def Atan(input: Operand, *, name: str | None = None) -> Value:
    """Calculates the arctangent (inverse of tangent) of the given input tensor, element-wise."""

def Atanh(input: Operand, *, name: str | None = None) -> Value:
    """Calculates the hyperbolic arctangent of the given input tensor element-wise."""

@overload
def Attention(
    Q: Operand,
    K: Operand,
    V: Operand,
    attn_mask: Operand | None = None,
    past_key: Operand | None = None,
    past_value: Operand | None = None,
    nonpad_kv_seqlen: Operand | None = None,
    *,
    outputs: None = None,
    is_causal: int | None = None,
    kv_num_heads: int | None = None,
    left_window_size: int | None = None,
    q_num_heads: int | None = None,
    qk_matmul_output_mode: int | None = None,
    right_window_size: int | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    softmax_precision: int | None = None,
    name: str | None = None,
) -> Value:
    """Computes scaled dot product attention on query, key and value tensors, using an optional attention mask if
    passed.
    """

@overload
def Attention(
    Q: Operand,
    K: Operand,
    V: Operand,
    attn_mask: Operand | None = None,
    past_key: Operand | None = None,
    past_value: Operand | None = None,
    nonpad_kv_seqlen: Operand | None = None,
    *,
    outputs: int,
    is_causal: int | None = None,
    kv_num_heads: int | None = None,
    left_window_size: int | None = None,
    q_num_heads: int | None = None,
    qk_matmul_output_mode: int | None = None,
    right_window_size: int | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    softmax_precision: int | None = None,
    name: str | None = None,
) -> tuple[Value, ...]: ...
def AveragePool(
    X: Operand,
    *,
    auto_pad: str | None = None,
    ceil_mode: int | None = None,
    count_include_pad: int | None = None,
    dilations: Ints | None = None,
    kernel_shape: Ints | None = None,
    pads: Ints | None = None,
    strides: Ints | None = None,
    name: str | None = None,
) -> Value:
    """AveragePool consumes an input tensor X and applies average pooling across the tensor according to kernel
    sizes, stride sizes, and pad lengths.
    """

@overload
def BatchNormalization(
    X: Operand,
    scale: Operand,
    B: Operand,
    input_mean: Operand,
    input_var: Operand,
    *,
    outputs: None = None,
    epsilon: float | None = None,
    is_test: int | None = None,
    momentum: float | None = None,
    spatial: int | None = None,
    training_mode: int | None = None,
    name: str | None = None,
) -> Value:
    """Carries out batch normalization as described in the paper https://arxiv.org/abs/1502.03167."""

@overload
def BatchNormalization(
    X: Operand,
    scale: Operand,
    B: Operand,
    input_mean: Operand,
    input_var: Operand,
    *,
    outputs: int,
    epsilon: float | None = None,
    is_test: int | None = None,
    momentum: float | None = None,
    spatial: int | None = None,
    training_mode: int | None = None,
    name: str | None = None,
) -> tuple[Value, ...]: ...
def Bernoulli(
    input: Operand, *, dtype: Dtype | None = None, seed: float | None = None, name: str | None = None
) -> Value:
    """Draws binary random numbers (0 or 1) from a Bernoulli distribution."""

def BitCast(input: Operand, *, to: Dtype | None = None, name: str | None = None) -> Value:
    """Reinterprets the binary representation of a tensor as a different data type, specified by the 'to'
    attribute.
    """

def BitShift(X: Operand, Y: Operand, *, direction: str | None = None, name: str | None = None) -> Value:
    """Bitwise shift operator performs element-wise operation."""

def BitwiseAnd(A: Operand, B: Operand, *, name: str | None = None) -> Value:
    """Returns the tensor resulting from performing the bitwise `and` operation elementwise on the input tensors
    `A` and `B` (with Numpy-style broadcasting support).
    """

def BitwiseNot(X: Operand, *, name: str | None = None) -> Value:
    """Returns the bitwise not of the input tensor element-wise."""

def BitwiseOr(A: Operand, B: Operand, *, name: str | None = None) -> Value:
    """Returns the tensor resulting from performing the bitwise `or` operation elementwise on the input tensors `A`
    and `B` (with Numpy-style broadcasting support).
    """

def BitwiseXor(A: Operand, B: Operand, *, name: str | None = None) -> Value:
    """Returns the tensor resulting from performing the bitwise `xor` operation elementwise on the input tensors
    `A` and `B` (with Numpy-style broadcasting support).
    """

def BlackmanWindow(
    size: Operand, *, output_datatype: int | None = None, periodic: int | None = None, name: str | None = None
) -> Value:
    """Generates a Blackman window as described in the paper https://ieeexplore.ieee.org/document/1455106."""

def Cast(
    input: Operand,
    *,
    round_mode: str | None = None,
    saturate: int | None = None,
    to: Dtype | None = None,
    name: str | None = None,
) -> Value:
    """The operator casts the elements of a given input tensor to a data type specified by the 'to' argument and
    returns an output tensor of the same size in the converted type.
    """

def CastLike(
    input: Operand,
    target_type: Operand,
    *,
    round_mode: str | None = None,
    saturate: int | None = None,
    name: str | None = None,
) -> Value:
    """The operator casts the elements of a given input tensor (the first input) to the same data type as the
    elements of the second input tensor.
    """

def CausalConvWithState(
    input: Operand,
    weight: Operand,
    bias: Operand | None = None,
    past_state: Operand | None = None,
    *,
    outputs: int | None = None,
    activation: str | None = None,
    name: str | None = None,
) -> tuple[Value, ...]:
    """Stateful causal 1D depthwise convolution."""

def Ceil(X: Operand, *, name: str | None = None) -> Value:
    """Ceil takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where the ceil is, y =
    ceil(x), is applied to the tensor elementwise.
    """

def Celu(X: Operand, *, alpha: float | None = None, name: str | None = None) -> Value:
    """Continuously Differentiable Exponential Linear Units: Perform the linear unit element-wise on the input
    tensor X using formula:
    """

def CenterCropPad(input_data: Operand, shape: Operand, *, axes: Ints | None = None, name: str | None = None) -> Value:
    """Center crop or pad an input to given dimensions."""

def Clip(input: Operand, min: Operand | None = None, max: Operand | None = None, *, name: str | None = None) -> Value:
    """Clip operator limits the given input within an interval."""

def Col2Im(
    input: Operand,
    image_shape: Operand,
    block_shape: Operand,
    *,
    dilations: Ints | None = None,
    pads: Ints | None = None,
    strides: Ints | None = None,
    name: str | None = None,
) -> Value:
    """The operator rearranges column blocks back into a multidimensional image"""

def Compress(input: Operand, condition: Operand, *, axis: int | None = None, name: str | None = None) -> Value:
    """Selects slices from an input tensor along a given axis where condition evaluates to True for each axis
    index.
    """

def Concat(*inputs: Operand, axis: int | None = None, name: str | None = None) -> Value:
    """Concatenate a list of tensors into a single tensor."""

def ConcatFromSequence(
    input_sequence: Operand, *, axis: int | None = None, new_axis: int | None = None, name: str | None = None
) -> Value:
    """Concatenate a sequence of tensors into a single tensor."""

def Constant(
    *,
    sparse_value: Any | None = None,
    value: Array | None = None,
    value_float: float | None = None,
    value_floats: Floats | None = None,
    value_int: int | None = None,
    value_ints: Ints | None = None,
    value_string: str | None = None,
    value_strings: Strings | None = None,
    name: str | None = None,
) -> Value:
    """This operator produces a constant tensor."""

def ConstantOfShape(input: Operand, *, value: Array | None = None, name: str | None = None) -> Value:
    """Generate a tensor with given value and shape."""

def Conv(
    X: Operand,
    W: Operand,
    B: Operand | None = None,
    *,
    auto_pad: str | None = None,
    dilations: Ints | None = None,
    group: int | None = None,
    kernel_shape: Ints | None = None,
    pads: Ints | None = None,
    strides: Ints | None = None,
    name: str | None = None,
) -> Value:
    """The convolution operator consumes an input tensor and a filter, and computes the output."""

def ConvInteger(
    x: Operand,
    w: Operand,
    x_zero_point: Operand | None = None,
    w_zero_point: Operand | None = None,
    *,
    auto_pad: str | None = None,
    dilations: Ints | None = None,
    group: int | None = None,
    kernel_shape: Ints | None = None,
    pads: Ints | None = None,
    strides: Ints | None = None,
    name: str | None = None,
) -> Value:
    """The integer convolution operator consumes an input tensor, its zero-point, a filter, and its zero-point, and
    computes the output.
    """

def ConvTranspose(
    X: Operand,
    W: Operand,
    B: Operand | None = None,
    *,
    auto_pad: str | None = None,
    dilations: Ints | None = None,
    group: int | None = None,
    kernel_shape: Ints | None = None,
    output_padding: Ints | None = None,
    output_shape: Ints | None = None,
    pads: Ints | None = None,
    strides: Ints | None = None,
    name: str | None = None,
) -> Value:
    """The convolution transpose operator consumes an input tensor and a filter, and computes the output."""

def Cos(input: Operand, *, name: str | None = None) -> Value:
    """Calculates the cosine of the given input tensor, element-wise."""

def Cosh(input: Operand, *, name: str | None = None) -> Value:
    """Calculates the hyperbolic cosine of the given input tensor element-wise."""

def CumProd(
    x: Operand, axis: Operand, *, exclusive: int | None = None, reverse: int | None = None, name: str | None = None
) -> Value:
    """Performs cumulative product of the input elements along the given axis."""

def CumSum(
    x: Operand, axis: Operand, *, exclusive: int | None = None, reverse: int | None = None, name: str | None = None
) -> Value:
    """Performs cumulative sum of the input elements along the given axis."""

def DFT(
    input: Operand,
    dft_length: Operand | None = None,
    axis: Operand | None = None,
    *,
    inverse: int | None = None,
    onesided: int | None = None,
    name: str | None = None,
) -> Value:
    """Computes the discrete Fourier Transform (DFT) of the input."""

def DeformConv(
    X: Operand,
    W: Operand,
    offset: Operand,
    B: Operand | None = None,
    mask: Operand | None = None,
    *,
    dilations: Ints | None = None,
    group: int | None = None,
    kernel_shape: Ints | None = None,
    offset_group: int | None = None,
    pads: Ints | None = None,
    strides: Ints | None = None,
    name: str | None = None,
) -> Value:
    """Performs deformable convolution as described in https://arxiv.org/abs/1703.06211 and
    https://arxiv.org/abs/1811.11168.
    """

def DepthToSpace(
    input: Operand, *, blocksize: int | None = None, mode: str | None = None, name: str | None = None
) -> Value:
    """DepthToSpace rearranges (permutes) data from depth into blocks of spatial data."""

def DequantizeLinear(
    x: Operand,
    x_scale: Operand,
    x_zero_point: Operand | None = None,
    *,
    axis: int | None = None,
    block_size: int | None = None,
    output_dtype: Dtype | None = None,
    name: str | None = None,
) -> Value:
    """The linear dequantization operator."""

def Det(X: Operand, *, name: str | None = None) -> Value:
    """Det calculates determinant of a square matrix or batches of square matrices."""

def Div(
    A: Operand, B: Operand, *, axis: int | None = None, broadcast: int | None = None, name: str | None = None
) -> Value:
    """Performs element-wise binary division (with Numpy-style broadcasting support)."""

@overload
def Dropout(
    data: Operand,
    ratio: Operand | None = None,
    training_mode: Operand | None = None,
    *,
    outputs: None = None,
    is_test: int | None = None,
    seed: int | None = None,
    name: str | None = None,
) -> Value:
    """Dropout takes an input floating-point tensor, an optional input ratio (floating-point scalar) and an
    optional input training_mode (boolean scalar).
    """

@overload
def Dropout(
    data: Operand,
    ratio: Operand | None = None,
    training_mode: Operand | None = None,
    *,
    outputs: int,
    is_test: int | None = None,
    seed: int | None = None,
    name: str | None = None,
) -> tuple[Value, ...]: ...
def DynamicQuantizeLinear(x: Operand, *, outputs: int | None = None, name: str | None = None) -> tuple[Value, ...]:
    """A Function to fuse calculation for Scale, Zero Point and FP32->8Bit conversion of FP32 Input data."""

def Einsum(*Inputs: Operand, equation: str | None = None, name: str | None = None) -> Value:
    """An einsum of the form `term1, term2 -> output-term` produces an output tensor using the following equation"""

def Elu(X: Operand, *, alpha: float | None = None, name: str | None = None) -> Value:
    """Elu takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where the function `f(x) =
    alpha * (exp(x) - 1.) for x < 0`, `f(x) = x for x >= 0`., is applied to the tensor elementwise.
    """

def Equal(
    A: Operand, B: Operand, *, axis: int | None = None, broadcast: int | None = None, name: str | None = None
) -> Value:
    """Returns the tensor resulted from performing the `equal` logical operation elementwise on the input tensors
    `A` and `B` (with Numpy-style broadcasting support).
    """

def Erf(input: Operand, *, name: str | None = None) -> Value:
    """Computes the error function of the given input tensor element-wise."""

def Exp(input: Operand, *, name: str | None = None) -> Value:
    """Calculates the exponential of the given input tensor, element-wise."""

def Expand(input: Operand, shape: Operand, *, name: str | None = None) -> Value:
    """Broadcast the input tensor following the given shape and the broadcast rule."""

def EyeLike(input: Operand, *, dtype: Dtype | None = None, k: int | None = None, name: str | None = None) -> Value:
    """Generate a 2D tensor (matrix) with ones on the diagonal and zeros everywhere else."""

def Flatten(input: Operand, *, axis: int | None = None, name: str | None = None) -> Value:
    """Flattens the input tensor into a 2D matrix."""

def Floor(X: Operand, *, name: str | None = None) -> Value:
    """Floor takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where the floor is, y =
    floor(x), is applied to the tensor elementwise.
    """

def GRU(
    X: Operand,
    W: Operand,
    R: Operand,
    B: Operand | None = None,
    sequence_lens: Operand | None = None,
    initial_h: Operand | None = None,
    *,
    outputs: int | None = None,
    activation_alpha: Floats | None = None,
    activation_beta: Floats | None = None,
    activations: Strings | None = None,
    clip: float | None = None,
    direction: str | None = None,
    hidden_size: int | None = None,
    layout: int | None = None,
    linear_before_reset: int | None = None,
    output_sequence: int | None = None,
    name: str | None = None,
) -> tuple[Value, ...]:
    """Computes an one-layer GRU."""

def Gather(data: Operand, indices: Operand, *, axis: int | None = None, name: str | None = None) -> Value:
    """Given `data` tensor of rank r >= 1, and `indices` tensor of rank q, gather entries of the axis dimension of
    `data` (by default outer-most one as axis=0) indexed by `indices`, and concatenates them in an output tensor
    of rank q + (r - 1).
    """

def GatherElements(data: Operand, indices: Operand, *, axis: int | None = None, name: str | None = None) -> Value:
    """GatherElements takes two inputs `data` and `indices` of the same rank r >= 1 and an optional attribute
    `axis` that identifies an axis of `data` (by default, the outer-most axis, that is axis 0).
    """

def GatherND(data: Operand, indices: Operand, *, batch_dims: int | None = None, name: str | None = None) -> Value:
    """Given `data` tensor of rank `r` >= 1, `indices` tensor of rank `q` >= 1, and `batch_dims` integer `b`, this
    operator gathers slices of `data` into an output tensor of rank `q + r - indices_shape[-1] - 1 - b`.
    """

def Gelu(X: Operand, *, approximate: str | None = None, name: str | None = None) -> Value:
    """Gelu takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where the gaussian error
    linear units function, $y = 0.5 * x * (1 + erf(x/sqrt(2)))$ is applied to the tensor elementwise.
    """

def Gemm(
    A: Operand,
    B: Operand,
    C: Operand | None = None,
    *,
    alpha: float | None = None,
    beta: float | None = None,
    broadcast: int | None = None,
    transA: int | None = None,
    transB: int | None = None,
    name: str | None = None,
) -> Value:
    """General Matrix multiplication: https://en.wikipedia.org/wiki/Basic_Linear_Algebra_Subprograms#Level_3"""

def GlobalAveragePool(X: Operand, *, name: str | None = None) -> Value:
    """GlobalAveragePool consumes an input tensor X and applies average pooling across the values in the same
    channel.
    """

def GlobalLpPool(X: Operand, *, p: int | None = None, name: str | None = None) -> Value:
    """GlobalLpPool consumes an input tensor X and applies lp pool pooling across the values in the same channel."""

def GlobalMaxPool(X: Operand, *, name: str | None = None) -> Value:
    """GlobalMaxPool consumes an input tensor X and applies max pooling across the values in the same channel."""

def Greater(
    A: Operand, B: Operand, *, axis: int | None = None, broadcast: int | None = None, name: str | None = None
) -> Value:
    """Returns the tensor resulted from performing the `greater` logical operation elementwise on the input tensors
    `A` and `B` (with Numpy-style broadcasting support).
    """

def GreaterOrEqual(A: Operand, B: Operand, *, name: str | None = None) -> Value:
    """Returns the tensor resulted from performing the `greater_equal` logical operation elementwise on the input
    tensors `A` and `B` (with Numpy-style broadcasting support).
    """

def GridSample(
    X: Operand,
    grid: Operand,
    *,
    align_corners: int | None = None,
    mode: str | None = None,
    padding_mode: str | None = None,
    name: str | None = None,
) -> Value:
    """Given an input `X` and a flow-field `grid`, computes the output `Y` using `X` values and pixel locations
    from the `grid`.
    """

def GroupNormalization(
    X: Operand,
    scale: Operand,
    bias: Operand,
    *,
    epsilon: float | None = None,
    num_groups: int | None = None,
    stash_type: int | None = None,
    name: str | None = None,
) -> Value:
    """A GroupNormalization function."""

def HammingWindow(
    size: Operand, *, output_datatype: int | None = None, periodic: int | None = None, name: str | None = None
) -> Value:
    """Generates a Hamming window as described in the paper https://ieeexplore.ieee.org/document/1455106."""

def HannWindow(
    size: Operand, *, output_datatype: int | None = None, periodic: int | None = None, name: str | None = None
) -> Value:
    """Generates a Hann window as described in the paper https://ieeexplore.ieee.org/document/1455106."""

def HardSigmoid(X: Operand, *, alpha: float | None = None, beta: float | None = None, name: str | None = None) -> Value:
    """HardSigmoid takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where the HardSigmoid
    function, y = max(0, min(1, alpha * x + beta)), is applied to the tensor elementwise.
    """

def HardSwish(X: Operand, *, name: str | None = None) -> Value:
    """HardSwish takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where the HardSwish
    function, y = x * max(0, min(1, alpha * x + beta)) = x * HardSigmoid<alpha, beta>(x), where alpha = 1/6 and
    beta = 0.5, is applied to the tensor elementwise.
    """

def Hardmax(input: Operand, *, axis: int | None = None, name: str | None = None) -> Value:
    """The operator computes the hardmax values for the given input:"""

def Identity(input: Operand, *, name: str | None = None) -> Value:
    """Identity operator"""

def If(
    cond: Operand,
    *,
    outputs: int | None = None,
    else_branch: Any | None = None,
    then_branch: Any | None = None,
    name: str | None = None,
) -> tuple[Value, ...]:
    """If conditional"""

def ImageDecoder(encoded_stream: Operand, *, pixel_format: str | None = None, name: str | None = None) -> Value:
    """Loads and decodes and image from a file."""

def InstanceNormalization(
    input: Operand, scale: Operand, B: Operand, *, epsilon: float | None = None, name: str | None = None
) -> Value:
    """Carries out instance normalization as described in the paper https://arxiv.org/abs/1607.08022."""

def IsInf(
    X: Operand, *, detect_negative: int | None = None, detect_positive: int | None = None, name: str | None = None
) -> Value:
    """Map infinity to true and other values to false."""

def IsNaN(X: Operand, *, name: str | None = None) -> Value:
    """Returns which elements of the input are NaN."""

def LRN(
    X: Operand,
    *,
    alpha: float | None = None,
    beta: float | None = None,
    bias: float | None = None,
    size: int | None = None,
    name: str | None = None,
) -> Value:
    """Local Response Normalization proposed in the [AlexNet paper](https://papers.nips.cc/paper/4824-imagenet-
    classification-with-deep-convolutional-neural-networks.pdf).
    """

def LSTM(
    X: Operand,
    W: Operand,
    R: Operand,
    B: Operand | None = None,
    sequence_lens: Operand | None = None,
    initial_h: Operand | None = None,
    initial_c: Operand | None = None,
    P: Operand | None = None,
    *,
    outputs: int | None = None,
    activation_alpha: Floats | None = None,
    activation_beta: Floats | None = None,
    activations: Strings | None = None,
    clip: float | None = None,
    direction: str | None = None,
    hidden_size: int | None = None,
    input_forget: int | None = None,
    layout: int | None = None,
    output_sequence: int | None = None,
    name: str | None = None,
) -> tuple[Value, ...]:
    """Computes an one-layer LSTM."""

@overload
def LayerNormalization(
    X: Operand,
    Scale: Operand,
    B: Operand | None = None,
    *,
    outputs: None = None,
    axis: int | None = None,
    epsilon: float | None = None,
    stash_type: int | None = None,
    name: str | None = None,
) -> Value:
    """This is layer normalization defined in ONNX as function."""

@overload
def LayerNormalization(
    X: Operand,
    Scale: Operand,
    B: Operand | None = None,
    *,
    outputs: int,
    axis: int | None = None,
    epsilon: float | None = None,
    stash_type: int | None = None,
    name: str | None = None,
) -> tuple[Value, ...]: ...
def LeakyRelu(X: Operand, *, alpha: float | None = None, name: str | None = None) -> Value:
    """LeakyRelu takes input data (Tensor<T>) and an argument alpha, and produces one output data (Tensor<T>) where
    the function `f(x) = alpha * x for x < 0`, `f(x) = x for x >= 0`, is applied to the data tensor elementwise.
    """

def Less(
    A: Operand, B: Operand, *, axis: int | None = None, broadcast: int | None = None, name: str | None = None
) -> Value:
    """Returns the tensor resulted from performing the `less` logical operation elementwise on the input tensors
    `A` and `B` (with Numpy-style broadcasting support).
    """

def LessOrEqual(A: Operand, B: Operand, *, name: str | None = None) -> Value:
    """Returns the tensor resulted from performing the `less_equal` logical operation elementwise on the input
    tensors `A` and `B` (with Numpy-style broadcasting support).
    """

def LinearAttention(
    query: Operand,
    key: Operand,
    value: Operand,
    past_state: Operand | None = None,
    decay: Operand | None = None,
    beta: Operand | None = None,
    *,
    outputs: int | None = None,
    chunk_size: int | None = None,
    kv_num_heads: int | None = None,
    q_num_heads: int | None = None,
    scale: float | None = None,
    update_rule: str | None = None,
    name: str | None = None,
) -> tuple[Value, ...]:
    """Unified linear attention operator for autoregressive decoding (T=1) and prefill (T>1)."""

def Log(input: Operand, *, name: str | None = None) -> Value:
    """Calculates the natural log of the given input tensor, element-wise."""

def LogSoftmax(input: Operand, *, axis: int | None = None, name: str | None = None) -> Value:
    """The operator computes the log of softmax values for the given input:"""

def Loop(
    M: Operand | None = None,
    cond: Operand | None = None,
    *v_initial: Operand,
    outputs: int | None = None,
    body: Any | None = None,
    name: str | None = None,
) -> tuple[Value, ...]:
    """Generic Looping construct."""

def LpNormalization(input: Operand, *, axis: int | None = None, p: int | None = None, name: str | None = None) -> Value:
    """Given a matrix, apply Lp-normalization along the provided axis."""

def LpPool(
    X: Operand,
    *,
    auto_pad: str | None = None,
    ceil_mode: int | None = None,
    dilations: Ints | None = None,
    kernel_shape: Ints | None = None,
    p: int | None = None,
    pads: Ints | None = None,
    strides: Ints | None = None,
    name: str | None = None,
) -> Value:
    """LpPool consumes an input tensor X and applies Lp pooling across the tensor according to kernel sizes, stride
    sizes, and pad lengths.
    """

def MatMul(A: Operand, B: Operand, *, name: str | None = None) -> Value:
    """Matrix product that behaves like
    [numpy.matmul](https://numpy.org/doc/stable/reference/generated/numpy.matmul.html).
    """

def MatMulInteger(
    A: Operand,
    B: Operand,
    a_zero_point: Operand | None = None,
    b_zero_point: Operand | None = None,
    *,
    name: str | None = None,
) -> Value:
    """Matrix product that behaves like
    [numpy.matmul](https://numpy.org/doc/stable/reference/generated/numpy.matmul.html).
    """

def Max(*data_0: Operand, name: str | None = None) -> Value:
    """Element-wise max of each of the input tensors (with Numpy-style broadcasting support)."""

@overload
def MaxPool(
    X: Operand,
    *,
    outputs: None = None,
    auto_pad: str | None = None,
    ceil_mode: int | None = None,
    dilations: Ints | None = None,
    kernel_shape: Ints | None = None,
    pads: Ints | None = None,
    storage_order: int | None = None,
    strides: Ints | None = None,
    name: str | None = None,
) -> Value:
    """MaxPool consumes an input tensor X and applies max pooling across the tensor according to kernel sizes,
    stride sizes, and pad lengths.
    """

@overload
def MaxPool(
    X: Operand,
    *,
    outputs: int,
    auto_pad: str | None = None,
    ceil_mode: int | None = None,
    dilations: Ints | None = None,
    kernel_shape: Ints | None = None,
    pads: Ints | None = None,
    storage_order: int | None = None,
    strides: Ints | None = None,
    name: str | None = None,
) -> tuple[Value, ...]: ...
def MaxRoiPool(
    X: Operand,
    rois: Operand,
    *,
    pooled_shape: Ints | None = None,
    spatial_scale: float | None = None,
    name: str | None = None,
) -> Value:
    """ROI max pool consumes an input tensor X and region of interests (RoIs) to apply max pooling across each RoI,
    to produce output 4-D tensor of shape (num_rois, channels, pooled_shape[0], pooled_shape[1]).
    """

def MaxUnpool(
    X: Operand,
    I: Operand,
    output_shape: Operand | None = None,
    *,
    kernel_shape: Ints | None = None,
    pads: Ints | None = None,
    strides: Ints | None = None,
    name: str | None = None,
) -> Value:
    """MaxUnpool essentially computes the partial inverse of the MaxPool op."""

def Mean(*data_0: Operand, name: str | None = None) -> Value:
    """Element-wise mean of each of the input tensors (with Numpy-style broadcasting support)."""

def MeanVarianceNormalization(X: Operand, *, axes: Ints | None = None, name: str | None = None) -> Value:
    """A MeanVarianceNormalization Function: Perform mean variance normalization on the input tensor X using
    formula: `(X-EX)/sqrt(E(X-EX)^2)`
    """

def MelWeightMatrix(
    num_mel_bins: Operand,
    dft_length: Operand,
    sample_rate: Operand,
    lower_edge_hertz: Operand,
    upper_edge_hertz: Operand,
    *,
    output_datatype: int | None = None,
    name: str | None = None,
) -> Value:
    """Generate a MelWeightMatrix that can be used to re-weight a Tensor containing a linearly sampled frequency
    spectra (from DFT or STFT) into num_mel_bins frequency information based on the [lower_edge_hertz,
    upper_edge_hertz] range on the mel scale.
    """

def Min(*data_0: Operand, name: str | None = None) -> Value:
    """Element-wise min of each of the input tensors (with Numpy-style broadcasting support)."""

def Mish(X: Operand, *, name: str | None = None) -> Value:
    """Mish: A Self Regularized Non-Monotonic Neural Activation Function."""

def Mod(A: Operand, B: Operand, *, fmod: int | None = None, name: str | None = None) -> Value:
    """Performs an element-wise binary modulo operation."""

def Mul(
    A: Operand, B: Operand, *, axis: int | None = None, broadcast: int | None = None, name: str | None = None
) -> Value:
    """Performs element-wise binary multiplication (with Numpy-style broadcasting support)."""

def Multinomial(
    input: Operand,
    *,
    dtype: Dtype | None = None,
    sample_size: int | None = None,
    seed: float | None = None,
    name: str | None = None,
) -> Value:
    """Generate a tensor of samples from a multinomial distribution according to the probabilities of each of the
    possible outcomes.
    """

def Neg(X: Operand, *, name: str | None = None) -> Value:
    """Neg takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where each element flipped
    sign, y = -x, is applied to the tensor elementwise.
    """

def NegativeLogLikelihoodLoss(
    input: Operand,
    target: Operand,
    weight: Operand | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str | None = None,
    name: str | None = None,
) -> Value:
    """A NegativeLogLikelihoodLoss operator computes (weighted) negative log likelihood loss."""

def NonMaxSuppression(
    boxes: Operand,
    scores: Operand,
    max_output_boxes_per_class: Operand | None = None,
    iou_threshold: Operand | None = None,
    score_threshold: Operand | None = None,
    *,
    center_point_box: int | None = None,
    name: str | None = None,
) -> Value:
    """Filter out boxes that have high intersection-over-union (IOU) overlap with previously selected boxes."""

def NonZero(X: Operand, *, name: str | None = None) -> Value:
    """Returns the indices of the elements that are non-zero (in row-major order - by dimension)."""

def Not(X: Operand, *, name: str | None = None) -> Value:
    """Returns the negation of the input tensor element-wise."""

def OneHot(
    indices: Operand, depth: Operand, values: Operand, *, axis: int | None = None, name: str | None = None
) -> Value:
    """Produces a one-hot tensor based on inputs."""

def Optional(input: Operand | None = None, *, type: Any | None = None, name: str | None = None) -> Value:
    """Constructs an optional-type value containing either an empty optional of a certain type specified by the
    attribute, or a non-empty value containing the input element.
    """

def OptionalGetElement(input: Operand, *, name: str | None = None) -> Value:
    """If the input is a tensor or sequence type, it returns the input."""

def OptionalHasElement(input: Operand | None = None, *, name: str | None = None) -> Value:
    """Returns true if (1) the input is an optional-type and contains an element, or, (2) the input is a tensor or
    sequence type.
    """

def Or(
    A: Operand, B: Operand, *, axis: int | None = None, broadcast: int | None = None, name: str | None = None
) -> Value:
    """Returns the tensor resulted from performing the `or` logical operation elementwise on the input tensors `A`
    and `B` (with Numpy-style broadcasting support).
    """

def PRelu(X: Operand, slope: Operand, *, name: str | None = None) -> Value:
    """PRelu takes input data (Tensor<T>) and slope tensor as input, and produces one output data (Tensor<T>) where
    the function `f(x) = slope * x for x < 0`, `f(x) = x for x >= 0`., is applied to the data tensor
    elementwise.
    """

def Pad(
    data: Operand,
    pads: Operand,
    constant_value: Operand | None = None,
    axes: Operand | None = None,
    *,
    mode: str | None = None,
    paddings: Ints | None = None,
    value: float | None = None,
    name: str | None = None,
) -> Value:
    """Given a tensor containing the data to be padded (`data`), a tensor containing the number of start and end
    pad values for axis (`pads`), (optionally) a `mode`, and (optionally) `constant_value`, a padded tensor
    (`output`) is generated.
    """

def Pow(
    X: Operand, Y: Operand, *, axis: int | None = None, broadcast: int | None = None, name: str | None = None
) -> Value:
    """Pow takes input data (Tensor<T>) and exponent Tensor, and produces one output data (Tensor<T>) where the
    function `f(x) = x^exponent`, is applied to the data tensor elementwise.
    """

def QLinearConv(
    x: Operand,
    x_scale: Operand,
    x_zero_point: Operand,
    w: Operand,
    w_scale: Operand,
    w_zero_point: Operand,
    y_scale: Operand,
    y_zero_point: Operand,
    B: Operand | None = None,
    *,
    auto_pad: str | None = None,
    dilations: Ints | None = None,
    group: int | None = None,
    kernel_shape: Ints | None = None,
    pads: Ints | None = None,
    strides: Ints | None = None,
    name: str | None = None,
) -> Value:
    """The convolution operator consumes a quantized input tensor, its scale and zero point, a quantized filter,
    its scale and zero point, and output's scale and zero point, and computes the quantized output.
    """

def QLinearMatMul(
    a: Operand,
    a_scale: Operand,
    a_zero_point: Operand,
    b: Operand,
    b_scale: Operand,
    b_zero_point: Operand,
    y_scale: Operand,
    y_zero_point: Operand,
    *,
    name: str | None = None,
) -> Value:
    """Matrix product that behaves like
    [numpy.matmul](https://numpy.org/doc/stable/reference/generated/numpy.matmul.html).
    """

def QuantizeLinear(
    x: Operand,
    y_scale: Operand,
    y_zero_point: Operand | None = None,
    *,
    axis: int | None = None,
    block_size: int | None = None,
    output_dtype: Dtype | None = None,
    precision: int | None = None,
    saturate: int | None = None,
    name: str | None = None,
) -> Value:
    """The linear quantization operator consumes a high-precision tensor, a scale, and a zero point to compute the
    low-precision/quantized tensor.
    """

def RMSNormalization(
    X: Operand,
    scale: Operand,
    *,
    axis: int | None = None,
    epsilon: float | None = None,
    stash_type: int | None = None,
    name: str | None = None,
) -> Value:
    """This is RMS normalization defined in ONNX as function as described in the paper
    https://arxiv.org/pdf/1910.07467.
    """

def RNN(
    X: Operand,
    W: Operand,
    R: Operand,
    B: Operand | None = None,
    sequence_lens: Operand | None = None,
    initial_h: Operand | None = None,
    *,
    outputs: int | None = None,
    activation_alpha: Floats | None = None,
    activation_beta: Floats | None = None,
    activations: Strings | None = None,
    clip: float | None = None,
    direction: str | None = None,
    hidden_size: int | None = None,
    layout: int | None = None,
    output_sequence: int | None = None,
    name: str | None = None,
) -> tuple[Value, ...]:
    """Computes an one-layer simple RNN."""

def RandomNormal(
    *,
    dtype: Dtype | None = None,
    mean: float | None = None,
    scale: float | None = None,
    seed: float | None = None,
    shape: Ints | None = None,
    name: str | None = None,
) -> Value:
    """Generate a tensor with random values drawn from a normal distribution."""

def RandomNormalLike(
    input: Operand,
    *,
    dtype: Dtype | None = None,
    mean: float | None = None,
    scale: float | None = None,
    seed: float | None = None,
    name: str | None = None,
) -> Value:
    """Generate a tensor with random values drawn from a normal distribution."""

def RandomUniform(
    *,
    dtype: Dtype | None = None,
    high: float | None = None,
    low: float | None = None,
    seed: float | None = None,
    shape: Ints | None = None,
    name: str | None = None,
) -> Value:
    """Generate a tensor with random values drawn from a uniform distribution."""

def RandomUniformLike(
    input: Operand,
    *,
    dtype: Dtype | None = None,
    high: float | None = None,
    low: float | None = None,
    seed: float | None = None,
    name: str | None = None,
) -> Value:
    """Generate a tensor with random values drawn from a uniform distribution."""

def Range(
    start: Operand, limit: Operand, delta: Operand, *, stash_type: int | None = None, name: str | None = None
) -> Value:
    """Generate a tensor containing a sequence of numbers that begin at `start` and extends by increments of
    `delta` up to `limit` (exclusive).
    """

def Reciprocal(X: Operand, *, name: str | None = None) -> Value:
    """Reciprocal takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where the reciprocal
    is, y = 1/x, is applied to the tensor elementwise.
    """

def ReduceL1(
    data: Operand,
    axes: Operand | None = None,
    *,
    keepdims: int | None = None,
    noop_with_empty_axes: int | None = None,
    name: str | None = None,
) -> Value:
    """Computes the L1 norm of the input tensor's elements along the provided axes."""

def ReduceL2(
    data: Operand,
    axes: Operand | None = None,
    *,
    keepdims: int | None = None,
    noop_with_empty_axes: int | None = None,
    name: str | None = None,
) -> Value:
    """Computes the L2 norm of the input tensor's elements along the provided axes."""

def ReduceLogSum(
    data: Operand,
    axes: Operand | None = None,
    *,
    keepdims: int | None = None,
    noop_with_empty_axes: int | None = None,
    name: str | None = None,
) -> Value:
    """Computes the log sum of the input tensor's elements along the provided axes."""

def ReduceLogSumExp(
    data: Operand,
    axes: Operand | None = None,
    *,
    keepdims: int | None = None,
    noop_with_empty_axes: int | None = None,
    name: str | None = None,
) -> Value:
    """Computes the log sum exponent of the input tensor's elements along the provided axes."""

def ReduceMax(
    data: Operand,
    axes: Operand | None = None,
    *,
    keepdims: int | None = None,
    noop_with_empty_axes: int | None = None,
    name: str | None = None,
) -> Value:
    """Computes the max of the input tensor's elements along the provided axes."""

def ReduceMean(
    data: Operand,
    axes: Operand | None = None,
    *,
    keepdims: int | None = None,
    noop_with_empty_axes: int | None = None,
    name: str | None = None,
) -> Value:
    """Computes the mean of the input tensor's elements along the provided axes."""

def ReduceMin(
    data: Operand,
    axes: Operand | None = None,
    *,
    keepdims: int | None = None,
    noop_with_empty_axes: int | None = None,
    name: str | None = None,
) -> Value:
    """Computes the min of the input tensor's elements along the provided axes."""

def ReduceProd(
    data: Operand,
    axes: Operand | None = None,
    *,
    keepdims: int | None = None,
    noop_with_empty_axes: int | None = None,
    name: str | None = None,
) -> Value:
    """Computes the product of the input tensor's elements along the provided axes."""

def ReduceSum(
    data: Operand,
    axes: Operand | None = None,
    *,
    keepdims: int | None = None,
    noop_with_empty_axes: int | None = None,
    name: str | None = None,
) -> Value:
    """Computes the sum of the input tensor's elements along the provided axes."""

def ReduceSumSquare(
    data: Operand,
    axes: Operand | None = None,
    *,
    keepdims: int | None = None,
    noop_with_empty_axes: int | None = None,
    name: str | None = None,
) -> Value:
    """Computes the sum square of the input tensor's elements along the provided axes."""

def RegexFullMatch(X: Operand, *, pattern: str | None = None, name: str | None = None) -> Value:
    """RegexFullMatch performs a full regex match on each element of the input tensor."""

def Relu(X: Operand, *, name: str | None = None) -> Value:
    """Relu takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where the rectified linear
    function, y = max(0, x), is applied to the tensor elementwise.
    """

def Reshape(data: Operand, shape: Operand, *, allowzero: int | None = None, name: str | None = None) -> Value:
    """Reshape the input tensor similar to numpy.reshape."""

def Resize(
    X: Operand,
    roi: Operand | None = None,
    scales: Operand | None = None,
    sizes: Operand | None = None,
    *,
    antialias: int | None = None,
    axes: Ints | None = None,
    coordinate_transformation_mode: str | None = None,
    cubic_coeff_a: float | None = None,
    exclude_outside: int | None = None,
    extrapolation_value: float | None = None,
    keep_aspect_ratio_policy: str | None = None,
    mode: str | None = None,
    nearest_mode: str | None = None,
    name: str | None = None,
) -> Value:
    """Resize the input tensor."""

def ReverseSequence(
    input: Operand,
    sequence_lens: Operand,
    *,
    batch_axis: int | None = None,
    time_axis: int | None = None,
    name: str | None = None,
) -> Value:
    """Reverse batch of sequences having different lengths specified by `sequence_lens`."""

def RoiAlign(
    X: Operand,
    rois: Operand,
    batch_indices: Operand,
    *,
    coordinate_transformation_mode: str | None = None,
    mode: str | None = None,
    output_height: int | None = None,
    output_width: int | None = None,
    sampling_ratio: int | None = None,
    spatial_scale: float | None = None,
    name: str | None = None,
) -> Value:
    """Region of Interest (RoI) align operation described in the [Mask R-CNN
    paper](https://arxiv.org/abs/1703.06870).
    """

def RotaryEmbedding(
    X: Operand,
    cos_cache: Operand,
    sin_cache: Operand,
    position_ids: Operand | None = None,
    *,
    interleaved: int | None = None,
    num_heads: int | None = None,
    rotary_embedding_dim: int | None = None,
    name: str | None = None,
) -> Value:
    """RotaryEmbedding is the implementation of rotary positional embeddings (RoPE) based on the paper
    https://arxiv.org/pdf/2104.09864.
    """

def Round(X: Operand, *, name: str | None = None) -> Value:
    """Round takes one input Tensor and rounds the values, element-wise, meaning it finds the nearest integer for
    each value.
    """

def STFT(
    signal: Operand,
    frame_step: Operand,
    window: Operand | None = None,
    frame_length: Operand | None = None,
    *,
    onesided: int | None = None,
    name: str | None = None,
) -> Value:
    """Computes the Short-time Fourier Transform of the signal."""

def Scan(
    *initial_state_and_scan_inputs: Operand,
    outputs: int | None = None,
    body: Any | None = None,
    directions: Ints | None = None,
    num_scan_inputs: int | None = None,
    scan_input_axes: Ints | None = None,
    scan_input_directions: Ints | None = None,
    scan_output_axes: Ints | None = None,
    scan_output_directions: Ints | None = None,
    name: str | None = None,
) -> tuple[Value, ...]:
    """Scan can be used to iterate over one or more scan_input tensors, constructing zero or more scan_output
    tensors.
    """

def Scatter(
    data: Operand, indices: Operand, updates: Operand, *, axis: int | None = None, name: str | None = None
) -> Value:
    """Given `data`, `updates` and `indices` input tensors of rank r >= 1, write the values provided by `updates`
    into the first input, `data`, along `axis` dimension of `data` (by default outer-most one as axis=0) at
    corresponding `indices`.
    """

def ScatterElements(
    data: Operand,
    indices: Operand,
    updates: Operand,
    *,
    axis: int | None = None,
    reduction: str | None = None,
    name: str | None = None,
) -> Value:
    """ScatterElements takes three inputs `data`, `updates`, and `indices` of the same rank r >= 1 and an optional
    attribute axis that identifies an axis of `data` (by default, the outer-most axis, that is axis 0).
    """

def ScatterND(
    data: Operand, indices: Operand, updates: Operand, *, reduction: str | None = None, name: str | None = None
) -> Value:
    """ScatterND takes three inputs `data` tensor of rank r >= 1, `indices` tensor of rank q >= 1, and `updates`
    tensor of rank q + r - indices.shape[-1] - 1.
    """

def Selu(X: Operand, *, alpha: float | None = None, gamma: float | None = None, name: str | None = None) -> Value:
    """Selu takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where the scaled exponential
    linear unit function, `y = gamma * (alpha * e^x - alpha) for x <= 0`, `y = gamma * x for x > 0`, is applied
    to the tensor elementwise.
    """

def SequenceAt(input_sequence: Operand, position: Operand, *, name: str | None = None) -> Value:
    """Outputs a tensor copy from the tensor at 'position' in 'input_sequence'."""

def SequenceConstruct(*inputs: Operand, name: str | None = None) -> Value:
    """Construct a tensor sequence containing 'inputs' tensors."""

def SequenceEmpty(*, dtype: Dtype | None = None, name: str | None = None) -> Value:
    """Construct an empty tensor sequence, with given data type."""

def SequenceErase(input_sequence: Operand, position: Operand | None = None, *, name: str | None = None) -> Value:
    """Outputs a tensor sequence that removes the tensor at 'position' from 'input_sequence'."""

def SequenceInsert(
    input_sequence: Operand, tensor: Operand, position: Operand | None = None, *, name: str | None = None
) -> Value:
    """Outputs a tensor sequence that inserts 'tensor' into 'input_sequence' at 'position'."""

def SequenceLength(input_sequence: Operand, *, name: str | None = None) -> Value:
    """Produces a scalar(tensor of empty shape) containing the number of tensors in 'input_sequence'."""

def SequenceMap(
    input_sequence: Operand,
    *additional_inputs: Operand,
    outputs: int | None = None,
    body: Any | None = None,
    name: str | None = None,
) -> tuple[Value, ...]:
    """Applies a sub-graph to each sample in the input sequence(s)."""

def Shape(data: Operand, *, end: int | None = None, start: int | None = None, name: str | None = None) -> Value:
    """Takes a tensor as input and outputs an 1D int64 tensor containing the shape of the input tensor."""

def Shrink(input: Operand, *, bias: float | None = None, lambd: float | None = None, name: str | None = None) -> Value:
    """Shrink takes one input data (Tensor<numeric>) and produces one Tensor output, having same datatype and shape
    with input.
    """

def Sigmoid(X: Operand, *, name: str | None = None) -> Value:
    """Sigmoid takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where the sigmoid
    function, y = 1 / (1 + exp(-x)), is applied to the tensor elementwise.
    """

def Sign(input: Operand, *, name: str | None = None) -> Value:
    """Calculate the sign of the given input tensor element-wise."""

def Sin(input: Operand, *, name: str | None = None) -> Value:
    """Calculates the sine of the given input tensor, element-wise."""

def Sinh(input: Operand, *, name: str | None = None) -> Value:
    """Calculates the hyperbolic sine of the given input tensor element-wise."""

def Size(data: Operand, *, name: str | None = None) -> Value:
    """Takes a tensor as input and outputs a int64 scalar that equals to the total number of elements of the input
    tensor.
    """

def Slice(
    data: Operand,
    starts: Operand,
    ends: Operand,
    axes: Operand | None = None,
    steps: Operand | None = None,
    *,
    name: str | None = None,
) -> Value:
    """Produces a slice of the input tensor along multiple axes."""

def Softmax(input: Operand, *, axis: int | None = None, name: str | None = None) -> Value:
    """The operator computes the normalized exponential values for the given input:"""

@overload
def SoftmaxCrossEntropyLoss(
    scores: Operand,
    labels: Operand,
    weights: Operand | None = None,
    *,
    outputs: None = None,
    ignore_index: int | None = None,
    reduction: str | None = None,
    name: str | None = None,
) -> Value:
    """Loss function that measures the softmax cross entropy between 'scores' and 'labels'."""

@overload
def SoftmaxCrossEntropyLoss(
    scores: Operand,
    labels: Operand,
    weights: Operand | None = None,
    *,
    outputs: int,
    ignore_index: int | None = None,
    reduction: str | None = None,
    name: str | None = None,
) -> tuple[Value, ...]: ...
def Softplus(X: Operand, *, name: str | None = None) -> Value:
    """Softplus takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where the softplus
    function, y = ln(exp(x) + 1), is applied to the tensor elementwise.
    """

def Softsign(input: Operand, *, name: str | None = None) -> Value:
    """Calculates the softsign (x/(1+|x|)) of the given input tensor element-wise."""

def SpaceToDepth(
    input: Operand, *, blocksize: int | None = None, mode: str | None = None, name: str | None = None
) -> Value:
    """SpaceToDepth rearranges blocks of spatial data into depth."""

def Split(
    input: Operand,
    split: Operand | None = None,
    *,
    outputs: int | None = None,
    axis: int | None = None,
    num_outputs: int | None = None,
    name: str | None = None,
) -> tuple[Value, ...]:
    """Split a tensor into a list of tensors, along the specified 'axis'."""

def SplitToSequence(
    input: Operand,
    split: Operand | None = None,
    *,
    axis: int | None = None,
    keepdims: int | None = None,
    name: str | None = None,
) -> Value:
    """Split a tensor into a sequence of tensors, along the specified 'axis'."""

def Sqrt(X: Operand, *, name: str | None = None) -> Value:
    """Square root takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where the square root
    is, y = x^0.5, is applied to the tensor elementwise.
    """

def Squeeze(data: Operand, axes: Operand | None = None, *, name: str | None = None) -> Value:
    """Remove single-dimensional entries from the shape of a tensor."""

def StringConcat(X: Operand, Y: Operand, *, name: str | None = None) -> Value:
    """StringConcat concatenates string tensors elementwise (with NumPy-style broadcasting support)"""

def StringNormalizer(
    X: Operand,
    *,
    case_change_action: str | None = None,
    is_case_sensitive: int | None = None,
    locale: str | None = None,
    stopwords: Strings | None = None,
    name: str | None = None,
) -> Value:
    """StringNormalization performs string operations for basic cleaning."""

def StringSplit(
    X: Operand,
    *,
    outputs: int | None = None,
    delimiter: str | None = None,
    maxsplit: int | None = None,
    name: str | None = None,
) -> tuple[Value, ...]:
    """StringSplit splits a string tensor's elements into substrings based on a delimiter attribute and a maxsplit
    attribute.
    """

def Sub(
    A: Operand, B: Operand, *, axis: int | None = None, broadcast: int | None = None, name: str | None = None
) -> Value:
    """Performs element-wise binary subtraction (with Numpy-style broadcasting support)."""

def Sum(*data_0: Operand, name: str | None = None) -> Value:
    """Element-wise sum of each of the input tensors (with Numpy-style broadcasting support)."""

def SwiGLU(A: Operand, B: Operand, *, alpha: float | None = None, name: str | None = None) -> Value:
    """SwiGLU is a gated activation that takes two inputs, a gate `A` and a linear (value) input `B`, and produces
    one output `Y`.
    """

def Swish(X: Operand, *, alpha: float | None = None, name: str | None = None) -> Value:
    """Swish function takes one input data (Tensor<T>) and produces one output data (Tensor<T>) of the same shape,
    where $Swish(x) = x * sigmoid(alpha * x)$.
    """

def Tan(input: Operand, *, name: str | None = None) -> Value:
    """Calculates the tangent of the given input tensor, element-wise."""

def Tanh(input: Operand, *, name: str | None = None) -> Value:
    """Calculates the hyperbolic tangent of the given input tensor element-wise."""

def TensorScatter(
    past_cache: Operand,
    update: Operand,
    write_indices: Operand | None = None,
    *,
    axis: int | None = None,
    mode: str | None = None,
    name: str | None = None,
) -> Value:
    """TensorScatter is a generic tensor update operation, motivated by the requirements for KV cache updates for
    Attention ops commonly found in LLMs.
    """

def TfIdfVectorizer(
    X: Operand,
    *,
    max_gram_length: int | None = None,
    max_skip_count: int | None = None,
    min_gram_length: int | None = None,
    mode: str | None = None,
    ngram_counts: Ints | None = None,
    ngram_indexes: Ints | None = None,
    pool_int64s: Ints | None = None,
    pool_strings: Strings | None = None,
    weights: Floats | None = None,
    name: str | None = None,
) -> Value:
    """This transform extracts n-grams from the input sequence and save them as a vector."""

def ThresholdedRelu(X: Operand, *, alpha: float | None = None, name: str | None = None) -> Value:
    """ThresholdedRelu takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where the
    rectified linear function, y = x for x > alpha, y = 0 otherwise, is applied to the tensor elementwise.
    """

def Tile(input: Operand, repeats: Operand, *, name: str | None = None) -> Value:
    """Constructs a tensor by tiling a given tensor."""

def TopK(
    X: Operand,
    K: Operand,
    *,
    outputs: int | None = None,
    axis: int | None = None,
    k: int | None = None,
    largest: int | None = None,
    sorted: int | None = None,
    name: str | None = None,
) -> tuple[Value, ...]:
    """Retrieve the top-K largest or smallest elements along a specified axis."""

def Transpose(data: Operand, *, perm: Ints | None = None, name: str | None = None) -> Value:
    """Returns a transpose of the input tensor."""

def Trilu(input: Operand, k: Operand | None = None, *, upper: int | None = None, name: str | None = None) -> Value:
    """Given a 2-D matrix or batches of 2-D matrices, returns the upper or lower triangular part of the tensor(s)."""

@overload
def Unique(
    X: Operand, *, outputs: None = None, axis: int | None = None, sorted: int | None = None, name: str | None = None
) -> Value:
    """Find the unique elements of a tensor."""

@overload
def Unique(
    X: Operand, *, outputs: int, axis: int | None = None, sorted: int | None = None, name: str | None = None
) -> tuple[Value, ...]: ...
def Unsqueeze(data: Operand, axes: Operand, *, name: str | None = None) -> Value:
    """Insert single-dimensional entries to the shape of an input tensor (`data`)."""

def Upsample(
    X: Operand,
    scales: Operand,
    *,
    height_scale: float | None = None,
    mode: str | None = None,
    width_scale: float | None = None,
    name: str | None = None,
) -> Value:
    """Upsample the input tensor."""

def Where(condition: Operand, X: Operand, Y: Operand, *, name: str | None = None) -> Value:
    """Return elements, either from X or Y, depending on condition."""

def Xor(
    A: Operand, B: Operand, *, axis: int | None = None, broadcast: int | None = None, name: str | None = None
) -> Value:
    """Returns the tensor resulted from performing the `xor` logical operation elementwise on the input tensors `A`
    and `B` (with Numpy-style broadcasting support).
    """
