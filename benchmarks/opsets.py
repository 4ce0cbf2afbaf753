"""How many models survive a change of opset: `onnxlift opset` beside `onnx.version_converter`, in one run.

    python benchmarks/opsets.py                       # all cases, to the newest opset, 17, 13 and 11
    python benchmarks/opsets.py --to 17 --every 5     # a fifth of them, to 17
    python benchmarks/opsets.py --only softmax --list

The cases are the models of ONNX's own suite of operators, whose outputs are known, and the opset matrix (tests/matrix):
every operator at every revision, with outputs by ONNX Runtime or ONNX's reference. Each case is brought to the target
and run, and compared with what it should give: in ONNX Runtime; if that does not take it or differs, in ONNX's
reference (which trains every BatchNormalization before opset 14, and drops imaginary parts in Resize); last, lifted.

    right      the result gives the known outputs
    refused    there was an error, and no model
    invalid    the result is no valid model: ONNX's checker refuses it
    not run    nobody runs the result
    WRONG      the result gives other numbers

A case whose inputs or outputs are of a type that no operator of the target takes or gives (float8 at opset 17) cannot
go: nothing can read its input, or make its output. So that this need not be believed, types are looked up in the
schemas of the installed onnx, and for each type that is missing a line says how many operators there are at the target,
that none of them has the type, which opset was the first with one, and how many cases that decides. `no type` counts
them, `possible` leaves them out, and `at most` is what any tool can reach of all cases. docs/workbench/opset.md has the
argument. Cases run in children, since some crash the peer.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import multiprocessing.connection
import os
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
os.environ["ALLOW_RELEASED_ONNX_OPSET_ONLY"] = "0"  # ONNX Runtime is asked about the newest opset too

import numpy as np
import onnx
import onnx.defs
import onnx.version_converter
from onnx import helper, numpy_helper
from onnx.backend.test.case.node import collect_testcases

import onnxlift
from matrix.case import cases, revisions
from matrix.oracles import answers, assert_same, tolerance
from matrix.running import build_model, expectations, feeds, unformatted
from matrix.tables import TABLE
from onnxlift.backend import Prepared
from onnxlift.errors import OnnxLiftError
from onnxlift.executing import to_argument
from onnxlift.ir.writing.proto import to_proto
from onnxlift.workbench.opset import NEWEST, OpsetError, convert_opsets
from onnxlift.workbench.report import open_model

KINDS = ("right", "refused", "invalid", "not run", "WRONG", "crashed")
Expected = Sequence[Sequence[Any]]
Bounds = tuple[float, float]


@dataclass(frozen=True)
class Subject:
    """A model with inputs, and what it should give: one answer or several, of which any will do."""

    name: str
    suite: str
    model: onnx.ModelProto
    inputs: Mapping[str, Any]
    expected: Expected
    bounds: Bounds
    random: bool = False


def official(only: str) -> Iterator[Subject]:
    """Yield the cases of ONNX's own suite."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = collect_testcases(None)
    for case in found:
        if case.model is None or only not in case.name:
            continue
        for index, (inputs, outputs) in enumerate(case.data_sets or ()):
            named = dict(zip((value.name for value in case.model.graph.input), map(_plain, inputs), strict=False))
            name = case.name if not index else f"{case.name}_{index}"
            expected = [list(map(_plain, outputs))]
            random = "bernoulli" in name or "dropout_random" in name or "training_dropout" in name
            yield Subject(
                name, "suite", case.model, named, expected, (max(case.rtol, 1e-3), max(case.atol, 1e-5)), random
            )


def _plain(value: Any) -> Any:
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, np.generic):
        return np.asarray(value)
    return [_plain(each) for each in value] if isinstance(value, list) else value


def matrix(only: str, every: int) -> Iterator[Subject]:
    """Yield every case of the matrix that somebody knows the outputs of, with constants where it has them."""
    count = 0
    for revision in revisions():
        if only not in revision.name.lower() or revision.schema.deprecated:
            continue
        for case in cases(revision, TABLE[revision.key]):
            count += 1
            if count % every:
                continue
            expected = [outputs for _, outputs in expectations(case)]
            if expected:
                bounds = tolerance([*case.inputs, *expected[0]])
                for form in ("fixed", "open"):
                    model = _typed(build_model(case, form), expected[0])
                    yield Subject(
                        f"{case.name} {form}", "matrix", model, feeds(case), expected, bounds, case.row.random
                    )


def _typed(model: onnx.ModelProto, outputs: Sequence[Any]) -> onnx.ModelProto:
    """Let the model declare the types of its outputs, which those of the matrix leave out."""
    for value, output in zip(model.graph.output, outputs, strict=True):
        if isinstance(output, np.ndarray):
            number = helper.np_dtype_to_tensor_dtype(output.dtype if output.dtype.kind != "U" else np.dtype(object))
            value.type.CopyFrom(helper.make_tensor_type_proto(number, [None] * output.ndim))
        elif isinstance(output, list) and output and isinstance(output[0], np.ndarray):
            element = helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(output[0].dtype), None)
            value.type.CopyFrom(helper.make_sequence_type_proto(element))
    return model


def ours(model: onnx.ModelProto, target: int) -> onnx.ModelProto:
    opened = open_model(model)
    wanted = {"": target}
    if "ai.onnx.ml" in opened.opset_imports and target == NEWEST[""]:
        wanted["ai.onnx.ml"] = NEWEST["ai.onnx.ml"]
    convert_opsets(opened, wanted)
    return to_proto(opened)


def peer(model: onnx.ModelProto, target: int) -> onnx.ModelProto:
    return onnx.version_converter.convert_version(model, target)


TOOLS: dict[str, Callable[[onnx.ModelProto, int], onnx.ModelProto]] = {"onnxlift": ours, "version_converter": peer}


def verdict(subject: Subject, tool: str, target: int) -> tuple[str, str]:
    """Return how a case went, and why."""
    try:
        result = TOOLS[tool](subject.model, target)
    except OpsetError as error:
        return "refused", "; ".join(sorted({f"{node.op_type}: {node.reason}" for node in error.nodes}))
    except OnnxLiftError as error:
        return "refused", f"error: {str(error)[:150]}"
    except Exception as error:
        text = str(error).splitlines()[-1][:120] if str(error) else ""
        return ("refused" if tool != "onnxlift" else "crashed"), f"{type(error).__name__}: {text}"
    try:
        if all(value.HasField("type") for value in subject.model.graph.output):
            onnx.checker.check_model(result)
    except Exception as error:
        return "invalid", str(error).splitlines()[0][:150]
    return compared(subject, result)


def compared(subject: Subject, result: onnx.ModelProto) -> tuple[str, str]:
    """Run the result, and compare with what is known. A judge that gets the original wrong is asked whether it gets
    the same for the result."""
    found = "not run", ""
    result.ir_version = min(result.ir_version, 11)
    for name, actual in (*answers(result, subject.inputs, False), *_lifted(result, subject.inputs)):
        difference = min((_difference(subject, actual, expected) for expected in subject.expected), key=len)
        if not difference or not _difference(subject, actual, _by(name, subject)):
            return "right", name
        found = "WRONG", f"{name}: {' '.join(difference.split())[:200]}"
    return found


def _lifted(model: onnx.ModelProto, inputs: Mapping[str, Any]) -> Iterator[tuple[str, Sequence[Any]]]:
    """Yield what the lifted module gives. tests/matrix holds that it is what ONNX means, at every revision."""
    try:
        with unformatted():
            lifted = onnxlift.lift(model)
        arguments = [to_argument(inputs[value.name]) for value in model.graph.input]
        yield "lifted", Prepared(lifted, "cpu").run(arguments)
    except Exception:  # it does not know it either
        return


def _by(judge: str, subject: Subject) -> Sequence[Any]:
    """Return what a judge says of the original."""
    original = onnx.ModelProto()
    original.CopyFrom(subject.model)
    original.ir_version = min(original.ir_version, 11)
    return next((outputs for name, outputs in answers(original, subject.inputs, False) if name == judge), ())


def _difference(subject: Subject, actual: Sequence[Any], expected: Sequence[Any]) -> str:
    try:
        assert len(actual) == len(expected), f"{len(actual)} outputs, not {len(expected)}"
        for a, e in zip(actual, expected, strict=True):
            assert_same(a, e, subject.bounds, subject.random)
    except AssertionError as error:
        return str(error) or "different"
    return ""


@functools.cache
def operators(target: int) -> Mapping[str, onnx.defs.OpSchema]:
    """Return the operators of ONNX's own domains at an opset: those of ai.onnx, and the newest of all others."""
    found: dict[str, onnx.defs.OpSchema] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        key = f"{schema.domain}::{schema.name}"
        newest = found.get(key)
        if schema.domain and newest is not None and newest.since_version > schema.since_version:
            continue
        if schema.domain or schema.since_version <= target:
            found[key] = schema if newest is None else max(newest, schema, key=lambda each: each.since_version)
    return {key: schema for key, schema in found.items() if not schema.deprecated}


@functools.cache
def carried(target: int) -> frozenset[str]:
    """Return the types that any operator takes or gives at an opset, as schemas write them."""
    schemas = operators(target).values()
    return frozenset(
        name for schema in schemas for formal in (*schema.inputs, *schema.outputs) for name in formal.types
    )


@functools.cache
def first_opset(kind: str) -> int:
    """Return the first opset with an operator that takes or gives a type."""
    return next((opset for opset in range(1, NEWEST[""] + 1) if kind in carried(opset)), 0)


def kinds(subject: Subject) -> frozenset[str]:
    """Return the types of all inputs and outputs, as schemas write them."""
    found = {_kind(value.type) for value in (*subject.model.graph.input, *subject.model.graph.output)}
    arrays = [*subject.inputs.values(), *(value for outputs in subject.expected for value in outputs)]
    for array in arrays:
        if isinstance(array, np.ndarray) and array.dtype.kind not in "OU":
            found.add(f"tensor({_element(helper.np_dtype_to_tensor_dtype(array.dtype))})")
    return frozenset(found - {""})


def _kind(given: onnx.TypeProto) -> str:
    match given.WhichOneof("value"):
        case "tensor_type" if given.tensor_type.elem_type:
            return f"tensor({_element(given.tensor_type.elem_type)})"
        case "sequence_type" if inner := _kind(given.sequence_type.elem_type):
            return f"seq({inner})"
        case "optional_type" if inner := _kind(given.optional_type.elem_type):
            return f"optional({inner})"
    return ""


def _element(number: int) -> str:
    name: str = onnx.TensorProto.DataType.Name(number)
    return name.lower()


def missing(subject: Subject, target: int) -> frozenset[str]:
    """Return the types of inputs and outputs that no operator of the target takes or gives."""
    return frozenset(kind for kind in kinds(subject) if kind not in carried(target))


def goes_down(subject: Subject, target: int) -> bool:
    return any(each.domain in ("", "ai.onnx") and each.version > target for each in subject.model.opset_import)


@dataclass(frozen=True)
class Line:
    """How a case went with a tool. `missing` are the types of its interface that the target lacks."""

    suite: str
    tool: str
    target: int
    verdict: str
    reason: str
    name: str
    missing: frozenset[str] = frozenset()
    down: bool = True

    @property
    def is_possible(self) -> bool:
        """Tell whether the target has all types, or does without: a result that is constant needs none."""
        return not self.missing or self.verdict == "right"


def work(options: argparse.Namespace, share: int, start: int, queue: Any) -> None:
    """Send a line for each case of this share, from `start` on; and first the number of the case."""
    np.seterr(all="ignore")
    subjects = _subjects(options)
    for number, subject in enumerate(subjects):
        if number % options.jobs != share or number < start:
            continue
        for target in options.to:
            facts = missing(subject, target), goes_down(subject, target)
            for tool in options.tools:
                queue.send((number, subject.name, tool, target))
                queue.send(Line(subject.suite, tool, target, *verdict(subject, tool, target), subject.name, *facts))
    queue.send(None)


def _subjects(options: argparse.Namespace) -> Iterator[Subject]:
    if "suite" in options.suites:
        yield from official(options.only)
    if "matrix" in options.suites:
        yield from matrix(options.only, options.every)


def run(options: argparse.Namespace) -> list[Line]:
    """Run all cases in children. One that crashes is started again behind the case."""
    lines: list[Line] = []
    context = multiprocessing.get_context("fork")
    children: dict[int, Any] = {}

    def launch(share: int, start: int) -> None:
        receiver, sender = context.Pipe(False)
        process = context.Process(target=work, args=(options, share, start, sender), daemon=True)
        process.start()
        sender.close()
        children[share] = [process, receiver, None]

    for share in range(options.jobs):
        launch(share, 0)
    while children:
        ready = multiprocessing.connection.wait([child[1] for child in children.values()])
        for share, child in list(children.items()):
            if child[1] not in ready:
                continue
            try:
                message = child[1].recv()
            except EOFError:
                number, name, tool, target = child[2] or (0, "?", "?", 0)
                lines.append(Line("?", tool, target, "crashed", "the process died", name))
                launch(share, number + 1)
                continue
            if message is None:
                del children[share]
            elif isinstance(message, Line):
                lines.append(message)
            else:
                child[2] = message
    return lines


def table(lines: Sequence[Line], options: argparse.Namespace) -> str:
    """Return the numbers of each suite, target and tool."""
    rows = [f"{'suite':8}{'to':>4}  {'tool':18}{'cases':>7}" + "".join(f"{kind:>9}" for kind in KINDS)
            + f"{'no type':>9}{'right':>9}{'at most':>9}{'possible':>10}{'down':>8}"]  # fmt: skip
    for suite in (*options.suites, "both"):
        for target in options.to:
            of_target = [line for line in lines if line.target == target and suite in (line.suite, "both")]
            reached = {line.name for line in of_target if line.is_possible}
            for tool in options.tools:
                found = [line for line in of_target if line.tool == tool]
                if not found:
                    continue
                counts = Counter(line.verdict for line in found)
                possible = [line for line in found if line.name in reached]
                numbers = "".join(f"{counts[kind]:>9,}" for kind in KINDS) + f"{len(found) - len(possible):>9,}"
                shares = f"{_share(found):>9}{100 * len(possible) / len(found):>7.1f} %{_share(possible):>10}"
                down = _share([line for line in possible if line.down])
                rows.append(f"{suite:8}{target:>4}  {tool:18}{len(found):>7,}{numbers}{shares}{down:>8}")
    rows += [
        "",
        "no type: the target has no operator for a type of the interface. right: of all cases. at most: the share of",
        "cases that have their types. possible: right, of these. down: right, of those of these that go down.",
    ]
    return "\n".join(rows)


def _share(lines: Sequence[Line]) -> str:
    return f"{100 * sum(line.verdict == 'right' for line in lines) / len(lines):.1f} %" if lines else "-"


def proof(lines: Sequence[Line], options: argparse.Namespace) -> str:
    """Return for each target which types its operators lack, and how many cases that decides."""
    text: list[str] = []
    for target in options.to:
        stuck = {line.name: line for line in lines if line.target == target and not line.is_possible}
        for line in lines:
            if line.target == target and line.is_possible:
                stuck.pop(line.name, None)
        if not stuck:
            continue
        count = len(operators(target))
        text.append(f"\nto {target}: none of {count} operators takes or gives these types")
        text.append(f"  {'type':38}{'operators':>10}{'first at opset':>16}{'cases':>8}")
        for kind in sorted(set().union(*(line.missing for line in stuck.values())), key=lambda k: (first_opset(k), k)):
            having = sum(kind in formal.types for schema in operators(target).values()
                         for formal in (*schema.inputs, *schema.outputs))  # fmt: skip
            cases_of_it = sum(kind in line.missing for line in stuck.values())
            text.append(f"  {kind:38}{having:>10}{first_opset(kind) or '-':>16}{cases_of_it:>8,}")
        text.append(f"  {len(stuck):,} cases need one of them (a case may need several)")
    return "\n".join(text)


def reasons(lines: Sequence[Line], options: argparse.Namespace) -> str:
    """Return why cases were refused or wrong, most frequent first; those that have their types before the others."""
    text: list[str] = []
    for tool in options.tools:
        for target in options.to:
            groups: dict[tuple[bool, str, str], list[str]] = {}
            for line in lines:
                is_ours = tool == "onnxlift" or line.verdict == "WRONG"
                if (line.tool, line.target) == (tool, target) and line.verdict != "right" and is_ours:
                    is_wrong = line.verdict == "WRONG"
                    reason = line.name.split("(")[0] if is_wrong else line.reason
                    title = f"{line.name}: {line.reason}" if is_wrong else line.name
                    groups.setdefault((not line.is_possible, line.verdict, reason), []).append(title)
            if groups:
                text.append(f"\n{tool}, to {target}")
            for (impossible, kind, reason), names in sorted(
                groups.items(), key=lambda item: (item[0][0], -len(item[1]))
            ):
                mark = "no type" if impossible else ""
                text.append(f"  {len(names):>5} {kind:8} {mark:8} {reason}   e.g. {names[0]}")
                text += [f"                   {name}" for name in names] if options.list else []
    return "\n".join(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=int, nargs="+", default=[NEWEST[""], 17, 13, 11])
    parser.add_argument("--every", type=int, default=1, help="take every so manyth case of the matrix")
    parser.add_argument("--only", default="", help="a word in the names of cases")
    parser.add_argument("--suites", nargs="+", default=["suite", "matrix"])
    parser.add_argument("--tools", nargs="+", default=list(TOOLS))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--list", action="store_true", help="list the names of all cases that are not right")
    options = parser.parse_args()
    lines = run(options)
    print(table(lines, options))
    print(proof(lines, options))
    print(reasons(lines, options))


if __name__ == "__main__":
    main()
