"""Operations as Python text, and running such text.

Texts from the model are written as literals only. Arrays of a few elements are written out; larger ones are in an .npz
file beside the script.
"""

from __future__ import annotations

import keyword
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from onnxlift.errors import OnnxLiftError
from onnxlift.saving import save_files

from .arrays import FEW, Array
from .operation import ARGUMENTS, INPUTS, Operation

if TYPE_CHECKING:
    from .editor import Editor

_NUMPY = "float32 float64 float16 int64 int32 int16 int8 uint64 uint32 uint16 uint8 bool".split()
_HEAD = "# Run this with: onnxlift edit SCRIPT.py MODEL.onnx -o OUT.onnx\n# `m` is the model's editor.\n"


def script_text(operations: Iterable[Operation]) -> str:
    """Return the text of a script that does the operations. Raises OnnxLiftError if an array is too large for it."""

    def refuse(array: Array) -> str:
        raise OnnxLiftError(
            f"an array of {array} is too large for the text of a script: write the script to a file, which gets the "
            "numbers beside it (m.script(path)), or take JSON (m.to_json())."
        )

    return _text(operations, refuse)


def write_script(operations: Iterable[Operation], path: Path, *, force: bool = False) -> str:
    """Write a script to `path`, and its large arrays to the .npz file of the same name; return the text."""
    arrays: dict[str, Any] = {}

    def stored(array: Array) -> str:
        name = f"array_{len(arrays)}"
        if isinstance(array.data, tuple):
            raise OnnxLiftError(f"{array.size:,} strings are too many for a script: take JSON (m.to_json()).")
        arrays[name] = np.frombuffer(array.data, np.uint8)
        return f"array({array.dtype!r}, {list(array.shape)}, arrays[{name!r}].tobytes())"

    text = _text(operations, stored, path.with_suffix(".npz").name)
    save_text(path, text, arrays, force=force)
    return text


def save_text(path: Path, text: str, arrays: Mapping[str, Any] | None = None, *, force: bool = False) -> None:
    """Write a text, and perhaps arrays to the .npz file of the same name. Both appear whole or not at all."""
    names = [path.name, *([path.with_suffix(".npz").name] if arrays else [])]

    def write(folder: Path) -> list[Path]:
        written = [folder / name for name in names]
        written[0].write_text(text, encoding="utf-8", newline="\n")
        for file in written[1:]:
            np.savez(file, **dict(arrays or {}))
        return written

    ours = re.compile("|".join(map(re.escape, names)))
    save_files(path.parent, path.name, write, ours=ours, last=path.name, force=force)


def _text(operations: Iterable[Operation], large: Callable[[Array], str], file: str = "") -> str:
    lines = [f"m.{call_text(each, large)}" for each in operations]
    body = "\n".join(lines)
    imports = []
    if "np." in body:
        imports.append("import numpy as np")
    if "arrays[" in body:
        imports = ["from pathlib import Path", "", "import numpy as np"]
    if "array(" in body.replace("np.array(", ""):
        imports += ["", "from onnxlift.workbench.edit import array"]
    if "arrays[" in body:
        imports += ["", f"arrays = np.load(Path(__file__).parent / {file!r})"]
    head = "\n".join(imports).strip()
    return "\n".join(part for part in (_HEAD, f"{head}\n" if head else "", body) if part) + "\n"


def call_text(operation: Operation, large: Callable[[Array], str]) -> str:
    """Return the call of the editor's method: `rename('1423', 'hidden')`. `large` spells large arrays."""
    said = operation.said()
    parameters = operation.signature().parameters
    arguments: Mapping[str, Any] = said.get(ARGUMENTS, {})
    if any(name in parameters and parameters[name].kind is parameters[name].KEYWORD_ONLY for name in arguments):
        return f"do({operation.to_dict()!r})"  # an attribute that has the name of a parameter
    texts = [_spelled(said[name], large) for name in parameters if _is_positional(parameters[name]) and name in said]
    texts += [_spelled(each, large) for each in said.get(INPUTS, ())]
    named = {name: said[name] for name in said if parameters[name].kind is parameters[name].KEYWORD_ONLY}
    plain = {**arguments, **named}
    if all(name.isidentifier() and name.isascii() and not keyword.iskeyword(name) for name in plain):
        texts += [f"{name}={_spelled(value, large)}" for name, value in plain.items()]
    else:
        texts.append("**{" + ", ".join(f"{name!r}: {_spelled(value, large)}" for name, value in plain.items()) + "}")
    return f"{operation.op()}({', '.join(texts)})"


def _is_positional(parameter: Any) -> bool:
    return parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)


def _spelled(value: Any, large: Callable[[Array], str]) -> str:
    if isinstance(value, Array):
        return _array(value, large)
    if isinstance(value, tuple):
        return f"[{', '.join(_spelled(each, large) for each in value)}]"
    if isinstance(value, float) and not math.isfinite(value):
        return f"float({str(value)!r})"
    return repr(value)


def _array(array: Array, large: Callable[[Array], str]) -> str:
    if array.size > FEW:
        return large(array)
    if isinstance(array.data, tuple):
        return f"array('string', {list(array.shape)}, {array.numpy().reshape(-1).tolist()!r})"
    numbers = array.numpy()
    is_finite = numbers.dtype.kind in "biu" or (numbers.dtype.kind == "f" and bool(np.isfinite(numbers).all()))
    if array.dtype in _NUMPY and array.size and is_finite:
        return f"np.array({numbers.tolist()!r}, {array.dtype!r})"
    return f"array({array.dtype!r}, {list(array.shape)}, {array.data!r})"


def run_script(editor: Editor, path: Path) -> None:
    """Run a Python script on an editor, which is its `m`. This executes the file."""
    try:
        code = compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    except OSError as error:
        raise OnnxLiftError(f"cannot read the script {str(path)!r}: {error.strerror}.") from error
    except (SyntaxError, ValueError) as error:
        raise OnnxLiftError(f"the script {path.name} is no Python: {error}") from error
    names = {"__name__": "__onnxlift_edit__", "__file__": str(path.absolute()), "m": editor}
    try:
        exec(code, names)
    except OnnxLiftError as error:
        raise OnnxLiftError(f"{_place(path)}: {error}") from error
    except (Exception, SystemExit) as error:
        raise OnnxLiftError(f"{_place(path)}: {type(error).__name__}: {error}") from error


def _place(path: Path) -> str:
    """Return the line of the script at which the error that is being handled left it."""
    traceback, line = sys.exc_info()[2], 0
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == str(path):
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return f"{path.name}, line {line}" if line else path.name
