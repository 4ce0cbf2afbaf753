"""What a batch will do: which models there are, what is done with each, and where the results go.

configuration ─▶ models ─▶ a look at each, in children ─▶ sizes that are missing, all at once ─▶ a plan
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from onnxlift.errors import quote
from onnxlift.terminal import plain

from .children import Children, Limits
from .config import Config, Inputs
from .located import ConfigError
from .look import Look, digest
from .steps import is_saved, parameters

CHUNK = 50
"""So many models one child looks at."""
LOOK_SECONDS, LOOK_BYTES = 30, 20_000_000
"""What looking at models may take: so many seconds, and one for so many bytes."""
MOST_SHOWN = 50
PACKAGES = ("onnxlift", "onnx", "onnx-ir", "onnxruntime", "torch", "numpy")


@dataclass(frozen=True)
class Planned:
    """What is done with a model: the task of its child, and the key of its row."""

    model: str
    key: str
    task: Mapping[str, Any]

    @property
    def folder(self) -> Path:
        return Path(self.task["folder"])


@dataclass(frozen=True)
class Plan:
    """What a batch does: its configuration, and what is done with each model."""

    config: Config
    models: tuple[Planned, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain dicts and lists, for `json.dumps`."""
        models = [
            {"model": each.model, "folder": str(each.folder), "shapes": each.task["shapes"]} for each in self.models
        ]
        steps = [step.to_dict() for step in self.config.steps]
        return {
            "steps": steps,
            "folder": str(self.config.output_dir),
            "models": models,
            "notes": list(self.config.notes),
        }

    def __str__(self) -> str:
        steps = " -> ".join(map(str, self.config.steps))
        lines = [f"{_count(len(self.models), 'model')}: {steps}", f"  into {self.config.output_dir}/"]
        for each in self.models:
            fixed = ", ".join(f"{name} {list(shape)}" for name, shape in each.task["shapes"].items())
            folder = os.path.relpath(each.folder, self.config.output_dir.resolve())
            lines.append(f"    {plain(each.model)} -> {plain(folder)}/" + (f"  with {plain(fixed)}" if fixed else ""))
        return "\n".join([*lines, *(f"  note           {note}" for note in self.config.notes)])


def make_plan(config: Config) -> Plan:
    """Return what is to be done. Raises a ConfigError that lists all models whose sizes are missing."""
    _check_device(config)
    models = find_models(config)
    looks = dict(_looked_at(models, config))
    config = replace(config, notes=(*config.notes, *_unused(config, models)))
    shapes = {model: shapes_of(config, model, looks[model]) for model in models}
    problems = [*_wrong_shapes(config, shapes, looks), *_open_sizes(config, shapes, looks)]
    if problems:
        raise ConfigError("\n".join(problems))
    folders = _folders(models, config.output_dir)
    planned = [_planned(config, model, looks[model], shapes[model], folders[model]) for model in models]
    return Plan(config, tuple(planned))


def find_models(config: Config) -> list[str]:
    """Return the models that the configuration names, in its order, each once. Results of the batch are none."""
    found: dict[Path, str] = {}
    problems: list[str] = []
    results = config.output_dir.resolve()
    for entry in config.inputs:
        paths = [path for path in _matching(entry) if not path.resolve().is_relative_to(results)]
        for path in paths:
            found.setdefault(path.resolve(), str(path))
        if not paths:
            problems.append(f"{config.place(entry.line)}: {_nothing(entry)}")
    if problems:
        raise ConfigError("\n".join(problems))
    return list(found.values())


def _matching(entry: Inputs) -> list[Path]:
    path = Path(entry.path).expanduser()
    if path.is_dir():
        found = path.rglob(entry.pattern) if entry.recursive else path.glob(entry.pattern)
        return sorted(each for each in found if each.is_file())
    if path.exists() or not re.search(r"[*?\[]", entry.path):
        return [path] if path.is_file() else []
    return sorted(each for each in Path(path.anchor).glob(str(path.relative_to(path.anchor))) if each.is_file())


def _nothing(entry: Inputs) -> str:
    path = Path(entry.path).expanduser()
    if path.is_dir():
        below = " or below it" if entry.recursive else ""
        return f"no file in {quote(entry.path)}{below} matches {quote(entry.pattern)}."
    if re.search(r"[*?\[]", entry.path):
        return f"no file matches {quote(entry.path)}."
    return f"there is no file or folder {quote(entry.path)}."


def _looked_at(models: Sequence[str], config: Config) -> Iterator[tuple[str, Look]]:
    """Yield each model with what a child has seen in it; a child looks at many.

    A model that ends its child is not known any better, and another child goes on after it."""
    limits = limits_of(config)
    chunks = [list(models[start : start + CHUNK]) for start in range(0, len(models), CHUNK)]
    with Children("look", jobs=config.jobs) as children:
        while chunks:
            size = max(sum(map(_size, chunk)) for chunk in chunks)
            patience = replace(limits, seconds=min(limits.seconds, LOOK_SECONDS + size / LOOK_BYTES))
            left: list[list[str]] = []
            for number, ended in children.run([{"models": chunk} for chunk in chunks], patience):
                chunk = chunks[number]
                for model, told in zip(chunk, ended.told, strict=False):
                    yield model, Look(told["digest"], tuple(told.get("inputs", ())), told.get("open", {}))
                rest = chunk[len(ended.told) :]
                if rest:
                    yield rest[0], Look(digest([Path(rest[0])]))
                    left += [rest[1:]] if rest[1:] else []
            chunks = left


def limits_of(config: Config) -> Limits:
    """Return what each child of a batch may take."""
    return Limits.of(config.timeout, config.memory, config.jobs)


def _size(model: str) -> int:
    """Return the size of a file, 0 if it is gone by now."""
    try:
        return Path(model).stat().st_size
    except OSError:
        return 0


def entry_of(entries: Mapping[str, Any], model: str) -> str | None:
    """Return the key that is meant for a model: its path, or else the first glob that matches it."""
    path = Path(model).resolve()
    for key in entries:
        if Path(key).expanduser().resolve() == path:
            return key
    return next((key for key in entries if fnmatchcase(model, key) or fnmatchcase(str(path), key)), None)


def shapes_of(config: Config, model: str, look: Look) -> dict[str, tuple[int, ...]]:
    """Return the shapes that the inputs of a model get."""
    found = {
        name: each.shape for name, each in config.examples.items() if each.shape is not None and name in look.inputs
    }
    key = entry_of(config.input_shapes, model)
    if key is not None:
        given = config.input_shapes[key]
        is_glob = Path(key).expanduser().resolve() != Path(model).resolve()
        found |= {name: shape for name, shape in given.items() if name in look.inputs or not is_glob}
    return found


def _wrong_shapes(config: Config, shapes: Mapping[str, Mapping[str, Any]], looks: Mapping[str, Look]) -> Iterator[str]:
    """Yield what is wrong with shapes of inputs that a model does not have."""
    for model, given in shapes.items():
        unknown = [name for name in given if looks[model].inputs and name not in looks[model].inputs]
        if unknown:
            line = config.lines.get(entry_of(config.input_shapes, model) or "", 0)
            has = ", ".join(looks[model].inputs)
            yield f"{config.place(line)}: {model} has no input {', '.join(map(quote, unknown))}; its inputs are {has}."


def _open_sizes(config: Config, shapes: Mapping[str, Mapping[str, Any]], looks: Mapping[str, Look]) -> Iterator[str]:
    """Yield all models at once that leave sizes open, and what to do about it."""
    if config.open_sizes == "keep":
        return
    missing = {
        model: {name: shape for name, shape in look.open.items() if name not in shapes[model]}
        for model, look in looks.items()
    }
    missing = {model: inputs for model, inputs in missing.items() if inputs}
    if not missing:
        return
    verb = "leaves" if len(missing) == 1 else "leave"
    yield f"{config.name}: {len(missing)} of {len(looks)} models {verb} sizes open that `input_shapes` does not say:"
    yield ""
    for model, inputs in list(missing.items())[:MOST_SHOWN]:
        yield f"  {model}: {', '.join(f'{name} {shape}' for name, shape in inputs.items())}"
    if len(missing) > MOST_SHOWN:
        yield f"  ... and {len(missing) - MOST_SHOWN:,} more"
    model, inputs = next(iter(missing.items()))
    yield ""
    yield "Give their shapes (a key may be a glob, like 'models/*.onnx'), or keep sizes open with `open_sizes: keep`:"
    yield ""
    yield "  input_shapes:"
    yield f"    {model}:"
    yield from (f"      {name}: [{', '.join(_suggested(shape))}]" for name, shape in inputs.items())


def _suggested(shape: str) -> list[str]:
    """Return the sizes of a shape as a suggestion: 1 for each that is open."""
    sizes = shape.strip("()").split(",") if shape.startswith("(") else []
    return [size.strip() if size.strip().isdigit() else "1" for size in sizes if size.strip()]


def _unused(config: Config, models: Sequence[str]) -> Iterator[str]:
    """Yield a note for each key that no model is meant by."""
    for what, entries in (("input_shapes", config.input_shapes), ("example_inputs", config.example_inputs)):
        used = {entry_of(entries, model) for model in models} if entries else set()
        for key in entries:
            if key not in used:
                yield f"{config.place(config.lines.get(key, 0))}: no model of this batch is {quote(key)} of `{what}`."


def _check_device(config: Config) -> None:
    """Refuse a device that no step would run on."""
    if config.device in (None, "cpu") or any("device" in parameters(step.verb) for step in config.steps):
        return
    raise ConfigError(f"{config.name}: no step of this batch runs on a device: leave out `device: {config.device}`.")


def _folders(models: Sequence[str], output: Path) -> dict[str, Path]:
    """Return a folder for the results of each model: named as the model, below folders as the models are."""
    parents = [Path(model).resolve().parent for model in models]
    top = Path(os.path.commonpath(parents)) if parents else Path()
    plain = {model: Path(model).resolve().relative_to(top) for model in models}
    counts = Counter(path.with_suffix("") for path in plain.values())
    return {
        model: output / (path.with_suffix("") if counts[path.with_suffix("")] == 1 else path)
        for model, path in plain.items()
    }


def _planned(config: Config, model: str, look: Look, shapes: Mapping[str, Sequence[int]], folder: Path) -> Planned:
    steps = [step.to_dict() for step in config.steps]
    for number, step in enumerate(steps):
        step["save"] = is_saved(config.steps, number)
    files = entry_of(config.example_inputs, model)
    inputs = [str(Path(path).resolve()) for path in config.example_inputs[files]] if files is not None else []
    examples = {
        name: {"shape": list(each.shape), "dtype": each.dtype, "fill": each.fill}
        for name, each in config.examples.items()
        if each.shape is not None and name in look.inputs
    }
    given: dict[str, Any] = {"timeout": config.timeout}
    given |= {"memory": config.memory} if config.memory is not None else {}
    given |= {"device": config.device} if config.device is not None else {}
    task = {
        "model": str(Path(model).resolve()),
        "folder": str(folder.resolve()),
        "stem": Path(model).stem,
        "steps": steps,
        "shapes": {name: list(shape) for name, shape in shapes.items()},
        "inputs": inputs,
        "examples": examples,
        "given": given,
    }
    told = {name: value for name, value in task.items() if name not in ("model", "given")}
    parts = [look.digest, told, config.device, digest(map(Path, inputs)), versions()]
    key = hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:32]
    return Planned(model, key, task)


def versions() -> dict[str, str]:
    """Return the versions of all that a result depends on."""
    found: dict[str, str] = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
