"""What `export` returns: a file that torch made, and whether it was found to compute the same."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnxlift.errors import OnnxLiftError, OutputError
from onnxlift.saving import save_files
from onnxlift.sizes import format_bytes
from onnxlift.unforeseen import answered
from onnxlift.verification.models import ModelVerification

from ..report import ModelReport

if TYPE_CHECKING:
    import torch

Folder = tempfile.TemporaryDirectory[str]

PROGRAM, PACKAGE, ONNX = "pt2", "aoti", "onnx"
TITLES = {PROGRAM: "torch.export program", PACKAGE: "AOTInductor package", ONNX: "ONNX model by torch.onnx"}


@dataclass(frozen=True)
class Facts:
    """What is told of an export: its kind, inputs, outputs and sizes, and the operators of the traced program."""

    kind: str
    inputs: Mapping[str, str]
    """Input -> its type and shape, with the names of open sizes."""
    outputs: Mapping[str, str]
    open: tuple[str, ...]
    """The sizes that stay open."""
    fixed: Mapping[str, int]
    """The sizes that the model leaves open, and the export does not."""
    operators: Mapping[str, int]
    """The operators of ATen in the program, and how many there are of each."""

    def to_dict(self) -> dict[str, Any]:
        """Return them as plain dicts and lists."""
        return {
            "kind": self.kind,
            "inputs": dict(self.inputs),
            "outputs": dict(self.outputs),
            "sizes": {"open": list(self.open), "fixed": dict(self.fixed)},
            "operators": dict(self.operators),
        }

    def lines(self) -> list[str]:
        """Return them line by line."""
        lines = [f"  made           {TITLES[self.kind]}, {sum(self.operators.values()):,} ATen operators"]
        lines += [f"  input          {name}  {kind}" for name, kind in self.inputs.items()]
        lines += [f"  output         {name}  {kind}" for name, kind in self.outputs.items()]
        if self.open:
            lines.append(f"  open sizes     {', '.join(self.open)}")
        if self.fixed:
            lines.append(f"  fixed sizes    {', '.join(f'{name}={size}' for name, size in self.fixed.items())}")
        return lines


@dataclass(frozen=True)
class ExportReport:
    """The result of `export`: a program of `torch.export`, or a package that AOTInductor has compiled.

    It is true if it computes what the ONNX model does, as far as that was checked, and readable when printed."""

    name: str
    facts: Facts
    file: Path = field(repr=False)
    """Where it is until it is saved. It is there for as long as this report."""
    folder: Folder = field(repr=False, compare=False)
    verification: ModelVerification | None = None
    """How it compares with ONNX Runtime; None if nobody asked."""
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Tell whether it computes what the original does, as far as that was checked."""
        return self.verification is None or self.verification.passed

    @property
    def ok(self) -> bool:
        """Tell whether the command's answer is yes."""
        return self.passed

    def __bool__(self) -> bool:
        return self.passed

    @property
    def why_not_written(self) -> str:
        """What to tell of a result that is not written, because it has not passed."""
        return "--no-verify writes it all the same"

    @cached_property
    def program(self) -> torch.export.ExportedProgram:
        """The program, loaded by torch into this process. A compiled package holds none."""
        if self.facts.kind != PROGRAM:
            raise OnnxLiftError("a compiled package holds no program: export without aoti=True.")
        import torch

        return torch.export.load(self.file)

    @property
    def size(self) -> int:
        """The number of bytes of the file."""
        return self.file.stat().st_size

    def save(self, path: str | os.PathLike[str], *, force: bool = False, external_data: str = "auto") -> list[Path]:
        """Write the file to `path`, and return the files that were written.

        A file that is there already is replaced only with `force`. It holds its weights itself, so that
        `external_data` cannot name a file for them."""
        if external_data not in ("auto", "never"):
            raise OutputError("a .pt2 file holds its weights itself: leave out --external-data.")
        target = Path(path)

        def write(folder: Path) -> list[Path]:
            copy = folder / target.name
            try:
                os.link(self.file, copy)  # the same bytes on the disk, if it is the same disk
            except OSError:
                shutil.copyfile(self.file, copy)
            return [copy]

        ours = re.compile(re.escape(target.name))
        with answered():
            return save_files(target.parent, target.name, write, ours=ours, last=target.name, force=force)

    def to_bytes(self) -> bytes:
        """Return the bytes of the file."""
        return self.file.read_bytes()

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain dicts and lists, for `json.dumps`."""
        verification = None if self.verification is None else self.verification.to_dict()
        return {
            "passed": self.passed,
            **self.facts.to_dict(),
            "bytes": self.size,
            "verification": verification,
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        lines = [self.name, *self.facts.lines(), f"  size           {format_bytes(self.size)}"]
        lines += [f"  note           {note}" for note in self.notes]
        if self.verification is not None:
            lines.append(f"  verified       {self.verification.summary}")
            lines += [f"  note           {note}" for note in self.verification.notes]
        return "\n".join(lines)


@dataclass(frozen=True)
class BackReport(ModelReport):
    """The result of `export(onnx=True)`: an ONNX model again, that torch's exporter has written."""

    exported: Facts = field(kw_only=True)
    folder: Folder = field(repr=False, compare=False, kw_only=True)
    """Where the weights of the model are read from; it is there for as long as this report."""

    def facts(self) -> dict[str, Any]:
        return self.exported.to_dict()

    def lines(self) -> list[str]:
        return self.exported.lines()
