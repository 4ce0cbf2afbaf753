"""`draw`: a picture of a model, of its modules or of its nodes, as SVG, for Graphviz, for Mermaid, or as PNG."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from onnxlift import pipeline
from onnxlift.errors import LoadError, OnnxLiftError, OutputError, UnsupportedError
from onnxlift.ir.inference.infer import infer as infer_types
from onnxlift.ir.load import load
from onnxlift.saving import save_files
from onnxlift.unforeseen import answered

from ..modules import module_path, nodes_of_module
from ..report import name_of
from .depth import deepest, fitting_depth, limited, module_of, without_unread
from .dot import write_dot
from .mermaid import too_large, write_mermaid
from .modules import draw_modules
from .nodes import draw_nodes
from .picture import Picture
from .png import write_png
from .repetition import collapse
from .svg import write_svg
from .text import cut

FORMATS = ("svg", "dot", "mmd", "png")
_SPELLINGS = {"gv": "dot", "mermaid": "mmd"}


@dataclass(frozen=True)
class Drawing:
    """A picture of a model. In a notebook it shows itself."""

    name: str
    picture: Picture = field(repr=False)
    depth: int = 1
    deepest: int = 1
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Tell whether there is a picture; there always is."""
        return True

    @cached_property
    def _svg(self) -> str:
        with answered():
            return write_svg(self.picture, self.name)

    def svg(self) -> str:
        """Return the picture as SVG."""
        return self._svg

    def dot(self) -> str:
        """Return the picture as text for Graphviz."""
        with answered():
            return write_dot(self.picture, self.name)

    def mermaid(self) -> str:
        """Return the picture as text for Mermaid."""
        with answered():
            return write_mermaid(self.picture)

    def png(self) -> bytes:
        """Return the picture as PNG; this needs `onnxlift[draw]`."""
        return write_png(self.svg())

    def render(self, format: str) -> bytes:
        """Return the picture in a format: svg, dot, mmd or png."""
        writers: dict[str, Callable[[], str]] = {"svg": self.svg, "dot": self.dot, "mmd": self.mermaid}
        format = known_format(format)
        return self.png() if format == "png" else writers[format]().encode()

    def save(self, path: str | os.PathLike[str], *, format: str | None = None, force: bool = False) -> Path:
        """Write the picture to a file, in the format that its suffix tells, and return its path.

        A file that is there already is replaced only with `force`."""
        path = Path(path)
        content = self.render(format or format_of(path))

        def write(folder: Path) -> list[Path]:
            (folder / path.name).write_bytes(content)
            return [folder / path.name]

        ours = re.compile(re.escape(path.name))
        return save_files(path.parent, path.name, write, ours=ours, last=path.name, force=force)[0]

    def limits(self, format: str) -> tuple[str, ...]:
        """Say what a format does not take of this picture."""
        warning = too_large(self.mermaid()) if known_format(format) == "mmd" else ""
        return (warning,) if warning else ()

    def to_dict(self) -> dict[str, Any]:
        """Return boxes and edges as plain dicts and lists, for `json.dumps`."""
        return {"depth": self.depth, "deepest": self.deepest, **self.picture.to_dict(), "notes": list(self.notes)}

    def _repr_svg_(self) -> str:
        return self.svg()

    def __str__(self) -> str:
        boxes, edges = self.picture.count()
        more = "" if self.depth >= self.deepest else f" of {self.deepest}; --depth {self.deepest} shows all"
        lines = [
            self.name,
            f"  drawn          {boxes:,} boxes, {edges:,} edges",
            f"  depth          {self.depth}{more}",
        ]
        return "\n".join([*lines, *(f"  note           {note}" for note in self.notes)])


def draw(source: Any, *, depth: int | None = None, module: str | None = None, flat: bool = False) -> Drawing:
    """Return a picture of the model in `source`.

    By default it shows the modules that lifting finds, with their classes and members as `convert` writes them. Rows of
    equal modules are drawn once. `depth` is the number of levels of modules within modules to show; without it, as many
    as one can read. `module` draws only that module, such as `encoder.layer.0`. If `flat`, it shows the nodes of the
    file. A model that cannot be lifted is drawn so, too, and a note says why."""
    if depth is not None and depth < 1:
        raise OnnxLiftError(f"a depth of {depth} shows nothing: it is 1 or more.")
    with answered():
        notes: list[str] = []
        if flat:
            name, picture = _nodes(source, module, notes)
        else:
            name, picture = _modules(source, module, notes)
        picture = without_unread(picture)
        levels = deepest(picture)
        shown = min(depth or fitting_depth(picture), levels)
        return Drawing(name, limited(picture, shown), shown, levels, tuple(notes))


def _modules(source: Any, module: str | None, notes: list[str]) -> tuple[str, Picture]:
    source = source.read() if hasattr(source, "read") else source  # it may be read twice
    try:
        lifted = pipeline.run(source, name=None, simplify=True, skip_passes=())
        assert lifted.lift is not None
        picture = draw_modules(lifted.lift)
    except OnnxLiftError as error:
        name, picture = _nodes(source, module, notes)
        notes.append(f"drawn node by node: {_first_line(error)}")
        return name, picture
    picture = collapse(picture) if module is None else collapse(module_of(picture, module))
    return name_of(source, lifted.model), picture


def _nodes(source: Any, module: str | None, notes: list[str]) -> tuple[str, Picture]:
    source = source.read() if hasattr(source, "read") else source
    try:
        model = load(source)
        infer_types(model)
    except LoadError as error:  # the files with the weights may be elsewhere; without these, not all is known
        model = load(source, with_data=False)
        notes.append(f"types are only those that the file tells: {_first_line(error)}")
    if module is None:
        return name_of(source, model), draw_nodes(model)
    if not any(map(module_path, model.graph)):
        raise OnnxLiftError(f"no module {module!r} was found: the nodes of this model do not tell their modules.")
    return name_of(source, model), draw_nodes(model, nodes_of_module(model.graph, module))


def _first_line(error: OnnxLiftError) -> str:
    if isinstance(error, UnsupportedError):
        names = dict.fromkeys(f"{node.domain}::{node.op_type}".removeprefix("::") for node in error.nodes)
        return cut(f"{', '.join(names)} cannot be lifted", 200)
    return str(error).partition("\n")[0].rstrip(".:")


def known_format(name: str) -> str:
    """Return the format of a name. Raises an error that lists all if there is none."""
    format = _SPELLINGS.get(name.lower(), name.lower())
    if format not in FORMATS:
        raise OutputError(f"{name!r} is no format of pictures: they are {', '.join(FORMATS)}.")
    return format


def format_of(path: Path) -> str:
    """Return the format that the suffix of a file tells."""
    if not path.suffix:
        raise OutputError(f"{str(path)!r} has no suffix that tells a format: .svg, .dot, .mmd or .png.")
    return known_format(path.suffix[1:])
