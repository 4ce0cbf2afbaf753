"""Bring all nodes of a model to other opsets, in place: revision by revision, down as well as up.

    for each node: its revision ─▶ the next one ─▶ ... ─▶ the one that is in force at the target

One step between two revisions is taken by

1. an adapter, if there is one (adapters/),
2. what the two schemas say, if the node's attributes, inputs and types fit both (signature.py, element_types.py),
3. the body by which the schema defines the operator, if that is the way down and the step is refused, or the operator
   is not in the older opset at all. Its nodes are then brought down in turn.

Nodes that a step makes are visited in the next round, when their types have been inferred. A node that can go no
further is noted with the reason, and the others go on, so that one error has all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import onnx
import onnx.defs
import onnx_ir as ir

from onnxlift.errors import OnnxLiftError, quote
from onnxlift.ir.editing.edit import Edit, Names
from onnxlift.ir.editing.names import name_apart
from onnxlift.ir.graph.schema import schema_for
from onnxlift.ir.graph.walk import FLAT, Region, inner_nodes, regions
from onnxlift.ir.inference.infer import infer
from onnxlift.rewriting.bodies import NoBody
from onnxlift.rewriting.normal_form.constant_nodes import constant_tensor
from onnxlift.rewriting.normal_form.expansion import Expansion
from onnxlift.rewriting.normal_form.schema_bodies import has_schema_body, schema_body

from .element_types import check_wider, compute_wider, missing_types
from .errors import OpsetError, StuckNode
from .ir_versions import LATER_TYPES
from .signature import fit_signature, revisions
from .step import AGAIN, Again, Refusal, Result, Step, adapters

_MOST_ROUNDS = 60
_ORIGIN = "opset-origin"
"""Key in `Node.meta` of the node of the model that a node was made from: its name, operator and domain."""

NEWEST: Mapping[str, int] = {"": onnx.defs.onnx_opset_version(), "ai.onnx.ml": 5}
"""The newest opsets that the installed onnx knows, and that there are adapters for."""


def convert_opsets(model: ir.Model, targets: Mapping[str, int], *, name: str = "the model") -> Mapping[str, int]:
    """Bring all nodes of the model to these opsets, in place; return how many steps were taken, by operator.

    `targets` maps domains to versions. Domains that are not named stay; but nodes that came from functions of another
    opset (`node.version`) are brought to the opset that the model imports. Raises OpsetError with all nodes that cannot
    go; the model is then left half way."""
    for domain, version in targets.items():
        _check_target(domain, version)
    conversion = _Conversion(model, targets)
    conversion.run()
    if conversion.stuck:
        raise OpsetError(name, dict(targets), list(conversion.stuck.values()), conversion.total)
    return conversion.steps


def align_versions(model: ir.Model, *, name: str = "the model") -> Mapping[str, int]:
    """Bring nodes of other versions (`node.version`, from functions that were inlined) to the opsets of the model."""
    return convert_opsets(model, {}, name=name)


def _check_target(domain: str, version: int) -> None:
    newest = NEWEST.get(domain)
    if newest is None:
        raise OnnxLiftError(
            f"there are no revisions of the domain {quote(domain)} to go through: ONNX has those of ai.onnx and "
            "ai.onnx.ml."
        )
    if not 1 <= version <= newest:
        raise OnnxLiftError(
            f"there is no opset {version} of {domain or 'ai.onnx'} in the installed onnx {onnx.__version__}, which has "
            f"1 to {newest}."
        )


@dataclass(frozen=True)
class _Origin:
    name: str
    op_type: str
    domain: str


class _Conversion:
    """One run through one model."""

    def __init__(self, model: ir.Model, targets: Mapping[str, int]) -> None:
        self.model = model
        self.targets = dict(targets)
        self.stuck: dict[_Origin, StuckNode] = {}
        self.steps: dict[str, int] = {}
        self.total = 0
        self.names = Names(model)
        self.expansion = Expansion(model, lambda node: None, _name, self.names)
        self._unread = {value for value in _initialisers(model) if not value.uses()}
        self._done: set[ir.Node] = set()
        self._fresh: set[ir.Node] = set()

    def run(self) -> None:
        self._stamp()
        for _ in range(_MOST_ROUNDS):
            self._hoist_constants()
            infer(self.model)
            self._fresh.clear()
            for region in list(regions(self.model)):
                self._visit(region)
            if not self._fresh:
                break
        else:
            raise RuntimeError(f"nodes are still on their way after {_MOST_ROUNDS} rounds")
        if not self.stuck:
            self._finish()

    def _stamp(self) -> None:
        """Let every node tell its own version, and let the model and its functions import the target versions."""
        self.model.graph.meta.pop(FLAT, None)
        for region in regions(self.model):
            for node in region.graph:
                self.total += 1
                node.version = region.opset(node)
        if self.targets and "" not in self.model.opset_imports and "" not in self.targets:
            self.model.opset_imports[""] = NEWEST[""]
        self.model.opset_imports.update(self.targets)
        for function in self.model.functions.values():
            function.opset_imports.update({d: v for d, v in self.targets.items() if d in function.opset_imports})

    def _hoist_constants(self) -> None:
        """Make Constant nodes initialisers, outside of functions: what is an attribute in one opset is an input in
        another, and inference knows the numbers of initialisers."""
        for region in regions(self.model):
            if region.function is not None:
                continue
            edit = Edit(region, self.names)
            for node in region.graph:
                if node.op_type == "Constant" and node.domain == "":
                    tensor = constant_tensor(node)
                    if tensor is not None and (not edit.is_output(node.outputs[0]) or self._is_lost(region, tensor)):
                        edit.fold(node, [tensor], "it stood in a node, and not among the initialisers")
            edit.finish()

    def _is_lost(self, region: Region, tensor: ir.TensorProtocol) -> bool:
        """Tell whether no Constant gives such a tensor at the target; an initialiser may, which can be an output."""
        schema = schema_for("", "Constant", region.opsets.get("", NEWEST[""]))
        names = () if schema is None else schema.outputs[0].types
        is_known = any(name.startswith(f"tensor({tensor.dtype.name.lower()}") for name in names)
        return region.graph is self.model.graph and tensor.dtype in LATER_TYPES and not is_known

    def _visit(self, region: Region) -> None:
        edit = Edit(region, self.names)
        for node in region.graph:
            if node not in self._done and not edit.is_dropped(node):
                self._advance(edit, region, node)
        edit.finish()

    def _advance(self, edit: Edit, region: Region, node: ir.Node) -> None:
        """Take the node as far as it goes in this round."""
        target = region.opsets.get(node.domain)
        while target is not None:
            if any(
                value is not None and value.type is None and value.producer() in self._fresh for value in node.inputs
            ):
                return  # types are not known yet
            version = node.version if node.version is not None else target
            try:
                if self._legalise(edit, region, node, version):
                    return
                following = next_revision(node, version, target)
                if following is None:
                    break
                if not self._step(edit, region, node, version, following):
                    return
            except Refusal as refusal:
                self._note(node, version, target, str(refusal))
                break
        self._done.add(node)

    def _legalise(self, edit: Edit, region: Region, node: ir.Node, version: int) -> bool:
        """Replace a node whose types are not in its schema; tell whether it was one.

        A node that is as in the file is left alone: whether that is valid is for others to say."""
        schema = schema_for(node.domain, node.op_type, version)
        missing = {} if schema is None or _ORIGIN not in node.meta else missing_types(node, schema)
        if not missing:
            return False
        s = Step(edit, node, version, version, in_function=region.function is not None)
        self._replace(edit, s, compute_wider(s, missing, f"at opset {version}"))
        return True

    def _step(self, edit: Edit, region: Region, node: ir.Node, version: int, following: int) -> bool:
        """Take one step; tell whether the node is still there."""
        schema = schema_for(node.domain, node.op_type, version)
        assert schema is not None
        revision = int(schema.since_version)
        down = following < revision
        opset = revision - 1 if down else following
        s = Step(edit, node, revision, opset, in_function=region.function is not None)
        saved = list(node.inputs), dict(node.attributes.data)
        try:
            result = self._adapted(s, revision, following)
            if isinstance(result, Again):
                _settle(node, revision, following)
                node.meta.setdefault(_ORIGIN, _origin(node))
                self._count(node)
                self._insert(edit, s)
                return True
            self._replace(edit, s, result)
        except Refusal as refusal:
            _restore(node, *saved)
            if not down or not has_schema_body(node, revision):
                raise
            self._expand(edit, node, revision, refusal)
        return False

    def _adapted(self, s: Step, revision: int, following: int) -> Result:
        node = s.node
        function = adapters().get((node.domain, node.op_type, revision, following))
        if function is not None:
            return s.run(function)
        if following == 0:
            raise Refusal(f"there is no {node.op_type} before opset {revision}")
        return AGAIN

    def _replace(self, edit: Edit, s: Step, result: Result) -> None:
        """Put the nodes of a step in the place of its node."""
        assert not isinstance(result, Again)
        values = [result] if isinstance(result, ir.Value) else list(result)
        values += [None] * (len(s.node.outputs) - len(values))
        finals: list[ir.Value | None] = []
        for index, value in enumerate(values[: len(s.node.outputs)]):
            if value is None and s.wants(index):
                raise Refusal(f"its output {index} cannot be computed at opset {s.opset}")
            made = value is not None and any(value.producer() is node for node in s.nodes) and value not in finals
            finals.append(value if made or value is None else s.Identity(value))
        self._insert(edit, s)
        self._count(s.node)
        for old, new in zip(s.node.outputs, finals, strict=True):
            if new is not None:
                new.type, new.shape = old.type, old.shape
                edit.take_over(old, new)
        edit.drop(s.node)

    def _insert(self, edit: Edit, s: Step) -> None:
        edit.graph.insert_before(s.node, s.nodes)
        origin = s.node.meta.get(_ORIGIN, _origin(s.node))
        for made in s.nodes:
            for node in (made, *inner_nodes(made)):
                node.meta[_ORIGIN] = origin
                self._fresh.add(node)

    def _expand(self, edit: Edit, node: ir.Node, revision: int, refusal: Refusal) -> None:
        """Put the body by which the schema defines the operator in the place of the node."""
        if any(attribute.is_ref() for attribute in node.attributes.values()):
            raise Refusal(f"{refusal}, and its attributes are those of the function around it") from refusal
        try:
            body = schema_body(node, revision, oldest=True)
        except NoBody as error:
            raise Refusal(f"{refusal}, and {error}") from refusal
        if body is None:
            raise Refusal(f"{refusal}, and its types are not known, which its body depends on") from refusal
        origin = node.meta.get(_ORIGIN, _origin(node))
        self._count(node)
        for made in self.expansion.replace(edit, node, body):
            for each in (made, *inner_nodes(made)):
                each.meta[_ORIGIN] = origin
                each.version = body.opset_imports.get(each.domain, each.version)
                self._fresh.add(each)

    def _count(self, node: ir.Node) -> None:
        title = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
        self.steps[title] = self.steps.get(title, 0) + 1

    def _note(self, node: ir.Node, version: int, target: int, reason: str) -> None:
        origin: _Origin = node.meta.get(_ORIGIN, _origin(node))
        via = "" if origin.op_type == node.op_type else f"it needs {node.op_type}: "
        nearest = nearest_opset(node, version, target)
        before = self.stuck.get(origin)
        if before is None or abs(nearest - target) > abs(before.nearest - target):
            stuck = StuckNode(origin.name, origin.op_type, origin.domain, f"{via}{reason}", nearest)
            self.stuck[origin] = stuck

    def _finish(self) -> None:
        """Let the model be as if it had always been of its opsets."""
        for region in list(regions(self.model)):
            unused = [
                node
                for node in reversed(region.graph)
                if _ORIGIN in node.meta and not any(o.uses() or o.is_graph_output() for o in node.outputs)
            ]
            for node in unused:
                region.graph.remove(node, safe=True)
            holder = self.model if region.function is None else region.function
            for node in region.graph:
                node.meta.pop(_ORIGIN, None)
                target = region.opsets.get(node.domain)
                if target is not None and next_revision(node, node.version or target, target) is not None:
                    raise RuntimeError(f"node {node.name!r} was left behind at opset {node.version}")
                if node.domain in NEWEST or node.version == region.opsets.get(node.domain):
                    node.version = None
                if node.domain in NEWEST and node.domain not in holder.opset_imports:
                    holder.opset_imports[node.domain] = region.opsets.get(node.domain, NEWEST[node.domain])
        for value in list(_initialisers(self.model)):  # what has become an attribute
            if not value.uses() and not value.is_graph_output() and value not in self._unread:
                assert value.graph is not None and value.name is not None
                del value.graph.initializers[value.name]
        name_apart(self.model)
        infer(self.model)


def _initialisers(model: ir.Model) -> Iterator[ir.Value]:
    for region in regions(model):
        yield from region.graph.initializers.values()


def next_revision(node: ir.Node, version: int, target: int) -> int | None:
    """Return the revision of the operator that is next on the way from `version` to `target`.

    0 if the operator does not exist any earlier, None if the node is there, or its operator is not one of ONNX."""
    known = revisions(node.domain, node.op_type)
    current = max((revision for revision in known if revision <= version), default=None)
    if current is None:
        return None
    wanted = max((revision for revision in known if revision <= target), default=0)
    if wanted == current:
        return None
    if wanted > current:
        return min(revision for revision in known if revision > current)
    return max((revision for revision in known if revision < current), default=0)


def nearest_opset(node: ir.Node, version: int, target: int) -> int:
    """Return the opset nearest to the target at which a node that cannot go on still is what it is."""
    known = revisions(node.domain, node.op_type)
    current = max((revision for revision in known if revision <= version), default=version)
    if target >= current:
        schema = schema_for(node.domain, node.op_type, version)
        if schema is not None and missing_types(node, schema):  # the types came down further than they can
            return next((r for r in known if r > current and not missing_at(node, r)), current + 1)
        return min((revision for revision in known if revision > current), default=target + 1) - 1
    schema = schema_for(node.domain, node.op_type, version)
    if schema is not None and missing_types(node, schema):
        return next((r for r in known if r > current and not missing_at(node, r)), current + 1)
    return current


def missing_at(node: ir.Node, version: int) -> bool:
    """Tell whether the operator lacks a type of the node at this version."""
    schema = schema_for(node.domain, node.op_type, version)
    return schema is None or bool(missing_types(node, schema))


def _settle(node: ir.Node, revision: int, following: int) -> None:
    """Let a node that stays be one of the new revision, if its attributes, inputs and types fit."""
    fit_signature(node, revision, following)
    schema = schema_for(node.domain, node.op_type, following)
    assert schema is not None
    missing = missing_types(node, schema)
    if missing:
        check_wider(node.op_type, schema, missing, _when(revision, following))
    node.version = revision - 1 if following < revision else following


def _when(revision: int, following: int) -> str:
    return f"before opset {revision}" if following < revision else f"since opset {following}"


def _restore(node: ir.Node, inputs: list[ir.Value | None], attributes: dict[str, ir.Attr]) -> None:
    node.resize_inputs(len(inputs))
    for index, value in enumerate(inputs):
        node.replace_input_with(index, value)
    node.attributes.clear()
    for name, attribute in attributes.items():
        node.attributes[name] = attribute


def _origin(node: ir.Node) -> _Origin:
    return _Origin(node.name or "", node.op_type, node.domain)


def _name(call: ir.Node, node: ir.Node) -> str:
    return f"{call.name or call.op_type}_{node.name or node.op_type}"
