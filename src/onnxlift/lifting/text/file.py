"""The generated file: docstring, imports, kernels, classes, `load`. Formatted by ruff and checked before it is used."""

from __future__ import annotations

import ast
import math
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path as FilePath

import onnx_ir as ir

from onnxlift.ir.graph.types import type_of
from onnxlift.lifting import kernels
from onnxlift.lifting.code.identifiers import plain
from onnxlift.lifting.modules.module import Entry, Module

from .listed import LINE_LENGTH
from .source_map import Origin
from .weights import constants_name, index_name, plan_shards
from .write import ClassWriter, Text

STATISTICS = ("running_mean", "running_var", "num_batches_tracked")
LONGEST_LINE = 300  # of the docstring, which holds names and sizes as the model has them


@dataclass
class Header:
    """The facts about the model in the docstring of the file: its name, the number of nodes, its control flow, and the
    name of the file that it comes from, where that is another."""

    name: str
    node_count: int
    control_flow: Sequence[str] = ()
    file_name: str = ""


@dataclass
class Source:
    """The text of the file and, for every statement of a `forward` in order, what it comes from in the ONNX model.
    `kernels` has the text of each, which is part of the file. The `writers` of its classes know why things are called
    what they are."""

    text: str = ""
    class_name: str = ""
    origins: list[Origin] = field(default_factory=list)
    classes: int = 0
    kernels: dict[str, str] = field(default_factory=dict)
    writers: list[ClassWriter] = field(default_factory=list)


def assemble(
    header: Header, model: ir.Model, root: Module, root_class: str, weights: SavedWeights, body: Text
) -> Source:
    """Put the file together: docstring, imports, kernels that the classes call, the classes, and `load`."""
    loader = _loader(root_class, header.name, weights)
    code = "\n".join(body.lines)
    used = kernels.sources(_called_kernels(code), LINE_LENGTH)
    kernel_text = [part for text in used.values() for part in ("", "", text)]
    rest = "\n".join([*kernel_text, code, "", "", *loader])
    docstring = _docstring(header, model, root, weights)
    text = "\n".join([docstring, "", *_imports(rest), rest, ""])
    return Source(text, root_class, body.origins, kernels=used)


@dataclass(frozen=True)
class SavedWeights:
    """The tensors that `load` reads: `own` are those of the state dict, spread over `files` files, of which some are
    tied; constants have a file of their own."""

    own: Mapping[str, Entry]
    ties: Mapping[str, str]
    files: int
    has_constants: bool

    @property
    def has_own_parameters(self) -> bool:
        """Tell whether modules hold parameters themselves, which no layer of PyTorch initialises."""
        return any(entry.is_parameter and not entry.layer for entry in self.own.values())

    @property
    def has_own_buffers(self) -> bool:
        """Tell whether there are buffers in the state dict that are no statistics of a norm."""
        return any(not e.is_parameter and not key.endswith(STATISTICS) for key, e in self.own.items())

    @staticmethod
    def of(entries: Mapping[str, Entry], ties: Mapping[str, str], max_shard_size: int) -> SavedWeights:
        """Divide all tensors of a model into those of the state dict and constants."""
        own = {key: entry for key, entry in entries.items() if entry.persistent and key not in ties}
        has_constants = not all(entry.persistent for entry in entries.values())
        return SavedWeights(own, ties, len(plan_shards(own, max_shard_size)), has_constants)


def _called_kernels(code: str) -> set[str]:
    return {word for word in set(re.findall(r"(?<![\w.])[A-Za-z_]\w*\b(?=\()", code)) if kernels.exists(word)}


def _docstring(header: Header, model: ir.Model, root: Module, weights: SavedWeights) -> str:
    note = f" ({', '.join(header.control_flow)})" if header.control_flow else ""
    opset = model.opset_imports.get("", None)
    versions = f"opset {opset}" if opset is not None else ", ".join(f"{d} {v}" for d, v in model.opset_imports.items())
    plural = "s" if header.node_count != 1 else ""
    title = f"Lifted from {header.file_name or header.name + '.onnx'}"
    lines = [f"{title}: {header.node_count} node{plural}{note}, {versions}.", ""]
    rows = [("Inputs", v) for v in root.inputs] + [("Outputs", v) for v in model.graph.outputs]
    width = max((len(plain(v.name)) for _, v in rows), default=0)
    types = max((len(str(type_of(v)).partition(" (")[0]) for _, v in rows), default=0)
    previous = ""
    for title, value in rows:
        kind, _, shape = str(type_of(value)).partition(" (")
        label = title if title != previous else ""
        size = f"({shape}" if shape else ""  # a map has none
        lines.append(f"{label:8} {plain(value.name):{width}}  {kind:{types}}  {size}".rstrip())
        previous = title
    if weights.own:
        count = sum(math.prod(e.weight.shape) for e in weights.own.values() if e.is_parameter)
        lines.append(f"Weights  {header.name}.safetensors: {count:,} parameters")
    text = "\n".join(plain(line, LONGEST_LINE).rstrip() for line in lines)
    return f'"""{text}\n"""'


# Where the names come from that generated code and kernels may use; each group sorted as ruff sorts imports.
_STANDARD = {
    **{name: f"import {name}" for name in ("io", "itertools", "json", "math", "re")},
    "OrderedDict": "from collections import OrderedDict",
    "Callable": "from collections.abc import Callable",
    "Sequence": "from collections.abc import Sequence",
    "Path": "from pathlib import Path",
    "BinaryIO": "from typing import BinaryIO",
}
_INSTALLED = {
    "np": "import numpy as np",
    "torch": "import torch",
    "Image": "from PIL import Image",
    "load_bytes": "from safetensors.torch import load as load_bytes",
    "load_file": "from safetensors.torch import load_file",
    "Tensor": "from torch import Tensor",
    "nn": "from torch import nn",
    "F": "from torch.nn import functional as F",
}


def _imports(code: str) -> list[str]:
    """Imports of what the code uses, and only that."""
    used = {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}
    groups = [_merged([line for name, line in group.items() if name in used]) for group in (_STANDARD, _INSTALLED)]
    return "\n\n".join("\n".join(group) for group in groups if group).splitlines()


def _merged(lines: list[str]) -> list[str]:
    """Two imports from one module as one line."""
    merged: list[str] = []
    for line in lines:
        source, _, name = line.rpartition(" import ")
        if source and merged and merged[-1].startswith(f"{source} import "):
            merged[-1] += f", {name}"
        else:
            merged.append(line)
    return merged


_PATH = "str | Path | bytes | BinaryIO | dict[str, Tensor] | None"


def _loader(root_class: str, name: str, saved: SavedWeights) -> list[str]:
    """Write `load`, and before it what it needs: the paths of the files, and the functions that it calls."""
    if not saved.files:
        return [
            f"def load() -> {root_class}:",
            '    """The model, ready to run."""',
            f"    return {root_class}().eval()",
        ]
    file = index_name(name) if saved.files > 1 else f"{name}.safetensors"
    paths = [f'WEIGHTS = Path(__file__).with_name("{file}")']
    if saved.has_constants:
        paths.append(f'CONSTANTS = Path(__file__).with_name("{constants_name(name)}.safetensors")')
    body = [*_untrained(saved), *_given(saved), *(_CONSTANTS if saved.has_constants else ())]
    functions = kernels.sources(_called_kernels("\n".join(body)), LINE_LENGTH)
    return [
        *paths,
        *(part for text in functions.values() for part in ("", "", text)),
        "",
        "",
        f'def load(path: {_PATH} = WEIGHTS, device: str = "cpu", dtype: torch.dtype | None = None) -> {root_class}:',
        '    """The model, ready to run; untrained if `path` is None, and in `dtype` if it is given."""',
        '    with torch.device(device if path is None else "meta"):',
        f"        model = {root_class}()",
        *body,
        "    return model.to(dtype).eval()",
    ]


_CONSTANTS = (
    "    for name, constant in load_file(CONSTANTS, device=device).items():",
    '        owner, _, buffer = name.rpartition(".")',
    "        model.get_submodule(owner).register_buffer(buffer, constant, persistent=False)",
)


def _untrained(saved: SavedWeights) -> list[str]:
    """Write what makes a model without weights complete: values for what no layer of PyTorch initialises."""
    lines = ["        initialise(model)"] if saved.has_own_parameters else []
    if saved.has_own_buffers:
        read = "read_shards" if saved.files > 1 else "read_weights"
        lines.append(f"        keep_buffers(model, {read}(WEIGHTS, device))")
    return ["    if path is None:", *lines] if lines else []


def _given(saved: SavedWeights) -> list[str]:
    """Write what loads the weights that are given."""
    weights = "read_weights(path, device)"
    lines = []
    if saved.files > 1:
        lines = [f'        weights = read_shards(path, device) if str(path).endswith(".json") else {weights}']
        weights = "weights"
    if saved.ties:
        weights = f"under_all_names({weights}, model)"
    lines.append(f"        model.load_state_dict({weights}, assign=True)")
    if saved.ties:
        lines.append("        model.tie_weights()")
    return ["    else:" if _untrained(saved) else "    if path is not None:", *lines]


def format_source(text: str) -> str:
    """`text` as ruff formats it, the same on every machine: no configuration file is read."""
    command = [_ruff(), "format", "--isolated", "--line-length", str(LINE_LENGTH), "--stdin-filename", "model.py", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, encoding="utf-8", check=False)
    if done.returncode != 0:
        raise AssertionError(f"the generated source does not parse: {done.stderr.strip()}\n{text[:4000]}")
    return done.stdout


def _ruff() -> str:
    beside = FilePath(sys.executable).with_name("ruff")
    if beside.exists():
        return str(beside)
    from ruff import find_ruff_bin  # the wheel knows where it put its binary

    return str(find_ruff_bin())
