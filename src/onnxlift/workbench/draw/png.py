"""Turn SVG into PNG, by a library that is installed only if somebody wants it: `onnxlift[draw]`."""

from __future__ import annotations

import re

from onnxlift.errors import OnnxLiftError

ZOOM = 2
MOST_PIXELS = 200_000_000
_SIZE = re.compile(r'<svg [^>]*width="([\d.]+)" height="([\d.]+)"')


def write_png(svg: str) -> bytes:
    """Return an SVG of ours as PNG, in its light colours; twice as large, so that it can be read on any screen.

    A picture that is too large for that is drawn smaller, or refused."""
    try:
        from resvg_py import svg_to_bytes
    except ImportError as error:
        raise OnnxLiftError(
            "PNG needs the package resvg_py: pip install 'onnxlift[draw]'. SVG, DOT and Mermaid need nothing."
        ) from error
    size = _SIZE.match(svg)
    assert size is not None, "every SVG of ours begins so"
    pixels = float(size[1]) * float(size[2])
    if pixels > MOST_PIXELS:
        raise OnnxLiftError(
            f"the picture is {size[1]} by {size[2]} pixels, which is too large for PNG: draw less of the model "
            "(--depth, --module), or write SVG."
        )
    zoom = ZOOM if pixels * ZOOM * ZOOM <= MOST_PIXELS else 1
    try:
        return bytes(svg_to_bytes(svg_string=svg, zoom=zoom, background="#ffffff", font_family="DejaVu Sans Mono"))
    except ValueError as error:
        raise OnnxLiftError(f"the picture could not be turned into PNG: {error}. Write SVG instead.") from error
