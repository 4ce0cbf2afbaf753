"""Images: depth to space and back, sampling by a grid, regions, cropping, Col2Im."""

from __future__ import annotations

from typing import Any

from onnxlift.ir.graph.types import DataType, type_of
from onnxlift.lifting.code.expr import F
from onnxlift.lifting.ops.arguments import attribute_number, changed, compact
from onnxlift.lifting.ops.carry import carried
from onnxlift.lifting.ops.kernel import kernel
from onnxlift.lifting.ops.kinds import LayerKind, signature
from onnxlift.lifting.ops.node import Node, Result
from onnxlift.lifting.ops.operand import Dims, Tensor
from onnxlift.lifting.ops.registry import op
from onnxlift.lifting.ops.window import Ints, torch_pads

from .string_arrays import moves_elements, moves_or_fills


@op(
    "DepthToSpace",
    layer=LayerKind("PixelShuffle", signature("upscale_factor"), function=("pixel_shuffle", "upscale_factor")),
)
@moves_elements
def DepthToSpace(n: Node, input: Tensor, *, blocksize: int, mode: str = "DCR") -> Result:
    """CRD is PyTorch's pixel shuffle. In DCR (the only mode before opset 11) the channels of a block are adjacent."""
    channels = input.type.dim(1)
    if mode == "CRD" or channels == blocksize * blocksize:
        return carried(lambda x: F.pixel_shuffle(x, blocksize), input)
    return kernel("depth_to_space")(input, blocksize)


@op(
    "SpaceToDepth",
    layer=LayerKind("PixelUnshuffle", signature("downscale_factor"), function=("pixel_unshuffle", "downscale_factor")),
)
@moves_elements
def SpaceToDepth(n: Node, input: Tensor, *, blocksize: int, mode: str = "DCR") -> Result:
    if mode == "CRD" or input.type.dim(1) == 1:
        return carried(lambda x: F.pixel_unshuffle(x, blocksize), input)
    return kernel("space_to_depth")(input, blocksize)


@op("GridSample")
@moves_or_fills
def GridSample(n: Node, X: Tensor, grid: Tensor, *, align_corners: int, mode: str, padding_mode: str) -> Result:
    """Until opset 19 the modes are bilinear and bicubic; then linear and cubic, over any number of axes. PyTorch has 2
    axes (and 3, but not cubic).

    Interpolated integers are rounded. ONNX does not say how, ONNX Runtime does not support them, and the reference
    implementation cuts the weights themselves to integers, which makes them useless.
    """
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    if mode != "nearest" and type_of(n.ir.inputs[0]).dtype in (DataType.STRING, DataType.BOOL):
        n.fail(f"{mode} interpolation between what are no numbers")
    options: dict[str, Any] = {"mode": mode, "padding_mode": padding_mode, "align_corners": bool(align_corners)}
    in_torch = X.type.rank == 4 or (X.type.rank == 5 and mode != "cubic")
    if in_torch and X.type.dtype == grid.type.dtype:
        options["mode"] = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
        # align_corners is always written: PyTorch warns if it is not.
        return F.grid_sample(X, grid, **changed(options, mode="bilinear", padding_mode="zeros", align_corners=None))
    defaults = {"mode": "linear", "padding_mode": "zeros", "align_corners": False}
    written = changed(options, **defaults)
    if mode != "nearest":
        return kernel("grid_sample_nd")(X, grid, **written)
    return carried(lambda x: kernel("grid_sample_nd")(x, grid, **written), X)


@op("AffineGrid")
def AffineGrid(n: Node, theta: Tensor, size: Dims, *, align_corners: int) -> Result:
    return F.affine_grid(theta, size, align_corners=bool(align_corners))


@op("CenterCropPad")
@moves_or_fills
def CenterCropPad(n: Node, input_data: Tensor, shape: Dims, *, axes: Ints | None) -> Result:
    """With known sizes it is one `F.pad`, whose negative amounts cut. An odd amount has its extra element at the
    end."""
    rank, wanted = input_data.type.rank, shape.static
    every = axes if axes is not None or rank is None else tuple(range(rank))
    if rank is not None and wanted is not None and every is not None and len(every) == len(wanted):
        have = [input_data.type.dim(axis) for axis in every]
        if all(isinstance(d, int) for d in have):
            begin, end = [0] * rank, [0] * rank
            for axis, want, size in zip(every, wanted, have, strict=True):
                change = want - int(size or 0)
                begin[axis] = int(change / 2)
                end[axis] = change - begin[axis]
            first = next((a for a in range(rank) if begin[a] or end[a]), rank)
            amounts = torch_pads(tuple(begin[first:]), tuple(end[first:]))
            return F.pad(input_data, amounts) if amounts else input_data
    return kernel("center_crop_pad")(input_data, shape, **changed({"axes": axes}, axes=None))


@op("Col2Im")
def Col2Im(
    n: Node,
    input: Tensor,
    image_shape: Dims,
    block_shape: Dims,
    *,
    dilations: Ints | None,
    pads: Ints | None,
    strides: Ints | None,
) -> Result:
    if input.type.dtype == DataType.STRING:
        n.fail("it adds strings")
    dims = image_shape.length or block_shape.length
    block = block_shape.static
    if dims is None:
        n.fail("the number of axes of its image is not known")
    dilation, stride, pads = dilations or (1,) * dims, strides or (1,) * dims, pads or (0,) * (2 * dims)
    begin, end = pads[:dims], pads[dims:]
    if dims == 2 and block is not None and begin == end and input.type.is_float:
        options = {"dilation": compact(dilation), "padding": compact(begin), "stride": compact(stride)}
        return F.fold(input, image_shape, compact(block), **changed(options, dilation=1, padding=0, stride=1))
    sizes = {"dilation": dilation, "begin": begin, "end": end, "stride": stride}
    # Sums of unsigned integers have the same bits as sums of signed ones.
    return carried(lambda x: kernel("col2im")(x, image_shape, block_shape, **sizes), input)


@op("RoiAlign")
def RoiAlign(
    n: Node,
    X: Tensor,
    rois: Tensor,
    batch_indices: Tensor,
    *,
    coordinate_transformation_mode: str = "output_half_pixel",
    mode: str,
    output_height: int,
    output_width: int,
    sampling_ratio: int,
    spatial_scale: float,
) -> Result:
    """Before opset 16 there is no `coordinate_transformation_mode`, and regions are not moved by half a pixel."""
    options = {
        "sampling_ratio": sampling_ratio,
        "spatial_scale": attribute_number(spatial_scale, X),
        "half_pixel": coordinate_transformation_mode == "half_pixel",
        "mode": mode,
    }
    written = changed(options, sampling_ratio=0, spatial_scale=1.0, half_pixel=True, mode="avg")
    return kernel("roi_align")(X, rois, batch_indices, (output_height, output_width), **written)


@op("MaxRoiPool")
def MaxRoiPool(n: Node, X: Tensor, rois: Tensor, *, pooled_shape: Ints, spatial_scale: float) -> Result:
    options = changed({"spatial_scale": attribute_number(spatial_scale, X)}, spatial_scale=1.0)
    return kernel("max_roi_pool")(X, rois, tuple(pooled_shape), **options)
