"""The steps of a batch: which verb each one calls, with which options, and what becomes of its result.

A verb is a row of the table below, and nothing else is known of it: its function takes a model and options, and returns
a report with `passed`, `to_dict()`, a readable `str`, and `save(path, force=)` if it makes something.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Verb:
    """A verb that a step can call: `onnxlift.FUNCTION(model, **options)`."""

    name: str
    function: str = ""
    """The name of its function, if it is another."""
    gives_model: bool = False
    """Whether its result is the model of the next step."""
    writes: str | None = None
    """The suffix of the file that its result is saved to; "" if it is saved to a folder, None if not at all."""
    other_suffixes: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Option -> the suffix of the file if it is set."""
    takes_given: bool = True
    """Whether it takes what is given for all steps, such as limits, inputs and a device, without being asked."""
    more: tuple[str, ...] = ()
    """Where its `**options` go: functions or classes, as `module:name`."""
    runs: tuple[str, ...] = ()
    """Packages and modules that it runs models with. They are imported once, and not for each model."""


CHECKING = ("onnxlift.workbench.report:Checking",)
MEASURING = ("onnxlift.workbench.profile.measured:Measuring",)
ORT = ("onnxruntime", "onnxlift.verification.reference")
BOTH = (*ORT, "torch", "onnxlift.verification.candidate")

VERBS = {
    verb.name: verb
    for verb in (
        Verb("simplify", gives_model=True, writes=".onnx", more=CHECKING, runs=ORT),
        Verb("opset", gives_model=True, writes=".onnx", more=CHECKING, runs=ORT),
        Verb("quantize", gives_model=True, writes=".onnx", more=CHECKING, runs=ORT),
        Verb("convert", function="lift", writes=""),
        Verb(
            "export",
            writes=".pt2",
            other_suffixes={"onnx": ".exported.onnx"},
            runs=(*BOTH, "onnxlift.workbench.export.worker"),
        ),
        Verb("verify", more=("onnxlift.api:lift",), runs=BOTH),
        Verb("profile", writes=".profile.csv", takes_given=False, more=MEASURING),
        Verb("lint"),
    )
}

SET_BY_BATCH = frozenset({"lifted", "name", "wanted"})
"""Parameters of verbs that are not options of a step."""


@dataclass(frozen=True)
class Step:
    """A step: a verb, its options, and whether its result is saved."""

    verb: Verb
    options: Mapping[str, Any] = field(default_factory=dict)
    save: bool = True

    @property
    def name(self) -> str:
        return self.verb.name

    @property
    def writes(self) -> bool:
        return self.save and self.verb.writes is not None

    @property
    def suffix(self) -> str:
        """The suffix of the file that it writes; "" if that is a folder."""
        others = (suffix for option, suffix in self.verb.other_suffixes.items() if self.options.get(option))
        return next(others, self.verb.writes or "")

    def to_dict(self) -> dict[str, Any]:
        return {"step": self.name, "options": dict(self.options), "save": self.save}

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Step:
        """Return the step that `to_dict` has told of."""
        return cls(VERBS[told["step"]], told["options"], told["save"])

    def __str__(self) -> str:
        told = ", ".join(f"{name}={value!r}" for name, value in self.options.items())
        return f"{self.name}({told})" if told else self.name

    def run(self, model: Any, given: Mapping[str, Any]) -> Any:
        """Call the verb on a model. Of what is `given` for all steps it gets what it has parameters for."""
        known = parameters(self.verb)
        wanted = known if self.verb.takes_given else ()
        fitting = {name: value for name, value in given.items() if name in wanted}
        return function_of(self.verb)(model, **{**fitting, **self.options})

    def save_result(self, result: Any, folder: Path, stem: str) -> list[Path]:
        """Save what the verb has made, in the place of what an earlier run has left; return the files."""
        target = folder / f"{stem}{self.suffix}" if self.suffix else folder
        return [Path(path) for path in result.save(target, force=True)]


def is_offered(verb: Verb) -> bool:
    """Tell whether this onnxlift has the verb."""
    import onnxlift

    return (verb.function or verb.name) in onnxlift.__all__


def function_of(verb: Verb) -> Callable[..., Any]:
    """Return the function of a verb."""
    import onnxlift

    found: Callable[..., Any] = getattr(onnxlift, verb.function or verb.name)
    return found


@cache
def parameters(verb: Verb) -> dict[str, inspect.Parameter]:
    """Return the options that a verb takes, those included that it hands on to others."""
    first, *rest = _signature(function_of(verb))
    found = {each.name: each for each in rest if each.kind in (each.KEYWORD_ONLY, each.POSITIONAL_OR_KEYWORD)}
    if any(each.kind is each.VAR_KEYWORD for each in rest):
        for path in verb.more:
            module, _, name = path.partition(":")
            for each in _signature(getattr(import_module(module), name)):
                if each.name not in {first.name, "source"}:
                    found.setdefault(each.name, each)
    return found


def _signature(function: Callable[..., Any]) -> list[inspect.Parameter]:
    names = vars(import_module(inspect.unwrap(function).__module__))
    return [
        each.replace(annotation=_meaning(each.annotation, names))
        for each in inspect.signature(function).parameters.values()
    ]


def _meaning(annotation: Any, names: dict[str, Any]) -> Any:
    """Return the type that an annotation means; Any if it names what is imported for type checkers only."""
    if not isinstance(annotation, str):
        return Any if annotation is inspect.Parameter.empty else annotation
    try:
        return typing.get_type_hints(types.SimpleNamespace(__annotations__={"it": annotation}), names)["it"]
    except NameError:
        return Any


def wrong_options(verb: Verb, options: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield each option that the verb does not take, with what to say of it."""
    known = sorted(parameters(verb).keys() - SET_BY_BATCH)
    for name in options:
        if name in known:
            continue
        near = get_close_matches(name, known, 1)
        told = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(known) or 'none'}."
        yield name, f"{verb.name} has no option {name!r}: {told}"


def wrong_value(verb: Verb, name: str, value: Any) -> str:
    """Return why a value cannot be that of an option; empty if it can, as far as the signature tells."""
    if isinstance(value, str) and value.endswith(".py"):
        return f"the option {name!r} of {verb.name} cannot be {value!r}: a batch runs no code that its file names."
    annotation = parameters(verb)[name].annotation
    if _fits(value, annotation):
        return ""
    return f"the option {name!r} of {verb.name} cannot be {value!r}: it is {_told(annotation)}."


def _fits(value: Any, annotation: Any) -> bool:
    """Tell whether a plain value (a scalar, list or dict) can be meant by an annotation."""
    if annotation is Any:
        return True
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, each) for each in typing.get_args(annotation))
    if origin is typing.Literal:
        return value in typing.get_args(annotation)
    if annotation is None or annotation is type(None):
        return value is None
    plain = origin or annotation
    if not isinstance(plain, type):
        return True
    return _fits_type(value, plain, typing.get_args(annotation))


def _fits_type(value: Any, plain: type, inner: Sequence[Any]) -> bool:
    if plain is bool or isinstance(value, bool):
        return isinstance(value, bool) and plain in (bool, object)
    if plain is float:
        return isinstance(value, int | float)
    if isinstance(value, dict):
        return issubclass(plain, Mapping) and (len(inner) < 2 or all(_fits(each, inner[1]) for each in value.values()))
    if isinstance(value, list):
        is_list = issubclass(plain, Collection) and not issubclass(plain, str | bytes | Mapping)
        return is_list and (not inner or all(_fits(each, inner[0]) for each in value))
    if isinstance(value, str):
        return issubclass(str, plain) or hasattr(plain, "__fspath__")
    return (value is None and plain is object) or isinstance(value, plain)


def _told(annotation: Any) -> str:
    """Write an annotation for people: `a list of texts or nothing`."""
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(dict.fromkeys(_told(each) for each in inner))
    if origin is typing.Literal:
        return " or ".join(map(repr, inner))
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "a text", type(None): "nothing"}
    plain = origin or annotation
    if plain in names:
        return names[plain]
    if isinstance(plain, type) and issubclass(plain, Mapping):
        return "a mapping"
    if isinstance(plain, type) and issubclass(plain, Collection):
        return "a list"
    return "a text" if hasattr(plain, "__fspath__") else str(getattr(plain, "__name__", plain))


def clashes(steps: Sequence[Step]) -> Iterator[tuple[int, str]]:
    """Yield the number of each step that would write what an earlier one has written, with what to say of it.

    A model that a later step changes is not written, so it does not count."""
    seen: dict[str, str] = {}
    for number, step in enumerate(steps):
        if not is_saved(steps, number):
            continue
        kind = step.suffix or step.name
        if kind in seen:
            yield number, f"{step.name} would write what {seen[kind]} has written: say `save: false` in one of them."
        seen[kind] = step.name


def is_saved(steps: Sequence[Step], number: int) -> bool:
    """Tell whether the result of a step is saved: a changed model is, if no later step changes it again."""
    step = steps[number]
    if not step.writes:
        return False
    return not (step.verb.gives_model and any(each.verb.gives_model and each.writes for each in steps[number + 1 :]))


def needed_packages(steps: Sequence[Step]) -> list[str]:
    """Return the packages and modules that the steps run models with, as far as they are installed."""
    wanted = dict.fromkeys(name for step in steps for name in step.verb.runs)
    return [name for name in wanted if find_spec(name.partition(".")[0]) is not None]
