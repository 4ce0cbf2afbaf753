"""Torch functions and layers with ONNX semantics, for what PyTorch cannot say in an idiom.

Their text is copied into the generated file, with what it calls, so each stands alone: it may use `torch`, `F`, `nn`,
`math`, `Tensor` and other functions of its own file, and nothing of onnxlift. The compiler reads them as text and
never imports them (they import torch).
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterable
from functools import cache
from pathlib import Path


@cache
def _texts() -> list[str]:
    files = sorted(Path(__file__).parent.rglob("*.py"))
    return [file.read_text(encoding="utf-8") for file in files if file.name != "__init__.py"]


@cache
def _names() -> frozenset[str]:
    """The names of all kernels. Without parsing, since operators ask while they are imported."""
    return frozenset(name for text in _texts() for name in re.findall(r"^(?:def|class) (\w+)\(", text, re.MULTILINE))


@cache
def _index() -> dict[str, tuple[str, frozenset[str]]]:
    """Kernel name -> its text and the other names that it uses."""
    index: dict[str, tuple[str, frozenset[str]]] = {}
    for text in _texts():
        lines = text.splitlines()
        for item in ast.parse(text).body:
            if isinstance(item, ast.FunctionDef | ast.ClassDef):
                names = {n.id for n in ast.walk(item) if isinstance(n, ast.Name)}
                assert item.name not in index, f"two kernels are named {item.name}"
                segment = "\n".join(lines[item.lineno - 1 : item.end_lineno])
                index[item.name] = (segment, frozenset(names - {item.name}))
    return index


def exists(name: str) -> bool:
    return name in _names()


@cache
def layers() -> frozenset[str]:
    """The names of those that are classes."""
    return frozenset(name for name in _names() if name[0].isupper())


def sources(names: Iterable[str], width: int) -> dict[str, str]:
    """Name -> text of the kernels and of the kernels that these call, callees first. No docstring is wider than
    `width`; the code is for a formatter to break."""
    index = _index()
    found: dict[str, str] = {}

    def visit(name: str) -> None:
        if name in found or name not in index:
            return
        text, used = index[name]
        for other in sorted(used):
            visit(other)
        found[name] = _DOCSTRING.sub(lambda match: _filled(match, width), text)

    for name in sorted(names):
        visit(name)
    return found


_DOCSTRING = re.compile(r'^( +)"""(.+?)"""$', re.MULTILINE | re.DOTALL)


def _filled(docstring: re.Match[str], width: int) -> str:
    """A docstring whose paragraphs are broken anew if a line of it is too long."""
    if max(map(len, docstring[0].splitlines())) <= width:
        return docstring[0]
    indent, text = docstring.groups()
    paragraphs = [" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", f'"""{text}"""')]
    return "\n\n".join(textwrap.fill(p, width, initial_indent=indent, subsequent_indent=indent) for p in paragraphs)
