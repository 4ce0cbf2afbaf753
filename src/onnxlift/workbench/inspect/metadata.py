"""What a file says of itself beside the graph: who made it, and whatever else its maker wrote into it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import onnx_ir as ir

from onnxlift.terminal import plain


@dataclass(frozen=True)
class Metadata:
    """The metadata of a model. `properties` are the pairs of the file, and `graph_properties` those of its graph."""

    graph: str
    domain: str
    model_version: int | None
    doc_string: str
    graph_doc_string: str
    properties: dict[str, str]
    graph_properties: dict[str, str]
    functions: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return asdict(self)

    def lines(self) -> list[str]:
        """Write what is there. Long texts are cut: the JSON has them whole."""
        version = "" if self.model_version is None else str(self.model_version)
        told = [
            ("graph", self.graph),
            ("domain", self.domain),
            ("version", version),
            ("about", self.doc_string),
            ("graph's doc", self.graph_doc_string),
        ]
        lines = [f"  {title:11}  {_shown(text)}" for title, text in told if text]
        for title, pairs in (("properties", self.properties), ("of graph", self.graph_properties)):
            width = min(max(map(len, pairs), default=0), 40)
            lines += [
                f"  {title if not place else '':11}  {plain(key):{width}}  {_shown(value)}"
                for place, (key, value) in enumerate(pairs.items())
            ]
        lines += [
            f"  {'functions' if not place else '':11}  {plain(name)}" for place, name in enumerate(self.functions)
        ]
        return ["metadata", *(lines or ["  none"])]


def _shown(text: str) -> str:
    return plain(text) if len(text) <= 1000 else f"{plain(text)}... ({len(text):,} characters)"


def metadata_of(model: ir.Model) -> Metadata:
    """Return the metadata of a model."""
    graph = model.graph
    return Metadata(
        graph.name or "",
        model.domain or "",
        model.model_version,
        model.doc_string or "",
        graph.doc_string or "",
        dict(model.metadata_props),
        dict(graph.metadata_props),
        tuple(f"{domain}::{name}" if domain else name for domain, name, _ in model.functions),
    )
