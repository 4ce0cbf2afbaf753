"""The configuration of a batch: what each key may hold, and the line of all that is wrong."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from onnxlift.errors import OutputError
from onnxlift.sizes import parse_size

from .located import ConfigError, Item, item_of, read_items
from .steps import VERBS, Step, clashes, is_offered, wrong_options, wrong_value

PATTERN = "*.onnx"
LARGEST_SIZE = 1 << 40


@dataclass(frozen=True)
class Inputs:
    """Where models are: a file, a glob, or a folder in which names match a pattern, below it too if `recursive`."""

    path: str
    pattern: str = PATTERN
    recursive: bool = True
    line: int = 0


@dataclass(frozen=True)
class Example:
    """The values of an input for all models that have one of this name: a shape, a type, and what fills it."""

    shape: tuple[int, ...] | None = None
    dtype: str = "float32"
    fill: str = "zeros"


@dataclass(frozen=True)
class Config:
    """A batch, as its configuration describes it."""

    inputs: tuple[Inputs, ...]
    steps: tuple[Step, ...]
    output_dir: Path = Path("batch")
    input_shapes: Mapping[str, Mapping[str, tuple[int, ...]]] = field(default_factory=dict)
    """Model, or a glob -> input -> shape."""
    example_inputs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Model, or a glob -> files with inputs."""
    examples: Mapping[str, Example] = field(default_factory=dict)
    """Input -> its values."""
    open_sizes: str = "refuse"
    device: str | None = None
    jobs: int = 1
    timeout: float = 600.0
    memory: int | None = None
    on_error: str = "continue"
    name: str = "the configuration"
    notes: tuple[str, ...] = ()
    lines: Mapping[str, int] = field(default_factory=dict)
    """Model or glob of `input_shapes` and `example_inputs` -> its line."""

    def place(self, line: int) -> str:
        """Return what to call a line in a message."""
        return f"{self.name}:{line}" if line else self.name


def read_config(source: str | os.PathLike[str] | Mapping[str, Any]) -> Config:
    """Return the batch that a YAML file, or a mapping of the same form, describes.

    Raises a ConfigError that lists all that is wrong, each with its line."""
    if isinstance(source, Mapping):
        return _Reader("the configuration").read(item_of(source))
    path = Path(source)
    return _Reader(path.name).read(read_items(path))


class _Reader:
    """Reads the keys of a configuration, and notes what is wrong."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.problems: list[str] = []
        self.found: dict[str, Any] = {"name": name, "notes": (), "lines": {}}

    def read(self, root: Item) -> Config:
        if not isinstance(root.value, dict):
            raise ConfigError(f"{self.name}: this holds {root.kind}, and should hold keys: {', '.join(KEYS)}.")
        for key, item in root.pairs:
            reader = KEYS.get(key)
            if reader is None:
                near = get_close_matches(key, KEYS, 1)
                told = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(KEYS)}."
                self.wrong(item, f"there is no key {key!r}: {told}")
            else:
                reader(self, item)
        if "inputs" not in self.found and not self.problems:
            paths = [Inputs(path, line=self.found["lines"].get(path, 0)) for path in self.found.get("input_shapes", ())]
            if not paths:
                raise ConfigError(f"{self.name}: `inputs` is missing: say where the models are.")
            self.found["inputs"] = tuple(paths)
        if "steps" not in self.found and not self.problems:
            self.found["steps"] = default_steps()
        if self.problems:
            raise ConfigError("\n".join(self.problems))
        return Config(**self.found)

    def wrong(self, item: Item, text: str) -> None:
        where = f"{self.name}:{item.line}" if item.line else self.name
        self.problems.append(f"{where}: {text}")

    def note(self, text: str) -> None:
        self.found["notes"] = (*self.found["notes"], text)

    def text(self, item: Item, what: str) -> str | None:
        if isinstance(item.value, str) and item.value and "\0" not in item.value:
            return item.value
        self.wrong(item, f"{what} must be a text, not {item.kind}.")
        return None

    def mapping(self, item: Item, what: str) -> bool:
        if isinstance(item.value, dict):
            return True
        self.wrong(item, f"{what} must be a mapping, not {item.kind}.")
        return False

    def choice(self, key: str, item: Item, choices: tuple[str, ...]) -> None:
        if item.value in choices:
            self.found[key] = item.value
        else:
            self.wrong(item, f"`{key}` must be {' or '.join(choices)}, not {item.plain()!r}.")

    def inputs(self, item: Item) -> None:
        listed = item.value if isinstance(item.value, list) else [item]
        if not listed:
            self.wrong(item, "`inputs` is empty: say where the models are.")
        found = [each for each in map(self._input, listed) if each is not None]
        self.found["inputs"] = tuple(found)

    def _input(self, item: Item) -> Inputs | None:
        if isinstance(item.value, str):
            path = self.text(item, "an input")
            return None if path is None else Inputs(path, line=item.line)
        if not self.mapping(item, "an input"):
            return None
        kinds = {"path": str, "pattern": str, "recursive": bool}
        found: dict[str, Any] = {}
        for key, value in item.pairs:
            if key not in kinds:
                self.wrong(value, f"an input has no key {key!r}: it has {', '.join(kinds)}.")
            elif not isinstance(value.value, kinds[key]) or value.value == "":
                self.wrong(value, f"`{key}` of an input cannot be {value.plain()!r}.")
            else:
                found[key] = value.value
        if "path" not in item.value:
            self.wrong(item, "an input needs a `path`.")
        return Inputs(**found, line=item.line) if "path" in found else None

    def output_dir(self, item: Item) -> None:
        path = self.text(item, "`output_dir`")
        if path is not None:
            self.found["output_dir"] = Path(path)

    def steps(self, item: Item) -> None:
        if not isinstance(item.value, list) or not item.value:
            self.wrong(item, f"`steps` must be a list with some of {', '.join(VERBS)}.")
            return
        found = [self._step(each) for each in item.value]
        steps = tuple(each for each in found if each is not None)
        if len(steps) == len(found):
            for number, text in clashes(steps):
                self.wrong(item.value[number], text)
        self.found["steps"] = steps

    def _step(self, item: Item) -> Step | None:
        if isinstance(item.value, dict) and len(item.value) == 1:
            ((name, options),) = item.value.items()
        elif isinstance(item.value, str):
            name, options = item.value, Item({}, item.line)
        else:
            self.wrong(
                item, "a step is a name, like `- simplify`, or a name with options, like `- opset: {version: 17}`."
            )
            return None
        verb = VERBS.get(name)
        if verb is None:
            near = get_close_matches(name, VERBS, 1)
            self.wrong(
                item, f"there is no step {name!r}: " + (f"did you mean {near[0]!r}?" if near else _known_steps())
            )
            return None
        if not is_offered(verb):
            self.wrong(item, f"this version of onnxlift has no {name!r}.")
            return None
        if options.value is None:
            options = Item({}, options.line)
        if not self.mapping(options, f"what {name} is told"):
            return None
        own = dict(options.value)
        save = own.pop("save", Item(True))
        if not isinstance(save.value, bool):
            self.wrong(save, "`save` must be true or false.")
        unknown = dict(wrong_options(verb, own))
        for option, value in own.items():
            problem = unknown.get(option) or wrong_value(verb, option, value.plain())
            if problem:
                self.wrong(value, problem)
        return Step(verb, {option: value.plain() for option, value in own.items()}, save=save.value is True)

    def input_shapes(self, item: Item) -> None:
        if item.value is None:
            return
        if not self.mapping(item, "`input_shapes`"):
            return
        found: dict[str, dict[str, tuple[int, ...]]] = {}
        for path, shapes in item.pairs:
            if not self.mapping(shapes, f"what `input_shapes` says of {path!r}"):
                continue
            self.found["lines"][path] = shapes.line
            found[path] = {name: shape for name, each in shapes.pairs if (shape := self._shape(each)) is not None}
        self.found["input_shapes"] = found

    def _shape(self, item: Item) -> tuple[int, ...] | None:
        sizes = item.plain()
        is_shape = isinstance(sizes, list) and all(
            isinstance(size, int) and not isinstance(size, bool) and 0 <= size < LARGEST_SIZE for size in sizes
        )
        if not is_shape:
            self.wrong(item, f"a shape is a list of whole numbers, like [1, 3, 224, 224], not {sizes!r}.")
            return None
        return tuple(sizes)

    def example_inputs(self, item: Item) -> None:
        if item.value is None:
            return
        if not self.mapping(item, "`example_inputs`"):
            return
        if item.value.keys() <= {*_FILLING, *_UNUSED}:
            self._examples(item)
            return
        found: dict[str, tuple[str, ...]] = {}
        for path, files in item.pairs:
            listed = files.value if isinstance(files.value, list) else [files]
            texts = [self.text(each, "a file with inputs") for each in listed]
            self.found["lines"].setdefault(path, files.line)
            found[path] = tuple(text for text in texts if text is not None)
            for text in found[path]:
                if not Path(text).exists():
                    self.wrong(files, f"there is no file {text!r} with inputs.")
        self.found["example_inputs"] = found

    def _examples(self, item: Item) -> None:
        """Read the form of onnx2torch: what fills inputs by name."""
        fill = item.value.get("default_fill", Item("zeros"))
        if fill.value not in FILLS:
            self.wrong(fill, f"`default_fill` must be {', '.join(FILLS)}, not {fill.plain()!r}.")
        found: dict[str, Example] = {}
        for key in ("overrides", "inputs"):
            given = item.value.get(key, Item({}))
            if given.value is None or not self.mapping(given, f"`{key}`"):
                continue
            for name, each in given.pairs:
                example = self._example(each, str(fill.value))
                if example is not None:
                    found[name] = example
        self.found["examples"] = found
        unused = [key for key in item.value if key in _UNUSED or (key == "default_fill" and not found)]
        if unused:
            self.note(f"{self.name}: {', '.join(unused)} of `example_inputs`: inputs are made up from each model.")

    def _example(self, item: Item, default: str) -> Example | None:
        if item.value is None:
            return Example(fill=default)
        if not self.mapping(item, "what is said of an input"):
            return None
        shape = item.value.get("shape")
        dtype, fill = item.value.get("dtype", Item("float32")), item.value.get("fill", Item(default))
        if _DTYPES.get(dtype.value) is None:
            self.wrong(dtype, f"`dtype` must be one of {', '.join(_DTYPES)}, not {dtype.plain()!r}.")
        if fill.value not in FILLS:
            self.wrong(fill, f"`fill` must be {', '.join(FILLS)}, not {fill.plain()!r}.")
        sizes = None if shape is None else self._shape(shape)
        return Example(sizes, _DTYPES.get(dtype.value, "float32"), fill.value)

    def conversion(self, item: Item) -> None:
        if item.value:
            self.note(f"{self.name}: `conversion` says nothing that a step needs: bundles keep the names of inputs.")

    def device(self, item: Item) -> None:
        device = self.text(item, "`device`")
        if device is None:
            return
        if re.fullmatch(r"(cpu|cuda|mps|xpu)(:\d+)?", device) is None:
            self.wrong(item, f"`device` must be like cpu, cuda or cuda:1, not {device!r}.")
        self.found["device"] = device

    def open_sizes(self, item: Item) -> None:
        self.choice("open_sizes", item, ("refuse", "keep"))

    def on_error(self, item: Item) -> None:
        self.choice("on_error", item, ("continue", "stop"))

    def jobs(self, item: Item) -> None:
        if isinstance(item.value, int) and not isinstance(item.value, bool) and 1 <= item.value <= 1024:
            self.found["jobs"] = item.value
        else:
            self.wrong(item, f"`jobs` must be a whole number from 1 on, not {item.plain()!r}.")

    def timeout(self, item: Item) -> None:
        if isinstance(item.value, int | float) and not isinstance(item.value, bool) and 0 < item.value < 1e8:
            self.found["timeout"] = float(item.value)
        else:
            self.wrong(item, f"`timeout` must be a number of seconds, not {item.plain()!r}.")

    def memory(self, item: Item) -> None:
        if item.value is None:
            return
        try:
            self.found["memory"] = parse_size(item.plain())
        except OutputError as error:
            self.wrong(item, f"`memory`: {error}")


def default_steps() -> tuple[Step, ...]:
    """Return the steps if none are given: those of onnx2torch, a simplified model and a bundle of torch.export."""
    return tuple(Step(VERBS[name]) for name in ("simplify", "export") if is_offered(VERBS[name]))


def _known_steps() -> str:
    return f"there are {', '.join(VERBS)}."


FILLS = ("zeros", "ones", "random")
_FILLING = ("default_fill", "overrides", "inputs")
_UNUSED = ("scales", "max_total_elements", "warmup_max_total_elements", "enable_warmup")
_DTYPES = {
    **{name: name for name in ("float32", "float16", "float64", "int64", "int32", "int16", "int8", "uint8", "bool")},
    "float": "float32",
    "fp32": "float32",
    "half": "float16",
    "fp16": "float16",
    "double": "float64",
    "long": "int64",
    "int": "int32",
    "short": "int16",
}

KEYS: dict[str, Callable[[_Reader, Item], None]] = {
    "inputs": _Reader.inputs,
    "input": _Reader.inputs,
    "output_dir": _Reader.output_dir,
    "steps": _Reader.steps,
    "input_shapes": _Reader.input_shapes,
    "open_sizes": _Reader.open_sizes,
    "example_inputs": _Reader.example_inputs,
    "device": _Reader.device,
    "jobs": _Reader.jobs,
    "timeout": _Reader.timeout,
    "memory": _Reader.memory,
    "on_error": _Reader.on_error,
    "conversion": _Reader.conversion,
}
"""The schema: what each key may hold. `input` and `conversion` are keys of onnx2torch."""
