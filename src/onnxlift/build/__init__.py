"""Networks written in ONNX: operators as functions, layers, control flow, functions, and a checked model at the end.

    from onnxlift import build
    from onnxlift.build import op

    x = build.input("x", "float32", ["batch", 784])
    w = build.constant(weights, name="weight")
    y = op.Softmax(x @ w + bias, axis=-1)
    net = build.model([x], {"probs": y}, opset=17)
    net(x=array)["probs"]; net.save("net.onnx"); onnxlift.lift(net)

`build.nn` has layers and networks of them, `build.init` their first numbers.

For those who write layers of their own:

- `with build.scope("conv1", "Conv2d"):` nodes made inside lie in the module `conv1` of that class, below the modules
  around; the whole model is `build.scope("", "ResNet")`. A name may have dots (`layers.0`).
- `build.parameter("weight", shape, "float32", make=function)` is an initialiser called by its dotted name in the scopes
  around; `function()` gives the array, and is called only when the numbers are needed, each time anew.
- `build.constant(array)` folds with other constants; with a `name` it stays as it is.
- `value.dtype` (an `onnx_ir.DataType`), `value.shape` (ints and names; None if the rank is unknown), `value.rank`,
  `value.rename("logits")`.
- `build.opsets()` tells the versions in force by domain (`build.opsets()[""]`), `with build.opset(13):` sets them.
- `build.BuildError("text")` finds the line of the user by itself; decorate public functions with
  `onnxlift.build.errors.at_the_users_line`, so that the traceback ends there.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .bodies import body, keep
from .control import if_, loop, scan
from .custom import custom
from .errors import BuildError
from .functions import function
from .inlining import Inlined, inline
from .mistaken import unknown
from .model import Header, Model, model
from .state import DEFAULT_OPSET, opset, opsets, scope
from .tensors import constant, input, parameter
from .types import UNKNOWN, map_of, optional, sequence, tensor
from .value import Value
from .weights import Weights, weights

__all__ = [
    "DEFAULT_OPSET",
    "UNKNOWN",
    "BuildError",
    "Header",
    "Inlined",
    "Model",
    "Value",
    "Weights",
    "body",
    "constant",
    "custom",
    "function",
    "if_",
    "init",
    "inline",
    "input",
    "keep",
    "loop",
    "map_of",
    "model",
    "nn",
    "op",
    "opset",
    "opsets",
    "optional",
    "parameter",
    "scan",
    "scope",
    "sequence",
    "tensor",
    "weights",
]

from . import op

if TYPE_CHECKING:
    from . import init, nn


def __getattr__(name: str) -> Any:
    if name in ("init", "nn"):  # layers are imported when they are first used: operators do without them
        return import_module(f"{__name__}.{name}")
    raise unknown("build", name, __all__)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
