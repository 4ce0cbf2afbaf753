"""The last gate lets pass what scripts are made of, and nothing else."""

from __future__ import annotations

import pytest

from onnxlift.lifting.text.gate import UnexpectedSource
from onnxlift.workbench.build_script.gate import TAIL, WEIGHTS, check_script

SCRIPT = f'''"""net, 3 nodes, written for onnxlift.build."""

from pathlib import Path

import numpy as np

from onnxlift import build
from onnxlift.build import op

{WEIGHTS}

roll = build.custom("Roll", domain="com.acme", inputs={{"x0": None}}, outputs={{"y0": None}}, attributes={{"m": str}})


@build.function(domain="com.acme")
def Gate(x, shift=None, *, alpha: float = 1.0, axes: list[int] = (0, -1)):
    return op.ReduceSum(x * alpha, axes), op.microsoft.Gelu(x)


def layer(x, name):
    with build.scope(name, "Layer"):
        x = -x @ weights("weight") ** 2.0
        x, _ = Gate(x, alpha=-0.5)
        build.keep(x)
        return x


def build_model() -> build.Model:
    with build.opset(20):
        x = build.input("x", "float32", ["n", 4])

        def then():
            return abs(x)

        y = build.if_(x > 0.0, then, then)
        y = op.Where(y, np.float32(-np.inf), op.ml.Scaler(y, **{{"scale": [1.0]}}))
        y = op.Equal(y, np.array([], dtype=object).reshape((0, 2)))
        return build.model([x], {{"y": roll(layer(y, "layer.0"), mode="a")}}, types={{"y": build.tensor("float32")}})


{TAIL}
'''
EXPRESSIONS = (
    "__import__('os')",
    "open('a')",
    "eval('1')",
    "abs.__self__",
    "build.inline('net.onnx')",
    "build.weights('/etc/passwd')",
    "build.errors.os",
    "build.init",
    "np.load('a')",
    "np.zeros.__globals__",
    "np.ctypeslib",
    "op.microsoft.__loader__",
    "op._x",
    "op.ml.ml",
    "weights._file",
    "weights.array('a').tofile('b')",
    "'{0.__class__}'.format(x)",
    "f'{x}'",
    "[each for each in (1,)]",
    "lambda: x",
    "(y := x)",
    "x.rename('a')",
    "x()",
    "build.constant(9 ** 9 ** 9)",
    "build_model.__code__",
    "Path('a').unlink()",
    "(lambda: x)()",
    "type(x)",
    "object()",
    "x if x else x",
    "await_",
)
STATEMENTS = (
    "import os",
    "from onnxlift.build import errors",
    "from os import system as op",
    "build = x",
    "op.Relu = x",
    "weights['a'] = x",
    "del x",
    "global x",
    "raise ValueError",
    "with open('a'): pass",
    "while True: pass",
    "class A: pass",
    "assert x",
    "x += x",
    "def abs(x): return x",
    "def f(x, op): return x",
    "def f(*x): return x",
    "def f(x: print): return x",
    "@property\ndef f(x): return x",
    "@build.function(domain='a')(x)\ndef f(x): return x",
)


def test_a_script_passes() -> None:
    check_script(SCRIPT)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_an_expression_that_no_script_has_is_refused(expression: str) -> None:
    for wrong in (
        SCRIPT.replace("abs(x)", expression),
        SCRIPT.replace("alpha=-0.5", f"alpha={expression}"),
        SCRIPT.replace("alpha: float = 1.0", f"alpha: float = {expression}"),
        SCRIPT.replace('domain="com.acme", inputs', f"domain={expression}, inputs"),
        SCRIPT.replace('(name, "Layer")', f"(name, {expression})"),
    ):
        assert wrong != SCRIPT
        with pytest.raises(UnexpectedSource, match="which onnxlift does not write"):
            check_script(wrong)


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_statement_that_no_script_has_is_refused(statement: str) -> None:
    inner = statement.replace("\n", "\n        ")
    for wrong in (
        SCRIPT.replace("\n\ndef build_model", f"\n\n{statement}\n\n\ndef build_model"),
        SCRIPT.replace("        build.keep(x)", f"        {inner}"),
    ):
        assert wrong != SCRIPT
        with pytest.raises(UnexpectedSource, match="which onnxlift does not write"):
            check_script(wrong)


@pytest.mark.parametrize(
    "statement", ["print(1)", "x = 3", "x = build.input('x', 'float32')", "build_model()", "1 + 1"]
)
def test_nothing_runs_when_a_script_is_imported(statement: str) -> None:
    with pytest.raises(UnexpectedSource):
        check_script(SCRIPT.replace(TAIL, f"{statement}\n\n{TAIL}"))
    with pytest.raises(UnexpectedSource):
        check_script(SCRIPT.replace("    build_model()", f"    {statement}\n    build_model()"))
