"""Numbers of bytes as people write them."""

from __future__ import annotations

import re

from .errors import OutputError


def parse_size(text: str | int) -> int:
    """Read a number of bytes as people write it: 5GB, 500MB (powers of 1000), 2GiB (of 1024), or the plain number."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(?:([kmgt]?)(i?)b?)?\s*", str(text).lower())
    if found is None or (size := float(found[1])) <= 0:
        raise OutputError(f"{text!r} is not a size: write it like 5GB, 500MB or 2GiB.")
    base: int = 1024 if found[3] else 1000
    return max(1, round(size * float(base ** " kmgt".index(found[2] or " "))))


def format_bytes(size: float) -> str:
    """Write a number of bytes for people: 1.5 GB."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} bytes" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:,.1f} TB"
