"""Which names of initialisers are keys of the original's state dict."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import pytest
from onnx import numpy_helper

from onnxlift.ir.graph.edit import has_generated_name
from onnxlift.ir.graph.marks import STATE_KEY
from onnxlift.ir.load import load
from onnxlift.lifting.code.identifiers import is_nameless

SIGNATURE = "pkg.torch.export.ExportedProgram.graph_signature"


def loaded(name: str, producer: str, signature: str = "", note: tuple[str, str] | None = None) -> ir.Value:
    """The constant of that name in a file of some producer, that adds it to the input."""
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 18]> g (float[2, 4] x) => (float[2, 4] y) { y = Add(x, c) }'
    )
    model.producer_name = producer
    model.graph.node[0].input[1] = name
    model.graph.initializer.append(numpy_helper.from_array(np.random.default_rng(0).random(4, np.float32), name))
    if signature:
        model.graph.metadata_props.append(onnx.StringStringEntryProto(key=SIGNATURE, value=signature))
    if note is not None:
        model.graph.value_info.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4]))
        holder = model.graph.node[0] if note[0].endswith("name_scopes") else model.graph.value_info[0]
        holder.metadata_props.append(onnx.StringStringEntryProto(key=note[0], value=note[1]))
    return load(model).graph.initializers[name]


@pytest.mark.parametrize(
    "name", ["const", "constant", "w1", "W_1", "t", "view", "tensor", "node_type", "reconstruct.weight", "a.const"]
)
def test_names_of_the_older_exporter(name: str) -> None:
    value = loaded(name, "pytorch")
    assert STATE_KEY in value.meta
    assert not is_nameless(value) and not has_generated_name(value)


@pytest.mark.parametrize(
    "name",
    [
        *("val_3", "17", "onnx::MatMul_12", "/a/Constant_output_0", "Constant_12_output_0", "const_fold_opt__1"),
        *("Conv_4", "_v_12", "const_12", "ortshared_1_0_1_0_token_9", "initializer_3", "a..weight", "t" * 2000),
    ],
)
def test_counters_in_a_file_of_the_older_exporter(name: str) -> None:
    assert STATE_KEY not in loaded(name, "pytorch").meta


def test_words_of_other_exporters() -> None:
    assert STATE_KEY not in loaded("const", "tf2onnx").meta
    assert is_nameless(loaded("const", "tf2onnx"))


@pytest.mark.parametrize("kind", ["PARAMETER target='{}'", "BUFFER target='{}' persistent=True"])
@pytest.mark.parametrize("name", ["const", "val_3", "mul_1"])
def test_names_that_the_newer_exporter_lists(name: str, kind: str) -> None:
    value = loaded(name, "pytorch", f"\np_{name}: {kind.format(name)}\n")
    assert not is_nameless(value) and not has_generated_name(value)


def test_names_that_the_newer_exporter_does_not_list() -> None:
    listed = "\np_weight: PARAMETER target='weight'\n"
    assert STATE_KEY not in loaded("view", "pytorch", listed).meta
    assert STATE_KEY not in loaded("view", "pytorch", note=("pkg.torch.onnx.name_scopes", "['', 'add']")).meta


def test_what_was_computed_has_no_key() -> None:
    listed = "\np_view: PARAMETER target='view'\n"
    assert STATE_KEY not in loaded("view", "pytorch", listed, ("pkg.onnxscript.optimizer.folded_from", "['w']")).meta
