"""Turn names from the model into Python identifiers. Only here does untrusted text become part of our source."""

from __future__ import annotations

import builtins
import keyword
import re
import sys
import unicodedata
from collections.abc import Iterable

from onnxlift.lifting import kernels

# Names that an attribute of a module may not have: all attributes of nn.Module itself, and names that `forward` needs.
# They are listed because the compiler does not import torch; a test compares the list with the real class.
MODULE_ATTRIBUTES = frozenset(
    """T_destination add_module apply bfloat16 buffers call_super_init children compile cpu cuda double dump_patches
    eval extra_repr float forward get_buffer get_extra_state get_parameter get_submodule half ipu load_state_dict
    modules mtia named_buffers named_children named_modules named_parameters parameters register_backward_hook
    register_buffer register_forward_hook register_forward_pre_hook register_full_backward_hook
    register_full_backward_pre_hook register_load_state_dict_post_hook register_load_state_dict_pre_hook
    register_module register_parameter register_state_dict_post_hook register_state_dict_pre_hook requires_grad_
    set_extra_state set_submodule share_memory state_dict to to_empty train training type xpu zero_grad
    tie_weights""".split()
)
# The same for attributes with an underscore in front: of modules, and of the containers that we write.
PRIVATE_ATTRIBUTES = frozenset(
    """_apply _backward_hooks _backward_pre_hooks _buffers _call_impl _compiled_call_impl _forward_hooks
    _forward_hooks_always_called _forward_hooks_with_kwargs _forward_pre_hooks _forward_pre_hooks_with_kwargs
    _get_abs_string_index _get_backward_hooks _get_backward_pre_hooks _get_item_by_idx _get_name
    _is_full_backward_hook _key_to_attr _keys _load_from_state_dict _load_state_dict_post_hooks
    _load_state_dict_pre_hooks _maybe_warn_non_full_backward_hook _modules _named_members
    _non_persistent_buffers_set _parameters _register_load_state_dict_pre_hook _register_state_dict_hook
    _replicate_for_data_parallel _save_to_state_dict _size _slow_forward _state_dict_hooks _state_dict_pre_hooks
    _version _wrapped_call_impl""".split()
)
# Names that the generated file imports or defines itself, besides the kernels.
GLOBAL_NAMES = frozenset(
    """BinaryIO CONSTANTS Callable F OrderedDict Path Sequence Tensor WEIGHTS io itertools json load load_bytes
    load_file math nn np numpy re safetensors self torch""".split()
)
_BUILTINS = frozenset(name for name in dir(builtins) if not name.startswith("_"))


def plain(text: str | None, length: int = 80) -> str:
    """Return `text` as it may stand in a docstring: printable ASCII, no quotes or backslashes, at most `length`
    characters."""
    return re.sub(r"[^\x20-\x7e]|[\"\\]", "?", (text or "")[:length])


def identifier(text: str, default: str = "x") -> str:
    """Return `text` as an ASCII identifier that is no keyword, no builtin and no name that our source relies on."""
    word = _word(text, default)
    taken = keyword.iskeyword(word) or keyword.issoftkeyword(word) or word in GLOBAL_NAMES or word in _BUILTINS
    taken = taken or kernels.exists(word)
    return f"{word}_" if taken else word


def file_stem(text: str) -> str:
    """Return `text` as a file name that can be imported and does not hide another module: `random` -> `random_`."""
    word = identifier(text, "model")
    return f"{word}_" if word in sys.stdlib_module_names or word == "PIL" else word


def attribute(text: str, default: str = "layer") -> str:
    """Return `text` as the name of a module's attribute. Digits alone stay as they are: they index a container."""
    if text.isascii() and text.isdigit() and len(text) < 9 and (text == "0" or text[0] != "0"):
        return text
    word = _word(text, default)
    return f"{word}_" if keyword.iskeyword(word) or word in MODULE_ATTRIBUTES else word


def is_attribute(text: str) -> bool:
    """Tell whether code can say `self.NAME` for a member that has exactly this name. It cannot for keywords, for names
    that mean something else in every module, and for those that Python changes within a class (`__name`)."""
    is_word = re.fullmatch(r"_?[A-Za-z][A-Za-z0-9_]{0,79}", text, re.ASCII) is not None
    return is_word and not keyword.iskeyword(text) and text not in MODULE_ATTRIBUTES | PRIVATE_ATTRIBUTES


def _word(text: str, default: str) -> str:
    """Return the letters, digits and single underscores of `text`, beginning with a letter."""
    ascii_text = unicodedata.normalize("NFKD", text[:200]).encode("ascii", "ignore").decode()
    word = re.sub(r"[\W_]+", "_", ascii_text).strip("_")[:60].rstrip("_")
    return word if word[:1].isalpha() else f"{default}_{word}".rstrip("_")


def class_name(text: str, default: str = "Model") -> str:
    """Return `text` in CapWords: `tiny_resnet` -> `TinyResnet`. A word with capitals inside stays as it is."""
    ascii_text = unicodedata.normalize("NFKD", text[:200]).encode("ascii", "ignore").decode()
    words = [w for w in re.split(r"[\W_]+", ascii_text) if w]
    name = "".join(w if not w.islower() else w.capitalize() for w in words)[:60]
    if not name or not name[0].isalpha():
        return default if not name else f"{default}{name}"
    name = name[0].upper() + name[1:]
    if keyword.iskeyword(name) or name in _BUILTINS or name in GLOBAL_NAMES or kernels.exists(name):
        name += "Model"
    return name


def unique(name: str, taken: Iterable[str] | set[str]) -> str:
    """Return `name`, or a free one of `name_1`, `name_2`, ..."""
    pool = taken if isinstance(taken, set | frozenset | dict) else set(taken)
    if name not in pool:
        return name
    stem = name.rstrip("_")
    last, free = 0, 1
    while f"{stem}_{free}" in pool:
        last, free = free, 2 * free
    while free - last > 1:  # bisect: with ten thousand of one name, each would step over all before it
        middle = (last + free) // 2
        last, free = (middle, free) if f"{stem}_{middle}" in pool else (last, middle)
    return f"{stem}_{free}"
