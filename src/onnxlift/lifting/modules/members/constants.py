"""Keep constants out of the state dict, if the code brought them along and nobody trained them.

    self.register_buffer("inv_freq", torch.empty(32))   ->   self.register_buffer("inv_freq", ..., persistent=False)

The values are stored in a file of their own. The weights that are left are the state dict of the original: its
checkpoints load into the lifted module, and the lifted module's into the original.

Applies to a buffer that was not persistent according to the newer exporter, and to one with a name that an exporter has
generated, such as one that it computed ahead of time. Does not apply to a buffer that was persistent by PyTorch's list
of buffers, nor to weights of integers, which belong to quantised layers. Does not apply if no parameter has a name of
its own: then nothing is known of an original.
"""

from __future__ import annotations

import onnx_ir as ir

from onnxlift.ir.origin.exported import persistent_buffers
from onnxlift.ir.origin.tensors import origin_of
from onnxlift.lifting.modules.member_names import is_integer_weight
from onnxlift.lifting.modules.module import Module, Stored, state_entries


def mark_constants(root: Module, graph: ir.Graph) -> int:
    """Mark the buffers below `root` that are not persistent; return how many there are."""
    if not any(
        entry.is_parameter and not origin_of(entry.weight.value).is_nameless for _, entry in state_entries(root)
    ):
        return 0
    listed = persistent_buffers(graph)
    changes = 0
    for module in root.walk():
        for path, member in module.members.items():
            if isinstance(member, Stored) and not member.is_parameter:
                is_listed = ".".join((*module.path, *module.names(path))) in listed
                member.persistent = is_listed or _is_persistent(member.weight.value)
                changes += not member.persistent
    return changes


def _is_persistent(value: ir.Value) -> bool:
    origin = origin_of(value)
    if origin.persistent is not None:
        return origin.persistent
    return is_integer_weight(value) or not origin.is_unnamed
