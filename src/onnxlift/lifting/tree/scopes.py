"""Read the scopes in the name of a node: `encoder/layer.0/MatMul` -> encoder, layer.0.

PyTorch's older exporter begins such a name with a slash, and each scope is a module. Names without it come from other
programs, and not all of what they say is a module:

1. TensorFlow Lite joins the names of all nodes that it fused into one (`a/Relu6;b/FusedBatchNormV3;c/Conv2D`), and some
   converters put an underscore for the semicolon (`net/a/Relu6_net/b/FusedBatchNormV3_net/c/Conv2D`). The first name is
   that of the node whose result it is; the others may be from anywhere.
2. Calls of functions, and operations that Keras has wrapped into a layer, are scopes of their own in TensorFlow:
   `StatefulPartitionedCall/net/conv1`, `net/tf.math.multiply_69/Mul`, `net/tf_op_layer_Pad/Pad`.
"""

from __future__ import annotations

import re

_CALL = re.compile(r"(Stateful)?PartitionedCall(_\d+)?|(jax2tf|pjit)_\w*|tf\.[\w.]+|tf_op_layer_\w+|tfl?\.\w+")
_JOINT = re.compile(r"/(?P<operation>[A-Z]\w*|depthwise|add|mul|sub)_$")
MOST_JOINTS = 64  # places in a name at which it is tried whether another name begins


def scopes_in(name: str) -> list[str]:
    """Return the scopes in the name of a node, without the last part, which is the operation itself."""
    if name.startswith("/"):
        return name.strip("/").split("/")[:-1]
    return [scope for scope in _first_name(name).strip("/").split("/")[:-1] if not _CALL.fullmatch(scope)]


def _first_name(name: str) -> str:
    """Return the first of all names that are joined into one (rule 1).

    Without semicolons, another name begins where the first scope is there again, behind the name of an operation."""
    name = name.partition(";")[0]
    root = name.partition("/")[0]
    start = len(root)
    for _ in range(MOST_JOINTS):
        start = name.find(f"_{root}/", start) if root else -1
        if start < 0:
            return name
        if _JOINT.search(name, max(0, name.rfind("/", 0, start)), start + 1):
            return name[:start]
        start += 1
    return name
