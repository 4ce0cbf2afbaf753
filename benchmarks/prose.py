"""How the sources of a folder of models read, in figures: a way to find what is worth reading, and no proof.

    python benchmarks/prose.py FOLDER|FILE ... [--worst 10] [--details] [--json FILE] [--jobs 2]

Lifts each model as it is and as a plain transcript (`structure="flat"`), and prints a line each, then how each figure
is distributed. The figures:

    lines        of the source without blank ones; beside it, of the transcript
    /node        lines per node, of classes and the functions they call (`load` is as long for every model)
    forward      statements of the longest forward, nested ones as well, or of a method that a forward is divided into
    numbered     classes with a number at the end of their names (the model's own class aside)
    letters      variables of one letter, other than x, in forwards and methods of more than ten lines
    alike        classes that differ from another one in a single number, beside their names
    wrappers     classes that hold a single module and only call it
    handed       arguments of a forward that it does nothing with but hand them to a module
    leaked       generated names of exporters and of ours: val_3, Identity_7, unk__0

Models are lifted in children, so that one that fails costs a line.
"""

from __future__ import annotations

import argparse
import ast
import json
import multiprocessing
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TypeGuard

import onnxlift

LONG = 10
"""Lines of a forward from which on a variable of one letter says too little."""
MANY_NODES = 60
"""A smaller graph has fewer nodes than its file has lines around them."""
GENERATED = re.compile(
    r"(?:^|[._])(?:val_\d+|[Ii]dentity_\d+|unk__\d+|const_fold_opt_+\d+|read_?variable_?op\w*|(?:stateful_?)?partitioned_?call\w*)",
    re.IGNORECASE,
)
FIGURES = ("per_node", "against_flat", "forward", "numbered", "letters", "alike", "wrappers", "handed", "leaked")
QUANTILES = {"median": 0.5, "90 %": 0.9, "95 %": 0.95, "worst": 1.0}
LOADING = ("load", "read_weights", "initialise")


@dataclass
class Prose:
    """The figures of one source."""

    name: str
    nodes: int = 0
    lines: int = 0
    flat: int = 0
    body: int = 0
    classes: int = 0
    forward: int = 0
    numbered: list[str] = field(default_factory=list)
    letters: list[str] = field(default_factory=list)
    alike: list[str] = field(default_factory=list)
    wrappers: list[str] = field(default_factory=list)
    handed: list[str] = field(default_factory=list)
    leaked: list[str] = field(default_factory=list)
    error: str = ""

    @property
    def per_node(self) -> float:
        return self.body / max(self.nodes, 1)

    @property
    def against_flat(self) -> float:
        return self.lines / max(self.flat, 1)

    def figure(self, name: str) -> float:
        value = getattr(self, name)
        return len(value) if isinstance(value, list) else value


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path, help="files, or folders that are searched for .onnx files")
    parser.add_argument("--worst", type=int, default=5, help="how many models to name for each figure")
    parser.add_argument("--details", action="store_true", help="name what was counted, below each line")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()

    found: list[Prose] = []
    print(f"{'':44} {'nodes':>6} {'lines':>6} {'flat':>6} {'/node':>5} {'fwd':>4}  other figures")
    with multiprocessing.get_context("spawn").Pool(options.jobs, maxtasksperchild=16) as pool:
        for prose in pool.imap(measure_file, models(options.models)):
            found.append(prose)
            print(row(prose), flush=True)
            if options.details:
                print("".join(f"      {name}: {', '.join(getattr(prose, name))}\n" for name in lists(prose)), end="")
    print(summary(found, options.worst))
    if options.json:
        options.json.write_text(json.dumps([asdict(prose) for prose in found], indent=1), encoding="utf-8")
    return 0


def models(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        yield from sorted(path.rglob("*.onnx")) if path.is_dir() else [path]


def measure_file(path: Path) -> Prose:
    try:
        lifted, flat = onnxlift.lift(path), onnxlift.lift(path, structure="flat")
    except onnxlift.OnnxLiftError as error:
        return Prose(path.stem, error=str(error).splitlines()[0])
    prose = measure(path.stem, lifted.source)
    prose.nodes, prose.flat = lifted.report.nodes, code_lines(flat.source)
    return prose


def measure(name: str, source: str) -> Prose:
    """Return the figures of a source; those of its graph are left at 0."""
    tree = ast.parse(source)
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    parts = [n for n in tree.body if isinstance(n, ast.ClassDef | ast.FunctionDef) and n.name not in LOADING]
    forwards = {cls.name: forward for cls in classes for forward in cls.body if is_forward(forward)}
    methods = {f"{cls.name}.{part.name}": part for cls in classes for part in cls.body if is_method(part)}
    return Prose(
        name,
        lines=code_lines(source),
        body=sum(code_lines(ast.get_source_segment(source, part) or "") for part in parts),
        classes=len(classes),
        forward=max((len(list(statements(forward))) for forward in methods.values()), default=0),
        numbered=[cls.name for cls in classes[:-1] if cls.name[-1].isdigit()],
        letters=[f"{cls}: {' '.join(found)}" for cls, forward in methods.items() if (found := letters(forward))],
        alike=list(alike(classes)),
        wrappers=[cls.name for cls in classes[:-1] if is_wrapper(cls)],
        handed=[f"{cls}: {' '.join(found)}" for cls, forward in forwards.items() if (found := handed(forward))],
        leaked=sorted({name for name in identifiers(tree) if GENERATED.search(name)}),
    )


def code_lines(source: str) -> int:
    return sum(1 for line in source.splitlines() if line.strip())


def is_forward(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name == "forward"


def is_method(node: ast.AST) -> TypeGuard[ast.FunctionDef]:
    """Tell whether this computes something: a forward, or a part of one."""
    return isinstance(node, ast.FunctionDef) and node.name not in ("__init__", "tie_weights")


def statements(function: ast.AST) -> Iterator[ast.stmt]:
    """The statements of a function, nested ones as well, without its docstring."""
    for node in ast.walk(function):
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node, ast.stmt) and node is not function and not is_text:
            yield node


def letters(forward: ast.FunctionDef) -> list[str]:
    """The variables of one letter that a long forward assigns."""
    if (forward.end_lineno or 0) - forward.lineno <= LONG:
        return []
    assigned = (n.id for n in ast.walk(forward) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    return sorted({name for name in assigned if len(name) == 1 and name not in "x_"})


def alike(classes: Sequence[ast.ClassDef]) -> Iterator[str]:
    """The classes that differ from an earlier one in a single number."""
    seen: dict[str, list[tuple[str, list[object]]]] = {}
    for cls in classes:
        numbers = [node.value for node in ast.walk(cls) if is_number(node)]
        shape = shape_of(cls)
        for name, others in seen.setdefault(shape, []):
            if sum(a != b for a, b in zip(numbers, others, strict=True)) == 1:
                yield f"{name} and {cls.name}"
                break
        seen[shape].append((cls.name, numbers))


def is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)


def shape_of(cls: ast.ClassDef) -> str:
    """The code of a class without its name and its numbers."""
    copy = ast.parse(ast.unparse(cls))
    for node in ast.walk(copy):
        if isinstance(node, ast.ClassDef):
            node.name = "_"
        elif is_number(node):
            assert isinstance(node, ast.Constant)
            node.value = 0
    return ast.unparse(copy)


def is_wrapper(cls: ast.ClassDef) -> bool:
    """Tell whether a class holds a single module and does nothing but call it."""
    functions = {node.name: list(statements(node)) for node in cls.body if isinstance(node, ast.FunctionDef)}
    members = [node for node in functions.get("__init__", []) if isinstance(node, ast.Assign)]
    match functions.get("forward"):
        case [ast.Return(value=ast.Call(func=ast.Attribute(value=ast.Name(id="self")), args=args))]:
            return len(members) == 1 and all(isinstance(argument, ast.Name) for argument in args)
    return False


def handed(forward: ast.FunctionDef) -> list[str]:
    """The arguments that a forward only hands on to modules, beside another one that it works on."""
    arguments = [each.arg for each in forward.args.args[1:]]
    passed: Counter[str] = Counter()
    for call in ast.walk(forward):
        if isinstance(call, ast.Call) and is_of_self(call.func):
            values = (*call.args, *(keyword.value for keyword in call.keywords))
            passed.update(value.id for value in values if isinstance(value, ast.Name))
    read = Counter(n.id for n in ast.walk(forward) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load))
    return [name for name in arguments[1:] if read[name] and read[name] == passed[name]]


def is_of_self(function: ast.expr) -> bool:
    while isinstance(function, ast.Attribute | ast.Subscript):
        function = function.value
    return isinstance(function, ast.Name) and function.id == "self"


def identifiers(tree: ast.AST) -> Iterator[str]:
    """All names in a source, and the keys of its state dict that are texts."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.arg(arg=name) | ast.Attribute(attr=name) | ast.ClassDef(name=name):
                yield name
            case ast.Call(func=ast.Attribute(value=ast.Name(id="self")), args=[ast.Constant(value=str(name)), *_]):
                yield name


def lists(prose: Prose) -> list[str]:
    return [name for name in FIGURES if isinstance(value := getattr(prose, name), list) and value]


def row(prose: Prose) -> str:
    if prose.error:
        return f"{prose.name[:44]:44} {prose.error[:100]}"
    others = ", ".join(f"{name} {len(getattr(prose, name))}" for name in lists(prose))
    longer = " LONGER" if prose.lines > prose.flat else ""
    return (
        f"{prose.name[:44]:44} {prose.nodes:>6} {prose.lines:>6} {prose.flat:>6} {prose.per_node:>5.2f} "
        f"{prose.forward:>4} {longer} {others}"
    )


def summary(found: Sequence[Prose], worst: int) -> str:
    """How each figure is distributed over the models that lift, and who is worst. Lines per node are those of models
    with more than a few nodes."""
    lifted = [prose for prose in found if not prose.error]
    lines = [
        "",
        f"{len(lifted)} of {len(found)} models lift",
        f"{'':14}" + "".join(f"{n:>8}" for n in QUANTILES),
    ]
    for name in FIGURES:
        counted = [prose for prose in lifted if name != "per_node" or prose.nodes > MANY_NODES]
        if not counted:
            continue
        ordered = sorted(counted, key=lambda prose: prose.figure(name))
        at = [ordered[round(part * (len(ordered) - 1))].figure(name) for part in QUANTILES.values()]
        shown = [prose for prose in ordered[::-1][:worst] if prose.figure(name)]
        names = ", ".join(f"{prose.name} {prose.figure(name):.3g}" for prose in shown)
        lines.append(f"{name:14}" + "".join(f"{value:>8.3g}" for value in at) + f"  {names}")
    longer = [prose for prose in lifted if prose.lines > prose.flat]
    lines.append(f"longer than the transcript: {', '.join(prose.name for prose in longer) or 'none'}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
