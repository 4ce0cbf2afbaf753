"""Write the type stubs of the operators, from their schemas, to src/onnxlift/build/op/*.pyi.

    python tools/operator_stubs.py

An operator has the inputs of its newest revision, and the attributes of all revisions.
"""

from __future__ import annotations

import keyword
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx_ir as ir

from onnxlift.build import state
from onnxlift.build.schemas import operators_of
from onnxlift.build.signatures import Signature, signature_of

FOLDER = Path(__file__).parent.parent / "src" / "onnxlift" / "build" / "op"
FILES = {
    "__init__": ("", "Every operator of ONNX as a function."),
    "microsoft": (state.MICROSOFT, "ONNX Runtime's own operators (com.microsoft), as functions."),
    "ml": (state.ML, "The operators of classical models (ai.onnx.ml), as functions."),
    "preview": (state.PREVIEW, "The operators that ONNX tries out (ai.onnx.preview), as functions."),
    "training": (state.TRAINING, "The operators of training (ai.onnx.preview.training), as functions."),
}
Kind = ir.AttributeType
TYPES = {
    Kind.FLOAT: "float",
    Kind.INT: "int",
    Kind.STRING: "str",
    Kind.TENSOR: "Array",
    Kind.FLOATS: "Floats",
    Kind.INTS: "Ints",
    Kind.STRINGS: "Strings",
    Kind.TENSORS: "Sequence[Array]",
}
HEAD = '''"""{title} Written by tools/operator_stubs.py."""

{imports}
from onnxlift.build.types import {types}
from onnxlift.build.value import Value

'''


def stub(name: str) -> str:
    """Return the text of one file, formatted."""
    domain, title = FILES[name]
    body = "".join(_functions(domain))
    wanted = [each for each in ("Any", "overload") if re.search(rf"\b{each}\b", body)]
    imports = "from collections.abc import Sequence\n" if "Sequence[" in body else ""
    imports += f"from typing import {', '.join(wanted)}\n" if wanted else ""
    types = [each for each in ("Array", "Dtype", "Floats", "Ints", "Operand", "Strings") if f": {each}" in body]
    text = HEAD.format(title=title, imports=imports, types=", ".join(types))
    if name == "__init__":
        text += "".join(f"from . import {each} as {each}\n" for each in FILES if each != "__init__")
    text += body
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(FOLDER / f"{name}.pyi"), "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True, encoding="utf-8").stdout


def _functions(domain: str) -> Iterator[str]:
    for name, versions in operators_of(domain).items():
        found = [each for version in reversed(versions) if (each := signature_of(domain, name, version))]
        newest = next((each for each in found if not each.schema.deprecated), found[0])
        attributes = {}
        for signature in found:
            for key, kind in signature.attributes.items():
                if "legacy" not in signature.schema.attributes[key].description:
                    attributes.setdefault(key, _attribute(key, kind))
        yield _function(newest, attributes)


def _attribute(key: str, kind: ir.AttributeType) -> str:
    return "Dtype" if key in ("to", "dtype", "output_dtype") else TYPES.get(kind, "Any")


def _function(signature: Signature, attributes: dict[str, str]) -> str:
    inputs = list(_inputs(signature))
    taken = {each.name for each in signature.inputs}
    named = [
        f"{key}: {type_} | None = None"
        for key, type_ in sorted(attributes.items())
        if key not in taken and key.isidentifier() and not keyword.iskeyword(key)
    ]
    named.append("name: str | None = None")
    star = [] if any(each.startswith("*") for each in inputs) else ["*"]
    single = "Value" if signature.gives_one else "tuple[Value, ...]"
    doc = _doc(signature.schema.doc)
    if len(signature.outputs) == 1 and not signature.several:
        return _def(signature.name, [*inputs, *star, *named], single, doc)
    if not signature.gives_one:
        return _def(signature.name, [*inputs, *star, "outputs: int | None = None", *named], single, doc)
    return "@overload\n".join(
        [
            "",
            _def(signature.name, [*inputs, *star, "outputs: None = None", *named], single, doc),
            _def(signature.name, [*inputs, *star, "outputs: int", *named], "tuple[Value, ...]", ""),
        ]
    )


def _inputs(signature: Signature) -> Iterator[str]:
    optional = False
    for each in signature.inputs:
        name = f"{each.name}_" if keyword.iskeyword(each.name) else each.name
        optional = optional or not each.required
        if each.variadic:
            yield f"*{name}: Operand"
        elif optional:
            yield f"{name}: Operand | None = None"
        else:
            yield f"{name}: Operand"


def _def(name: str, parameters: list[str], result: str, doc: str) -> str:
    body = f"\n{textwrap.indent(doc, '    ')}\n" if doc else " ...\n"
    return f"def {name}({', '.join(parameters)}) -> {result}:{body}"


def _doc(text: Any) -> str:
    """Return the first sentences of a document, as a docstring; an empty text if there is none."""
    paragraph = re.split(r"\n\s*\n", (text or "").strip())[0]
    words = " ".join(paragraph.replace("\\", "").replace('"', "'").split())
    first = re.match(r"(.{20,300}?[.!])(\s|$)", words)
    words = first[1] if first else words[:300]
    if not words.isprintable():
        return ""
    lines = textwrap.wrap(words, 108) or [""]
    return '"""' + "\n".join(lines) + ('"""' if len(lines) == 1 else '\n"""') if words else ""


if __name__ == "__main__":
    for each in FILES:
        (FOLDER / f"{each}.pyi").write_text(stub(each), encoding="utf-8")
