"""`onnxlift quantize` writes a model with fewer bits, and tells what that costs."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .changing import Change, changes_models
from .options import Fit, Force, Mean, Models, Std, parse_numbers

if TYPE_CHECKING:
    from onnxlift.workbench.quantize import QuantizeReport


@changes_models
def quantize(
    models: Models,
    mode: Annotated[
        str | None,
        typer.Option(
            "--mode",
            metavar="MODE",
            help="dynamic, static, weights, float16 or bfloat16. By default static with --calibrate, else dynamic.",
        ),
    ] = None,
    calibrate: Annotated[
        Path | None,
        typer.Option(
            "--calibrate",
            metavar="DIR|FILE",
            help="Real samples: a folder of .npz files by the names of inputs, or of pictures; one .npz or .npy file "
            "with the samples along the first axis; or a Python script with a function `samples` that yields dicts.",
        ),
    ] = None,
    target_sqnr: Annotated[
        float | None,
        typer.Option(
            "--target-sqnr", metavar="DB", help="Keep nodes in float until every output has so many decibels."
        ),
    ] = None,
    format: Annotated[
        str | None, typer.Option("--format", metavar="qdq|qoperator", help="How a quantised model is written.")
    ] = None,
    bits: Annotated[int, typer.Option("--bits", metavar="8|4", help="Bits of weights, with --mode weights.")] = 8,
    method: Annotated[
        str,
        typer.Option(
            "--method",
            metavar="METHOD",
            help="How ranges are found on samples: minmax, entropy, percentile or distribution.",
        ),
    ] = "minmax",
    percentile: Annotated[
        float, typer.Option("--percentile", help="The share of values inside the range, with --method percentile.")
    ] = 99.999,
    activations: Annotated[
        str, typer.Option("--activations", metavar="TYPE", help="uint8, int8, uint16 or int16.")
    ] = "uint8",
    weights: Annotated[str, typer.Option("--weights", metavar="TYPE", help="int8, uint8, int16 or uint16.")] = "int8",
    per_channel: Annotated[
        bool, typer.Option("--per-channel/--per-tensor", help="Steps of weights for each channel, or for each weight.")
    ] = True,
    reduce_range: Annotated[
        bool | None,
        typer.Option(
            "--reduce-range/--no-reduce-range",
            help="Weights of 7 bits, for processors that cut off sums of products. By default as this one needs it.",
        ),
    ] = None,
    block_size: Annotated[
        int, typer.Option("--block-size", metavar="N", help="Weights that share a scale, with --bits 4.")
    ] = 32,
    op_type: Annotated[
        list[str] | None,
        typer.Option("--op-type", metavar="OP", help="Quantise this operator, and none but these. Repeatable."),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option("--keep", metavar="NODE", help="A node, or a glob of nodes, to keep in float. Repeatable."),
    ] = None,
    measure: Annotated[
        int, typer.Option("--measure", min=1, metavar="N", help="On how many samples noise is measured.")
    ] = 16,
    mean: Mean = None,
    std: Std = None,
    fit: Fit = "crop",
    speed: Annotated[bool, typer.Option("--speed/--no-speed", help="Measure the time before and after.")] = True,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write the report as a page with a plot, too.")
    ] = None,
    force: Force = False,
) -> Change:
    """Write a model with fewer bits, and tell what that costs: noise of outputs and layers, size, speed.

    Integers and ranges are made by onnxruntime.quantization; samples are read one at a time, so any number of them
    takes the memory of one. The noise of every output and layer is measured on real samples, as signal to noise in
    decibels (SQNR): 20 dB are a hundredth of noise, and one bit more is about 6 dB. A result is written only if every
    output has 10 dB, or what --target-sqnr asks for.

    Example: onnxlift quantize resnet50.onnx -o int8.onnx --calibrate photos/ --mean 0.485,0.456,0.406 --std 0.229

    Example: onnxlift quantize resnet50.onnx -o int8.onnx --calibrate samples.npz --target-sqnr 30 --html report.html

    Example: onnxlift quantize llama.onnx -o int4.onnx --mode weights --bits 4

    Example: onnxlift quantize bert.onnx -o half.onnx --mode float16
    """
    from onnxlift.errors import OutputError

    if html is not None and len(models) > 1:
        raise OutputError("a page is for one model: leave out --html, or give one model.")
    if html is not None and html.exists() and not force:
        raise OutputError(f"{str(html)!r} is there already: pass --force to replace it, or write to another file.")
    return models, partial(
        _run,
        html=html,
        force=force,
        mode=mode,
        calibrate=calibrate,
        target_sqnr=target_sqnr,
        format=format,
        bits=bits,
        method=method,
        percentile=percentile,
        activations=activations,
        weights=weights,
        per_channel=per_channel,
        reduce_range=reduce_range,
        block_size=block_size,
        op_types=tuple(op_type or ()),
        keep=tuple(keep or ()),
        measure=measure,
        mean=parse_numbers(mean),
        std=parse_numbers(std),
        fit=fit,
        speed=speed,
    )


def _run(source: Path | bytes, *, html: Path | None, force: bool, **options: Any) -> QuantizeReport:
    from dataclasses import replace

    from onnxlift.workbench.quantize import quantize as run

    report = run(source, **options)
    if html is not None:
        (written,) = report.save_page(html, force=force)
        report = replace(report, notes=(*report.notes, f"the page is {str(written)!r}"))
    return report
