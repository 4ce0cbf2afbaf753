"""Single nodes of ONNX Runtime's own operators, and random data for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper

from lifting.ops.checking import check

Array = np.ndarray[Any, Any]
random = np.random.default_rng(13)


def normal(*shape: int) -> Array:
    return random.normal(size=shape).astype(np.float32)


def node(op_type: str, inputs: str, outputs: str = "y", **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(
        op_type, inputs.split(" "), outputs.split(" "), name="n", domain="com.microsoft", **attributes
    )


def run(op_type: str, inputs: dict[str, Array], constants: str = "", **attributes: Any) -> str:
    """One node of these inputs in order (an empty name for one that is left out), against ONNX Runtime."""
    given = {name: array for name, array in inputs.items() if name.strip("_")}
    names = " ".join("" if not name.strip("_") else name for name in inputs)
    return check(node(op_type, names, **attributes), given, constants=constants.split())
