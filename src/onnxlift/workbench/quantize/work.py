"""The folder in which a model is quantised: its files, and the children that work on them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import onnx_ir as ir

from onnxlift.errors import OnnxLiftError
from onnxlift.ir.writing.files import write_model
from onnxlift.ir.writing.proto import skeleton
from onnxlift.sizes import format_bytes
from onnxlift.verification.children.child import ChildError, Limits, run_child
from onnxlift.verification.model_file import ModelFile

from ..runtime.file_inputs import PictureSettings
from .precision import convert_precision, emulated
from .recipe import QuantizeError, Recipe
from .report import Layer, Quality, Speed
from .samples import Slot
from .weights import quantize_weights

WORKER = "onnxlift.workbench.quantize.worker"
LARGE = 1_500_000_000
"""Files of more bytes than this get their weights in a second file."""
MEMORY_FACTOR = 4.0
"""How many times the bytes of the model ONNX Runtime's quantiser takes (benchmarks/quantize.py --memory prints it)."""
MEMORY_BASE = 300_000_000


@dataclass(frozen=True)
class Samples:
    """Where samples are, how many of them noise is measured on, and whether they were made up."""

    path: Path
    most: int | None = None
    made_up: bool = False


@dataclass(frozen=True)
class Wanted:
    """What to measure of a quantised model."""

    samples: Samples
    outputs: bool = True
    layers: bool = True
    totals: bool = False
    speed: bool = False


@dataclass(frozen=True)
class Made:
    """A quantised model: its file, the model itself if we made it ourselves, and what was measured of it.

    `layers` is None if they were not measured."""

    path: Path
    model: ir.Model | None = None
    outputs: tuple[Quality, ...] = ()
    layers: tuple[Layer, ...] | None = None
    measured_on: int = 0
    speed: Speed | None = None


class Work:
    """The folder `job` with the model that is to be quantised (`prepared`), and what is known of it by now.

    `out_of_range` are the nodes whose values no steps can cover, `calibrated_on` the number of samples."""

    def __init__(
        self,
        job: Path,
        original: ModelFile,
        prepared: ir.Model,
        recipe: Recipe,
        slots: Iterable[Slot],
        limits: Limits,
        pictures: PictureSettings,
    ) -> None:
        self.job, self.original, self.prepared, self.limits = job, original, prepared, limits
        self.pictures = pictures
        self.recipe = recipe
        self.slots = list(slots)
        self.size = file_size(prepared)
        self.is_large = self.size > LARGE
        if recipe.runs_engine:
            self._check_memory()
        self.model = write_model(prepared, job / "float.onnx", external_data=self._data("float"))[0]
        self.ranges: dict[str, Any] | None = None
        self.out_of_range: tuple[str, ...] = ()
        self.calibrated_on = 0
        self._count = 0

    def calibrate(self, samples: Samples) -> None:
        """Find the ranges of all values on samples."""
        self._run(["calibrate"], "calibrating", samples=str(samples.path))

    def make(self, keep: Collection[str], wanted: Wanted | None, calibrate: Samples | None = None) -> Made:
        """Quantise the model, except for the nodes to keep, and measure what is wanted."""
        self._count += 1
        path = self.job / f"result_{self._count}.onnx"
        steps: list[str] = []
        layers_in = path
        if self.recipe.runs_engine:
            steps = ["quantize"] if self.ranges is not None else ["calibrate", "quantize"]
            model = None
            if self.recipe.mode == "static" and self.recipe.format == "qoperator":
                layers_in = self.job / f"result_{self._count}_qdq.onnx"
        else:
            model = self._made_here(path, keep)
        task: dict[str, Any] = {"keep": sorted(keep), "result": str(path), "layers_in": str(layers_in)}
        task["samples"] = None if calibrate is None else str(calibrate.path)
        if wanted is not None:
            steps += ["measure"] if wanted.outputs or wanted.layers else []
            steps += ["time"] if wanted.speed else []
            task |= {"measured": str(wanted.samples.path), "most": wanted.samples.most}
            task |= {f"wants_{name}": getattr(wanted, name) for name in ("outputs", "layers", "totals")}
        answer = self._run(steps, "ONNX Runtime", **task) if steps else {}
        rows, speed = answer.get("layers"), answer.get("speed")
        return Made(
            path,
            model,
            tuple(Quality.of(name, noise) for name, noise in answer.get("outputs", {}).items()),
            None if rows is None else tuple(map(_layer, rows)),
            answer.get("measured_on", 0),
            None if speed is None else Speed(**{**speed, "quartiles": tuple(speed["quartiles"])}),
        )

    def drop(self, made: Made) -> None:
        """Remove the files of a quantised model that is not needed any more."""
        for file in self.job.glob(f"{made.path.stem}[._]*"):
            file.unlink()

    def _made_here(self, path: Path, keep: Collection[str]) -> ir.Model:
        """Quantise without ONNX Runtime's quantiser, and write the file that is measured."""
        mode = self.recipe.mode
        if mode == "weights":
            model = quantize_weights(self.prepared, self.recipe, keep)
        else:
            model = convert_precision(self.prepared, mode, keep)
        shown = emulated(model) if mode == "bfloat16" else model
        write_model(shown, path, external_data=self._data(path.stem))
        return model

    def _data(self, name: str) -> str:
        return f"{name}.data" if self.is_large else "auto"

    def _check_memory(self) -> None:
        """Raise a QuantizeError if there is not enough memory for ONNX Runtime's quantiser, which loads it all."""
        needed, allowed = int(MEMORY_BASE + MEMORY_FACTOR * self.size), self.limits.bytes
        if allowed is not None and needed > allowed:
            raise QuantizeError(
                f"ONNX Runtime's quantiser takes about {format_bytes(needed)} of memory for a model of "
                f"{format_bytes(self.size)}, and may take {format_bytes(allowed)}: raise the limit (--memory), or "
                "quantise weights only (--mode weights) or to float16 (--mode float16), which go weight by weight."
            )

    def _run(self, steps: list[str], who: str, **more: Any) -> dict[str, Any]:
        task = {
            "steps": steps,
            "model": str(self.model),
            "original": str(self.original.path),
            "folder": str(self.original.folder),
            "slots": [slot.to_dict() for slot in self.slots],
            "pictures": asdict(self.pictures),
            "is_large": self.is_large,
            "recipe": self.recipe.to_dict(),
            "ranges": self.ranges or {},
            "out_of_range": list(self.out_of_range),
            **more,
        }
        try:
            answer = run_child(self.job, task, who, self.limits, WORKER)
        except ChildError as error:
            raise QuantizeError(f"the model could not be quantised: {_short(str(error))}") from error
        if "trouble" in answer:
            raise OnnxLiftError(answer["trouble"])
        if "ranges" in answer:
            self.ranges = answer["ranges"]
            self.out_of_range = tuple(answer["out_of_range"])
            self.calibrated_on = answer["calibrated_on"]
            self.recipe = Recipe.of(answer["recipe"])
        return answer


def file_size(model: ir.Model) -> int:
    """Return the bytes that the model takes as a file, with its weights."""
    proto, tensors = skeleton(model)
    return int(proto.ByteSize()) + sum(each.tensor.nbytes for each in tensors)


def _layer(row: Mapping[str, Any]) -> Layer:
    total = None if row["total"] is None else Quality.of(row["value"], row["total"])
    return Layer(row["name"], row["op_type"], Quality.of(row["value"], row["own"]), total)


def _short(text: str, most: int = 1500) -> str:
    return text if len(text) <= most else f"{text[:most]}..."
