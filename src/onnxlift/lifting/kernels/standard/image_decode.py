"""Reading image files, with Pillow."""

import io

import numpy as np
import torch
from PIL import Image
from torch import Tensor


def decode_image(encoded: Tensor, pixel_format: str = "RGB") -> Tensor:
    """The image in the bytes of a file, as (height, width, channels) of uint8."""
    formats = ("BMP", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP")
    image = Image.open(io.BytesIO(encoded.cpu().numpy().tobytes()), formats=formats)
    if pixel_format == "Grayscale":
        return torch.from_numpy(np.array(image.convert("L"))).to(encoded.device)[..., None]
    pixels = torch.from_numpy(np.array(image.convert("RGB"))).to(encoded.device)
    return pixels.flip(-1) if pixel_format == "BGR" else pixels
