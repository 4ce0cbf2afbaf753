"""`update`: new weights for an ONNX file, put back to where the lifted model took the old ones from.

    model.onnx ─▶ lifted, trained ─▶ model.onnx again, node for node, with the trained weights

The model is lifted once more, and every weight is traced back to the tensors of the file (recording.py). The new
numbers go the same way back (solving.py) and into the file (file.py). Two proofs follow: the result is lifted, and must
give the weights that were put in; and ONNX Runtime must compute with it what the lifted model computes with them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import onnx

from onnxlift.errors import OnnxLiftError
from onnxlift.ir.load import load
from onnxlift.ir.writing.stream import Progress
from onnxlift.lifting.modules.members.ties import find_ties
from onnxlift.report import patterns
from onnxlift.rewriting.element_type import parse_dtype
from onnxlift.unforeseen import answered

from ..report import Checking, ModelReport, name_of
from .checking import changed, matched
from .file import ModelFile
from .given import GivenWeights, read_weights
from .proving import compare_with_trained, relifted
from .recording import Recording, record
from .reexport import export_again
from .solving import Problem, Solution, solve

if TYPE_CHECKING:
    import os

    import torch

MOST_SHOWN = 8


class UpdateError(OnnxLiftError):
    """Some weights have no place in the file. `problems` lists all of them."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        listed = "; ".join(map(str, problems[:MOST_SHOWN]))
        more = f"; and {len(problems) - MOST_SHOWN} more" if len(problems) > MOST_SHOWN else ""
        super().__init__(
            f"{len(problems)} of the weights cannot be put back into the file: {listed}{more}. Keep these weights as "
            "they were in training, or let torch export the model anew (--reexport, reexport=True)."
        )


@dataclass(frozen=True)
class UpdateReport(ModelReport):
    """An ONNX file with new weights: which of them have changed, and which tensors of the file."""

    weights: tuple[str, ...] = ()
    """The keys of the weights that differ from those of the original."""
    total: int = 0
    """The number of all weights."""
    tensors: tuple[str, ...] = ()
    """The names of the tensors in the file that have new numbers."""
    added: tuple[str, ...] = ()
    """The names of tensors that the file did not have: where it had stored equal weights once, or dropped zeros."""
    reexported: bool = False
    """Whether torch has exported the model anew, so that the graph is another one."""
    lost: str = ""
    """Why the result is not what was asked for, if it does not lift to the given weights."""
    file: ModelFile | None = field(default=None, repr=False)

    @property
    def passed(self) -> bool:
        """Tell whether the result has the given weights, as far as that was checked."""
        return not self.lost and super().passed

    def proto(self) -> onnx.ModelProto:
        """Return the result as a ModelProto. Beyond 2 GiB there is none: save it."""
        if self.file is None:
            return super().proto()
        proto = onnx.ModelProto()
        proto.ParseFromString(self.to_bytes())
        return proto

    def to_bytes(self) -> bytes:
        """Return the result as the bytes of an ONNX file: those of the original, if no weight has changed."""
        if self.file is None:
            return super().to_bytes()
        with answered():
            return self.file.to_bytes()

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        force: bool = False,
        external_data: str = "auto",
        on_progress: Progress | None = None,
    ) -> list[Path]:
        """Write the result to `path`, and return the files that were written.

        `external_data` is "never", the name of a file for the weights, or "auto": as the original has it. Files that
        are there already are replaced only with `force`."""
        if self.file is None:
            return super().save(path, force=force, external_data=external_data, on_progress=on_progress)
        with answered():
            return self.file.save(Path(path), external_data=external_data, force=force, on_progress=on_progress)

    def facts(self) -> dict[str, Any]:
        return {
            "weights": {"changed": list(self.weights), "total": self.total},
            "tensors": {"changed": list(self.tensors), "added": list(self.added)},
            "reexported": self.reexported,
            "lost": self.lost,
        }

    def lines(self) -> list[str]:
        lines = [f"  weights        {len(self.weights):,} of {self.total:,} have changed"]
        if self.reexported:
            return [*lines, "  exported       anew, by torch: the graph is another one"]
        same = "" if self.tensors or self.added else ": the file is the same, byte for byte"
        lines.append(f"  tensors        {len(self.tensors):,} of the file have new numbers{same}")
        if self.added:
            shown = ", ".join(patterns(self.added)[:MOST_SHOWN])
            lines.append(f"  added          {len(self.added):,} that the file did not have: {shown}")
        if self.lost:
            lines.append(f"  LOST           {self.lost}")
        return lines


def update(
    source: Any,
    weights: Any,
    *,
    simplify: bool = True,
    skip_passes: Collection[str] = (),
    structure: Literal["names", "repetition", "flat"] | None = None,
    dtype: torch.dtype | str | None = None,
    dequantize: bool = False,
    reexport: bool = False,
    verify: bool = True,
    **checking: Any,
) -> UpdateReport:
    """Return the model in `source` with new weights: those of the lifted model, after training.

    `weights` is the trained module, its state dict, or the path of a safetensors or `.pt` file. The graph stays as it
    is, node for node, with its operators, names, metadata and interface. If no weight differs from that of the model,
    the result has the bytes of the original.

    `simplify`, `skip_passes`, `structure`, `dtype` and `dequantize` are the options with which the model was lifted, if
    it was with any.
    A weight that the file has no place for is an UpdateError, which lists all of them. With `reexport`, torch exports
    the trained module in that case, and the graph is another one. Unless `verify` is False, the result is lifted, and
    must have the given weights; and ONNX Runtime must compute with it what the module computes, on inputs that
    `checking` can tell of with the options of `verify`."""
    options: dict[str, Any] = {"simplify": simplify, "skip_passes": skip_passes, "structure": structure}
    options |= {"dtype": parse_dtype(dtype), "dequantize": dequantize}
    given = read_weights(weights)
    with answered():
        file = ModelFile.read(source)
        recording = record(file.source, **options)
        ties = find_ties(recording.entries)
        matches = matched(given, recording.entries, ties)
        keys = changed(given, matches, recording.entries)
        new = GivenWeights(given, {key: matches[key] for key in keys})
        solution = solve(recording, new, ties)
        shared = {problem.shared for problem in solution.problems}
        if shared and "" not in shared:
            solution = _solve_apart(file, recording, shared, options, new) or solution
        tensors, added = _put(file, solution)
    lifted = recording.lifted
    assert lifted is not None
    name = name_of(source, lifted.model)
    facts: dict[str, Any] = {"weights": tuple(keys), "total": len(matches)}
    trained = lifted.with_weights(GivenWeights(given, matches))
    check = Checking(verify, **checking)
    if solution.problems:
        if not reexport:
            raise UpdateError(solution.problems)
        model = load(export_again(trained, check), faithful=True)
        report = UpdateReport(name, model, **facts, reexported=True)
    else:
        with answered():
            model = load(file.skeleton, faithful=True)
        lost = "" if not verify or not file.is_changed else relifted(file, options, trained)
        report = UpdateReport(name, model, **facts, tensors=tensors, added=added, lost=lost, file=file)
    if not verify or not (file.is_changed or report.reexported):
        return report
    verification, notes = compare_with_trained(report.model, trained, check, name)
    return replace(report, verification=verification, notes=notes)


def _solve_apart(
    file: ModelFile, first: Recording, shared: Collection[str], options: dict[str, Any], new: GivenWeights
) -> Solution | None:
    """Solve it with a constant of its own for each reader of those that several weights share.

    Return None if the model has other weights then, so that nobody can tell which reader needs which."""
    recording = record(file.source, shared, **options)
    if [*recording.entries] != [*first.entries]:
        return None
    solution = solve(recording, new, find_ties(recording.entries))
    return None if solution.problems else solution


def _put(file: ModelFile, solution: Solution) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Put the new numbers into the file; return the names of the tensors that have changed, and of those added."""
    names = file.put(solution.changed)
    for new in solution.added:
        if file.add(new) is None:
            readers = ", ".join(repr(node) for node, _, _ in new.readers[:3])
            reason = f"it would need a tensor of its own, but the file has it in a function or a subgraph ({readers})"
            solution.problems.extend(Problem(key, reason) for key in new.keys)
    return tuple(names), tuple(file.added)
