"""`set_metadata`: set an entry of the model's metadata."""

from __future__ import annotations

from dataclasses import dataclass

from onnxlift.errors import OnnxLiftError, quote

from ..edited import EditedModel
from ..operation import Operation


@dataclass(frozen=True)
class SetMetadata(Operation):
    """Set an entry of the model's metadata (`metadata_props`); None removes it."""

    key: str
    value: str | None

    def apply(self, model: EditedModel) -> None:
        if not self.key:
            raise OnnxLiftError("an entry of the metadata has a key that is not empty.")
        entries = model.proto.metadata_props
        present = [entry for entry in entries if entry.key == self.key]
        if self.value is None and not present:
            raise OnnxLiftError(f"the metadata has no entry {quote(self.key)}.")
        for entry in present if self.value is None else present[1:]:
            entries.remove(entry)
        if self.value is not None:
            entry = present[0] if present else entries.add(key=self.key)
            entry.value = self.value
