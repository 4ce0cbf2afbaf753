"""Functions of numbers that are given in small integers, and rounding to such integers. The module has the steps."""

import torch
from torch import Tensor, nn

from onnxlift.lifting.kernels.standard.linalg import matmul_integer
from onnxlift.lifting.kernels.standard.quant import dequantize, fake_quantize, quantize, to_integer


class Steps(nn.Module):
    """What integers stand for: `(x - zero_point) * scale`."""

    scale: Tensor
    zero_point: Tensor

    def __init__(self, signed: bool = False, bits: int = 8) -> None:
        super().__init__()
        narrow, wide = (torch.int8, torch.int16) if signed else (torch.uint8, torch.uint16)
        self.register_buffer("scale", torch.empty(()))
        self.register_buffer("zero_point", torch.empty((), dtype=narrow if bits == 8 else wide))


class Quantize(Steps):
    """The integers that stand for numbers."""

    def forward(self, x: Tensor) -> Tensor:
        return quantize(x, self.scale, self.zero_point, self.zero_point.dtype)


class Dequantize(Steps):
    """The numbers that integers stand for."""

    def forward(self, x: Tensor) -> Tensor:
        return dequantize(x, self.scale, self.zero_point.float())


class FakeQuantize(Steps):
    """What is left of numbers once they are quantised: whole steps."""

    def forward(self, x: Tensor) -> Tensor:
        return fake_quantize(x, self.scale, self.zero_point.float(), self.zero_point.dtype)


class IntegerFunction(nn.Module):
    """A function of the numbers that integers stand for, `(x - zero_point) * scale`, which gives integers."""

    input_scale: Tensor
    input_zero_point: Tensor
    output_scale: Tensor
    output_zero_point: Tensor

    def __init__(self, inputs: int, signed: bool) -> None:
        super().__init__()
        dtype = torch.int8 if signed else torch.uint8
        self.register_buffer("input_scale", torch.empty(inputs))
        self.register_buffer("input_zero_point", torch.empty(inputs, dtype=dtype))
        self.register_buffer("output_scale", torch.empty(()))
        self.register_buffer("output_zero_point", torch.empty((), dtype=dtype))

    def numbers(self, *inputs: Tensor | int) -> list[Tensor]:
        steps = zip(inputs, self.input_scale, self.input_zero_point, strict=True)
        return [dequantize(torch.as_tensor(x), scale, zero_point) for x, scale, zero_point in steps]

    def integers(self, x: Tensor) -> Tensor:
        return quantize(x, self.output_scale, self.output_zero_point, self.output_zero_point.dtype)


class QLinearAdd(IntegerFunction):
    """The sum of two tensors of integers."""

    def __init__(self, signed: bool = False) -> None:
        super().__init__(2, signed)

    def forward(self, a: Tensor | int, b: Tensor | int) -> Tensor:
        return self.integers(torch.add(*self.numbers(a, b)))


class QLinearMul(IntegerFunction):
    """The product of two tensors of integers, element by element."""

    def __init__(self, signed: bool = False) -> None:
        super().__init__(2, signed)

    def forward(self, a: Tensor | int, b: Tensor | int) -> Tensor:
        return self.integers(torch.mul(*self.numbers(a, b)))


class QLinearMatMul(IntegerFunction):
    """The product of two matrices of integers."""

    def __init__(self, signed: bool = False) -> None:
        super().__init__(2, signed)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        total = matmul_integer(a, b, *self.input_zero_point)
        scale = self.input_scale[0] * self.input_scale[1] / self.output_scale
        return to_integer(total * scale, self.output_zero_point, self.output_zero_point.dtype)


class QLinearWhere(IntegerFunction):
    """torch.where of two tensors of integers."""

    def __init__(self, signed: bool = False) -> None:
        super().__init__(2, signed)

    def forward(self, condition: Tensor, a: Tensor | int, b: Tensor | int) -> Tensor:
        numbers = self.numbers(a, b)
        return self.integers(torch.where(condition, numbers[0], numbers[1]))


class QLinearConcat(IntegerFunction):
    """Tensors of integers, joined along one axis."""

    def __init__(self, inputs: int, dim: int, signed: bool = False) -> None:
        super().__init__(inputs, signed)
        self.dim = dim

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.integers(torch.cat(self.numbers(*inputs), self.dim))


class QLinearSigmoid(IntegerFunction):
    """nn.Sigmoid of integers."""

    def __init__(self, signed: bool = False) -> None:
        super().__init__(1, signed)

    def forward(self, x: Tensor) -> Tensor:
        return self.integers(self.numbers(x)[0].sigmoid())


class QLinearLeakyReLU(IntegerFunction):
    """nn.LeakyReLU of integers."""

    def __init__(self, negative_slope: float = 0.01, signed: bool = False) -> None:
        super().__init__(1, signed)
        self.negative_slope = negative_slope

    def forward(self, x: Tensor) -> Tensor:
        return self.integers(nn.functional.leaky_relu(self.numbers(x)[0], self.negative_slope))


class QLinearSoftmax(IntegerFunction):
    """nn.Softmax of integers."""

    def __init__(self, dim: int, signed: bool = False) -> None:
        super().__init__(1, signed)
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        return self.integers(self.numbers(x)[0].softmax(self.dim))


class QLinearGlobalAvgPool(IntegerFunction):
    """The mean of each channel of integers."""

    def __init__(self, signed: bool = False) -> None:
        super().__init__(1, signed)

    def forward(self, x: Tensor) -> Tensor:
        return self.integers(self.numbers(x)[0].mean(tuple(range(2, x.ndim)), keepdim=True))


class QLinearAvgPool2d(IntegerFunction):
    """nn.AvgPool2d of integers. The zero point is added before the means are rounded."""

    def __init__(
        self,
        kernel_size: int | tuple[int, int],
        stride: int | tuple[int, int],
        padding: int | tuple[int, int] = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        signed: bool = False,
    ) -> None:
        super().__init__(1, signed)
        self.pool = nn.AvgPool2d(kernel_size, stride, padding, ceil_mode, count_include_pad)

    def forward(self, x: Tensor) -> Tensor:
        steps = self.pool(self.numbers(x)[0]) / self.output_scale
        return to_integer(steps + self.output_zero_point, dtype=self.output_zero_point.dtype)
