"""`Nursery.make(number)`: a mutant, always the same for a seed and a number."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import onnx
from google.protobuf.message import DecodeError

from . import anything, attributes, functions, nodes, octets, tensors, values
from .seeds import Seed
from .view import Change, NotApplicableError, View

CHANGES: dict[Change, int] = {
    **nodes.CHANGES,
    **attributes.CHANGES,
    **tensors.CHANGES,
    **values.CHANGES,
    **functions.CHANGES,
    **anything.CHANGES,
}
MOST_BYTES = 1_000_000
OPTIONS: tuple[dict[str, Any], ...] = (*({},) * 8, {"structure": "flat"}, {"simplify": False})


@dataclass(frozen=True)
class Mutant:
    """A file that may be no model, with the files beside it."""

    number: int
    origin: str
    """The seed that it was made of."""
    changes: tuple[str, ...]
    data: bytes
    files: Mapping[str, bytes]
    options: Mapping[str, Any]
    """How it is to be lifted."""
    by_path: bool
    """Whether it is lifted from a file and not from bytes."""

    @property
    def digest(self) -> str:
        """A number for all that is in it."""
        parts = (self.data, repr((self.options, self.by_path)).encode(), *self.files.values())
        return sha256(b"".join(parts)).hexdigest()


@dataclass(frozen=True)
class Nursery:
    """Makes mutants of valid models."""

    seeds: Sequence[Seed]
    seed: int = 0

    def make(self, number: int) -> Mutant:
        choose = random.Random(f"{self.seed} {number}")
        kinds = sorted({seed.kind for seed in self.seeds})
        kind = choose.choice(kinds)
        seed = choose.choice([each for each in self.seeds if each.kind == kind])
        others = choose.sample(self.seeds, 3)
        options = choose.choice(OPTIONS)
        by_path = bool(seed.files) or choose.random() < 0.5
        changes: list[str] = []
        data = seed.data
        if choose.random() < 0.8:
            data = structural(choose, data, [each.data for each in others], changes)
        if not changes or choose.random() < 0.05:
            data = octets.change(choose, data, others[0].data)
            changes.append("bytes")
        return Mutant(number, seed.name, tuple(changes), data[:MOST_BYTES], seed.files, options, by_path)


def structural(choose: random.Random, data: bytes, others: Sequence[bytes], changes: list[str]) -> bytes:
    """The model with one to a few changes of its parts, whose names are added to `changes`."""
    model = onnx.ModelProto.FromString(data)
    strangers = [onnx.ModelProto.FromString(each) for each in others]
    wanted = choose.choice((1, 1, 1, 1, 1, 2, 2, 3, 5))
    while len(changes) < wanted:
        [change] = choose.choices(tuple(CHANGES), tuple(CHANGES.values()))
        try:
            change(choose, View.of(model, strangers))
            changes.append(f"{change.__module__.rpartition('.')[2]}.{change.__name__}")
        except (NotApplicableError, DecodeError):
            continue
    return model.SerializeToString()
