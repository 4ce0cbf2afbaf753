"""Reading image files. PyTorch alone cannot, so the lifted file needs Pillow as well."""

from __future__ import annotations

from .arguments import changed
from .kernel import kernel
from .node import Node, Result
from .operand import Tensor
from .registry import op

PIXEL_FORMATS = ("RGB", "BGR", "Grayscale")


@op("ImageDecoder")
def ImageDecoder(n: Node, encoded_stream: Tensor, *, pixel_format: str) -> Result:
    if pixel_format not in PIXEL_FORMATS:
        n.fail(f"its pixel_format is {pixel_format!r}; ONNX has {', '.join(PIXEL_FORMATS)}")
    return kernel("decode_image")(encoded_stream, **changed({"pixel_format": pixel_format}, pixel_format="RGB"))
