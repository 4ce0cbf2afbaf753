"""`onnxlift build-script` writes a model as the Python of `onnxlift.build`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import typer

from .each import Target, change_each
from .options import Force, Jobs, Json, Models, Quiet

Output = Annotated[
    str | None,
    typer.Option(
        "-o",
        "--output",
        metavar="FILE",
        help="Where to write: a .py file, a folder that is there or ends with /, or - for standard output. Without it, "
        "nothing is written, and only the report is printed.",
    ),
]
Verify = Annotated[
    bool,
    typer.Option(
        "--verify/--no-verify", help="Compare the model that the script makes by `diff`; write only what is the same."
    ),
]


def build_script(
    models: Models,
    output: Output = None,
    verify: Verify = True,
    force: Force = False,
    jobs: Jobs = 1,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Write a model as Python: the calls of onnxlift.build that make it again, to read and to change.

    Modules are functions, and equal ones are one function. Weights go to a .safetensors file beside the script. The
    script is run, and the model that it makes must be the same as the original for `onnxlift diff`: all nodes,
    attributes, weights, types, versions and metadata. `python model_build.py` writes it to model_build.onnx.

    Example: onnxlift build-script resnet50.onnx -o resnet50_build.py

    Then, in Python: from resnet50_build import build_model; build_model()(x=array)

    Example: onnxlift build-script "models/*.onnx" -o scripts/ --jobs 2
    """
    from onnxlift.workbench.build_script import build_script as run

    verb: Callable[..., Any] = partial(run, verify=verify)
    change_each("build-script", models, verb, Target(output, force, suffix=".py"), json=json, quiet=quiet, jobs=jobs)
