"""The result of `build_script`: a script and its weights, and whether it was found to make the same model."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx_ir as ir

from onnxlift.errors import OutputError
from onnxlift.ir.reading.weights import data_files
from onnxlift.saving import save_files
from onnxlift.sizes import format_bytes
from onnxlift.terminal import plain
from onnxlift.unforeseen import answered
from onnxlift.workbench.diff.report import DiffReport

from .weights import Progress, write_safetensors


@dataclass(frozen=True)
class BuildScriptReport:
    """A script that makes a model with `onnxlift.build`, and the weights that it reads.

    It is true if the script was found to make the same model, or nobody asked, and readable when printed."""

    name: str
    source: str = field(repr=False)
    """The text of the script."""
    tensors: Mapping[str, ir.TensorProtocol] = field(repr=False)
    """The weights that it reads from the file beside it, by name."""
    texts: Mapping[str, str] = field(repr=False)
    """Long texts that it reads from there."""
    model: ir.Model = field(repr=False)
    """The model that the script is written for."""
    nodes: int = 0
    functions: int = 0
    """The number of its functions for modules, and for functions of the model."""
    difference: DiffReport | None = None
    """What `diff` says of the model and the one that the script makes; None if nobody asked."""
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Tell whether the script makes the same model, as far as that was checked."""
        return self.difference is None or self.difference.passed

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

    @property
    def weight_bytes(self) -> int:
        """The size of the weights."""
        return sum(tensor.nbytes for tensor in self.tensors.values())

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        force: bool = False,
        external_data: str = "auto",
        on_progress: Progress | None = None,
    ) -> list[Path]:
        """Write the script to `path`, and its weights to a file of that name with the suffix .safetensors.

        Files that are there already are replaced only with `force`."""
        if external_data not in ("auto", "never"):
            raise OutputError("the weights of a script are in a file of its own name: leave out --external-data.")
        target = Path(path)
        if target.suffix != ".py":
            raise OutputError(f"{str(target)!r} is no name of a script: let it end in .py.")

        def write(folder: Path) -> list[Path]:
            return self.write(folder / target.name, on_progress)

        ours = re.compile(rf"{re.escape(target.stem)}\.(py|safetensors)")
        with answered():
            keep = data_files(self.model)
            return save_files(target.parent, target.name, write, ours=ours, last=target.name, force=force, keep=keep)

    def write(self, path: Path, on_progress: Progress | None = None) -> list[Path]:
        """Write the files as they are, without asking what is there."""
        path.write_text(self.source, encoding="utf-8")
        if not self.tensors:
            return [path]
        return [path, write_safetensors(self.tensors, self.texts, path.with_suffix(".safetensors"), on_progress)]

    def to_bytes(self) -> bytes:
        """Return the script, if it needs no file beside it."""
        if self.tensors:
            raise OutputError(
                f"the script reads {len(self.tensors):,} weights from a file beside it, and there is none beside "
                "standard output: write to a file (-o FILE)."
            )
        return self.source.encode()

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain dicts and lists, for `json.dumps`."""
        return {
            "passed": self.passed,
            "nodes": self.nodes,
            "functions": self.functions,
            "lines": self.source.count("\n"),
            "weights": {"tensors": len(self.tensors), "bytes": self.weight_bytes},
            "verification": None if self.difference is None else self.difference.to_dict(),
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        lines = [
            plain(self.name),
            f"  nodes          {self.nodes:,}",
            f"  script         {self.source.count(chr(10)):,} lines, {self.functions:,} functions",
            f"  weights        {len(self.tensors):,} tensors, {format_bytes(self.weight_bytes)}",
            *(f"  note           {note}" for note in self.notes),
        ]
        if self.difference is not None:
            said = "the script makes the same model" if self.difference.passed else "the script makes another model"
            lines.append(f"  verified       {said}")
            if not self.difference.passed:
                lines += [f"  {line}" for line in str(self.difference).splitlines()]
        return "\n".join(lines)
