"""The origin of every constant: what it is, and who named it. Decided once, and kept with the constant as one value.

`classify` decides it for all initialisers, when a model has been read. A step that makes a constant says what it is
(`initialiser` and `weight_initialiser` in editing/edit.py). A step that finds out more (that nothing but comparisons
read a parameter, that a Constant node holds a layer's weight) says so with one of the functions `mark_...`, and the
reason. Everybody else asks `origin_of`.

What the exporters tell, in the order in which it counts:

1. PyTorch's newer exporter notes what it has computed a constant from, and says which ones are buffers.
2. It lists all parameters and buffers. What its optimiser computes may have the name of one by chance, but then there
   is a note. The older exporter calls what it has computed `onnx::MatMul_12`, or a mere number, and what stands in a
   node `/attn/Constant_output_0`; all other initialisers of such a file are in the state dict under their names, be it
   ones that a program might have counted as well (`const`, `w1`, `node_embedding`).
3. Exporters keep weights as initialisers, and constants of the code in nodes. So an initialiser of several
   floating-point numbers is a parameter, if it has a name that somebody chose.
4. Of others only their use can tell: `lifting/tree/weights.py`, `idioms/layers/bare_weights.py`.
"""

from __future__ import annotations

import re
from collections.abc import Collection
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
"""Key in `Value.meta` of what a constant is: a `TensorOrigin`."""

MOST_READERS = 64  # what more nodes read is no weight of any of them

# What models compute once and keep, and never train.
_KEPT = re.compile(
    r"(^|[._])(inv_freq|freqs?(_cis)?|(cos|sin)(_cached)?|masked_bias|attn_mask|anchors?|window|weight_scale)$"
)
_NOTED = "the exporter notes what it has computed it from"
_LOSSES = {"NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"}


class Kind(Enum):
    """What a constant was in the model that was exported."""

    PARAMETER = "parameter"
    BUFFER = "buffer"
    CONSTANT = "constant of the code"
    COMPUTED = "computed ahead of time by the exporter"
    UNTOLD = "not told"
    """It is written as a buffer, unless its use tells more."""


@dataclass(frozen=True)
class TensorOrigin:
    """What a constant is, who named it, and how we know."""

    kind: Kind
    naming: Naming
    exporter: Exporter | None
    """Who wrote it into the file; None if it was not in the file, and one of our steps has made it."""
    reason: str
    """How we know, for a reader who asks why a tensor is what it is in the source."""
    key: str | None = None
    """Its key in the state dict, if an exporter tells it."""
    computed_from: tuple[str, ...] | None = None
    """What the exporter notes that it was computed from; None without such a note."""
    is_told: bool = False
    """The exporter says, or a step has found out, whether it is a parameter or a buffer."""
    persistent: bool | None = None
    """Whether a buffer is in the state dict, if the exporter tells."""
    word: str | None = None
    """What it is to be called, if its use tells that it is trained and its name does not."""

    @property
    def is_parameter(self) -> bool:
        """Tell whether it is to be trained: an `nn.Parameter` of the source."""
        return self.kind is Kind.PARAMETER

    @property
    def is_buffer(self) -> bool:
        """Tell whether it is known to be a buffer. (What nobody says anything of becomes one, too.)"""
        return self.kind is Kind.BUFFER

    @property
    def is_constant(self) -> bool:
        """Tell whether it stood in the code, or one of our steps has made it up."""
        return self.kind is Kind.CONSTANT

    @property
    def is_computed(self) -> bool:
        """Tell whether the exporter notes that it has computed the numbers: the name is that of an operation."""
        return self.computed_from is not None

    @property
    def is_made(self) -> bool:
        """Tell whether it is not in the file: one of our steps has made it."""
        return self.exporter is None

    @property
    def has_made_up_name(self) -> bool:
        """Tell whether a program made up its name, for certain: nothing is lost with it."""
        return self.naming is Naming.PROGRAM

    @property
    def is_nameless(self) -> bool:
        """Tell whether its name says nothing to a reader, and is no key of the state dict that only looks so (`w1`)."""
        return self.naming is not Naming.AUTHOR

    @property
    def is_programs_own(self) -> bool:
        """Tell whether it is no tensor of the author's: a constant of the code, or under a name that a program made up.
        It may stand in the place of something that the layer does not have."""
        return self.is_constant or self.has_made_up_name

    @property
    def has_lost_its_name(self) -> bool:
        """Tell whether it is called by what the exporter has computed it with, or by a name that a program made up: it
        may have been made from a parameter with a name."""
        return self.is_computed or self.has_made_up_name

    @property
    def is_unnamed(self) -> bool:
        """Tell whether nobody gave it its name: that says nothing, or it stood in the code, or the exporter computed
        the numbers."""
        return self.is_nameless or self.is_constant or self.is_computed

    @property
    def is_in_state_dict(self) -> bool:
        """Tell whether it is in the state dict under its own name: a parameter, or a buffer that is known as one."""
        return self.is_parameter or (self.is_buffer and self.persistent is not False and not self.is_unnamed)


def classify(model: ir.Model) -> None:
    """Decide what each initialiser of a model that has just been read is."""
    exporter, listed = exporter_of(model), state_names(model.graph)
    for region in regions(model):
        keys = listed if region.graph is model.graph else ()
        are_keys = region.graph is model.graph and not listed and exporter.tool is Tool.PYTORCH_OLDER
        for value in region.graph.initializers.values():
            value.meta[ORIGIN] = _classified(value, exporter, keys, are_keys)


def origin_of(value: ir.Value) -> TensorOrigin:
    """Return what a constant is. One that neither was in a file nor has been made by a step of ours (such as the tables
    that operators keep) is judged by its name, type and size."""
    known = value.meta.get(ORIGIN)
    if isinstance(known, TensorOrigin):
        return known
    found = _classified(value, UNKNOWN, (), False)
    if value.const_value is not None:
        value.meta[ORIGIN] = found
    return found


def folded_from(value: ir.Value) -> list[str]:
    """Return the names of all that the exporter notes a constant was computed from."""
    return [*(origin_of(value).computed_from or ())]


def may_be_trained(value: ir.Value | None) -> bool:
    """Tell whether the numbers of `value` may be trained, by the layer that it is the weight of: floating-point numbers
    that the file keeps as an initialiser, whatever their name; a single one only if the name is not made up.

    A parameter has this, and so have a buffer, what the exporter has computed from a parameter, and a weight that has
    lost its name (`onnx::MatMul_12`). What came out of a Constant node, or of folding, has not."""
    tensor = constant(value)
    if value is None or tensor is None or tensor.dtype not in FLOATS:
        return False
    origin = origin_of(value)
    return not origin.is_constant and (tensor.size > 1 or not origin.has_made_up_name)


def mark_made(value: ir.Value, reason: str, *, is_named: bool = False) -> None:
    """Note that one of our steps has made a constant, which nobody trains. It `is_named` if the name is the original's,
    whatever that looks like."""
    naming = Naming.AUTHOR if is_named else naming_of(value.name)
    value.meta[ORIGIN] = TensorOrigin(Kind.CONSTANT, naming, None, reason)


def mark_restored(value: ir.Value, reason: str, *, is_named: bool = False) -> None:
    """Note that one of our steps has made a weight of the original again, or has found its name. It is judged by its
    name and size, as if it were in the file. It `is_named` if the name is the original's, whatever that looks like."""
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
    """Note that one of our steps has made a copy of a constant, under a name of its own: what the original is, computed
    from other `sources`."""
    origin = origin_of(original)
    value.meta[ORIGIN] = replace(
        origin,
        exporter=None,
        reason=reason,
        key=None if origin.key is None else value.name,
        computed_from=origin.computed_from if sources is None else tuple(sources),
    )


def mark_told(value: ir.Value, is_buffer: bool, reason: str) -> None:
    """Note that a constant is known to be a buffer, or a parameter, from now on."""
    origin = origin_of(value)
    value.meta[ORIGIN] = replace(origin, kind=Kind.BUFFER if is_buffer else origin.kind, is_told=True, reason=reason)


def mark_computed(value: ir.Value, sources: Collection[str]) -> None:
    """Note what the exporter has computed the numbers of a constant from."""
    origin = origin_of(value)
    kind = origin.kind if origin.is_constant else Kind.COMPUTED
    value.meta[ORIGIN] = replace(origin, kind=kind, computed_from=tuple(sources), reason=_NOTED)


def mark_trained(value: ir.Value, word: str, reason: str) -> None:
    """Note that a constant is trained, by its use, and called `word` unless its name says so already. What is told to
    be a buffer, or computed, gets the word only."""
    origin = origin_of(value)
    if origin.is_buffer or origin.is_computed:
        value.meta[ORIGIN] = replace(origin, word=word)
    else:
        value.meta[ORIGIN] = replace(origin, kind=Kind.PARAMETER, word=word, reason=reason)


def _classified(value: ir.Value, exporter: Exporter, keys: Collection[str], are_keys: bool) -> TensorOrigin:
    """Return what an initialiser of a file is. `keys` are those of the state dict, if the file lists them; without a
    list, `are_keys` tells whether all that may be keys are."""
    name, told = value.name or "", value.metadata_props
    sources = tuple(string_list(told[FOLDED_FROM]) or ()) if FOLDED_FROM in told else None
    is_key = sources is None and (name in keys or (are_keys and may_be_key(name)))
    naming = Naming.AUTHOR if is_key else naming_of(value.name)
    kind, reason = _kind_by_name(value, naming)
    if sources is not None:
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
    """Judge an initialiser by its name, type and size, and by the losses that read it; gives the reason, too."""
    tensor = value.const_value
    if tensor is None or tensor.dtype not in FLOATS:
        return Kind.UNTOLD, "it has no floating-point numbers, so nobody trains it"
    if tensor.size <= 1:
        return Kind.UNTOLD, "it is a single number, which only its use can tell from a constant of the code"
    if naming is not Naming.AUTHOR:
        return Kind.UNTOLD, f"{naming.value}, so only its use can tell"
    if _KEPT.search(value.name or ""):
        return Kind.UNTOLD, "models compute what is called so once and keep it, and do not train it"
    if _weighs_classes(value):
        return Kind.UNTOLD, "a loss weighs classes by it, which PyTorch's losses do not train"
    return Kind.PARAMETER, "the file keeps floating-point numbers under a name that somebody chose"


def _weighs_classes(value: ir.Value) -> bool:
    """Tell whether a loss counts classes by these numbers, and nothing else reads them."""
    readers = [*islice(value.uses(), MOST_READERS)]
    return bool(readers) and all(node.op_type in _LOSSES and index == 2 for node, index in readers)
