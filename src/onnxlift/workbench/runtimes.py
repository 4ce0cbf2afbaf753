"""What each release of a runtime takes: the highest opset and IR version of a model that it loads.

The figures for ONNX Runtime since 1.15 were measured: a model of one Relu was offered to the last CPU wheel of each
release (1.15.1 to 1.31.1), with rising opsets and IR versions, until it was refused. Those before are from ONNX
Runtime's own table, https://onnxruntime.ai/docs/reference/compatibility.html (which ends with 1.20, and agrees with the
measured ones but for the IR version of 1.15 and the opset of `ai.onnx.ml` since 1.18: there the wheels take more).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from onnxlift.errors import OnnxLiftError

OLDEST_OPSET = 7
"""ONNX Runtime promises to run what is stamped with this opset or a newer one, in every release."""


@dataclass(frozen=True)
class Runtime:
    """A release of a runtime, and the newest models that it takes."""

    name: str
    version: str
    opset: int
    ir_version: int
    ml_opset: int

    def __str__(self) -> str:
        return f"{self.name} {self.version}"

    @property
    def opsets(self) -> dict[str, int]:
        """The newest opset that it takes, of each domain that ONNX defines."""
        return {"": self.opset, "ai.onnx.ml": self.ml_opset}

    def opset_of(self, domain: str) -> int | None:
        """Return the newest opset of a domain that it takes; None for a domain that ONNX does not define."""
        return self.opsets.get(domain)


# Release -> opset, IR version, opset of ai.onnx.ml
_ONNXRUNTIME = {
    "1.0": (11, 6, 2),
    "1.1": (11, 6, 2),
    "1.2": (11, 6, 2),
    "1.3": (12, 7, 2),
    "1.4": (12, 7, 2),
    "1.5": (12, 7, 2),
    "1.6": (13, 7, 2),
    "1.7": (13, 7, 2),
    "1.8": (14, 7, 2),
    "1.9": (15, 8, 2),
    "1.10": (15, 8, 2),
    "1.11": (16, 8, 2),
    "1.12": (17, 8, 3),
    "1.13": (17, 8, 3),
    "1.14": (18, 8, 3),
    "1.15": (19, 9, 3),
    "1.16": (19, 9, 3),
    "1.17": (20, 9, 4),
    "1.18": (21, 10, 5),
    "1.19": (21, 10, 5),
    "1.20": (21, 10, 5),
    "1.21": (22, 10, 5),
    "1.22": (22, 10, 5),
    "1.23": (23, 11, 5),
    "1.24": (25, 13, 5),
    "1.25": (26, 13, 5),
    "1.26": (26, 13, 5),
    "1.27": (26, 13, 5),
    "1.28": (26, 13, 5),
    "1.29": (26, 13, 5),
    "1.30": (26, 13, 5),
    "1.31": (26, 13, 5),
}

RUNTIMES = {
    "onnxruntime": {version: Runtime("onnxruntime", version, *takes) for version, takes in _ONNXRUNTIME.items()}
}
"""Name of a runtime -> release -> what it takes."""


def runtime_for(text: str) -> Runtime:
    """Return the runtime that a requirement names, as pip would write it: `onnxruntime==1.17` or `==1.17.3`."""
    match = re.fullmatch(r"\s*([\w.-]+?)\s*==\s*(\d+\.\d+)(?:\.\d+)*\s*", text)
    if match is None:
        raise OnnxLiftError(f"{text!r} names no release of a runtime; write it like onnxruntime==1.17.")
    name, version = match[1].lower().removesuffix("-gpu"), match[2]
    releases = RUNTIMES.get(name)
    if releases is None:
        raise OnnxLiftError(f"nothing is known of the runtime {name!r}; those that are known: {', '.join(RUNTIMES)}.")
    if version not in releases:
        first, *_, last = releases
        raise OnnxLiftError(f"nothing is known of {name} {version}; the table has the releases {first} to {last}.")
    return releases[version]
