"""Which parts may know which: imports point one way."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import onnxlift

SOURCE = Path(onnxlift.__file__).parent
IDIOMS = "onnxlift.rewriting.idioms"
SIMPLIFYING = "onnxlift.rewriting.simplifying"


def imports(folder: str) -> Iterator[tuple[str, str]]:
    """Every file of a folder, with the module that it imports from."""
    for path in sorted((SOURCE / folder).rglob("*.py")):
        package = ("onnxlift", *path.relative_to(SOURCE).parts[:-1])
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                around = package[: len(package) - node.level + 1] if node.level else ()
                yield path.relative_to(SOURCE).as_posix(), ".".join((*around, *filter(None, [node.module])))


def test_what_a_graph_is_does_not_depend_on_inference() -> None:
    assert [found for found in imports("ir/graph") if found[1].startswith("onnxlift.ir.inference")] == []


def test_idioms_take_from_each_other_only_parts() -> None:
    """The folder `multihead` holds the parts of one idiom, in the folder around it."""

    def is_part(file: str, module: str) -> bool:
        *_, folder, _ = module.split(".")
        return folder == "parts" or (folder == "multihead" and "/attention/" in file)

    found = [pair for pair in imports("rewriting/idioms") if pair[1].startswith(f"{IDIOMS}.")]
    assert [pair for pair in found if not is_part(*pair)] == []


def test_idioms_take_whole_steps_of_simplifying_and_nothing_else() -> None:
    assert [found for found in imports("rewriting/idioms") if found[1].startswith(f"{SIMPLIFYING}.")] == []
