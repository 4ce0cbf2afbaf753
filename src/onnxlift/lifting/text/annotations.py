"""Write the types of parameters, results and variables."""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.graph.types import ValueType, type_of
from onnxlift.lifting.code.expr import Attribute, Expr, Literal, Ref, Subscript, bare
from onnxlift.lifting.code.statements import Assign, ForLoop, Statement
from onnxlift.lifting.names.variable_rules import is_tuple
from onnxlift.lifting.names.variables import Variables
from onnxlift.lifting.ops.operand import Dims, Operand, Scalar


def parameter_type(operand: Operand) -> str:
    """Return the type of a parameter of `forward`."""
    match operand:
        case Scalar():
            return _number_type(operand.type)
        case Dims():
            return "tuple[int, ...]"
    return tensor_type(operand.type)


def tensor_type(type: ValueType) -> str:
    """Return the type of a value that is no Python number."""
    element = "np.ndarray" if type.dtype == ir.DataType.STRING else "Tensor"
    maps = {"map": "dict", "list of maps": "list[dict]"}
    return {"sequence": f"list[{element}]", "optional": f"{element} | None", **maps}.get(type.kind, element)


def written_types(statement: Statement, variables: Variables) -> dict[str, str | None]:
    """Return the types of the variables that a statement writes; None where it is not known, as that of a variable that
    stands for no value of the model."""
    targets = statement.targets if isinstance(statement, Assign | ForLoop) else []
    return {
        variables.names[_key(target)]: _written_type(target, statement, variables)
        for target in targets
        if target is not None
    }


def _key(target: object) -> object:
    return target._key if isinstance(target, Ref) else target


def _written_type(target: object, statement: Statement, variables: Variables) -> str | None:
    key = _key(target)
    if not isinstance(statement, Assign):
        return None
    if not isinstance(key, ir.Value):
        return "int" if _is_size(statement) else None
    if not variables.is_number(key):
        return tensor_type(type_of(key))
    if is_tuple(statement.expr) or (key.shape is not None and len(key.shape) > 0):
        return "tuple[int, ...]"
    return _number_type(type_of(key))


def _is_size(statement: Assign) -> bool:
    """Tell whether a statement counts sizes: `n = x.shape[0]`, `n, channels = x.shape[:2]`."""
    expr, is_one = bare(statement.expr), len(statement.targets) == 1 and statement.form is None
    if not isinstance(expr, Subscript):
        return _is_shape(expr) and not is_one
    return _is_shape(expr._base) and isinstance(bare(expr._index[0]), Literal) == is_one


def _is_shape(expr: Expr) -> bool:
    expr = bare(expr)
    return isinstance(expr, Attribute) and expr._name == "shape"


def _number_type(type: ValueType) -> str:
    return "float" if type.is_float else "bool" if type.is_bool else "int"
