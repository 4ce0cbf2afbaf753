"""Lowering: from a tree of plans to modules whose `forward` is a list of statements.

Every node is written by its operator function; what the function returns becomes an assignment (a tensor), or is kept
as it is (sizes: they are written where they are used). Nothing is named, inlined or shared here: that is done by the
steps that follow, when the whole module is known.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import onnx_ir as ir

from onnxlift.errors import UnsupportedNode
from onnxlift.ir.graph.marks import USUAL_NAME
from onnxlift.ir.graph.types import type_of
from onnxlift.ir.graph.walk import inner_nodes, opset_of
from onnxlift.ir.origin.metadata import NAME_SCOPES
from onnxlift.ir.origin.tensors import origin_of
from onnxlift.lifting.code.expr import (
    Call,
    Device,
    Display,
    Expr,
    Member,
    Ref,
    bare,
    to_expr,
    torch,
    variable,
)
from onnxlift.lifting.code.identifiers import attribute
from onnxlift.lifting.code.statements import Assign, Block, Return, Statement
from onnxlift.lifting.code.substitute import Replacement, substitute
from onnxlift.lifting.modules.members.derived import derive
from onnxlift.lifting.modules.signatures.border import hand_down, handed_down, is_fixed, parameter_order
from onnxlift.lifting.ops import registry
from onnxlift.lifting.ops.layers import Layer
from onnxlift.lifting.ops.node import Node, Result, Unpack, Unsupported, torch_dtype
from onnxlift.lifting.ops.operand import Constant, Dims, Operand, Scalar, Tensor
from onnxlift.lifting.tree.build import build_branch
from onnxlift.lifting.tree.paths import ModulePaths, Path
from onnxlift.lifting.tree.plan import ModulePlan
from onnxlift.stages import Record

from .finish import FINISHING, LoweredModule
from .lowered_code import LoweredCode, code_without_steps, replacement, translated
from .member_names import layer_path, module_path, spell_numbers
from .module import Module
from .repeated import Repeated
from .sequential import find_named_chain, is_layer, make_sequential
from .written_in_place import is_long, is_simple, text_literal


class Lowering:
    """One lowering of one model. `failures` collects every node that cannot be lifted, `warnings` what the user should
    know."""

    def __init__(self, model: ir.Model, paths: ModulePaths, record: Record) -> None:
        self.model = model
        self.paths = paths
        self.record = record
        self.failures: list[UnsupportedNode] = []
        self.warnings: dict[str, None] = {}
        self.place: dict[ir.Node, ModulePlan] = {}
        self.repeated: dict[ModulePlan, Repeated] = {}  # modules that are called several times, by the first call
        # An exporter with module paths names values after its own operations.
        self.names_speak = paths.guessed or not paths.called

    def lower(self, root: ModulePlan) -> Module:
        """Return the root module, with all below it."""
        self.find_places(root)
        body = self._begin(root)
        body.lower_items(root.items)
        code = body.code() if body.steps else None
        results = [body.operand(value) for value in root.outputs]
        module = self._finish(body, root, results)
        if not make_sequential(module, self.paths) and module.has_numbers:
            if code is not None:
                body = self._begin(root)
                body.take_over(code, ())
                module = self._finish(body, root, results)
            spell_numbers(module)
        return module

    def _begin(self, root: ModulePlan) -> ForwardBody:
        """Return the empty body of the root module."""
        module = Module((), root.class_hint, names_speak=self.names_speak)
        body = ForwardBody(self, module, root)
        for value in root.inputs:
            operand = Tensor(Ref(value), type_of(value))
            module.inputs[value] = operand
            body.env[value] = operand
        return body

    def _finish(self, body: ForwardBody, root: ModulePlan, outputs: Sequence[Operand]) -> Module:
        """Return the root module, whose body is complete but for what it returns."""
        results = [body.node_free_tensor(operand) for operand in outputs]
        body.module.outputs = list(root.outputs)
        body.block.append(Return(results[0] if len(results) == 1 else Display(results, "()")))
        self.record.run(FINISHING, LoweredModule(body.module, root, self, keeps_inputs=True))
        derive(body.module, self.model, self.paths)
        return body.module

    @property
    def differing(self) -> set[Path]:
        """The modules whose calls are not the same code after all, so that they cannot be lowered as calls."""
        return {module.path for module in self.repeated.values() if not module.is_complete}

    def find_places(self, plan: ModulePlan) -> None:
        """Note where each node in `plan` is, those in branches and loops included."""
        for item in plan.items:
            if isinstance(item, ModulePlan):
                self.find_places(item)
            else:
                for node in (item, *inner_nodes(item)):
                    self.place[node] = plan

    def opset(self, node: ir.Node) -> int:
        """The opset in force for a node: its own where a function body has brought one along, else the model's."""
        return opset_of(node, self.model.opset_imports)


class ForwardBody:
    """The code of one block: a `forward`, or a branch or loop body in it. This is the `Host` of the nodes in it."""

    def __init__(self, lowering: Lowering, module: Module, plan: ModulePlan, outer: ForwardBody | None = None) -> None:
        self.lowering = lowering
        self.module = module
        self.plan = plan
        self.outer = outer
        self.block = module.body if outer is None else Block()
        self.env: dict[ir.Value, Operand] = {}
        self.shared: dict[Hashable, Ref] = {}
        self.added: list[Layer | Module] = outer.added if outer is not None else []  # members, as they were made
        self.steps: dict[Module, LoweredCode] = outer.steps if outer is not None else {}  # their code in this one
        self.is_no_chain = False  # whether it has numbered layers of a module within, which no `nn.Sequential` has

    # What nodes may ask of their host

    def operand(self, value: ir.Value) -> Operand:
        body: ForwardBody | None = self
        while body is not None:
            found = body.env.get(value)
            if found is not None:
                return found
            body = body.outer
        if value.const_value is not None and origin_of(value).word is not None and type_of(value).size == 1:
            return Tensor(Ref(value), type_of(value))  # a single number, but one to train
        if value.const_value is not None:
            constant = Constant(value, text_literal(value) if value.dtype == ir.DataType.STRING else None)
            self.env[value] = constant
            return constant
        return Tensor(Ref(value), type_of(value))

    def emit(self, statement: Statement) -> None:
        self.block.append(statement)

    def warn(self, text: str) -> None:
        self.lowering.warnings[text] = None

    def add_layer(self, layer: Layer) -> Member:
        assert layer.node is not None
        path = self._layer_path(layer, layer.node)
        identity = layer.identity
        if path and not layer.weights and attribute(path[-1]).isdigit():
            identity = (*identity, path)  # a pool or dropout of an `nn.Sequential`: equal ones are one member each
        elif NAME_SCOPES in layer.node.metadata_props:
            identity = (*identity, path)  # of the names that layers with one weight have, the exporter tells both
        existing = self.module.layers.setdefault(identity, layer)
        if existing is layer:
            self.module.add(layer_path(layer, path, self.module), layer)
            self.added.append(layer)
        return Member(existing)

    def lower_graph(self, graph: ir.Graph, inputs: Sequence[Operand]) -> tuple[Block, list[Operand]]:
        """Return the code of a subgraph as a block of its own, and what its outputs are in that block."""
        inner = ForwardBody(self.lowering, self.module, self.plan, self)
        inner.env.update(zip(graph.inputs, inputs, strict=True))
        branch = build_branch(graph, self.lowering.paths, self.plan)
        self.lowering.find_places(branch)
        inner.lower_items(branch.items)
        return inner.block, [inner.operand(value) for value in graph.outputs]

    # Lowering

    def lower_items(self, items: Sequence[ir.Node | ModulePlan]) -> None:
        for item in items:
            if isinstance(item, ModulePlan):
                self._lower_plan(item)
            else:
                self._lower_node(item)

    def _lower_node(self, node: ir.Node) -> None:
        operator = registry.find(node.domain, node.op_type)
        opset = self.lowering.opset(node)
        reason = node.meta.get("reason", "")  # why no body could take its place
        if operator is not None:
            try:
                n, result = registry.call(operator, node, opset, self)
                self._bind(n, result)
                return
            except Unsupported as error:
                reason = str(error)
        name = node.name or node.op_type
        self.lowering.failures.append(UnsupportedNode(name, node.op_type, node.domain, opset, reason))
        for value in node.outputs:
            self.env[value] = Tensor(Ref(value), type_of(value))

    def _bind(self, n: Node, result: Result) -> None:
        """Make the outputs of a node what its operator function returned."""
        outputs = n.ir.outputs
        if isinstance(result, Unpack):
            wanted = list(outputs)[: result.count] + [None] * (result.count - len(outputs))
            targets = [None if v is None or not v.name else Ref(v) for v in wanted]
            self.emit(Assign(list(targets), result.expr, form=result.form, origin=[n.name]))
            for value, name in zip_longest(outputs, result.names[: len(outputs)]):
                self.env[value] = Tensor(Ref(value), type_of(value))
                if name is not None:
                    value.meta[USUAL_NAME] = name
            return
        results = list(result) if isinstance(result, tuple | list) else [result]
        for value, one in zip(outputs, results, strict=False):
            if one is not None and value.name:
                self.env[value] = self._bind_one(n, value, one)

    def _bind_one(self, n: Node, value: ir.Value, result: Any) -> Operand:
        match result:
            case Dims() if not is_long(result):
                return result
            case Scalar() if is_simple(result):
                return result
            case Tensor() if isinstance(result._expr, Ref):
                return result  # another name for a value that exists already
        self.emit(Assign([Ref(value)], to_expr(result), origin=[n.name]))
        if isinstance(result, Scalar | Dims):
            return handed_down(value, result)
        return Tensor(Ref(value), type_of(value))

    def _lower_plan(self, plan: ModulePlan) -> None:
        """Write a child module and the call of it; or, if it can be neither a class nor an `nn.Sequential` (members
        that are mere numbers, but no plain chain), its code right here."""
        module = Module(plan.path, plan.class_hint, names_speak=self.lowering.names_speak)
        body = ForwardBody(self.lowering, module, plan)
        border = hand_down({value: self.operand(value) for value in sorted(plan.inputs, key=parameter_order)})
        module.inputs.update(border.parameters)
        body.env.update(border.inside)
        self.env.update(border.sizes)
        body.lower_items(plan.items)
        returned = {value: body.operand(value) for value in plan.outputs}
        passed = {value: operand for value, operand in returned.items() if not is_fixed(operand)}
        code = body.code()
        module.outputs = list(passed)
        results = [to_expr(operand) for operand in passed.values()]
        body.block.append(Return(results[0] if len(results) == 1 else Display(results, "()")))
        is_module = bool(passed) and not (body.is_no_chain and module.has_numbers)
        if is_module:
            self.lowering.record.run(FINISHING, LoweredModule(module, plan, self.lowering))
            is_module = self._can_be_module(module, plan)
        if not is_module:
            self.is_no_chain = self.is_no_chain or module.has_numbers
            here = self.take_over(code, border.parameters)
            self.env.update((value, translated(operand, here)) for value, operand in returned.items())
            return
        if module.is_step:
            self._keep_step(module, code, border.parameters, passed)
        called = module
        if plan.calls:
            called = self.lowering.repeated.setdefault(plan.calls[0], Repeated(module, len(plan.calls))).join(module)
        self._call(module, plan, passed, called)
        for value, operand in returned.items():
            self.env[value] = operand if is_fixed(operand) else handed_down(value, operand)

    def _can_be_module(self, module: Module, plan: ModulePlan) -> bool:
        """Tell whether a plan whose code is finished is a module. A step is one if it is more than a layer of
        `torch.nn`, anything else if it has members; what has numbered members is an `nn.Sequential`, or none."""
        find_named_chain(module, self.lowering.paths)
        module.is_step = plan.is_step and not is_layer(module)
        if not module.is_step and (plan.is_step or not module.members):
            return False
        return not module.has_numbers or make_sequential(module, self.lowering.paths)

    def code(self) -> LoweredCode:
        """Return the code as it is now, before it is finished, for the case that it is to stand elsewhere."""
        return code_without_steps(self.block.statements, self.added, self.steps, self.shared, self.module.sizes)

    def take_over(self, code: LoweredCode, parameters: Iterable[ir.Value]) -> Replacement:
        """Write the code of a plan that is no module here, and return what its expressions are here."""
        others = self._arguments(parameters)
        for member in code.members:
            if isinstance(member, Module):
                self._add_module(member)
            else:
                layer = self.add_layer(member)._target
                if layer is not member:  # one that is here already
                    others[member] = Member(layer)
        for what, variable_inside in code.shared.items():
            known = self.shared.setdefault(what, variable_inside)
            if known is not variable_inside:
                others[variable_inside._key] = known
        new = replacement(others)
        if others:
            code.replace(new)
        self.block.statements += code.statements
        self.module.sizes |= code.sizes
        return new

    def _keep_step(
        self,
        module: Module,
        code: LoweredCode,
        parameters: Iterable[ir.Value],
        results: Mapping[ir.Value, Operand],
    ) -> None:
        """Keep the code of a step, for the case that the chain that it is in turns out to be none."""
        new = replacement(self._arguments(parameters))
        code.replace(new)
        for value, operand in results.items():
            result = substitute(to_expr(operand), new)
            if variable(result) is not value:
                code.statements.append(Assign([Ref(value)], result))
        self.steps[module] = code

    def _arguments(self, parameters: Iterable[ir.Value]) -> dict[object, Expr]:
        """Return what the parameters of a plan are here, those left out that are variables here as well."""
        arguments = {value: bare(to_expr(self.operand(value))) for value in parameters}
        return {value: expr for value, expr in arguments.items() if variable(expr) is not value}

    def _call(self, module: Module, plan: ModulePlan, passed: Mapping[ir.Value, Operand], called: Module) -> None:
        """Write the call of `called`, which is the module as lowered for this call or, if it is the same, for the
        first."""
        if called is module:
            self._add_module(module)
        arguments = [to_expr(self.operand(value)) for value in module.inputs]
        call = Call(Member(called), arguments, {})
        names = [node.name or node.op_type for node in plan.nodes()]
        self.emit(Assign([Ref(value) for value in passed], call, origin=names))
        self.module.sizes.update(value for value, operand in passed.items() if isinstance(operand, Scalar | Dims))

    def _add_module(self, module: Module) -> None:
        """Make a module a member of this one, under the name that its path gives it."""
        relative, is_guessed = module.path[len(self.module.path) :], self.lowering.paths.guessed
        self.module.add(module_path(module, relative, self.module, is_guessed), module)
        self.added.append(module)

    def _relative_path(self, node: ir.Node) -> Path:
        """Return where a layer made from `node` would like to be, below this module."""
        path = self.lowering.paths.path_of(node)
        own = self.module.path
        return path[len(own) :] if path[: len(own)] == own else ()

    def _layer_path(self, layer: Layer, node: ir.Node) -> Path:
        """Return where a layer would like to be, below this module. One that lies in a container, and whose own name is
        lost, is called after its kind."""
        path = self._relative_path(node)
        return (*path, layer.kind.word) if path and node in self.lowering.paths.nameless else path

    def node_free_tensor(self, operand: Operand) -> Expr:
        """Return a result of the model as a tensor, whatever form it has inside."""
        if isinstance(operand, Scalar | Dims):
            return torch.tensor(operand, dtype=torch_dtype(operand.type.dtype), device=Device())
        return operand
