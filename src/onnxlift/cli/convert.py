"""`onnxlift convert` writes an ONNX model as PyTorch source and weights."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from .each import run_each
from .options import Dequantize, Dtype, Force, Jobs, Json, Models, NoSimplify, Quiet, SkipPass, Structure, progress
from .outcome import Outcome


def convert(
    models: Models,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Where to write.")] = Path(),
    name: Annotated[str | None, typer.Option(help="What to call the files, if not as the model.")] = None,
    verify: Annotated[bool, typer.Option("--verify/--no-verify", help="Compare the result with ONNX Runtime.")] = False,
    force: Force = False,
    no_simplify: NoSimplify = False,
    skip_pass: SkipPass = None,
    structure: Structure = None,
    dtype: Dtype = None,
    dequantize: Dequantize = False,
    max_shard_size: Annotated[
        str, typer.Option(metavar="SIZE", help="Spread larger weights over several files (500MB, 2GiB).")
    ] = "5GB",
    explain: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Write nothing; tell why a variable, class, member or argument is called NAME, or what became of the "
            "ONNX node NAME. May be repeated.",
        ),
    ] = None,
    jobs: Jobs = 1,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Write a model as PyTorch source, with its weights in safetensors.

    Writes NAME.py, NAME.safetensors, NAME.graph.txt (the graph after each stage) and NAME.map.json (which line comes
    from which ONNX node); and NAME.constants.safetensors, if there are tables that a state dict would not hold. The
    source needs torch and safetensors, and nothing of onnxlift.

    Example: onnxlift convert resnet50.onnx -o out --verify

    Then, in Python: from out.resnet50 import load; model = load()

    With --explain nothing is written. For a name of the source it prints where it stands, the reason for it, the ONNX
    values and nodes behind it, and the names that it could have had; for an ONNX node the steps that took it, and the
    idioms that nearly did, with the reason why not.

    Example: onnxlift convert resnet50.onnx --explain conv1 --explain /layer1/Relu

    With --dequantize a quantised model is written as the model of floats that it stands for: its weights are no longer
    integers, and its values are no longer rounded. The numbers change a little, so --verify tells by how much.

    Example: onnxlift convert resnet50-int8.onnx --dequantize -o out
    """
    lifting: dict[str, Any] = {
        "name": name,
        "simplify": not no_simplify,
        "skip_passes": skip_pass or (),
        "structure": structure,
        "max_shard_size": max_shard_size,
        "dtype": dtype,
        "dequantize": dequantize,
    }
    if explain:
        run_each("convert", models, partial(_explain, names=explain, **lifting), json=json, jobs=jobs)
        return
    work = partial(_convert, output=output, force=force, verify=verify, **lifting)
    run_each("convert", models, work, json=json, quiet=quiet, jobs=jobs)


def _explain(source: Path | bytes, model: str, *, names: list[str], **lifting: Any) -> Outcome:
    from onnxlift import api

    lifted = api.lift(source, explain=True, **lifting)
    texts = [str(lifted.explain(each)) for each in names]
    return Outcome(True, {"explanations": dict(zip(names, texts, strict=True))}, "\n\n".join(texts))


def _convert(source: Path | bytes, model: str, *, output: Path, force: bool, verify: bool, **lifting: Any) -> Outcome:
    from onnxlift import api

    lifted = api.lift(source, **lifting)
    with progress("Writing weights") as on_progress:
        paths = lifted.save(output, force, on_progress)
    written = [str(path) for path in paths]
    lines = [str(lifted.report), *(f"  wrote          {path}" for path in written)]
    data = {"report": lifted.report.to_dict(), "written": written, "verification": None}
    if not verify:
        return Outcome(True, data, "\n".join(lines))
    if lifting["dequantize"]:
        from onnxlift.verification.noise import output_noise

        with progress("Comparing with ONNX Runtime"):
            noise = output_noise(source, lifted)
        rows = [f"  noise of {name}: {text}" for name, text in noise.texts().items()]
        return Outcome(True, {**data, "noise": noise.to_dict()}, "\n".join([*lines, *rows]))
    from onnxlift.verification.verify import verify as run

    with progress("Comparing with ONNX Runtime"):
        report = run(source, lifted=lifted, against=paths[0])
    return Outcome(report.passed, {**data, "verification": report.to_dict()}, "\n".join([*lines, "", str(report)]))
