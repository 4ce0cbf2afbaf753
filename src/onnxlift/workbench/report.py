"""What the verbs that change a model have in common: how they open it, what they return, and that they prove it."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import onnx
import onnx_ir as ir

from onnxlift.errors import VerifyError
from onnxlift.ir.graph.walk import regions
from onnxlift.ir.load import load
from onnxlift.ir.reading.draft import Source
from onnxlift.ir.writing.files import write_model
from onnxlift.ir.writing.proto import skeleton, to_proto
from onnxlift.ir.writing.stream import Progress, write_stream
from onnxlift.stages import Record
from onnxlift.terminal import plain
from onnxlift.unforeseen import answered
from onnxlift.verification.models import ModelVerification, verify_models
from onnxlift.verification.pieces import Piece, verify_pieces


@dataclass(frozen=True)
class Checking:
    """How the result of a verb is compared with the original: the options of `verify`, or not at all (`wanted`)."""

    wanted: bool = True
    inputs: Any = None
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    dims: Mapping[str, int] = field(default_factory=dict)
    seed: int = 0
    rtol: float | None = None
    atol: float | None = None
    timeout: float = 300.0
    memory: int | str | None = None

    def compare(self, original: Any, result: Any) -> ModelVerification | None:
        """Compare two models; None if it is not wanted."""
        with told():
            return verify_models(original, result, **self.options()) if self.wanted else None

    def compare_pieces(self, originals: Sequence[Piece], result: Piece) -> ModelVerification | None:
        """Compare a model with values that others compute; None if it is not wanted."""
        with told():
            return verify_pieces(originals, result, **self.options()) if self.wanted else None

    def options(self) -> dict[str, Any]:
        """Return the options of `verify`."""
        return {name: value for name, value in vars(self).items() if name != "wanted"}


@contextmanager
def told() -> Iterator[None]:
    """Say of an error in comparing two models that the result is not given because of it."""
    try:
        yield
    except VerifyError as error:
        raise VerifyError(
            f"the result could not be compared with the original, so it is not given: {error} Or leave out the "
            "comparison (--no-verify, verify=False)."
        ) from error


@dataclass(frozen=True)
class ModelReport:
    """The result of a verb that changes a model: the new `model`, and whether it was found to compute the same.

    Every verb takes it in the place of a model. It is true if nothing is wrong, and readable when printed."""

    name: str
    model: ir.Model = field(repr=False)
    verification: ModelVerification | None = field(default=None, kw_only=True)
    """How the result compares with the original; None if nobody asked."""
    notes: tuple[str, ...] = field(default=(), kw_only=True)

    @property
    def passed(self) -> bool:
        """Tell whether the result computes what the original does, as far as that was checked."""
        return self.verification is None or self.verification.passed

    @property
    def ok(self) -> bool:
        """Tell whether the command's answer is yes. A result that `passed` is written all the same."""
        return self.passed

    def __bool__(self) -> bool:
        return self.passed

    @property
    def why_not_written(self) -> str:
        """What to tell of a result that is not written, because it has not passed."""
        return "--no-verify writes it all the same"

    def proto(self) -> onnx.ModelProto:
        """Return the result as a ModelProto. Beyond 2 GiB there is none: save it."""
        with answered():
            return to_proto(self.model)

    def to_bytes(self) -> bytes:
        """Return the result as the bytes of an ONNX file."""
        with answered():
            proto, tensors = skeleton(self.model)
            file = io.BytesIO()
            write_stream(proto, tensors, file)
        return file.getvalue()

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        force: bool = False,
        external_data: str = "auto",
        on_progress: Progress | None = None,
    ) -> list[Path]:
        """Write the result to `path`, and return the files that were written.

        `external_data` is "never", the name of a file for the weights, or "auto": only what exceeds 2 GiB gets one.
        Files that are there already are replaced only with `force`."""
        with answered():
            return write_model(
                self.model, Path(path), external_data=external_data, force=force, on_progress=on_progress
            )

    def verified(self, original: Any, checking: Checking) -> Self:
        """Return the same report with a comparison of the result and the original."""
        return replace(self, verification=checking.compare(original, self.model))

    def facts(self) -> dict[str, Any]:
        """Return what this verb has to tell, as plain dicts and lists."""
        return {}

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain dicts and lists, for `json.dumps`."""
        verification = None if self.verification is None else self.verification.to_dict()
        return {"passed": self.passed, **self.facts(), "verification": verification, "notes": list(self.notes)}

    def lines(self) -> list[str]:
        """Return what this verb has to tell, line by line."""
        return []

    def __str__(self) -> str:
        lines = [plain(self.name), *self.lines(), *(f"  note           {note}" for note in self.notes)]
        if self.verification is not None:
            lines.append(f"  verified       {self.verification.summary}")
            lines += [f"  note           {note}" for note in self.verification.notes]
        return "\n".join(lines)


def open_model(source: Source, record: Record | None = None) -> ir.Model:
    """Return the model in `source` as a new onnx_ir.Model that can be written as ONNX again."""
    return load(source, record, faithful=True)


def name_of(source: Any, model: ir.Model) -> str:
    """Return what to call a model in a report: its file's name, or the graph's."""
    if isinstance(source, str | os.PathLike):
        return Path(source).name
    return str(getattr(source, "name", "") or model.graph.name or "model")


def weight_bytes(model: ir.Model) -> int:
    """Return the size of all weights of a model."""
    tensors = (value.const_value for region in regions(model) for value in region.graph.initializers.values())
    return sum(t.nbytes for t in tensors if t is not None and t.dtype != ir.DataType.STRING)
