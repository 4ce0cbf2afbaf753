"""The program of the child process: `python -m onnxlift.workbench.export.worker FOLDER`.

It loads the lifted source of the task, traces it, and writes the product: a program, a compiled package or an ONNX
model. Then it loads what it has written, and runs it on FOLDER/inputs_N, which leaves FOLDER/result_N, for as many as
the task says. FOLDER/phase says what is being done, also if the process ends without an answer.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from onnxlift.executing import to_argument, to_result
from onnxlift.verification.candidate import load_candidate
from onnxlift.verification.values import read_values, write_values
from onnxlift.verification.worker import Ran, main

from .compiling import compile_package, load_package
from .tracing import trace

Answer = dict[str, Any]
REFUSALS = (RuntimeError, AssertionError, ValueError, TypeError, IndexError)
"""What programs raise for arguments that they do not take."""


def run(task: dict[str, Any], inputs: dict[str, Any]) -> Ran:
    """Make the product, load it again, and run it on all inputs of the task. Return the answer."""
    answer = _make(task)
    if task["kind"] == "onnx":
        return {}, answer, None
    product = Path(task["product"])
    _phase(task, "loading")
    program = load_package(product) if task["kind"] == "aoti" else load_program(product)
    _phase(task, "running")
    refusals = [_run_on(program, number, task) for number in range(task["runs"])]
    return {}, {**answer, "refusals": refusals, "runtime": f"torch {torch.__version__}"}, None


def _run_on(program: Callable[..., Any], number: int, task: dict[str, Any]) -> str:
    """Run the program on the inputs of a number, and write what it computes; or return why it does not."""
    job = Path(task["job"])
    arguments = _arguments(task, number)
    try:
        with torch.no_grad():
            results = program(*arguments)
    except REFUSALS as error:
        return f"{type(error).__name__}: {str(error).strip()[:400]}"
    names = task["outputs"]
    is_one = len(names) == 1 and not (task["kind"] == "aoti" and isinstance(results, list | tuple))
    values = (results,) if is_one else results
    write_values(job / f"result_{number}", {n: to_result(value) for n, value in zip(names, values, strict=True)})
    return ""


def _arguments(task: dict[str, Any], number: int) -> list[Any]:
    """Return the arguments of a call with the inputs of a number, made anew: a program may change them."""
    return [to_argument(value) for value in read_values(Path(task["job"]) / f"inputs_{number}").values()]


def _make(task: dict[str, Any]) -> Answer:
    """Trace the lifted module, and write the product.

    Torch is shown other inputs if it takes a size of the first for given: a value inside may have had a size of one."""
    _phase(task, "lifting")
    module = load_candidate(Path(task["source"])).model
    kind, product = task["kind"], Path(task["product"])
    _phase(task, "tracing")
    if kind == "aoti":
        module.requires_grad_(False)
    for number in task["shown"][:2]:
        program, fixed = trace(
            module, _arguments(task, number), task["open"], task["source"], keep_recurrent=kind == "pt2"
        )
        if not fixed:
            break
    answer: Answer = {"fixed": [asdict(each) for each in fixed], "operators": _operators(program)}
    files = {"onnxlift.json": json.dumps(task["interface"])}
    if kind == "pt2":
        _phase(task, "saving")
        torch.export.save(program, product, extra_files=files)
    elif kind == "aoti":
        _phase(task, "compiling")
        compile_package(program, product, files)
    else:
        _phase(task, "writing ONNX")
        _write_onnx(program, product, task)
    return answer


def load_program(product: Path) -> Callable[..., Any]:
    """Load a program, hold it against the rules of ATen programs, and return what runs it."""
    program = torch.export.load(product)
    for verifier in program.verifiers:
        verifier().check(program)
    return program.module()


def _write_onnx(program: torch.export.ExportedProgram, product: Path, task: dict[str, Any]) -> None:
    names = {"input_names": task["names"], "output_names": task["outputs"]}
    written = torch.onnx.export(program, (), dynamo=True, verbose=False, **names)
    assert written is not None
    written.save(product, external_data=task["external_data"])


def _operators(program: torch.export.ExportedProgram) -> dict[str, int]:
    """Count the operators of a program."""
    counts: dict[str, int] = {}
    for graph in program.graph_module.modules():
        for node in graph.graph.nodes if isinstance(graph, torch.fx.GraphModule) else ():
            if node.op == "call_function":
                name = str(getattr(node.target, "__name__", node.target))
                counts[name] = counts.get(name, 0) + 1
    return counts


def _phase(task: dict[str, Any], name: str) -> None:
    """Note what is being done."""
    (Path(task["job"]) / "phase").write_text(name, encoding="utf-8")


if __name__ == "__main__":
    os.environ["TMPDIR"] = sys.argv[1]  # so that what torch leaves behind goes with the folder
    main(Path(sys.argv[1]), run)
