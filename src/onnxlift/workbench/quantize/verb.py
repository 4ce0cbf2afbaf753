"""`quantize`: the same model with fewer bits, and what that costs, layer by layer.

    reading ─▶ simplifying, inferring ─▶ ranges from samples ─▶ quantising ─▶ noise of outputs and layers ─▶ writing
                                                                    ▲                    │
                                                                    └── nodes to keep ◀──┘   with a target

The ranges and the integers are those of onnxruntime.quantization (engine.py, calibrating.py). What is around them is
ours: samples one at a time, children with limits, the noise of each layer by itself (slices.py), and the search for
nodes to keep in float (search.py). Names, types and sizes of inputs and outputs stay.
"""

from __future__ import annotations

import atexit
import os
import tempfile
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from onnxlift.ir.graph.walk import all_nodes
from onnxlift.ir.inference.infer import infer
from onnxlift.ir.load import load
from onnxlift.ir.reading.draft import unwrapped
from onnxlift.ir.reading.weights import data_files
from onnxlift.ir.writing.proto import LARGEST_PROTO
from onnxlift.sizes import parse_size
from onnxlift.unforeseen import answered
from onnxlift.verification.children.child import Limits
from onnxlift.verification.given import Given, Inputs, read_given
from onnxlift.verification.judge import Judge
from onnxlift.verification.model_file import model_file
from onnxlift.verification.models import Pair

from ..report import name_of, open_model
from ..runtime.file_inputs import PictureSettings
from ..values import suggestion
from .choosing import Chosen, choose
from .precision import overflowing
from .preparing import prepare
from .recipe import QuantizeError, Recipe, make_recipe
from .report import QuantizeReport
from .samples import check_source, write_samples
from .slots import slots_of
from .weights import FEWEST
from .work import Samples, Work, file_size

MEASURED = 16
"""On so many samples noise is measured, unless more are asked for."""
MADE_UP = 4
"""So many are made up if there are none."""


def quantize(
    source: Any,
    *,
    mode: str | None = None,
    calibrate: str | os.PathLike[str] | Iterable[Any] | None = None,
    target_sqnr: float | None = None,
    format: str | None = None,
    bits: int = 8,
    method: str = "minmax",
    percentile: float = 99.999,
    activations: str = "uint8",
    weights: str = "int8",
    per_channel: bool = True,
    reduce_range: bool | None = None,
    block_size: int = 32,
    op_types: Collection[str] = (),
    keep: Collection[str] = (),
    measure: int = MEASURED,
    speed: bool = True,
    verify: bool = True,
    inputs: Inputs = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    seed: int = 0,
    rtol: float | None = None,
    atol: float | None = None,
    timeout: float = 300.0,
    memory: int | str | None = None,
    mean: float | Sequence[float] = (),
    std: float | Sequence[float] = (),
    fit: str = "crop",
) -> QuantizeReport:
    """Return the model in `source` with fewer bits, and the noise that this adds to its outputs and layers.

    `mode` is "dynamic", "static", "weights", "float16" or "bfloat16"; without it, "static" if there are samples to
    `calibrate` with (a folder of arrays or pictures, a .npz or .npy file, a script with a function `samples`, or an
    iterable of dicts of arrays), else "dynamic". Pixels become `(pixel - mean) / std`, and a picture is cropped,
    stretched or padded to the size that the model declares (`fit`). With `target_sqnr`, nodes are kept in float until
    every output has so many decibels; those in `keep` (names or globs) always are. `format` is "qdq" or "qoperator",
    `bits` of weights only 8 or 4, `method` of ranges "minmax", "entropy", "percentile" or "distribution".
    `reduce_range` (weights of 7 bits) is up to the processor unless it is given. Noise is measured on `measure`
    samples; without any, on `inputs`, or on inputs that are made up with `shapes`, `dims` and `seed`. If not `verify`,
    nothing is measured."""
    if rtol is not None or atol is not None:
        raise QuantizeError(
            "a quantised model is judged by its SQNR, not by tolerances: give a target (--target-sqnr)."
        )
    recipe = make_recipe(
        mode,
        has_samples=calibrate is not None,
        format=format,
        bits=bits,
        method=method,
        activations=activations,
        weights=weights,
        per_channel=per_channel,
        reduce_range=reduce_range,
        block_size=block_size,
        percentile=percentile,
        op_types=op_types,
    )
    if isinstance(calibrate, str | os.PathLike):
        check_source(Path(calibrate))
    if target_sqnr is not None and not verify:
        raise QuantizeError("a target needs measuring: leave out --no-verify (verify=False), or the target.")
    options = _Options(
        calibrate,
        target_sqnr,
        tuple([keep] if isinstance(keep, str) else keep),
        measure,
        speed,
        verify,
        Given(read_given(inputs), shapes, dict(dims or {}), seed),
        inputs is not None,
        Limits(timeout, None if memory is None else parse_size(memory)),
        PictureSettings.of(mean, std, fit),
    )
    with answered(), ExitStack() as stack:
        job = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="onnxlift-")))
        return _quantize(unwrapped(source), recipe, options, job, stack)


@dataclass(frozen=True)
class _Options:
    """What is asked for beside the recipe."""

    calibrate: str | os.PathLike[str] | Iterable[Any] | None
    target: float | None
    keep: tuple[str, ...]
    most: int
    speed: bool
    verify: bool
    given: Given
    has_inputs: bool
    limits: Limits
    pictures: PictureSettings


def _quantize(source: Any, recipe: Recipe, options: _Options, job: Path, stack: ExitStack) -> QuantizeReport:
    before = open_model(source)
    prepared, notes = prepare(before, recipe)
    original = model_file(source, data_files(load(source)), job, "original")
    work = Work(job, original, prepared, recipe, slots_of(prepared), options.limits, options.pictures)
    kept = _named(prepared, options.keep)
    calibrated = _to_calibrate(work, options)
    is_precision = recipe.mode in ("float16", "bfloat16")
    measured = _to_measure(work, options, calibrated) if options.verify or is_precision else None
    if is_precision:
        work.calibrate(calibrated or measured or _made_up(work, options))
        wide = overflowing(prepared, recipe.mode, work.ranges or {})
        kept = {**kept, **{name: f"its numbers do not fit into {recipe.mode}" for name in wide if name not in kept}}
    chosen = choose(
        work,
        kept,
        target=options.target,
        measured=measured if options.verify else None,
        calibrated=calibrated,
        speed=options.speed and recipe.mode != "bfloat16",
    )
    model = chosen.made.model or _opened(chosen.made.path, stack)
    _check_changed(prepared, model, recipe)
    _restore_header(model, before)
    made = chosen.made
    return QuantizeReport(
        name_of(source, before),
        model,
        notes=(*notes, *_notes(work, chosen, options)),
        recipe=work.recipe,
        outputs=made.outputs,
        layers=chosen.layers,
        bytes_before=file_size(before),
        bytes_after=file_size(model),
        speed=made.speed,
        target=options.target,
        samples=work.calibrated_on if calibrated is not None else 0,
        measured_on=made.measured_on,
        made_up=measured is not None and measured.made_up,
        probes=chosen.probes,
    )


def _named(model: ir.Model, keep: Sequence[str]) -> dict[str, str]:
    """Return the nodes that names or globs mean, with the reason for which they are kept."""
    names = [node.name or "" for node in model.graph]
    found: dict[str, str] = {}
    for text in keep:
        matching = {text} & set(names) or {name for name in names if fnmatchcase(name, text)}
        if not matching:
            raise QuantizeError(f"no node of the model is named {text!r}{suggestion(text, names)}.")
        found |= dict.fromkeys(matching, "you asked for it")
    return found


def _to_calibrate(work: Work, options: _Options) -> Samples | None:
    """Return the samples to find ranges on, if there are any."""
    if options.calibrate is None:
        return None
    if isinstance(options.calibrate, str | os.PathLike):
        return Samples(Path(options.calibrate).absolute())
    return Samples(write_samples(options.calibrate, work.slots, work.job / "calibration"))


def _to_measure(work: Work, options: _Options, calibrated: Samples | None) -> Samples:
    """Return the samples to measure on: inputs that were given, else those to calibrate with, else some made up."""
    if options.has_inputs or calibrated is None:
        return _made_up(work, options)
    return replace(calibrated, most=options.most)


def _made_up(work: Work, options: _Options) -> Samples:
    """Return samples that hold the inputs that were given, and else are made up, in sizes that the model takes."""
    folder = work.job / "made_up"
    if folder.exists():
        return Samples(folder, made_up=True)
    model = load(work.model)
    infer(model)
    pair = Pair(work.job, model, model, (work.original, work.original), options.limits, Judge(model.graph, None, None))
    first = pair.find_inputs(options.given)
    is_given = options.has_inputs and {*first} == {*_given_names(options.given, model.graph)}
    shapes = {name: value.shape for name, value in first.items() if isinstance(value, np.ndarray)}
    others = (
        Given(options.given.values, shapes, {}, options.given.seed + number).make(model.graph)
        for number in range(1, 1 if is_given else MADE_UP)
    )
    return Samples(write_samples(chain([first], others), work.slots, folder), made_up=not is_given)


def _given_names(given: Given, graph: ir.Graph) -> list[str]:
    if isinstance(given.values, Mapping):
        return list(given.values)
    return [value.name or "" for value in graph.inputs][: len(given.values)]


def _opened(path: Path, stack: ExitStack) -> ir.Model:
    """Open the file that ONNX Runtime's quantiser wrote. The model does not need it any more, unless it is large."""
    files = [file for file in path.parent.glob(f"{path.name}*") if file != path]
    if not files and path.stat().st_size < LARGEST_PROTO:
        return open_model(path.read_bytes())
    atexit.register(stack.pop_all().close)  # its weights stay in the file until they are written
    return open_model(path)


def _check_changed(prepared: ir.Model, model: ir.Model, recipe: Recipe) -> None:
    """Raise a QuantizeError if nothing was quantised."""
    before, after = (
        Counter((node.domain, node.op_type) for node in all_nodes(each.graph)) for each in (prepared, model)
    )
    if before == after and recipe.mode not in ("float16", "bfloat16"):
        size = f" of {FEWEST:,} numbers or more" if recipe.mode == "weights" else ""
        raise QuantizeError(
            f"there is nothing in the model that could be quantised ({recipe}): it has no operators of a kind that "
            f"this mode knows, with constant weights{size} in float32. Another mode may do (--mode)."
        )


def _restore_header(model: ir.Model, before: ir.Model) -> None:
    """Let the result say of itself what the original did: its producer, metadata and texts."""
    for name in ("producer_name", "producer_version", "domain", "model_version", "doc_string"):
        setattr(model, name, getattr(before, name))
    model.metadata_props.clear()
    model.metadata_props.update(before.metadata_props)
    model.graph.name, model.graph.doc_string = before.graph.name, before.graph.doc_string


def _notes(work: Work, chosen: Chosen, options: _Options) -> Iterator[str]:
    recipe = work.recipe
    if recipe.reduce_range and recipe.runs_engine:
        yield "weights have 7 bits, since this processor cuts off sums of products of 8 (--no-reduce-range for others)"
    if recipe.mode == "bfloat16":
        yield (
            "ONNX Runtime does not compute in bfloat16 on a processor: noise was measured by rounding each value in "
            "float32, and time was not"
        )
    if options.verify and chosen.made.layers is None:
        yield "the model is too large to measure single layers"
