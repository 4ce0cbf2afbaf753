"""Which ONNX Runtime takes which opset and IR version.

Source: https://onnxruntime.ai/docs/reference/compatibility.html, the table "ONNX opset support", as of its row for 1.20
(microsoft/onnxruntime, branch gh-pages, docs/reference/compatibility.md). The page also says that every release takes
all opsets from 7 on. Releases that the table does not list are left out here, newer ones too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from onnxlift.errors import OnnxLiftError, quote

OLDEST_OPSET = 7


@dataclass(frozen=True)
class Limits:
    """The newest that a runtime takes: opsets by domain, and the IR version."""

    opsets: Mapping[str, int]
    ir_version: int


def _limits(opset: int, ml: int, ir_version: int) -> Limits:
    return Limits({"": opset, "ai.onnx.ml": ml}, ir_version)


RUNTIMES: Mapping[str, Mapping[str, Limits]] = {
    "onnxruntime": {
        "1.0": _limits(11, 2, 6),
        "1.1": _limits(11, 2, 6),
        "1.2": _limits(11, 2, 6),
        "1.3": _limits(12, 2, 7),
        "1.4": _limits(12, 2, 7),
        "1.5": _limits(12, 2, 7),
        "1.6": _limits(13, 2, 7),
        "1.7": _limits(13, 2, 7),
        "1.8": _limits(14, 2, 7),
        "1.9": _limits(15, 2, 8),
        "1.10": _limits(15, 2, 8),
        "1.11": _limits(16, 2, 8),
        "1.12": _limits(17, 3, 8),
        "1.13": _limits(17, 3, 8),
        "1.14": _limits(18, 3, 8),
        "1.15": _limits(19, 3, 8),
        "1.16": _limits(19, 3, 9),
        "1.17": _limits(20, 4, 9),
        "1.18": _limits(21, 4, 10),
        "1.19": _limits(21, 4, 10),
        "1.20": _limits(21, 4, 10),
    }
}


def limits_of(runtime: str) -> Limits:
    """Return what a runtime takes, given as `onnxruntime==1.17`. Patches (1.17.3) are as their release."""
    found = re.fullmatch(r"\s*([\w-]+)\s*==\s*v?(\d+\.\d+)(?:\.\d+)?\s*", runtime)
    if found is None:
        raise OnnxLiftError(f"{quote(runtime)} is no runtime and version, like onnxruntime==1.17.")
    name, version = found[1].lower().replace("onnxruntime-gpu", "onnxruntime"), found[2]
    known = RUNTIMES.get(name)
    if known is None:
        raise OnnxLiftError(
            f"nothing is known of the runtime {quote(name)}: there is a table for {', '.join(RUNTIMES)}."
        )
    if version not in known:
        raise OnnxLiftError(
            f"nothing is known of {name} {version}: the table has {next(iter(known))} to {list(known)[-1]}. Say which "
            "opset and IR version you want instead (onnxlift opset 21 --ir-version 10)."
        )
    return known[version]
