"""`onnxlift bench` measures how fast models and engines are, by turns in one run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from onnxlift.errors import OnnxLiftError, OutputError

from .each import STANDARD, expand, read, run_one
from .options import (
    CustomOp,
    Dim,
    Force,
    Input,
    Json,
    Memory,
    Models,
    Provider,
    Quiet,
    Seed,
    SessionOption,
    Shape,
    Threads,
    Timeout,
    parse_dims,
    parse_options,
    parse_shapes,
    progress,
)
from .outcome import Outcome


def bench(
    models: Models,
    engine: Annotated[
        str,
        typer.Option(
            "--engine",
            metavar="ENGINE,...",
            help="How to run them: ort (ONNX Runtime), lifted (the lifted module), compiled (by torch.compile), aoti "
            "(by AOTInductor).",
        ),
    ] = "ort",
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE.svg", help="Where to write a plot.")
    ] = None,
    sweep: Annotated[
        str | None,
        typer.Option("--sweep", metavar="NAME=SIZES", help="Measure at several sizes of a dimension: batch=1,2,4,8."),
    ] = None,
    threads: Threads = None,
    processor_time: Annotated[
        bool,
        typer.Option(
            "--processor-time",
            help="Measure how long the processor works on a run, on all threads together, and not the clock.",
        ),
    ] = False,
    seconds: Annotated[
        float, typer.Option("--seconds", min=0.01, help="How long to measure each contender at each size.")
    ] = 3.0,
    warmup: Annotated[int, typer.Option("--warmup", min=1, metavar="N", help="Runs before it is measured.")] = 3,
    runs: Annotated[
        int | None, typer.Option("--runs", min=1, metavar="N", help="Runs of a turn, instead of what --seconds allow.")
    ] = None,
    rounds: Annotated[
        int | None, typer.Option("--rounds", min=1, metavar="N", help="Turns of each contender, likewise.")
    ] = None,
    input: Input = None,
    shape: Shape = None,
    dim: Dim = None,
    seed: Seed = 0,
    provider: Provider = None,
    option: SessionOption = None,
    custom_op: CustomOp = None,
    timeout: Timeout = 300.0,
    memory: Memory = None,
    force: Force = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Measure how fast models and engines are, by turns in one run, and say how they compare with the first.

    Every contender runs in a process of its own; rounds of turns in a random order make what else the machine does hit
    them all alike. Intervals are at 95 % confidence, by a bootstrap over the rounds. The exit status is 1 if the
    machine was too noisy to tell which is faster. Beside other work, --processor-time with --threads 1 tells most.

    Example: onnxlift bench before.onnx after.onnx --threads 1

    Example: onnxlift bench model.onnx --engine ort,lifted,compiled --sweep batch=1,2,4,8 -o latency.svg
    """
    names = list(expand(models))
    if names.count(STANDARD) > 1:
        raise OnnxLiftError("standard input holds one model: name a file for the other.")
    if output is not None and output.suffix.lower() != ".svg":
        raise OutputError(f"a plot is written as .svg, and not as {str(output)!r}.")
    if output is not None and output.exists() and not force:
        raise OutputError(f"{str(output)!r} is there already: pass --force to replace it, or write to another file.")

    def work() -> Outcome:
        from onnxlift.workbench.bench import bench as run

        with progress("measuring") as on_progress:
            report = run(
                *map(read, names),
                engines=engine,
                inputs=input or None,
                shapes=parse_shapes(shape or ()),
                dims=parse_dims(dim or ()),
                sweep=dict(parse_shapes([sweep] if sweep else ())),
                seed=seed,
                threads=threads,
                processor=processor_time,
                warmup=warmup,
                seconds=seconds,
                runs=runs,
                rounds=rounds,
                providers=tuple(provider or ()),
                options=parse_options(option or ()),
                custom_ops=tuple(custom_op or ()),
                timeout=timeout,
                memory=memory,
                on_progress=on_progress,
            )
        written = [] if output is None else report.save(output, force=force)
        lines = [str(report), *(f"  wrote          {file}" for file in written)]
        data = {**report.to_dict(), "written": [str(file) for file in written]}
        return Outcome(report.passed, data, "\n".join(lines))

    run_one("bench", names[0], work, title=f"bench {', '.join(names[:3])}", json=json, quiet=quiet)
