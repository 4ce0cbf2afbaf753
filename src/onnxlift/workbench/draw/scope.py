"""Build a picture step by step: boxes read variables and define them, and edges follow from that.

What is read inside a box and defined outside enters through a port of the box. So whoever builds a picture says only
what is read and defined, in the order of the computation.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping

from .picture import BORDER, Box, Edge, Picture, Port

Place = tuple[int, int]
"""A box, or the border, and the number of its port."""


class Scope:
    """The variables that are known at one place, and the picture that grows there.

    `parent` is the scope around, and `box` the box there whose inside this is."""

    def __init__(self, parent: Scope | None = None, box: int = BORDER) -> None:
        self.picture = Picture()
        self._parent = parent
        self._box = box
        self._places: dict[Hashable, Place | None] = {}
        self._edges: dict[Edge, None] = {}

    def add(self, box: Box, reads: Iterable[Hashable] = (), defines: Mapping[Hashable, Port] | None = None) -> int:
        """Add a box that reads some variables, one for each port, and then defines others; return its number.

        A variable that nobody has defined gets no edge."""
        number = len(self.picture.boxes)
        self.picture.boxes.append(box)
        for key in reads:
            self.connect(key, number)
        for key, port in (defines or {}).items():
            self.define(key, number, port)
        return number

    def connect(self, key: Hashable, box: int, port: int | None = None) -> None:
        """Draw an edge from where the variable is defined to a port of a box: a new one if none is given."""
        place = self.find(key)
        if place is None:
            return
        if port is None:
            port = len(self.picture.boxes[box].inputs)
            self.picture.boxes[box].inputs.append(self._port(place))
        self._edges[Edge(*place, box, port)] = None

    def _port(self, place: Place) -> Port:
        box, port = place
        if box != BORDER:
            return self.picture.boxes[box].outputs[port]
        return Port() if self._parent is None else self._parent.picture.boxes[self._box].inputs[port]

    def define(self, key: Hashable, box: int, port: Port) -> None:
        """Let a variable leave a box by a new port."""
        outputs = self.picture.boxes[box].outputs
        self._places[key] = (box, len(outputs))
        outputs.append(port)

    def alias(self, key: Hashable, other: Hashable) -> None:
        """Let a variable be another one."""
        self._places[key] = self.find(other)

    def forget(self, key: Hashable) -> None:
        """Note a variable that is not drawn, such as a size."""
        self._places[key] = None

    def enters(self, key: Hashable, port: int) -> None:
        """Note that a variable comes in by a port of the border."""
        self._places[key] = (BORDER, port)

    def leaves(self, key: Hashable, port: int) -> None:
        """Let a variable go out by a port of the border."""
        place = self.find(key)
        if place is not None:
            self._edges[Edge(*place, BORDER, port)] = None

    def leaves_from(self, box: int, port: Port, border_port: int) -> None:
        """Let a value go out by a port of the border, from a new port of a box, without a variable for it here."""
        outputs = self.picture.boxes[box].outputs
        self._edges[Edge(box, len(outputs), BORDER, border_port)] = None
        outputs.append(port)

    def find(self, key: Hashable) -> Place | None:
        """Return where the variable is defined; if that is outside, the port of the border where it comes in."""
        if key in self._places:
            return self._places[key]
        place = None
        if self._parent is not None and self._parent.find(key) is not None:
            place = (BORDER, len(self._parent.picture.boxes[self._box].inputs))
            self._parent.connect(key, self._box)
        self._places[key] = place
        return place

    def knows(self, key: Hashable) -> bool:
        """Tell whether a variable was defined here or outside, drawn or not."""
        return key in self._places or (self._parent is not None and self._parent.knows(key))

    def finished(self) -> Picture:
        """Return the picture with its edges."""
        self.picture.edges = list(self._edges)
        return self.picture
