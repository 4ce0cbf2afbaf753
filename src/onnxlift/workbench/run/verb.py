"""`run`: run a model on inputs with ONNX Runtime, or as the lifted module, in a child process with limits."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from onnxlift.api import lift
from onnxlift.errors import OnnxLiftError, OutputError, quote
from onnxlift.saving import save_files
from onnxlift.verification.children.child import ChildError
from onnxlift.verification.given import Given, Inputs
from onnxlift.verification.values import read_values

from ..runtime.file_inputs import PictureSettings, read_files
from ..runtime.node_times import NodeTimes, profile_nodes
from ..runtime.placement import check_placement
from ..runtime.prepared import Prepared, prepare, title_of
from ..runtime.settings import Providers, Settings, require_runtime, settings_from
from ..runtime.timings import Timings, timings_of_lifted, timings_of_nodes
from ..values import MainValues
from .report import RunReport

LARGEST_FILE = 1_500_000_000
"""An optimised model with more bytes of weights is written with its weights in a file beside it."""
_FILES = Sequence[str | os.PathLike[str]]


@dataclass(frozen=True)
class _Wanted:
    """What is asked for beyond the outputs: files to write, a profile, and where nodes may run."""

    optimised: Path | None
    trace: Path | None
    profile: bool
    runs: int
    strict: bool
    force: bool


def run(
    source: Any,
    *,
    inputs: Inputs = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    seed: int = 0,
    outputs: str | Sequence[str] = (),
    providers: str | Providers = (),
    strict_provider: bool = False,
    options: Mapping[str, Any] | None = None,
    threads: int | None = None,
    optimized: str | os.PathLike[str] | None = None,
    profile: bool | str | os.PathLike[str] = False,
    runs: int = 5,
    lifted: bool = False,
    custom_ops: str | os.PathLike[str] | _FILES = (),
    mean: float | Sequence[float] = (),
    std: float | Sequence[float] = (),
    fit: str = "crop",
    force: bool = False,
    timeout: float = 300.0,
    memory: int | str | None = None,
) -> RunReport:
    """Run the model in `source`, and return what it computes.

    `inputs` are arrays by name or in order, or files: .npy, .npz, .pb, pictures for an input that looks like one, texts
    for one of strings. Those that are missing are made up, as for `verify`. Pixels become `(pixel - mean) / std`, and a
    picture is cropped, stretched or padded to the size that the model declares (`fit`). `outputs` are those to compute,
    also values inside the main graph.

    ONNX Runtime runs it on the `providers`, in this order, with session `options`. With `strict_provider` it is an
    error if nodes run on the CPU that is not among them. `optimized` names a file for the graph that ONNX Runtime has
    made of the model. `custom_ops` are libraries of operators (.so) or Python files: **these are executed**. With
    `lifted`, the lifted module runs instead.

    `profile` measures where the time goes, over a number of `runs`; if it is a path, the trace is written there, for
    Perfetto. The model runs in a child that may take `timeout` seconds and `memory` bytes."""
    settings = settings_from(providers=providers, options=options, threads=threads, custom_ops=custom_ops)
    pictures = PictureSettings.of(mean, std, fit)
    wanted = _Wanted(
        None if optimized is None else Path(optimized),
        None if isinstance(profile, bool) else Path(profile),
        profile is not False,
        runs,
        strict_provider,
        force,
    )
    _check(settings, wanted, lifted)
    with tempfile.TemporaryDirectory(prefix="onnxlift-") as folder:
        prepared = prepare(source, Path(folder), timeout=timeout, memory=memory)
        values, notes = read_files(inputs, prepared.model.graph, pictures, shapes=shapes, dims=dims)
        prepared = replace(prepared, given=Given(values, shapes, dict(dims or {}), seed))
        names = [outputs] if isinstance(outputs, str) else list(outputs)
        names = names or prepared.outputs
        runner = (_Lifted if lifted else _Ort)(prepared, settings, names, wanted)
        made = runner.run()
        found = read_values(prepared.job / "results")
        results = {name: _own(found[name]) for name in dict.fromkeys(names)}
        timings = runner.profile() if wanted.profile or wanted.strict else None
        return RunReport(
            title_of(prepared.source, prepared.model),
            runner.runtime,
            made,
            results,
            made_up=tuple(name for name in made if name not in _given_names(prepared)),
            seed=seed,
            timings=timings if wanted.profile else None,
            notes=(*notes, *runner.notes),
            written=tuple(runner.write()),
        )


class _Ort:
    """A run by ONNX Runtime."""

    def __init__(self, prepared: Prepared, settings: Settings, names: Sequence[str], wanted: _Wanted) -> None:
        self.prepared = prepared
        self.settings = settings
        self.wanted = wanted
        self.runtime = ""
        self.notes: list[str] = []
        known = MainValues(prepared.model)
        for name in names:
            known.find(name)
        inside = [name for name in names if name not in prepared.outputs]
        self.task: dict[str, Any] = {"outputs": list(names), "inside": inside, **settings.to_task()}
        if wanted.optimised is not None:
            self.task["optimised"] = str(prepared.job / wanted.optimised.name)
            if _weight_bytes(prepared) > LARGEST_FILE:
                self.task["optimised_data"] = f"{wanted.optimised.name}.data"

    def run(self) -> dict[str, Any]:
        """Run the model, and return the inputs that it has taken."""
        answer: dict[str, Any] = {}

        def attempt(values: Mapping[str, Any]) -> None:
            try:
                answer.update(self.prepared.run(self.task, values))
            except ChildError as error:
                if "is not a registered function/op" not in str(error):
                    raise
                raise OnnxLiftError(f"{error} Name the file that defines the operator (--custom-op).") from error

        made = self.prepared.given.taken_by(self.prepared.model.graph, attempt)
        self.runtime = answer["runtime"]
        if answer.get("in_python"):
            count = answer["in_python"]
            self.notes.append(f"onnx's evaluator ran {count:,} node{'s' * (count > 1)} whose operators are in Python")
        self.notes += check_placement(self.settings, answer.get("providers", ()), strict=self.wanted.strict)
        return made

    def profile(self) -> Timings:
        """Run the model again with a trace. Raises a ProviderError if a node runs where it must not."""
        task: dict[str, Any] = {"warmup": 1, "runs": self.wanted.runs, "outputs": self.task["outputs"]}
        task |= {"inside": self.task["inside"], "trace": str(self.prepared.job / "trace.json")}
        times: NodeTimes = profile_nodes(self.prepared, self.settings, task)
        if self.wanted.strict:
            check_placement(self.settings, (), times=times, strict=True)
        return timings_of_nodes(times, self.prepared.source, self.prepared.model)

    def write(self) -> list[Path]:
        """Move the files that were asked for to their places, and return them."""
        written: list[Path] = []
        if self.wanted.optimised is not None:
            files = [Path(self.task["optimised"])]
            files += [files[0].with_name(self.task["optimised_data"])] if "optimised_data" in self.task else []
            written += _move([file for file in files if file.is_file()], self.wanted.optimised, self.wanted.force)
        if self.wanted.trace is not None:
            written += _move([self.prepared.job / "trace.json"], self.wanted.trace, self.wanted.force)
        return written


class _Lifted:
    """A run of the lifted module."""

    def __init__(self, prepared: Prepared, settings: Settings, names: Sequence[str], wanted: _Wanted) -> None:
        self.prepared = prepared
        self.settings = settings
        self.wanted = wanted
        self.runtime = ""
        self.notes: list[str] = []
        unknown = [name for name in names if name not in prepared.outputs]
        if unknown:
            raise OnnxLiftError(
                f"the lifted module gives the model's outputs, and {quote(unknown[0])} is none of them: they are "
                f"{', '.join(prepared.outputs)}."
            )
        for file in settings.python:
            _register(file)
        module = lift(prepared.source)
        path = module.save(prepared.job / "lifted")[0]
        self.task = {"engine": "lifted", "source": str(path), "outputs": prepared.outputs, "threads": settings.threads}
        if wanted.profile:
            self.task |= {"warmup": 1, "runs": wanted.runs, "trace": str(prepared.job / "trace.json")}
        self.answer: dict[str, Any] = {}

    def run(self) -> dict[str, Any]:
        values = self.prepared.given.make(self.prepared.model.graph)
        try:
            self._answer(values)
        except ChildError as error:
            if not error.refused:
                raise
            values = self._found(error)
            self._answer(values)
        return values

    def _answer(self, values: Mapping[str, Any]) -> None:
        self.answer = self.prepared.run(self.task, values, "the lifted module")
        self.runtime = f"the lifted module, {self.answer['runtime']}"

    def _found(self, error: ChildError) -> dict[str, Any]:
        """Return inputs that ONNX Runtime takes, if it refuses the first as well. Else the module is at fault."""
        task = {"outputs": self.prepared.outputs, **Settings().to_task()}
        first = self.prepared.given.make(self.prepared.model.graph)
        try:
            require_runtime()
            self.prepared.run(task, first)
        except ChildError as refused:
            if not refused.refused:
                raise error from refused
            return self.prepared.given.taken_by(
                self.prepared.model.graph, lambda values: self.prepared.run(task, values), "the lifted module"
            )
        raise error

    def profile(self) -> Timings:
        return timings_of_lifted(self.answer["rows"], self.answer["total"], self.wanted.runs)

    def write(self) -> list[Path]:
        if self.wanted.trace is None:
            return []
        return _move([self.prepared.job / "trace.json"], self.wanted.trace, self.wanted.force)


def _register(file: str) -> None:
    """Execute a Python file that the user has named. It registers operators with @onnxlift.op."""
    try:
        runpy.run_path(file)
    except (SyntaxError, ImportError, NameError, AttributeError, TypeError, ValueError, KeyError, OSError) as error:
        raise OnnxLiftError(f"{file!r} cannot be executed: {type(error).__name__}: {error}.") from error


def _check(settings: Settings, wanted: _Wanted, lifted: bool) -> None:
    """Refuse what does not go together, and files that are there already, before anything runs."""
    if not lifted:
        require_runtime()
    of_runtime = {
        "a provider": settings.providers or wanted.strict,
        "a session option": settings.options,
        "an optimised model": wanted.optimised is not None,
        "a library of custom operators": settings.libraries,
    }
    if lifted and any(of_runtime.values()):
        what = next(name for name, given in of_runtime.items() if given)
        raise OnnxLiftError(f"{what} is for ONNX Runtime, and the lifted module does not run there.")
    if wanted.strict and not settings.providers:
        raise OnnxLiftError("--strict-provider needs a provider on which nodes are to run (--provider).")
    if settings.python and not lifted and (wanted.profile or wanted.optimised or wanted.strict):
        raise OnnxLiftError(
            "a model with operators in Python is run in pieces: it has no profile and no optimised graph."
        )
    if wanted.runs < 1:
        raise OnnxLiftError("a profile needs one run at least (--runs).")
    for path in filter(None, (wanted.optimised, wanted.trace)):
        if path.exists() and not wanted.force:
            raise OutputError(f"{str(path)!r} is there already: pass --force to replace it, or write to another file.")


def _move(files: Sequence[Path], target: Path, force: bool) -> list[Path]:
    """Move files to the folder of `target`, the first under its name."""

    def write(folder: Path) -> list[Path]:
        return [Path(shutil.move(file, folder / (target.name if file is files[0] else file.name))) for file in files]

    ours = re.compile(rf"{re.escape(target.name)}(\.data)?")
    return save_files(target.parent, target.name, write, ours=ours, last=target.name, force=force)


def _weight_bytes(prepared: Prepared) -> int:
    tensors = (value.const_value for value in prepared.model.graph.initializers.values())
    return sum(tensor.nbytes for tensor in tensors if tensor is not None)


def _given_names(prepared: Prepared) -> set[str]:
    values = prepared.given.values
    if isinstance(values, Mapping):
        return set(values)
    return {value.name or "" for value in prepared.model.graph.inputs[: len(values)]}


def _own(value: Any) -> Any:
    """Return a value that does not lie in a file."""
    if isinstance(value, list):
        return [_own(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _own(item) for key, item in value.items()}
    return None if value is None else np.array(value)
