"""Judge the name of a value by its text alone: did a person choose it, or did a program make it up?

Each function answers one question. If the value is a constant, ask for its origin instead (`tensors.py`): an exporter
may tell that `w1` is a key of the state dict, though it looks made up.

- `is_made_up`: only a program writes such a name (`onnx::MatMul_12`, `/attn/Constant_output_0`, `const_fold_opt__123`).
- `says_nothing`: the name is made up, or means nothing to a reader, whoever wrote it (`w1`, `mul_3`, `Conv_4`).
- `may_be_key`: in a file of PyTorch's older exporter, this is a key of the state dict (`w1` and `mul_3` included).
- `is_counted_operation`, `is_counted_weight`, `is_counted_input`: the name is a word with a number that only tells it
  from others. Programs name results of operations, Paddle's weights, and inputs without a name like that.
"""

from __future__ import annotations

import re
from enum import Enum

LONGEST_NAME = 1000  # a longer name tells a reader nothing, and the expressions below would take long

# A number, what Paddle calls a variable before it has a value (`undefined_var_0.1`), or a name whose last part has
# `const` or `constant` as a word of its own: `pad_const__93`, `model/Const:0`, `helper.constant.3`. Not `constrain`,
# not `constant.weight`, the weight of a layer that is called `constant`, and not `attention.constant`, a buffer of a
# module.
_MADE_UP = re.compile(
    r"""(?:val_)?\d+ | (?:p2o\.)?helper\.constant\.\d+ | undefined_var_\d+(?:\.\d+)?
        | (?:[^.]*[/_])? (?: [Cc]onst(?:ant)?s?(?![a-z]) | CONST(?:ANT)?S?(?![A-Z]) ) \w* (?:[.:]\d+)*""",
    re.VERBOSE,
)

_SAYING_NOTHING = re.compile(
    r"""val_\d+ | \d+ | _v_\d+ | node_[^.]* | [A-Z]\w*[_@]\d+ | [A-Z]\w*__\d+(?::\d+)? | tmp_?\d*(?:_\d+)*
        | (?:Identity|(?:Stateful)?PartitionedCall|ReadVariableOp)(?:_\d+)*(?::\d+)?
        | [a-z]_?\d+(?:_[a-z]?\d+)* | _?tensor_?\d* | _\d+
        | const(?:ant)?(?:_\w*)?_?\d* | initializer_?\d* | .*_output_\d+ | scalar_tensor_default_?\d*
        | (?:elementwise_)?(?:add|cat|clone|div|expand|mul|neg|permute|pow|reshape|select|slice|squeeze|stack|sub|t|to
             |transpose|unsqueeze|view|where)(?:_\d+)*
        | .*_(?:(?:true|false)_graph|split|slice)_\d+
        | .*\.\.\d+ | p2o\..* | helper\.constant\.\d+ | .*\.tmp_\d+.*""",
    re.VERBOSE,
)

_KEY = re.compile(r"[A-Za-z_]\w*(\.\w+)*", re.ASCII)
_ODD_KEY = re.compile(r"([^.]+\.)+[A-Za-z_]\w*", re.ASCII)  # PyTorch only forbids a dot in the name of a module
# Counted names that other programs write when they change a file, but leave the exporter's name in it.
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
_OF_QUANTISER = re.compile(r"(_quantized)?(_scale|_zero_point)?(_DQ_Q[48]|_DQ_scales|_DQ_zero_points)?$")
_QUANTISED = re.compile(r"(?<=.)(_quantized|_(?:Dequ|Qu)antizeLinear_(?:In|Out)put)$")


class Naming(Enum):
    """The answer to the question who gave a tensor its name."""

    AUTHOR = "the author of the model chose the name"
    ANYBODY = "the name says nothing"
    PROGRAM = "a program made the name up"


def naming_of(name: str | None) -> Naming:
    """Tell who gave a name, by its text alone."""
    if is_made_up(name):
        return Naming.PROGRAM
    return Naming.ANYBODY if says_nothing(name) else Naming.AUTHOR


def is_made_up(name: str | None) -> bool:
    """Tell whether a program made up the name, and no person. Then nothing is lost if the name is replaced."""
    if not name:
        return False
    if name.startswith("/") or "::" in name:
        return True
    return len(name) <= LONGEST_NAME and _MADE_UP.fullmatch(name) is not None


def says_nothing(name: str | None) -> bool:
    """Tell whether a name means nothing to a reader.

    A program made it up, or it is no more than a letter or an operation with a number (`w1`, `mul_3`)."""
    if not name or len(name) > LONGEST_NAME:
        return True
    name = unquantised(name)
    return is_made_up(name) or _SAYING_NOTHING.fullmatch(name) is not None


def may_be_key(name: str) -> bool:
    """Tell whether a name in a file of PyTorch's older exporter is a key of the state dict.

    Every name that has the form of a key is one, except counted names (`tensor_12`) that another program may have
    written later: it may leave the exporter's name in the file."""
    if len(name) > LONGEST_NAME or _COUNTER_SINCE.fullmatch(name):
        return False
    return bool(_KEY.fullmatch(name)) or (bool(_ODD_KEY.fullmatch(name)) and not is_made_up(name))


def is_counted_operation(name: str) -> bool:
    """Tell whether a name is only an operation with a number: `conv2d_401`, `mean_2`."""
    return _COUNTED_OPERATION.fullmatch(name) is not None


def is_counted_weight(name: str) -> bool:
    """Tell whether Paddle made up the name for a weight: `conv2d_7.w_0`, `conv2d_7.w_0_deepcopy_35`."""
    return _COUNTED_WEIGHT.fullmatch(_OF_QUANTISER.sub("", name)) is not None


def unquantised(name: str) -> str:
    """Return the name that a value had before ONNX Runtime's quantiser added to it."""
    return _QUANTISED.sub("", name)


def is_counted_input(name: str) -> bool:
    """Tell whether the name of an input is only a count: `onnx::Add_0`, `12`. A short one like `h0` is a real name."""
    return _COUNTED_INPUT.fullmatch(name) is not None
