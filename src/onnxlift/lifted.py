"""`Lifted`: a model as source and weights."""

from __future__ import annotations

import copy
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property, partial
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from onnxlift.errors import OnnxLiftError
from onnxlift.ir.graph.types import TORCH_DTYPE, ValueType
from onnxlift.ir.reading.tensors import DataFile, FileTensor
from onnxlift.lifting.modules.members.ties import find_ties
from onnxlift.lifting.modules.module import Entry, Module, state_entries
from onnxlift.lifting.ops.layers import Weight
from onnxlift.lifting.stages import Lift
from onnxlift.lifting.text.dump import GraphDump
from onnxlift.lifting.text.explain import Explanation, explain
from onnxlift.lifting.text.file import Source
from onnxlift.lifting.text.named import named_things
from onnxlift.lifting.text.source_map import MappedName, Readers, SourceMap, map_source
from onnxlift.lifting.text.weights import (
    MAX_SHARD_SIZE,
    Progress,
    constants_name,
    stored_bytes,
    stored_dtype,
    write_weights,
)
from onnxlift.rewriting.element_type import parse_dtype
from onnxlift.rewriting.history import History

from .report import LiftReport
from .saving import save_files
from .stages import Record
from .unforeseen import answered

if TYPE_CHECKING:
    import torch
    from torch import nn

    import onnxlift.workbench.update.verb


class Lifted:
    """A lifted model: its `source` and its `state_dict`.

    `module()` makes a live module of them, `save()` writes them to files."""

    def __init__(
        self,
        name: str,
        source: Source,
        root: Module,
        model: ir.Model,
        record: Record,
        *,
        node_count: int = 0,
        readers: Readers | None = None,
        warnings: tuple[str, ...] = (),
        structures: Mapping[str, int] | None = None,
        dump: GraphDump | None = None,
        max_shard_size: int = MAX_SHARD_SIZE,
        history: History | None = None,
        stored_types: Mapping[str, ValueType] | None = None,
        noise: Mapping[str, Any] | None = None,
        precisions: tuple[ir.DataType | None, ...] = (),
        lift: Lift | None = None,
    ) -> None:
        self.name = name
        self.model = model
        self.record = record
        self._source = source
        self._root = root
        entries = dict(state_entries(root))
        self._ties = find_ties(entries)
        self._entries = {key: entry for key, entry in entries.items() if entry.persistent and key not in self._ties}
        self._constants = {key: entry for key, entry in entries.items() if not entry.persistent}
        self._node_count = node_count
        self._readers = readers or {}
        self._warnings = warnings
        self._structures = structures or {}
        self._dump = dump or GraphDump()
        self._max_shard_size = max_shard_size
        self._history = history
        self._noise = noise
        self.stored_types = stored_types or {}
        """Input or output -> its type in the file. In another precision (`lift(dtype=...)`) the source has another."""
        self.precisions = precisions
        """The type of most of the weights, in the file and in the source; None if there is no floating-point type."""
        self.origin: tuple[Any, dict[str, Any]] | None = None
        """The model that this was lifted from, and the options of `lift` that decide on keys and numbers."""
        self.lift = lift
        """What the source was written from; its modules can be made anew from the graph and the paths in it."""

    def __repr__(self) -> str:
        report = self.report
        return (
            f"Lifted({self.name!r}: {report.nodes:,} nodes, {report.parameters:,} parameters, {report.lines:,} lines)"
        )

    @property
    def source(self) -> str:
        """The text of NAME.py."""
        return self._source.text

    @property
    def state_dict(self) -> Mapping[str, np.ndarray[Any, Any]]:
        """The state dict: key -> numpy array. It is lazy: an array is made when it is asked for, and not kept."""
        return StateDict(self._entries)

    @property
    def constants(self) -> Mapping[str, np.ndarray[Any, Any]]:
        """The buffers that are not in the state dict: key -> numpy array. It is lazy, as `state_dict` is."""
        return StateDict(self._constants)

    @cached_property
    def source_map(self) -> SourceMap:
        """The source map: from each line of `source` to its ONNX nodes, and back."""
        things = named_things(self._source.writers)
        names = [MappedName(thing.kind, thing.where, thing.name.text, thing.name.why) for thing in things]
        return map_source(self.source, self._source.origins, self._root, self._readers, names)

    def explain(self, name: str) -> Explanation:
        """Explain `name`: a variable, class, member or argument in `source`, or an ONNX node.

        For a name in `source` the explanation has the reason for the name, the ONNX values and nodes that it stands
        for, and the names that it could have had. For an ONNX node it has the steps that changed it and the idioms that
        nearly took it, if the model was lifted with `explain=True`. An unknown name is an error."""
        things = named_things(self._source.writers, with_others=True)
        history = self._history
        changes = None if history is None else history.changes
        near_misses = () if history is None else history.near_misses
        return explain(name, things, self.source_map, self._readers, changes, near_misses)

    @property
    def report(self) -> LiftReport:
        """The report: what happened while the model was lifted, in numbers."""
        parameters = (e for e in self._entries.values() if e.is_parameter)
        return LiftReport(
            name=self.name,
            nodes=self._node_count,
            parameters=sum(prod(entry.weight.shape) for entry in parameters),
            weight_bytes=sum(map(stored_bytes, (self._entries | self._constants).values())),
            steps=self.record.fired(),
            restless=tuple(self.record.restless),
            classes=self._source.classes,
            lines=len(self.source.splitlines()),
            kernels=tuple(self._source.kernels),
            warnings=self._warnings,
            structures=self._structures,
            dequantised=self._noise_by_key(),
        )

    def _noise_by_key(self) -> Mapping[str, Any] | None:
        """Return the noise of what was dequantised, with the key of the noisiest weight for its name in the file."""
        if self._noise is None:
            return None
        name = self._noise["noisiest"]
        keys = (key for key, entry in self._entries.items() if entry.weight.value.name == name)
        return {**self._noise, "noisiest": next(keys, name)}

    def module(self, train: bool = False, dtype: torch.dtype | str | None = None) -> nn.Module:
        """Execute `source` and return a live module with the weights loaded.

        The module is in eval mode, or in train mode if `train`: then dropout drops elements, and a batch norm uses the
        statistics of the batch and updates its running statistics. With `dtype`, its floating-point parameters and
        buffers are converted to that type."""
        import torch

        from .executing import execute, to_torch

        namespace = execute(self.source, self.name)
        with torch.device("meta"):
            module: nn.Module = namespace[self._source.class_name]()
        weights = {key: to_torch(entry.weight.array()) for key, entry in self._entries.items()}
        weights |= {key: weights[owner] for key, owner in self._ties.items()}
        module.load_state_dict(weights, assign=True)
        if self._ties:
            namespace[self._source.class_name].tie_weights(module)
        for key, entry in self._constants.items():
            owner, _, name = key.rpartition(".")
            module.get_submodule(owner).register_buffer(name, to_torch(entry.weight.array()), persistent=False)
        element = parse_dtype(dtype)
        if element is not None:
            module.to(getattr(torch, TORCH_DTYPE[element]))
        return module.train(train)

    def with_weights(self, weights: Mapping[str, np.ndarray[Any, Any]]) -> Lifted:
        """Return the same model with other weights: an array for each key of the state dict, read when it is used."""
        other = copy.copy(self)
        other._entries = {key: _with_numbers(entry, key, weights) for key, entry in self._entries.items()}
        return other

    def update(self, weights: Any, **options: Any) -> onnxlift.workbench.update.verb.UpdateReport:
        """Return the ONNX model with new weights in the place of its own, and everything else as it is.

        `weights` is the trained module, its state dict, or the path of a safetensors or `.pt` file. This is
        `onnxlift.update` with the model and the options of `lift` that this comes from; `options` are its others."""
        import onnxlift

        if self.origin is None:
            raise OnnxLiftError("nobody knows which model this was lifted from: call onnxlift.update(model, weights).")
        source, lift_options = self.origin
        return onnxlift.update(source, weights, **lift_options, **options)

    def save(
        self, directory: str | os.PathLike[str], force: bool = False, on_progress: Progress | None = None
    ) -> list[Path]:
        """Write NAME.py, its weights, NAME.graph.txt and NAME.map.json to `directory`; return the paths in this order.

        All files appear at once when they are complete. Files that are there already are replaced only with `force`.
        `on_progress(done, total)` is called with the bytes of weights that are written, and with all there are."""
        write = partial(self._write, on_progress=on_progress)
        ours = re.compile(
            rf"{re.escape(self.name)}(\.py|(\.constants)?\.safetensors|\.safetensors\.index\.json|\.graph\.txt"
            r"|\.map\.json|-\d{5}-of-\d{5}\.safetensors)"
        )
        last = f"{self.name}.py"
        with answered():
            return save_files(
                Path(directory), self.name, write, ours=ours, last=last, force=force, keep=self.data_files()
            )

    def _write(self, folder: Path, on_progress: Progress | None = None) -> list[Path]:
        texts = {
            f"{self.name}.py": self.source,
            f"{self.name}.graph.txt": self._dump.text(self.model),
            f"{self.name}.map.json": self.source_map.to_json(f"{self.name}.py"),
        }
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8", newline="\n")
        source, *rest = (folder / name for name in texts)
        weights = write_weights(self._entries, folder, self.name, self._max_shard_size, on_progress)
        constants = write_weights(self._constants, folder, constants_name(self.name), sys.maxsize)
        return [source, *weights, *constants, *rest]

    def data_files(self) -> set[Path]:
        """Return the files from which the weights are read."""
        tensors = (entry.weight.value.const_value for entry in (self._entries | self._constants).values())
        sources = (tensor.raw.source for tensor in tensors if isinstance(tensor, FileTensor))
        return {source.path for source in sources if isinstance(source, DataFile)}


def _with_numbers(entry: Entry, key: str, weights: Mapping[str, np.ndarray[Any, Any]]) -> Entry:
    """Return an entry whose numbers are those of a given weight."""
    tensor = entry.weight.value.const_value
    assert tensor is not None
    shape = ir.Shape(entry.weight.shape)
    element = ir.DataType.from_numpy(stored_dtype(tensor.dtype))
    lazy = ir.LazyTensor(lambda: ir.Tensor(np.ascontiguousarray(weights[key]), element), element, shape, name=key)
    value = ir.Value(name=entry.weight.value.name, type=ir.TensorType(element), shape=shape, const_value=lazy)
    return replace(entry, weight=Weight(value, entry.weight.shape))


class StateDict(Mapping[str, np.ndarray[Any, Any]]):
    """The weights by name, each read when it is asked for."""

    def __init__(self, entries: Mapping[str, Entry]) -> None:
        self._entries = entries

    def __getitem__(self, key: str) -> np.ndarray[Any, Any]:
        return self._entries[key].weight.array()

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"StateDict({len(self)} tensors)"
