"""Rules on what runtimes take: opsets, IR versions, and operators that ONNX does not define."""

from __future__ import annotations

from collections.abc import Iterable

from onnxlift.errors import quote
from onnxlift.ir.checking.form import NEWEST_OPSET
from onnxlift.ir.graph.nodes import plain_domain
from onnxlift.workbench.lint.rule import Found, Place, lint_rule
from onnxlift.workbench.lint.subject import File
from onnxlift.workbench.runtimes import OLDEST_OPSET, RUNTIMES

_MODEL = Place("the model")
_MICROSOFT = ("com.microsoft", "com.microsoft.nchwc", "com.ms.internal.nhwc")


@lint_rule("OL501", "runtime-opset", "error", "file")
def opsets_that_the_runtime_refuses(file: File) -> Iterable[Found]:
    """The model imports an opset that the runtime named by `--for` does not take.

    It refuses to load the model.

    Convert the model (`onnxlift opset 17 model.onnx -o older.onnx`), or use a newer runtime."""
    if file.runtime is None:
        return
    imports = {(plain_domain(entry.domain), entry.version) for entry in file.proto.opset_import}
    for function in file.proto.functions:
        imports |= {(plain_domain(entry.domain), entry.version) for entry in function.opset_import}
    for domain, version in sorted(imports):
        newest = file.runtime.opset_of(domain)
        if newest is not None and version > newest:
            text = f"it imports opset {version} of {domain or 'ai.onnx'}, and {file.runtime} takes up to {newest}."
            yield Found(_MODEL, text)


@lint_rule("OL502", "runtime-ir-version", "error", "file")
def ir_versions_that_the_runtime_refuses(file: File) -> Iterable[Found]:
    """The model has an IR version that the runtime named by `--for` does not take.

    It refuses to load the model ("Unsupported model IR version"). onnx stamps what it writes with its own newest
    version, needed or not.

    Write an older one (`onnxlift opset --ir-version 9`), or use a newer runtime."""
    if file.runtime is not None and file.proto.ir_version > file.runtime.ir_version:
        most = file.runtime.ir_version
        text = f"it has IR version {file.proto.ir_version}, and {file.runtime} takes up to {most}."
        yield Found(_MODEL, text)


@lint_rule("OL503", "old-opset", "warning", "file")
def opsets_that_nobody_promises_to_run(file: File) -> Iterable[Found]:
    """The model imports an opset from before 7.

    ONNX Runtime promises to run opset 7 and newer ones. Older operators mean other things in places (broadcasting, the
    mode of norms and dropouts), and runtimes have forgotten them.

    Convert the model to a newer opset (`onnxlift opset 17 model.onnx -o newer.onnx`)."""
    opset = file.opsets.get("", OLDEST_OPSET)
    if opset < OLDEST_OPSET:
        yield Found(_MODEL, f"it imports opset {opset}; runtimes promise to run {OLDEST_OPSET} and newer ones.")


@lint_rule("OL504", "foreign-operator", "info", "file")
def operators_that_onnx_does_not_define(file: File) -> Iterable[Found]:
    """An operator is not one of ONNX.

    The model runs only where somebody has implemented it: those of com.microsoft in ONNX Runtime, others in a library
    that has to be shipped with the model.

    If it has to run elsewhere, export without the fused or custom operator."""
    own = {(plain_domain(each.domain), each.name) for each in file.proto.functions}
    counts: dict[tuple[str, str], int] = {}
    for body in file.bodies:
        for node in body.nodes:
            key = (plain_domain(node.domain), node.op_type)
            if key[0] not in NEWEST_OPSET and key not in own:
                counts[key] = counts.get(key, 0) + 1
    for (domain, name), count in sorted(counts.items()):
        nodes = "1 node" if count == 1 else f"{count:,} nodes"
        who = "only ONNX Runtime has it" if domain in _MICROSOFT else "only a library of custom operators has it"
        yield Found(Place(f"operator {quote(f'{domain}::{name}')}"), f"{nodes}; {who}.")


@lint_rule("OL505", "new-opset", "warning", "file")
def opsets_that_no_release_takes(file: File) -> Iterable[Found]:
    """The model has an opset or an IR version that no release of ONNX Runtime takes yet, as far as is known here.

    The installed onnx is newer than the runtimes, and stamps models with its own newest versions.

    Convert the model to an older opset (`onnxlift opset`), or name a runtime with `--for`."""
    if file.runtime is not None:
        return
    last = list(RUNTIMES["onnxruntime"].values())[-1]
    for domain, version in sorted(file.opsets.items()):
        newest = last.opset_of(domain)
        if newest is not None and version > newest:
            yield Found(_MODEL, f"it imports opset {version} of {domain or 'ai.onnx'}; {last} takes up to {newest}.")
    if file.proto.ir_version > last.ir_version:
        yield Found(_MODEL, f"it has IR version {file.proto.ir_version}; {last} takes up to {last.ir_version}.")
