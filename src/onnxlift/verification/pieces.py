"""Compare a model with values of others: a part of a model with the whole, or two models that were joined with the two.

The originals run one after the other, each on what is known by then, and leave values from their outputs or from inside
their main graphs. The result runs on such values, too, and its outputs must be the same. All run in children with
limits, at two sizes where sizes are open, as in `models`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx_ir as ir

from onnxlift.ir.inference.infer import infer
from onnxlift.ir.load import load
from onnxlift.ir.reading.draft import unwrapped
from onnxlift.ir.reading.weights import data_files
from onnxlift.sizes import parse_size

from .children.child import ChildError, Limits
from .compare import Comparison, as_carried
from .given import Given, Inputs, read_given
from .judge import Judge, compare_outputs
from .model_file import ModelFile, model_file
from .models import ModelVerification, Pair, multiplies_bytes, run_file, title
from .values import read_values, write_values


@dataclass(frozen=True)
class Piece:
    """A model that computes some values of a whole.

    `reads` says which value of the whole each of its inputs is, `gives` which ones its values are: outputs, or values
    inside its main graph."""

    model: Any
    reads: Mapping[str, str]
    gives: Mapping[str, str]


def verify_pieces(
    originals: Sequence[Piece],
    result: Piece,
    *,
    inputs: Inputs = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    seed: int = 0,
    rtol: float | None = None,
    atol: float | None = None,
    timeout: float = 300.0,
    memory: int | str | None = None,
) -> ModelVerification:
    """Compare the outputs of `result` with the values that the `originals` give, at two sizes if sizes are open.

    Inputs are made up for the only original, or, if there are several, for the result. Raises a VerifyError if the
    originals do not run, or a limit is reached."""
    sources = [unwrapped(piece.model) for piece in (*originals, result)]
    models = [load(source) for source in sources]
    for model in models:
        infer(model)
    given = Given(read_given(inputs), shapes, dict(dims or {}), seed)
    with tempfile.TemporaryDirectory(prefix="onnxlift-") as folder:
        job = Path(folder)
        files = [
            model_file(source, data_files(model), job, f"model_{number}")
            for number, (source, model) in enumerate(zip(sources, models, strict=True))
        ]
        limits = Limits(timeout, None if memory is None else parse_size(memory))
        whole = models[0] if len(originals) == 1 else models[-1]
        runs = [_Original(*each) for each in zip(originals, models[:-1], files[:-1], strict=True)]
        pair = _Pieces(job, runs, whole, result, models[-1], files, limits, Judge(models[-1].graph, rtol, atol))
        name = " and ".join(title(source, "the original") for source in dict.fromkeys(map(_hashable, sources[:-1])))
        return pair.compare(given, name, title(sources[-1], "the result"))


def _hashable(source: Any) -> Any:
    return source if isinstance(source, str | Path) else "the original"


@dataclass(frozen=True)
class _Original:
    piece: Piece
    model: ir.Model
    file: ModelFile


class _Pieces(Pair):
    """The originals and the result in the folder `job`."""

    def __init__(
        self,
        job: Path,
        originals: Sequence[_Original],
        whole: ir.Model,
        piece: Piece,
        result: ir.Model,
        files: Sequence[ModelFile],
        limits: Limits,
        judge: Judge,
    ) -> None:
        super().__init__(job, whole, result, (files[0], files[-1]), limits, judge)
        self.originals = originals
        self.piece = piece
        self.exact = any(multiplies_bytes(each.model) for each in originals)
        self.known: dict[str, Any] = {}

    def problems(self) -> Iterator[str]:
        """Yield nothing: the caller says what belongs to what."""
        yield from ()

    def run_original(self, values: Mapping[str, Any]) -> str:
        self.known = dict(values)
        return self._run_originals(self.known)

    def _run_originals(self, known: dict[str, Any], folder: str = "", **how: Any) -> str:
        """Run the originals one after the other, and add what they compute to the values that are known."""
        runtime = ""
        for number, each in enumerate(self.originals):
            reads, gives = each.piece.reads, each.piece.gives
            inputs, results = f"inputs{folder}_{number}", f"values{folder}_{number}"
            own = {name: known[of_whole] for name, of_whole in reads.items() if of_whole in known}
            write_values(self.job / inputs, own)
            outputs = {value.name for value in each.model.graph.outputs}
            task = {
                "inputs": inputs,
                "results": results,
                "outputs": [name for name in gives if name in outputs],
                "inside": [name for name in gives if name not in outputs],
                "exact": self.exact,
                **how,
            }
            runtime = run_file(self.job, each.file, task, "the original", self.limits)
            found = read_values(self.job / results)
            known |= {gives[name]: value for name, value in found.items()}
        return runtime

    def own_inputs(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self.known[of_whole] for name, of_whole in self.piece.reads.items() if of_whole in self.known}

    def compared(self) -> tuple[Comparison, ...]:
        found = read_values(self.job / "result")
        actual = {name: as_carried(found[name]) for name in self.piece.gives}
        expected = {name: self.known[of_whole] for name, of_whole in self.piece.gives.items()}
        return compare_outputs(self.result, actual, expected, self.judge)

    def run_otherwise(self, values: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
        """Return values of the originals in which only the rounding is another, each with the reason for it."""
        ways: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
            "with and without its optimisations": (dict(values), {"optimised": True}),
            "if inputs and weights change in their last digit": (self.judge.nudged(values), {"nudged": True}),
        }
        found: list[tuple[str, Mapping[str, Any]]] = []
        for number, (reason, (known, how)) in enumerate(ways.items()):
            try:
                self._run_originals(known, f"_other{number}", **how)
            except ChildError:
                continue  # it says nothing about the rounding
            found.append((reason, {name: known[of_whole] for name, of_whole in self.piece.gives.items()}))
        return found
