"""onnxlift behind ONNX's own backend interface: `onnxlift.backend.run_model(model, inputs)`.

It takes and gives what that interface uses: numpy arrays (with the types of ml_dtypes where numpy has none), lists for
sequences, None for empty optionals, arrays of objects for strings. The official suite runs on it:

    onnx.backend.test.BackendTest(onnxlift.backend, __name__)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import torch
from onnx import helper
from onnx.backend.base import Backend, BackendRep, namedtupledict

from .api import lift
from .errors import UnsupportedError
from .executing import to_argument, to_result
from .lifted import Lifted


class Prepared(BackendRep):
    """A lifted model, ready to be run any number of times."""

    def __init__(self, lifted: Lifted, device: str) -> None:
        self.lifted = lifted
        self.device = device
        self.module = lifted.module().to(device)

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Run the model and return its outputs as a tuple, which also takes names: `prepared.run(inputs)["scores"]`.

        `inputs` is a list in the order of the model's inputs, or a mapping from their names."""
        names = [str(value.name) for value in self.lifted.model.graph.inputs]
        if isinstance(inputs, Mapping):
            inputs = [inputs[name] for name in names]
        elif not isinstance(inputs, list | tuple):
            inputs = [inputs]
        with torch.no_grad():
            results = self.module(*(to_argument(value, self.device) for value in inputs))
        outputs = self.lifted.model.graph.outputs
        results = results if isinstance(results, tuple) and len(outputs) != 1 else (results,)
        values = [to_result(result, output.type) for result, output in zip(results, outputs, strict=True)]
        named: tuple[Any, ...] = namedtupledict("Outputs", [str(output.name) for output in outputs])(*values)
        return named


class OnnxLift(Backend):
    """onnxlift as a backend of ONNX. Its methods are also functions of this module."""

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Tell whether every node of the model can be lifted, and the device can be used."""
        try:
            lift(model)
        except UnsupportedError:
            return False
        return cls.supports_device(device)

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> Prepared:
        return Prepared(lift(model), device.lower())

    @classmethod
    def run_model(cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
        return cls.prepare(model, device).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[Any, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Make a model of this one node, run it and return its outputs.

        The model has opset `opset_version`, if that is among `kwargs`, else the newest one."""
        arrays = [np.asarray(value) for value in (inputs if isinstance(inputs, list | tuple) else [inputs])]
        fed = dict(zip([name for name in node.input if name], arrays, strict=True))
        infos = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in fed.items()
        ]
        outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        newest = onnx.defs.onnx_opset_version() if not node.domain else _newest_version(node)
        imports = [helper.make_opsetid(node.domain, kwargs.get("opset_version", newest))]
        graph = helper.make_graph([node], node.op_type, infos, outputs)
        return cls.run_model(helper.make_model(graph, opset_imports=imports), list(fed.values()), device)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Tell whether `device` is the CPU, or CUDA and torch has it."""
        kind = device.partition(":")[0]
        return kind == "CPU" or (kind == "CUDA" and torch.cuda.is_available())


def _newest_version(node: onnx.NodeProto) -> int:
    known = onnx.defs.has(node.op_type, node.domain)
    return int(onnx.defs.get_schema(node.op_type, domain=node.domain).since_version) if known else 1


is_compatible = OnnxLift.is_compatible
prepare = OnnxLift.prepare
run_model = OnnxLift.run_model
run_node = OnnxLift.run_node
supports_device = OnnxLift.supports_device
