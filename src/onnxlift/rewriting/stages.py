"""The stages that rewrite a graph. Each is a table of the steps that the files of its folder declare."""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.checking.gate import check_types
from onnxlift.ir.graph.marks import DOMAIN
from onnxlift.ir.graph.walk import all_nodes, mark_flat
from onnxlift.ir.inference.infer import infer
from onnxlift.rewriting import fusing, idioms, normal_form, restoring, simplifying, standard
from onnxlift.rewriting.dequantising.dequantise import dequantise
from onnxlift.rewriting.element_type import change_type
from onnxlift.rewriting.normal_form import dead_code
from onnxlift.stages import Stage, Step, step, steps_in

MOST_ROUNDS = 12


@step(
    "types",
    optional=False,
    after={"dead-code": "what is dead need not have a type"},
)
def infer_types(model: ir.Model) -> int:
    """Give every value a type and a shape, with symbolic sizes; refuse a model in which they break a rule."""
    check_types(model, infer(model))
    return 0


@step("flat-graphs", optional=False, after={"expand-operators": "a body may hold graphs of its own"})
def find_flat_graphs(model: ir.Model) -> int:
    """Mark a main graph without subgraphs, so that later steps need not look for any."""
    mark_flat(model)
    return 0


def remove_unused(model: ir.Model) -> int:
    """Remove nodes and weights that only the replaced nodes used: shape arithmetic, masks and the like."""
    for graph in (model.graph, *(function.graph for function in model.functions.values())):
        if any(node.domain == DOMAIN for node in all_nodes(graph)):
            graph.opset_imports.setdefault(DOMAIN, 1)
    return dead_code.run(model)


NORMAL_FORM = Stage(
    "normal form",
    "one form for all that ONNX lets a model say in several ways",
    steps_in(normal_form, infer_types, find_flat_graphs),
    rounds=3,
)
_RESTORING = steps_in(restoring)
RESTORING = Stage(
    "restoring",
    "what exporters folded, merged or dropped is undone",
    (
        *_RESTORING,
        Step(
            "dequantise",
            dequantise,
            after={each.name: "it compares the numbers that the file holds" for each in _RESTORING},
            optional=False,
        ),
        Step(
            "element-type",
            change_type,
            after={
                "dequantise": "the weights that it makes are converted, too",
                **{each.name: "it compares the numbers that the file holds" for each in _RESTORING},
            },
            optional=False,
        ),
    ),
)
SIMPLIFYING = Stage(
    "simplifying",
    "the simplest graph that means the same",
    steps_in(
        simplifying,
        Step(
            "dead-code",
            dead_code.run.function,
            after={
                "common-subexpressions": "it leaves nodes that nobody reads",
                "shape-values": "it leaves shape arithmetic that nobody reads",
            },
            repeats=True,
        ),
    ),
    rounds=MOST_ROUNDS,
    between=infer,
)
FUSING = Stage(
    "fusing",
    "several nodes become one that runtimes compute faster; for ONNX files only, not for source",
    steps_in(fusing),
    rounds=MOST_ROUNDS,
    between=infer,
)
STANDARD = Stage(
    "standard",
    "what idioms recognise becomes an operator of ONNX; for ONNX files only, not for source",
    steps_in(standard),
)
_IDIOMS = steps_in(idioms)
IDIOMS = Stage(
    "idioms",
    "what several nodes mean together becomes one node",
    (
        *_IDIOMS,
        Step(
            "unused-nodes",
            remove_unused,
            after={idiom.name: "it leaves nodes that only those it replaced have read" for idiom in _IDIOMS},
            optional=False,
        ),
    ),
)
STAGES = (NORMAL_FORM, RESTORING, SIMPLIFYING, IDIOMS)
