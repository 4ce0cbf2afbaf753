"""Restore a parameter that an exporter has put through functions ahead of time, and apply the functions to it again.

    Mul(x, neg), computed from mixer.A_log and exp   ->   Mul(x, Neg(Exp(mixer.A_log)))
    Mul(x, exp_1), computed from logit_scale         ->   Mul(x, Exp(logit_scale))

Mamba's parameter is the logarithm of what it uses, and CLIP's the logarithm of its temperature, so that training cannot
change the sign. PyTorch's newer exporter applies such functions ahead of time. It notes beside the constant the names
of the parameter and of each step. Without this step the parameter would be missing in the state dict, and the constant
would not be trained.

It applies to exp, log, neg, sigmoid and tanh of one parameter that is not in the file, up to three functions in a row.
The name of the constant tells the last function. If there are two before it, the numbers tell their order: they must be
such that only one order can be undone (exp(-exp(p)) is below one, exp(exp(-p)) above).

Sound because each of these functions has one operand, which can only be the result of the step before it. Besides, the
functions applied to the restored parameter must give the constant again, to the last bits. The parameter equals the
original's except for what rounding has lost. It does not apply where a function is so flat that much is lost.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import permutations

import numpy as np
import onnx_ir as ir

from onnxlift.ir.editing.edit import Array, Edit, sweep, weight_initialiser
from onnxlift.ir.graph.constants import constant
from onnxlift.ir.graph.shapes import shape_of
from onnxlift.ir.graph.types import DataType
from onnxlift.ir.origin.exported import Program, kind_of, read_program
from onnxlift.ir.origin.tensors import folded_from, mark_told
from onnxlift.stages import step

MOST_BEFORE = 2
_REASON = "the exporter notes that it has put it through functions, which are undone"
_PRECISION = 1e-6
_LARGEST_LOSS = 1e-4

_Function = Callable[[Array], Array]
# The operator of ONNX, the function, and its inverse.
_FUNCTIONS: dict[str, tuple[str, _Function, _Function]] = {
    "neg": ("Neg", np.negative, np.negative),
    "exp": ("Exp", np.exp, np.log),
    "log": ("Log", np.log, np.exp),
    "sigmoid": ("Sigmoid", lambda x: 1 / (1 + np.exp(-x)), lambda y: np.log(y) - np.log1p(-y)),
    "tanh": ("Tanh", np.tanh, np.arctanh),
}
_STEP = re.compile(rf"({'|'.join(_FUNCTIONS)})(?:_\d+)?")


@step(
    "folded-functions",
    after={"merged-parameters": "a result that was stored once for several modules is each module's own by then"},
)
def run(model: ir.Model) -> int:
    """Restore these parameters in the main graph; return how many."""
    program = read_program(model.graph)
    if program is None:
        return 0
    found: dict[ir.Value, tuple[ir.Value, list[str]]] = {}
    for value in list(model.graph.initializers.values()):
        noted = _noted(value, program)
        if noted is None or noted[0] in model.graph.initializers:
            continue
        name, orders = noted
        undone = [(steps, array) for steps in orders if (array := _undone(value, steps)) is not None]
        if len(undone) == 1:
            steps, array = undone[0]
            parameter = weight_initialiser(model.graph, name, array, _REASON, is_named=True)
            mark_told(parameter, is_buffer=kind_of(model.graph, name) == "BUFFER", reason=_REASON)
            found[value] = (parameter, steps)

    def visit(edit: Edit, node: ir.Node) -> None:
        for place, value in enumerate(node.inputs):
            if value in found:
                result, steps = found[value]
                for step in steps:
                    operator, shape = _FUNCTIONS[step][0], shape_of(value) or ()
                    result = edit.insert(node, operator, [result], like=value, shape=shape, name=value.name or "")
                node.replace_input_with(place, result)

    if found:
        sweep(model, visit)
    return len(found)


def _noted(value: ir.Value, program: Program) -> tuple[str, list[list[str]]] | None:
    """Return the parameter that a constant was computed from by such functions only, and the functions in each possible
    order."""
    last, sources = _STEP.fullmatch(value.name or ""), folded_from(value)
    parameters = [name for name in sources if name in program.names]
    before = [_STEP.fullmatch(name) for name in sources if name not in program.names]
    if last is None or len(parameters) != 1 or len(before) > MOST_BEFORE or value.dtype != DataType.FLOAT:
        return None
    steps = [match[1] for match in before if match is not None]
    if len(steps) != len(before):
        return None
    orders = sorted({(*order, last[1]) for order in permutations(steps)})
    return parameters[0], [list(order) for order in orders]


def _undone(value: ir.Value, steps: list[str]) -> Array | None:
    """Return the parameter from which these functions compute the constant; None if they do not, or if rounding has
    lost too much."""
    tensor = constant(value)
    if tensor is None or tensor.size == 0:
        return None
    expected = tensor.numpy().astype(np.float64)
    with np.errstate(all="ignore"):
        array, nearby = expected, np.nextafter(tensor.numpy(), np.float32(0)).astype(np.float64)
        for step in reversed(steps):
            array, nearby = (_FUNCTIONS[step][2](numbers) for numbers in (array, nearby))
        parameter = array.astype(np.float32)
        result = parameter.astype(np.float64)
        for step in steps:
            result = _FUNCTIONS[step][1](result)
        is_same = np.isfinite(parameter).all() and (np.abs(result - expected) <= _PRECISION * np.abs(expected)).all()
        # Undo the functions for the next float32 as well: the distance tells how much rounding has lost.
        is_precise = (np.abs(nearby - array) <= _LARGEST_LOSS * np.maximum(1, np.abs(array))).all()
    return np.asarray(parameter) if is_same and is_precise else None
