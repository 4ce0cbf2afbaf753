"""Models of one node of ai.onnx.ml, checked like any other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import onnxlift
from lifting.ops.checking import check

Array = np.ndarray[Any, Any]
ML = "ai.onnx.ml"


def ml_model(
    op: str, inputs: Mapping[str, Array], *, version: int, outputs: int = 1, **attributes: Any
) -> onnx.ModelProto:
    """A model of the node; attributes that are None are left out. The number of samples is open."""
    given = {name: value for name, value in attributes.items() if value is not None}
    names = ["y", "z"][:outputs]
    node = helper.make_node(op, list(inputs), names, domain=ML, **given)
    infos = []
    for name, array in inputs.items():
        shape = ["samples" if axis == 0 and array.ndim > 1 else size for axis, size in enumerate(array.shape)]
        infos.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), shape))
    graph = helper.make_graph([node], op.lower(), infos, [onnx.ValueInfoProto(name=name) for name in names])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(ML, version)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def check_ml(op: str, *arrays: Array, version: int = 1, outputs: int = 1, **more: Any) -> str:
    """Lift the node, compare with ONNX Runtime, and give the source. `expected` and `reference` are as for `check`."""
    options = {name: more.pop(name) for name in ("expected", "reference", "rtol", "atol") if name in more}
    inputs = {f"x{i or ''}": array for i, array in enumerate(arrays)}
    return check(ml_model(op, inputs, version=version, outputs=outputs, **more), inputs, **options)


def refuse_ml(reason: str, op: str, array: Array, *, version: int = 1, outputs: int = 1, **attributes: Any) -> None:
    """The node is not lifted, and the message says why."""
    with pytest.raises(onnxlift.UnsupportedError, match=reason):
        onnxlift.lift(ml_model(op, {"x": array}, version=version, outputs=outputs, **attributes))
