"""Imports point one way: down the picture of docs/ARCHITECTURE.md, from what users call to what an ONNX model is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "onnxlift"

LAYERS = (
    ("__main__", "demo", "backend"),
    ("cli",),
    ("workbench.build_script",),
    ("build",),
    ("workbench",),
    ("verification",),
    ("api", "extend"),
    ("pipeline",),
    ("lifted",),
    ("lifting.structures",),
    ("lifting.stages",),
    ("lifting.text",),
    ("lifting.names",),
    ("lifting.modules",),
    ("lifting.tree",),
    ("lifting.ops",),
    ("lifting.code",),
    ("lifting.kernels",),
    ("rewriting.stages", "rewriting.history"),
    ("rewriting.element_type", "rewriting.dequantising"),
    ("rewriting.standard",),
    ("rewriting.idioms",),
    ("rewriting.fusing",),
    ("rewriting.simplifying",),
    ("rewriting.restoring",),
    ("rewriting.normal_form",),
    ("rewriting.bodies",),
    ("ir.writing",),
    ("ir.load",),
    ("ir.stages",),
    ("ir.building",),
    ("ir.checking",),
    ("ir.reading",),
    ("ir.editing",),
    ("ir.inference",),
    ("ir.origin",),
    ("ir.graph",),
    ("unforeseen",),
    ("collector", "executing", "report", "saving", "stages"),
    ("sizes", "terminal", "envelope"),
    ("errors",),
)
"""From the top down: what is in a layer may import what is in the layers below it, and in its own package."""

LEVEL = {name: level for level, names in enumerate(reversed(LAYERS)) for name in names}


def imported(file: Path) -> Iterator[tuple[int, str]]:
    """Line and name, below onnxlift, of all that a file imports, also inside functions."""
    package = file.relative_to(SOURCE).parent.parts
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom):
            continue
        module = (node.module or "").split(".") if node.module else []
        if node.level:
            path = [*package[: len(package) - node.level + 1], *module]
        elif module[:1] == ["onnxlift"]:
            path = module[1:]
        else:
            continue
        for name in node.names:
            yield node.lineno, ".".join([*path, name.name])


def layer_of(name: str) -> str | None:
    """The layer that a module, or a name in it, belongs to."""
    parts = name.split(".")
    return next((".".join(parts[:end]) for end in range(len(parts), 0, -1) if ".".join(parts[:end]) in LEVEL), None)


def test_every_module_has_a_layer() -> None:
    modules = (".".join(file.relative_to(SOURCE).with_suffix("").parts) for file in SOURCE.rglob("*.py"))
    assert [name for name in modules if not name.endswith("__init__") and layer_of(name) is None] == []


def test_imports_point_down() -> None:
    upwards = []
    for file in sorted(SOURCE.rglob("*.py")):
        name = ".".join(file.relative_to(SOURCE).with_suffix("").parts)
        here = layer_of(name)
        if here is None:  # the package itself, which imports lazily what it offers
            continue
        for line, target in imported(file):
            there = layer_of(target)
            if there is not None and there != here and LEVEL[there] >= LEVEL[here]:
                upwards.append(f"{file.relative_to(SOURCE)}:{line} imports {target}")
    assert upwards == []


def test_idioms_take_from_each_other_only_parts() -> None:
    """The folder `multihead` holds the parts of one idiom, in the folder around it."""
    idioms = "rewriting.idioms."
    for file in sorted((SOURCE / "rewriting" / "idioms").rglob("*.py")):
        for line, target in imported(file):
            module = target.rpartition(".")[0] if layer_of(target) == "rewriting.idioms" else ""
            folders = module.removeprefix(idioms).split(".")[:-1]
            assert not module.startswith(idioms) or {"parts", "multihead"} & {*folders}, f"{file}:{line} {target}"


def test_idioms_take_whole_steps_of_simplifying_and_nothing_else() -> None:
    steps = {file.stem for file in (SOURCE / "rewriting" / "simplifying").glob("*.py")}
    for file in sorted((SOURCE / "rewriting" / "idioms").rglob("*.py")):
        taken = (name.split(".") for _, name in imported(file) if name.startswith("rewriting.simplifying."))
        assert all(len(path) == 3 and path[2] in steps for path in taken), file
