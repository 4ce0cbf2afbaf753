"""`onnxlift export` writes a model as a program of `torch.export`, compiled if wanted."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import typer

from .changing import Change, changes_models
from .options import Models


def _suffix(onnx: bool = False, **options: Any) -> str:
    return "" if onnx else ".pt2"


@partial(changes_models, suffix=_suffix)
def export(
    models: Models,
    static: Annotated[
        bool, typer.Option("--static", help="Fix all sizes: those given, and those of the inputs for the rest.")
    ] = False,
    aoti: Annotated[
        bool, typer.Option("--aoti", help="Compile the program for the CPU of this machine, by AOTInductor.")
    ] = False,
    onnx: Annotated[bool, typer.Option("--onnx", help="Write an ONNX model again, by torch's own exporter.")] = False,
) -> Change:
    """Write a model as a program of torch.export: a .pt2 file that needs neither source nor onnxlift.

    The model is lifted and traced, with every size open that the model leaves open; --shape and --dim fix sizes. The
    file is loaded again, held against the rules of ATen programs, and compared with ONNX Runtime at several sizes. It
    is written only if it matches. What data decides, and torch cannot follow, is an error that names node and line.

    Example: onnxlift export resnet50.onnx -o resnet50.pt2

    Then, in Python: torch.export.load("resnet50.pt2").module()(x)

    With --aoti, the file holds machine code, which torch._inductor.aoti_load_package loads, or C++ without Python. It
    needs a C++ compiler, and takes minutes. Fixed sizes make faster code.

    Example: onnxlift export resnet50.onnx -o fast.pt2 --aoti --dim batch=1

    Example: onnxlift export resnet50.onnx -o again.onnx --onnx
    """
    from onnxlift.workbench.export import export as run

    return models, partial(run, static=static, aoti=aoti, onnx=onnx)
