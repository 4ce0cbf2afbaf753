"""Decoding of image files. PyTorch alone cannot do it, so the lifted file also needs Pillow."""

from __future__ import annotations

from onnxlift.lifting.ops.arguments import changed
from onnxlift.lifting.ops.kernel import kernel
from onnxlift.lifting.ops.node import Node, Result
from onnxlift.lifting.ops.operand import Tensor
from onnxlift.lifting.ops.registry import op


@op("ImageDecoder")
def ImageDecoder(n: Node, encoded_stream: Tensor, *, pixel_format: str) -> Result:
    return kernel("decode_image")(encoded_stream, **changed({"pixel_format": pixel_format}, pixel_format="RGB"))
