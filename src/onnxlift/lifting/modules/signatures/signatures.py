"""Give attentions that differ only in their arguments one signature.

    self.attn(x), self.cross_attn(x, y)      ->   self.attn(x, x), self.cross_attn(x, y)
    attend(q, k, v), attend(q, k, v, mask)   ->   attend(q, k, v, mask), where forward has `mask: Tensor | None = None`
    attend(q, k, v, is_causal=True)          ->   attend(q, k, v, mask, is_causal=self.is_causal)

Here `attend` is `F.scaled_dot_product_attention`. Applies to modules that consist of the same layers, under the same
names, around one attention, if that makes their forwards equal up to numbers. Does not apply if the exporter names
different classes for them. If it names none, they must have at least as many layers as an attention usually has. Sound
because a caller passes a value twice that was read twice, and an argument that it leaves out has its default value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import onnx_ir as ir

from onnxlift.ir.graph.types import type_of
from onnxlift.lifting.code.expr import Attribute, Call, Expr, Literal, Ref, bare, variable, walk
from onnxlift.lifting.code.statements import Assign, Block, Return, Statement
from onnxlift.lifting.code.substitute import Replacement, substitute
from onnxlift.lifting.modules.classes.canonical import Canonical
from onnxlift.lifting.modules.module import Module
from onnxlift.lifting.ops.layers import Layer
from onnxlift.lifting.ops.operand import Operand, Tensor

from .prune import called_module

MOST_STATEMENTS = 60
MOST_FORMS = 8
FEWEST_LAYERS = 4
MASK, CAUSAL = "attn_mask", "is_causal"
OPTIONS = (MASK, CAUSAL, "scale", "enable_gqa")


@dataclass(eq=False)
class SignatureDraft:
    """A module as it would be. `origin` maps each of its inputs to the input of the module that is passed there; None
    if there is none."""

    module: Module
    form: Module
    origin: dict[ir.Value, ir.Value | None]

    @property
    def passed(self) -> list[ir.Value]:
        """Return the inputs of the module in the order in which a caller now passes them."""
        return [value for new in self.form.inputs if (value := self.origin[new]) is not None]


def share_signatures(root: Module) -> int:
    """Give attentions of one class the same inputs, where that makes their forwards equal; return how many changed."""
    changes = 0
    families: dict[object, list[Module]] = {}
    for module in root.walk():
        kind = _kind(module)
        if kind is not None:
            families.setdefault(kind, []).append(module)
    families = {kind: family for kind, family in families.items() if len(set(map(_text, family))) > 1}
    calls = _calls(root) if families else {}
    for family in families.values():
        for drafts in _unified(family):
            optional = max(len(draft.form.inputs) - len(draft.passed) for draft in drafts)
            for draft in drafts:
                _carry_out(draft, calls[draft.module], optional)
                changes += 1
    return changes


def _text(module: Module) -> str:
    return Canonical(module, []).describe()


def _kind(module: Module) -> object:
    """Return a key that is equal for modules that may have one signature; None for others."""
    statements = module.body.statements
    fewest = FEWEST_LAYERS if module.class_hint is None else 1
    if module.sequential or module.class_key or len(statements) > MOST_STATEMENTS or len(module.members) < fewest:
        return None
    layers = [
        (path, layer.kind, *sorted(layer.weights)) for path, layer in module.members.items() if isinstance(layer, Layer)
    ]
    attentions = sum(_is_attention(part) for statement in statements for part in _parts(statement))
    return (module.class_hint, *layers) if attentions == 1 and len(layers) == len(module.members) else None


def _parts(statement: Statement) -> Iterator[Expr]:
    return walk(statement.expr) if isinstance(statement, Assign | Return) else iter(())


def _is_attention(expr: Expr) -> bool:
    function = bare(expr._function) if isinstance(expr, Call) else None
    return isinstance(function, Attribute) and function._name == "scaled_dot_product_attention"


def _calls(root: Module) -> dict[Module, list[Assign]]:
    """Return the statements that call each module."""
    found: dict[Module, list[Assign]] = {}
    for module in root.walk():
        for statement in module.body.statements:
            child = called_module(statement.expr) if isinstance(statement, Assign) else None
            if child is not None and isinstance(statement, Assign):
                found.setdefault(child, []).append(statement)
    return found


def _unified(family: list[Module]) -> Iterator[list[SignatureDraft]]:
    """Yield lists of modules of `family` that can have one signature, and do not have it yet."""
    options = {option for module in family for option in _options(module)}
    drafts = [_with_options(module, options) for module in family]
    for _ in range(MOST_FORMS):
        if not drafts:
            break
        model = max(drafts, key=lambda draft: len(draft.form.inputs))
        expected = _text(model.form)
        told_apart = [_told_apart(draft, model.form) for draft in drafts]
        equal = [draft for draft in told_apart if draft is not None and _text(draft.form) == expected]
        if len({_text(draft.module) for draft in equal}) > 1:
            yield equal
        done = {draft.module for draft in (model, *equal)}
        drafts = [draft for draft in drafts if draft.module not in done]


def _options(module: Module) -> Mapping[str, Expr]:
    """Return the options of the module's attention."""
    [attention] = [part for statement in module.body.statements for part in _parts(statement) if _is_attention(part)]
    assert isinstance(attention, Call)
    return attention._kwargs


def _with_options(module: Module, options: set[str]) -> SignatureDraft:
    """Return the module with those of `options` that an attention may leave out. If the mask is an input, it becomes
    the last one."""
    own = dict(_options(module))
    inputs: dict[ir.Value, Operand] = dict(module.inputs)
    origin: dict[ir.Value, ir.Value | None] = {value: value for value in inputs}
    if MASK in options:
        mask = variable(own.setdefault(MASK, Ref(ir.Value(type=ir.TensorType(ir.DataType.FLOAT)))))
        if isinstance(mask, ir.Value):
            inputs[mask] = inputs.pop(mask, Tensor(Ref(mask), type_of(mask)))
            origin[mask] = origin.pop(mask, None)
    if CAUSAL in options:
        own.setdefault(CAUSAL, Literal(False))
    ordered = {option: own[option] for option in OPTIONS if option in own}

    def attend(part: Expr) -> Expr | None:
        return Call(part._function, part._args, ordered) if isinstance(part, Call) and _is_attention(part) else None

    body = Block([_rewritten(statement, attend) for statement in module.body.statements])
    return SignatureDraft(module, replace(module, inputs=inputs, body=body), origin)


def _told_apart(draft: SignatureDraft, model: Module) -> SignatureDraft | None:
    """Return the draft with an input for each of the model's inputs. If one input stands for two of the model's, the
    second gets a variable of its own. Return None if the forwards do not correspond."""
    given: dict[ir.Value, ir.Value] = {}  # input of the model -> of this module
    origin: dict[ir.Value, ir.Value | None] = {}
    statements: list[Statement] = []
    for theirs, ours in zip(model.body.statements, draft.form.body.statements, strict=False):
        pairs = list(zip(_read(theirs), _read(ours), strict=False))
        for their, our in pairs:
            if their in model.inputs and their not in given:
                if our not in draft.origin:
                    return None
                given[their] = ir.Value(type=our.type, shape=our.shape) if our in origin else our
                origin[given[their]] = draft.origin[our]
        names = iter([given.get(their, our) for their, our in pairs])
        statements.append(_rewritten(ours, partial(_renamed, names)))
    if len(given) != len(model.inputs):
        return None
    order = [given[value] for value in model.inputs]
    inputs = {value: draft.form.inputs.get(value, Tensor(Ref(value), type_of(value))) for value in order}
    return SignatureDraft(draft.module, replace(draft.form, inputs=inputs, body=Block(statements)), origin)


def _renamed(names: Iterator[ir.Value], part: Expr) -> Expr | None:
    if not isinstance(part, Ref):
        return None
    name = next(names, part._key)
    return part if name is part._key else Ref(name)


def _read(statement: Statement) -> list[ir.Value]:
    """Return the variables that a statement reads, in the order in which `substitute` visits them."""
    found: list[ir.Value] = []
    _rewritten(statement, lambda part: found.append(part._key) if isinstance(part, Ref) else None)
    return found


def _rewritten(statement: Statement, new: Replacement) -> Statement:
    if not isinstance(statement, Assign | Return):
        return statement
    return replace(statement, expr=substitute(statement.expr, new))


def _carry_out(draft: SignatureDraft, calls: list[Assign], optional: int) -> None:
    """Change the module as drafted, and the calls of it."""
    module = draft.module
    for statement in calls:
        call = statement.expr
        assert isinstance(call, Call)
        arguments = dict(zip(module.inputs, call._args, strict=True))
        statement.expr = Call(call._function, [arguments[value] for value in draft.passed], {})
    module.inputs, module.body, module.optional = draft.form.inputs, draft.form.body, optional
