"""onnxlift lifts an ONNX model back into the PyTorch that a person would have written, and is a workbench for ONNX."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onnxlift.lifting.ops.registry import op

    from .api import convert, lift
    from .errors import (
        InternalError,
        InvalidModelError,
        LoadError,
        OnnxLiftError,
        OutputError,
        UnsupportedError,
        VerifyError,
    )
    from .lifted import Lifted
    from .verification.verify import verify
    from .workbench import edit
    from .workbench.batch import batch
    from .workbench.bench import bench
    from .workbench.bisect import bisect
    from .workbench.build_script import build_script
    from .workbench.diff import diff
    from .workbench.draw import draw
    from .workbench.export import export
    from .workbench.expose import expose
    from .workbench.extract import extract
    from .workbench.infer import infer
    from .workbench.inspect import inspect
    from .workbench.lint.lint import lint
    from .workbench.merge import merge
    from .workbench.opset import opset
    from .workbench.profile import profile
    from .workbench.quantize import quantize
    from .workbench.run import run
    from .workbench.simplify import simplify
    from .workbench.update.verb import update

__version__ = "0.1.0"

# The module of each public name. It is imported when the name is first used, so that `import onnxlift` costs nothing.
_HOMES = {
    "convert": ".api",
    "lift": ".api",
    "verify": ".verification.verify",
    "batch": ".workbench.batch",
    "bench": ".workbench.bench",
    "bisect": ".workbench.bisect",
    "build_script": ".workbench.build_script",
    "diff": ".workbench.diff",
    "draw": ".workbench.draw",
    "edit": ".workbench.edit",
    "export": ".workbench.export",
    "expose": ".workbench.expose",
    "extract": ".workbench.extract",
    "infer": ".workbench.infer",
    "inspect": ".workbench.inspect",
    "lint": ".workbench.lint.lint",
    "merge": ".workbench.merge",
    "opset": ".workbench.opset",
    "profile": ".workbench.profile",
    "quantize": ".workbench.quantize",
    "run": ".workbench.run",
    "simplify": ".workbench.simplify",
    "update": ".workbench.update.verb",
    "Lifted": ".lifted",
    "op": ".lifting.ops.registry",
    "OnnxLiftError": ".errors",
    "InternalError": ".errors",
    "InvalidModelError": ".errors",
    "LoadError": ".errors",
    "OutputError": ".errors",
    "UnsupportedError": ".errors",
    "VerifyError": ".errors",
}
__all__ = [
    "InternalError",
    "InvalidModelError",
    "Lifted",
    "LoadError",
    "OnnxLiftError",
    "OutputError",
    "UnsupportedError",
    "VerifyError",
    "batch",
    "bench",
    "bisect",
    "build_script",
    "convert",
    "diff",
    "draw",
    "edit",
    "export",
    "expose",
    "extract",
    "infer",
    "inspect",
    "lift",
    "lint",
    "merge",
    "op",
    "opset",
    "profile",
    "quantize",
    "run",
    "simplify",
    "update",
    "verify",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module = import_module(home, __name__)
    return getattr(module, name, module)  # `edit` is a module itself


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
