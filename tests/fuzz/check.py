"""`check(model, feeds)`: a model lifted in several ways, each compared with ONNX Runtime for several inputs."""

from __future__ import annotations

import importlib.util
import random
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import torch
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import onnxlift
from fuzz.runtime import Array, RefusedError, Session, run_model
from onnxlift.errors import UnsupportedError
from onnxlift.executing import to_argument, to_result
from onnxlift.pipeline import STAGES
from onnxlift.verification.compare import compare
from onnxlift.workbench.opset import NEWEST, OpsetError, opset
from onnxlift.workbench.simplify import simplify

Feeds = Mapping[str, Array]

PRECISION = [np.dtype(dtype) for dtype in (ml_dtypes.bfloat16, np.float16, np.float32, np.float64)]
"""The least precise first."""
PERTURBED_RUNS = 4
PERTURBATION = 16  # in steps of the type's precision
ROUNDING = frozenset(
    """Cast Conv Div Erf Exp Gemm Log LogSoftmax MatMul Pow ReduceMean ReduceSum Sigmoid Softmax Sqrt Tanh""".split()
)
"""Operators whose last digits are nobody's: ONNX Runtime leaves out casts to half precision and back, too."""


class Kind(StrEnum):
    MATCHED = "matched"
    REFUSED = "refused"
    """by ONNX Runtime, which can't be asked then, by ONNX, or by PyTorch for sizes that it can't do (TORCH_REFUSES)"""
    UNSUPPORTED = "unsupported"
    UNSTABLE = "unstable"
    """differs, and so does ONNX Runtime from itself when inputs, weights and results are changed by rounding errors"""
    MISMATCHED = "mismatched"
    CRASHED = "crashed"


@dataclass(frozen=True)
class Outcome:
    kind: Kind
    variant: str = ""
    detail: str = ""

    @property
    def is_failure(self) -> bool:
        return self.kind in (Kind.MISMATCHED, Kind.CRASHED)

    def is_like(self, other: Outcome) -> bool:
        """Whether both fail in the same manner, so that a smaller model still shows the same mistake."""
        return self.kind == other.kind and self.detail.partition(":")[0] == other.detail.partition(":")[0]


TORCH_REFUSES = (
    "Only zero batch or zero channel inputs are supported",
    "with possibly 0 batch size and other non-zero dimensions",
    "Expected reduction dim",
    "MKL FFT error",
    "select(): index 0 out of range for tensor of size [0]",
    "Expected sequence length to be larger than 0 in RNN",
)
"""What PyTorch says of images without pixels, of the largest of no elements, of the spectra of no signals, and of
recurrent layers over no steps. Where that is known beforehand we mostly write something else."""

VARIANTS = ("lift", "no-simplify")
SAVED = "saved"
CHANGED: dict[str, Callable[[onnx.ModelProto], Any]] = {
    "simplified": partial(simplify, verify=False),
    "standard": partial(simplify, verify=False, fuse_standard=True),
    "newest": partial(opset, version=NEWEST[""], verify=False),
    "older": partial(opset, version=17, verify=False),
}
"""Variants in which another verb comes first."""
WITHOUT = "without "
"""Before the names of passes and idioms to skip, with commas between them."""


def variants_for(seed: int) -> list[str]:
    """The ways in which the graph of this seed is lifted: always the same two, and now and then a third."""
    if seed % 10 == 0:
        return [*VARIANTS, SAVED]
    if seed % 10 in (1, 3, 7, 9):
        return [*VARIANTS, list(CHANGED)[seed % 10 // 3]]
    if seed % 3 == 0:
        choose = random.Random(seed)
        names = [step.name for stage in STAGES for step in stage.steps if step.optional]
        return [*VARIANTS, WITHOUT + ",".join(choose.sample(names, choose.randint(1, len(names) // 2)))]
    return list(VARIANTS)


def options_of(variant: str) -> dict[str, Any]:
    """What `onnxlift.lift` is called with."""
    if variant.startswith(WITHOUT):
        return {"skip_passes": variant.removeprefix(WITHOUT).split(",")}
    return {"simplify": False} if variant == "no-simplify" else {}


def check(model: onnx.ModelProto, feeds: Sequence[Feeds], variants: Sequence[str] = VARIANTS) -> Outcome:
    """The first thing that is wrong with the lifted model in any variant, or that nothing is."""
    try:
        session = Session(model)
        expected = [(feeds[0], session.run(feeds[0]))]
    except RefusedError as error:
        return Outcome(Kind.REFUSED, detail=str(error))
    for fed in feeds[1:]:
        with suppress(RefusedError):
            expected.append((fed, session.run(fed)))
    worst = Outcome(Kind.MATCHED)
    for variant in variants:
        outcome = _check_variant(model, expected, variant)
        if outcome.is_failure or outcome.kind == Kind.UNSUPPORTED:
            return outcome
        worst = worst if outcome.kind == Kind.MATCHED else outcome
    return worst


def _check_variant(model: onnx.ModelProto, expected: Sequence[tuple[Feeds, list[Any]]], variant: str) -> Outcome:
    try:
        module = _module(model, variant)
        for fed, wanted in expected:
            difference = _difference(module, model, fed, wanted)
            if difference:
                kind = Kind.UNSTABLE if _is_unstable(model, fed, wanted) else Kind.MISMATCHED
                return Outcome(kind, variant, f"{difference}, inputs {_shapes(fed)}")
    except UnsupportedError as error:
        return Outcome(Kind.UNSUPPORTED, variant, str(error))
    except OpsetError as error:
        return Outcome(Kind.REFUSED, variant, str(error))
    except Exception as error:  # whatever goes wrong is a finding
        if any(words in str(error) for words in TORCH_REFUSES) or _is_undefined(model, [fed for fed, _ in expected]):
            return Outcome(Kind.REFUSED, variant, str(error))
        return Outcome(Kind.CRASHED, variant, f"{type(error).__name__}: {error}\n{traceback.format_exc(limit=-4)}")
    return Outcome(Kind.MATCHED, variant)


def _is_undefined(model: onnx.ModelProto, feeds: Sequence[Feeds]) -> bool:
    """Whether tensors are joined that do not go together, of which ONNX Runtime overlooks those without elements."""
    try:
        for fed in feeds:
            ReferenceEvaluator(model).run(None, dict(fed))
    except ValueError as error:
        return "except for the concatenation axis must match" in str(error)
    return False


def _shapes(feeds: Feeds) -> str:
    return ", ".join(f"{name} {array.shape}" for name, array in feeds.items())


def _module(model: onnx.ModelProto, variant: str) -> torch.nn.Module:
    if variant in CHANGED:
        return onnxlift.lift(CHANGED[variant](model)).module()
    if variant != SAVED:
        return onnxlift.lift(model, **options_of(variant)).module()
    with tempfile.TemporaryDirectory() as folder:
        path = onnxlift.lift(model, name="saved_model").save(folder)[0]
        module: torch.nn.Module = _import(path).load()
        return module


def _import(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # where `inspect` and pickling look for classes
    spec.loader.exec_module(module)
    return module


def _difference(module: torch.nn.Module, model: onnx.ModelProto, feeds: Feeds, expected: list[Any]) -> str:
    """In words what the first wrong output is, or nothing. Running must not change the inputs or the module: a second
    run has to give the same."""
    coarsest = _coarsest(model)
    arguments = [to_argument(feeds[value.name].copy()) for value in model.graph.input]
    for number in ("first", "second"):
        with torch.no_grad():
            outputs = module(*arguments)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        if len(outputs) != len(expected):
            return f"{number} run: {len(outputs)} outputs, not {len(expected)}"
        for info, actual, wanted in zip(model.graph.output, outputs, expected, strict=True):
            problem = _problem(to_result(actual), wanted, coarsest)
            if problem:
                return f"{number} run: {info.name} {problem}"
    return ""


def _problem(actual: Any, expected: Any, coarsest: np.dtype[Any]) -> str:
    """What is wrong with a value that was computed from numbers of the type `coarsest`, if anything."""
    if isinstance(actual, np.ndarray) and actual.dtype == expected.dtype and actual.dtype.kind == "f":
        with np.errstate(over="ignore"):
            actual, expected = (array.astype(_coarser(array.dtype, coarsest)) for array in (actual, expected))
    return next((c.problem for c in compare("", actual, expected) if not c.passed), "")


def _coarsest(model: onnx.ModelProto) -> np.dtype[Any]:
    """The floating-point type of the least precision in the model: no result can be more exact, even if it is cast."""
    elements = {value.type.tensor_type.elem_type for value in model.graph.input}
    elements |= {tensor.data_type for tensor in model.graph.initializer}
    elements |= {a.i for node in model.graph.node for a in node.attribute if a.name == "to"}
    return _coarser(*(helper.tensor_dtype_to_np_dtype(e) for e in elements), np.dtype(np.float64))


def _coarser(*dtypes: np.dtype[Any]) -> np.dtype[Any]:
    return min((dtype for dtype in dtypes if dtype in PRECISION), key=PRECISION.index)


def _is_unstable(model: onnx.ModelProto, feeds: Feeds, expected: list[Any]) -> bool:
    noise, coarsest = np.random.default_rng(0), _coarsest(model)
    for _ in range(PERTURBED_RUNS):
        other = onnx.ModelProto()
        other.CopyFrom(model)
        for tensor in other.graph.initializer:
            tensor.CopyFrom(numpy_helper.from_array(_perturbed(numpy_helper.to_array(tensor), noise), tensor.name))
        for node in other.graph.node:
            if node.op_type == "Constant" and node.attribute[0].HasField("t"):
                array = _perturbed(numpy_helper.to_array(node.attribute[0].t), noise)
                node.attribute[0].t.CopyFrom(numpy_helper.from_array(array))
        add_rounding_errors(other, noise)
        try:
            outputs = run_model(other, {name: _perturbed(array, noise) for name, array in feeds.items()})
        except RefusedError:
            return True
        for actual, wanted in zip(outputs, expected, strict=True):
            if _problem(actual, wanted, coarsest):
                return True
    return False


def _perturbed(array: Array, noise: np.random.Generator) -> Array:
    """The array with noise as rounding leaves it; numbers that are whole stay what they are (counts, sizes, zero)."""
    if array.dtype.kind != "f":
        return array
    factor = 1 + PERTURBATION * float(np.finfo(array.dtype).eps) * noise.uniform(-1, 1, array.shape)
    return np.where(array == np.round(array), array, array * factor).astype(array.dtype)


def add_rounding_errors(model: onnx.ModelProto, noise: np.random.Generator) -> None:
    """Let operators that round give results that are off by up to four steps: equal ones are equal no longer."""
    inferred = onnx.shape_inference.infer_shapes(model).graph
    element = {value.name: value.type.tensor_type.elem_type for value in (*inferred.value_info, *inferred.output)}
    nodes: list[onnx.NodeProto] = []
    for node in model.graph.node:
        nodes.append(node)
        name = node.output[0]
        dtype = helper.tensor_dtype_to_np_dtype(element[name]) if element.get(name) else None
        if node.op_type not in ROUNDING or node.domain or dtype is None or dtype not in PRECISION:
            continue
        parts = ("exact", "random", "share", "step", "error", "change")
        exact, random_, share, step, error, change = (f"{name}::{part}" for part in parts)
        node.output[0] = exact
        steps = np.array(4 * float(ml_dtypes.finfo(dtype).eps)).astype(dtype)
        # A small seed would make the first number of ONNX Runtime's generator small, whichever it is.
        seed = float(noise.integers(10**6, 10**9))
        limits = {"low": -1.0, "high": 1.0, "seed": seed, "dtype": onnx.TensorProto.FLOAT}
        nodes += [
            helper.make_node("RandomUniformLike", [exact], [random_], **limits),
            helper.make_node("Cast", [random_], [share], to=element[name]),
            helper.make_node("Constant", [], [step], value=numpy_helper.from_array(steps)),
            helper.make_node("Mul", [share, step], [error]),
            helper.make_node("Mul", [exact, error], [change]),
            helper.make_node("Add", [exact, change], [name]),
        ]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
