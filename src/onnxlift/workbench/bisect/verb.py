"""`bisect`: the first value that differs between two models, or between two ways to run one, and the node to blame.

    pairing the values ─▶ outputs on several inputs ─▶ searching backwards ─▶ proving it on a part ─▶ a report

The search (search.py) goes back from an output that differs to a node whose inputs agree. The proof (proving.py) runs
this node alone on equal inputs on both sides: what differs there by itself is to blame, and what does not has only
handed on or enlarged what came before.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onnxlift.errors import OnnxLiftError
from onnxlift.ir.inference.infer import infer
from onnxlift.ir.load import load
from onnxlift.ir.reading.draft import unwrapped
from onnxlift.sizes import parse_size
from onnxlift.unforeseen import answered
from onnxlift.verification.children.child import Limits
from onnxlift.verification.given import Given, Inputs, read_given
from onnxlift.verification.models import title

from .bisection import Bisection, Settings
from .inside import look_inside
from .pairing import pair_models, pair_with_itself
from .report import BisectReport
from .runners import RUNTIMES, parse_runtimes

DEEPEST = 4
"""So many graphs inside each other are opened."""


def bisect(
    a: Any,
    b: Any = None,
    *,
    against: str | os.PathLike[str] | None = None,
    runtimes: str | Sequence[str] | None = None,
    inputs: Inputs = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    seed: int = 0,
    rtol: float | None = None,
    atol: float | None = None,
    trace: bool = False,
    timeout: float = 300.0,
    memory: int | str | None = None,
    on_round: Callable[[], None] = lambda: None,
) -> BisectReport:
    """Find where the models `a` and `b` first differ on the same inputs; or, without `b`, two ways to run `a`.

    These are two `runtimes`, like "ort,reference" (of "ort", "ort-plain", "reference" and "lifted"), or ONNX Runtime
    and a saved file of lifted source, `against`: **it is executed**. Inputs that are not given are made up; if the
    outputs agree, three seeds and a second size are tried. With `trace`, all values up to the first difference are
    compared and listed, not only those that the search needs. The other options are those of `verify`."""
    ways = sum(each is not None for each in (b, against, runtimes))
    if ways != 1:
        raise OnnxLiftError(
            "say what to compare with: a second model, two runtimes of one model (--runtimes ort,reference), or a "
            "saved file of its lifted source (--against FILE.py); and only one of them."
        )
    sources = [_held(unwrapped(each)) for each in ((a,) if b is None else (a, b))]
    chosen = ("ort-plain", "ort-plain") if b is not None else ("ort-plain", "lifted")
    if runtimes is not None:
        chosen = parse_runtimes(runtimes)
    settings = Settings(
        runtimes=chosen,
        against=against,
        rtol=rtol,
        atol=atol,
        limits=Limits(timeout, None if memory is None else parse_size(memory)),
        trace=trace,
        on_round=on_round,
    )
    given = Given(read_given(inputs), shapes, dict(dims or {}), seed)
    with answered(), tempfile.TemporaryDirectory(prefix="onnxlift-") as folder:
        return _run(Path(folder), sources, given, settings, 0)


def _held(source: Any) -> Any:
    """Return a source that can be read more than once."""
    return source.read() if hasattr(source, "read") else source


def _run(job: Path, sources: Sequence[Any], given: Given, settings: Settings, depth: int) -> BisectReport:
    models = [load(source) for source in sources]
    for model in models:
        infer(model)
    if len(models) == 2:
        pairing, comparer = pair_models(models[0], models[1])
    else:
        pairing, comparer = pair_with_itself(models[0]), None
    bisection = Bisection(job, sources, pairing, comparer, settings)
    report = bisection.run(given, *_names(sources, settings))

    if depth < DEEPEST and report.reproducer is not None:
        report = look_inside(report, _Deeper(bisection, depth))
    return report


@dataclass(frozen=True)
class _Deeper:
    """A bisection that goes on inside the node that it has found."""

    outer: Bisection
    depth: int

    def bisect(self, models: Sequence[bytes], inputs: Mapping[str, Any], *, exactly: bool) -> BisectReport:
        inner = self.outer.job / f"inside_{self.depth}"
        inner.mkdir(exist_ok=True)
        settings = self.outer.settings.inside(exactly=exactly)
        return _run(inner, models, Given(inputs, None, {}, 0), settings, self.depth + 1)

    def run(self, data: bytes, inputs: Mapping[str, Any]) -> list[Any]:
        model = load(data)
        found = self.outer.run_part(0, model, data, inputs)
        return [found[value.name or ""] for value in model.graph.outputs]

    def agree(self, parts: Sequence[tuple[bytes, Mapping[str, Any]]], exactly: bool) -> bool:
        self.outer.settings.on_round()
        return self.outer.agree(parts, exactly)


def _names(sources: Sequence[Any], settings: Settings) -> tuple[str, str]:
    if len(sources) == 2:
        return title(sources[0], "the first model"), title(sources[1], "the second model")
    name = title(sources[0], "the model")
    other = RUNTIMES[settings.runtimes[1]] if settings.against is None else Path(settings.against).name
    return f"{name} in {RUNTIMES[settings.runtimes[0]]}" if settings.against is None else name, other
