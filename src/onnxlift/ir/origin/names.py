"""Names of values, by their text alone: did a person choose one, or did a program make it up?

Each function answers one question. Who has a constant at hand, asks what the constant is
(`tensors.py`): an exporter may tell that `w1` is a key of the state dict, however it looks.

- `is_made_up`: only a program writes such a name (`onnx::MatMul_12`, `/attn/Constant_output_0`, `const_fold_opt__123`).
- `says_nothing`: that, or what means nothing to a reader, whoever wrote it (`w1`, `mul_3`, `Conv_4`).
- `may_be_key`: a name that PyTorch's older exporter has taken from the state dict (`w1` and `mul_3` included).
- `is_counted_operation`, `is_counted_weight`, `is_counted_input`: a word and a number that tells it from others, as
  programs call the results of operations, Paddle's weights, and inputs that nobody has named.
"""

from __future__ import annotations

import re
from enum import Enum

LONGEST_NAME = 1000  # beyond it no name tells a reader anything, and the expressions below take their time

# A number; or a last part with the word `constant` in it, apart from other words: `pad_const__93`, `model/Const:0`,
# `helper.constant.3`; but neither `constrain` nor the weight of a layer that is called `constant`.
_MADE_UP = re.compile(
    r"""(?:val_)?\d+
        | (?:.*[/._])? (?: [Cc]onst(?:ant)?s?(?![a-z]) | CONST(?:ANT)?S?(?![A-Z]) ) \w* (?:[.:]\d+)*""",
    re.VERBOSE,
)

_SAYING_NOTHING = re.compile(
    r"""val_\d+ | \d+ | _v_\d+ | node_[^.]* | [A-Z]\w*_\d+ | tmp_?\d*(?:_\d+)*
        | [a-z]_?\d+(?:_[a-z]?\d+)* | _?tensor_?\d* | _\d+
        | const(?:ant)?(?:_\w*)?_?\d* | initializer_?\d* | .*_output_\d+ | scalar_tensor_default_?\d*
        | (?:elementwise_)?(?:add|cat|clone|div|expand|mul|neg|permute|pow|reshape|select|slice|squeeze|stack|sub|t|to
             |transpose|unsqueeze|view|where)(?:_\d+)*
        | .*_(?:(?:true|false)_graph|split|slice)_\d+
        | .*\.\.\d+ | p2o\..* | helper\.constant\.\d+ | .*\.tmp_\d+.*""",
    re.VERBOSE,
)

_KEY = re.compile(r"[A-Za-z_]\w*(\.\w+)*", re.ASCII)
# The counters of programs that rewrite a file and leave the exporter's name in it.
_COUNTER_SINCE = re.compile(
    r"""_* (?: (?:val|v|tmp|tensor|node|initializer|const|constant)_?\d+ | const\w*_\d+ | [A-Z][a-z]\w*_\d+ | \d+
        | \w*_output_\d+ | \w*_token_\d+ | ortshared_\w* ) (?:_quantized|_scale|_zero_point)?""",
    re.VERBOSE,
)

_COUNTED_OPERATION = re.compile(
    r"(?i)(conv[123]d|conv|linear|dense|fc|gemm|relu|mean|sum|sqrt|rsqrt|pad|eq|softmax|sigmoid|tanh|layer_?norm|embedding"
    r"|batch_norm)(_\d+)+|(convolution_output|transpose_output|adjusted_input)\d*"
)
_COUNTED_INPUT = re.compile(r"(?i)onnx::.*|\d+|val_\d+|.*_output_\d+")
_COUNTED_WEIGHT = re.compile(r"\w+_\d+\.[wb]_\d+(_deepcopy)?(_\d+)?")


class Naming(Enum):
    """Who gave a tensor its name."""

    AUTHOR = "the author of the model chose the name"
    ANYBODY = "the name says nothing"
    PROGRAM = "a program made the name up"


def naming_of(name: str | None) -> Naming:
    """Tell who gave a name, by its text alone."""
    if is_made_up(name):
        return Naming.PROGRAM
    return Naming.ANYBODY if says_nothing(name) else Naming.AUTHOR


def is_made_up(name: str | None) -> bool:
    """Tell whether an exporter or another program made up the name, and no person did. Nothing is lost with it."""
    if not name:
        return False
    if name.startswith("/") or "::" in name:
        return True
    return len(name) <= LONGEST_NAME and _MADE_UP.fullmatch(name) is not None


def says_nothing(name: str | None) -> bool:
    """Tell whether a name means nothing to a reader: a program made it up, or it is a letter or an operation with a
    number."""
    if not name or len(name) > LONGEST_NAME:
        return True
    return is_made_up(name) or _SAYING_NOTHING.fullmatch(name) is not None


def may_be_key(name: str) -> bool:
    """Tell whether a name in a file of PyTorch's older exporter is a key of the state dict. All are that have the form
    of one, but for the counters of programs that may have had the file since, and keep the exporter's name in it."""
    return len(name) <= LONGEST_NAME and bool(_KEY.fullmatch(name)) and not _COUNTER_SINCE.fullmatch(name)


def is_counted_operation(name: str) -> bool:
    """Tell whether a name says no more than the operation and how many of its kind came before: `conv2d_401`,
    `mean_2`."""
    return _COUNTED_OPERATION.fullmatch(name) is not None


def is_counted_weight(name: str) -> bool:
    """Tell whether Paddle calls the weight of a layer so, by a kind and a number: `conv2d_7.w_0`,
    `conv2d_7.w_0_deepcopy_35`."""
    return _COUNTED_WEIGHT.fullmatch(name) is not None


def is_counted_input(name: str) -> bool:
    """Tell whether only a counter sets an input apart from others. Shorter ones are names, if they are of inputs:
    `h0`."""
    return _COUNTED_INPUT.fullmatch(name) is not None
