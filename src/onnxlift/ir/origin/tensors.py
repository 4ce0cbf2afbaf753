"""Decide the origin of every constant: what it is, and who named it. The answer is kept with the constant.

`classify` decides it for all initialisers when a model has been read. A step that makes a constant says what it is
(`initialiser` and `weight_initialiser` in editing/edit.py). A step may find out more: that only comparisons read a
parameter, or that a Constant node holds a layer's weight. It notes that, with the reason, by one of the functions
`mark_...`. All other code asks `origin_of`.

These facts decide, the first ones before the later ones:

1. PyTorch's newer exporter notes from what it has computed a constant, and which ones are buffers. What it has computed
   from no parameter and no buffer is a constant of the code.
2. It lists the keys of all parameters and buffers. A constant that its optimiser has computed may have one of these
   names by chance, but then it has the note of rule 1. The older exporter names constants that it has computed
   `onnx::MatMul_12` or by a number alone, and constants of the code `/attn/Constant_output_0`. All other initialisers
   of its files are in the state dict under their names, even if the name looks made up (`const`, `w1`,
   `node_embedding`).
3. Exporters keep weights as initialisers, and constants of the code in nodes. So an initialiser of several
   floating-point numbers is a parameter, if somebody chose its name.
4. For all others only their use can tell: `rewriting/idioms/layers/channel_weights.py`, `lifting/tree/weights.py`,
   `rewriting/idioms/layers/bare_weights.py`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Set
from dataclasses import dataclass, replace
from enum import Enum
from itertools import islice

import onnx_ir as ir

from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.types import FLOATS
from onnxlift.ir.graph.walk import regions

from .exported import state_names
from .exporter import UNKNOWN, Exporter, Tool, exporter_of
from .metadata import FOLDED_FROM, PERSISTENT, SIGNATURE_KIND, string_list
from .names import Naming, may_be_key, naming_of

ORIGIN = "origin"
"""Key in `Value.meta` of the origin of a constant: a `TensorOrigin`."""

MOST_READERS = 64  # as many readers of a constant are looked at

# Names of tensors that models compute once and keep, and never train.
_KEPT = re.compile(
    r"(^|[._])(inv_freq|freqs?(_cis)?|(cos|sin)(_cached)?|masked_bias|attn_mask|anchors?|window|weight_scale)$"
)
_NOTED = "the exporter has computed it ahead of time, and notes from what"
_NOT_FROM_STATE = "the exporter has computed it ahead of time from no parameter and no buffer"
_CLASS_WEIGHTS = {("NegativeLogLikelihoodLoss", 2), ("SoftmaxCrossEntropyLoss", 2)}
_STATISTICS = {("BatchNormalization", 3), ("BatchNormalization", 4)}


class Kind(Enum):
    """The kind of thing that a constant was in the original."""

    PARAMETER = "parameter"
    BUFFER = "buffer"
    CONSTANT = "constant of the code"
    COMPUTED = "computed ahead of time by the exporter"
    UNTOLD = "not told"
    """Nothing tells what it was. It is written as a buffer, unless its use tells more."""


@dataclass(frozen=True)
class TensorOrigin:
    """The origin of a constant: what it is, who named it, and how we know."""

    kind: Kind
    naming: Naming
    exporter: Exporter | None
    """The program that wrote it into the file; None if it was not in the file, and one of our steps has made it."""
    reason: str
    """How we know, for a reader who asks why a tensor is what it is in the source."""
    key: str | None = None
    """Its key in the state dict, if an exporter tells it."""
    computed_from: tuple[str, ...] | None = None
    """The names of the values that it was computed from, as the exporter notes; None without such a note."""
    is_told: bool = False
    """True if the exporter says whether it is a parameter or a buffer, or a step has found that out."""
    persistent: bool | None = None
    """True if the exporter says that a buffer is in the state dict, False if it says that it is not, else None."""
    word: str | None = None
    """A word to name it by, if its use shows that it is trained and its own name does not."""

    @property
    def is_parameter(self) -> bool:
        """Tell whether it is trained, so that it becomes an `nn.Parameter` in the source."""
        return self.kind is Kind.PARAMETER

    @property
    def is_buffer(self) -> bool:
        """Tell whether it is known to be a buffer. (A constant of which nothing is told becomes one, too.)"""
        return self.kind is Kind.BUFFER

    @property
    def is_constant(self) -> bool:
        """Tell whether it was a constant of the original's code, or one of our steps has made it."""
        return self.kind is Kind.CONSTANT

    @property
    def is_computed(self) -> bool:
        """Tell whether the exporter notes that it has computed the numbers. The name is then that of an operation."""
        return self.computed_from is not None

    @property
    def is_made(self) -> bool:
        """Tell whether it is not in the file: one of our steps has made it."""
        return self.exporter is None

    @property
    def has_made_up_name(self) -> bool:
        """Tell whether a program certainly made up its name, so that nothing is lost if the name is replaced."""
        return self.naming is Naming.PROGRAM

    @property
    def is_nameless(self) -> bool:
        """Tell whether its name says nothing to a reader. A key of the state dict does, even if it looks like `w1`."""
        return self.naming is not Naming.AUTHOR

    @property
    def is_programs_own(self) -> bool:
        """Tell whether it is a constant of the code, or has a name that a program made up.

        Then it may only stand in the place of a weight that the layer does not have, like a bias of zeros."""
        return self.is_constant or self.has_made_up_name

    @property
    def has_lost_its_name(self) -> bool:
        """Tell whether the exporter has computed it, or a program made up its name.

        Then it may have been made from a parameter, whose name is lost."""
        return self.is_computed or self.has_made_up_name

    @property
    def is_unnamed(self) -> bool:
        """Tell whether the author of the model did not name it.

        Its name says nothing, or it was a constant of the code, or the exporter has computed the numbers."""
        return self.is_nameless or self.is_constant or self.is_computed

    @property
    def is_in_state_dict(self) -> bool:
        """Tell whether it is in the state dict under its own name: a parameter, or a buffer that is known as one."""
        return self.is_parameter or (self.is_buffer and self.persistent is not False and not self.is_unnamed)


def classify(model: ir.Model) -> None:
    """Decide the origin of each initialiser of a model that has just been read."""
    exporter, listed = exporter_of(model), state_names(model.graph)
    for region in regions(model):
        keys = listed if region.graph is model.graph else frozenset()
        are_keys = region.graph is model.graph and not listed and exporter.tool is Tool.PYTORCH_OLDER
        for value in region.graph.initializers.values():
            value.meta[ORIGIN] = _classified(value, exporter, keys, are_keys)


def origin_of(value: ir.Value) -> TensorOrigin:
    """Return the origin of a constant.

    If it was neither in a file nor made by one of our steps (such as the tables that operators keep), it is judged by
    its name, type and size."""
    known = value.meta.get(ORIGIN)
    if isinstance(known, TensorOrigin):
        return known
    found = _classified(value, UNKNOWN, frozenset(), False)
    if value.const_value is not None:
        value.meta[ORIGIN] = found
    return found


def folded_from(value: ir.Value) -> list[str]:
    """Return the names of the values from which the exporter has computed a constant, if it notes that."""
    return [*(origin_of(value).computed_from or ())]


def may_be_trained(value: ir.Value | None) -> bool:
    """Tell whether `value` may be the weight of a layer, so that its numbers may be trained.

    These are floating-point numbers that the file keeps as an initialiser, whatever its name; a single number only if
    its name is not made up. So it holds for a parameter, a buffer, a constant that the exporter has computed from a
    parameter, and a weight that has lost its name (`onnx::MatMul_12`). It does not hold for the value of a Constant
    node, or for a constant that we have folded."""
    tensor = constant(value)
    if value is None or tensor is None or tensor.dtype not in FLOATS:
        return False
    origin = origin_of(value)
    return not origin.is_constant and (tensor.size > 1 or not origin.has_made_up_name)


def mark_made(value: ir.Value, reason: str, *, is_named: bool = False) -> None:
    """Note that one of our steps has made a constant, which is not trained.

    `is_named` says that the name comes from the original, even if it looks made up."""
    naming = Naming.AUTHOR if is_named else naming_of(value.name)
    value.meta[ORIGIN] = TensorOrigin(Kind.CONSTANT, naming, None, reason)


def mark_restored(value: ir.Value, reason: str, *, is_named: bool = False) -> None:
    """Note that one of our steps has restored a weight of the original, or has found its name.

    It is judged by its name, type and size, as if it were in the file. `is_named` says that the name comes from the
    original, even if it looks made up."""
    known = value.meta.get(ORIGIN)
    naming = Naming.AUTHOR if is_named else naming_of(value.name)
    value.meta[ORIGIN] = TensorOrigin(
        _kind_by_name(value, naming)[0],
        naming,
        known.exporter if isinstance(known, TensorOrigin) else None,
        reason,
        key=value.name if is_named and "/" not in (value.name or "") else None,
    )


def mark_copied(value: ir.Value, original: ir.Value, reason: str, *, sources: Collection[str] | None = None) -> None:
    """Note that one of our steps has made a copy of a constant under another name.

    Its origin is that of the `original`; if `sources` are given, it is noted as computed from these."""
    origin = origin_of(original)
    value.meta[ORIGIN] = replace(
        origin,
        exporter=None,
        reason=reason,
        key=None if origin.key is None else value.name,
        computed_from=origin.computed_from if sources is None else tuple(sources),
    )


def mark_told(value: ir.Value, is_buffer: bool, reason: str) -> None:
    """Note that a constant is known to be a buffer, or, without `is_buffer`, to be of the kind that it has already."""
    origin = origin_of(value)
    value.meta[ORIGIN] = replace(origin, kind=Kind.BUFFER if is_buffer else origin.kind, is_told=True, reason=reason)


def mark_computed(value: ir.Value, sources: Collection[str]) -> None:
    """Note the names of the values from which the exporter has computed a constant."""
    origin = origin_of(value)
    kind = origin.kind if origin.is_constant else Kind.COMPUTED
    value.meta[ORIGIN] = replace(origin, kind=kind, computed_from=tuple(sources), reason=_NOTED)


def mark_trained(value: ir.Value, word: str, reason: str) -> None:
    """Note that the use of a constant shows that it is trained, and a `word` to name it by.

    A constant that is known to be a buffer, or to be computed, gets the word only."""
    origin = origin_of(value)
    if origin.is_buffer or origin.is_computed:
        value.meta[ORIGIN] = replace(origin, word=word)
    else:
        value.meta[ORIGIN] = replace(origin, kind=Kind.PARAMETER, word=word, reason=reason)


def mark_untrained(value: ir.Value, reason: str) -> None:
    """Note why the use of a constant does not show that it is trained."""
    value.meta[ORIGIN] = replace(origin_of(value), reason=reason)


def _classified(value: ir.Value, exporter: Exporter, keys: Set[str], are_keys: bool) -> TensorOrigin:
    """Return the origin of an initialiser of a file.

    `keys` are the keys of the state dict, if the file lists them. Without a list, `are_keys` says that every name that
    may be a key is one."""
    name, told = value.name or "", value.metadata_props
    sources = tuple(string_list(told[FOLDED_FROM]) or ()) if FOLDED_FROM in told else None
    is_key = sources is None and (name in keys or (are_keys and may_be_key(name)))
    naming = Naming.AUTHOR if is_key else naming_of(value.name)
    kind, reason = _kind_by_name(value, naming)
    if sources is not None and keys and keys.isdisjoint(sources):
        kind, reason = Kind.CONSTANT, _NOT_FROM_STATE
    elif sources is not None:
        kind, reason = Kind.COMPUTED, _NOTED
    elif told.get(SIGNATURE_KIND) == "BUFFER":
        kind, reason = Kind.BUFFER, "the exporter says that it was a buffer"
    elif kind is Kind.PARAMETER and name in keys:
        reason = "the exporter lists it as a part of the state dict"
    elif kind is Kind.PARAMETER and is_key:
        reason = "the exporter writes the state dict under its own keys, and this may be one"
    elif exporter.tool is Tool.PYTORCH_OLDER and naming is Naming.PROGRAM and not name.startswith("/"):
        kind, reason = Kind.COMPUTED, "PyTorch's older exporter gives such names to what it has computed"
    return TensorOrigin(
        kind,
        naming,
        exporter,
        reason,
        key=name if is_key else None,
        computed_from=sources,
        is_told=SIGNATURE_KIND in told,
        persistent={"True": True, "False": False}.get(told.get(PERSISTENT, "")),
    )


def _kind_by_name(value: ir.Value, naming: Naming) -> tuple[Kind, str]:
    """Judge an initialiser by its name, type, size, and by who reads it; return its kind and the reason."""
    tensor = value.const_value
    if tensor is None or tensor.dtype not in FLOATS:
        return Kind.UNTOLD, "it has no floating-point numbers, so nobody trains it"
    if tensor.size <= 1:
        return Kind.UNTOLD, "it is a single number, which only its use can tell from a constant of the code"
    if naming is not Naming.AUTHOR:
        return Kind.UNTOLD, f"{naming.value}, so only its use can tell"
    if _KEPT.search(value.name or ""):
        return Kind.UNTOLD, "models compute what is called so once and keep it, and do not train it"
    if _is_only_read_at(value, _CLASS_WEIGHTS):
        return Kind.UNTOLD, "a loss weighs classes by it, which PyTorch's losses do not train"
    if _is_only_read_at(value, _STATISTICS):
        return Kind.BUFFER, "the statistics of a batch norm, which follow the data and are not trained"
    return Kind.PARAMETER, "the file keeps floating-point numbers under a name that somebody chose"


def _is_only_read_at(value: ir.Value, places: Collection[tuple[str, int]]) -> bool:
    """Tell whether operators of these types read a constant, each at this place among its inputs, and no others."""
    readers = [*islice(value.uses(), MOST_READERS)]
    return bool(readers) and all((node.op_type, place) in places for node, place in readers)
