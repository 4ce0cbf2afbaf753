"""A block of a transformer, as a guide to onnx.helper writes it: what `docs/building.md` is compared with."""

# ruff: noqa
# fmt: off
import numpy as np
import onnx
from onnx import helper, TensorProto, numpy_helper
d_model = 64 # embedding dimension
n_heads = 4 # attention heads
d_k = d_model // n_heads # key/query dimension per head = 16
d_ff = 256 # feed-forward inner dimension
seq_len = 10 # sequence length (fixed for this example)
eps = 1e-6
rng = np.random.default_rng(42)
def rand_f32(shape, name):
    data = rng.standard_normal(shape).astype(np.float32) * 0.02
    return numpy_helper.from_array(data, name=name)
def zeros_f32(shape, name):
    return numpy_helper.from_array(np.zeros(shape, dtype=np.float32), name=name)
def ones_f32(shape, name):
    return numpy_helper.from_array(np.ones(shape, dtype=np.float32), name=name)
inits = []
nodes = []
inits += [rand_f32((d_model, d_model), "W_Q"),
    rand_f32((d_model, d_model), "W_K"),
    rand_f32((d_model, d_model), "W_V"),
    rand_f32((d_model, d_model), "W_O"),
    zeros_f32((d_model,), "b_Q"),
    zeros_f32((d_model,), "b_K"),
    zeros_f32((d_model,), "b_V"),
    zeros_f32((d_model,), "b_O")]
inits += [rand_f32((d_model, d_ff), "W_ff1"), zeros_f32((d_ff,), "b_ff1"),
    rand_f32((d_ff, d_model), "W_ff2"), zeros_f32((d_model,), "b_ff2")]
inits += [ones_f32((d_model,), "ln1_scale"), zeros_f32((d_model,), "ln1_bias"),
    ones_f32((d_model,), "ln2_scale"), zeros_f32((d_model,), "ln2_bias")]
scale_val = np.array(1.0 / np.sqrt(d_k), dtype=np.float32)
inits.append(numpy_helper.from_array(scale_val, name="attn_scale"))
reshape_to_heads = np.array([-1, seq_len, n_heads, d_k], dtype=np.int64)
inits.append(numpy_helper.from_array(reshape_to_heads, name="shape_heads"))
restore_shape = np.array([-1, seq_len, d_model], dtype=np.int64)
inits.append(numpy_helper.from_array(restore_shape, name="shape_restore"))
for letter in ["Q", "K", "V"]:
    nodes.append(helper.make_node("MatMul",
            inputs=["x", f"W_{letter}"],
            outputs=[f"{letter}_proj"],
            name=f"matmul_{letter}",
    ))
    nodes.append(helper.make_node("Add",
            inputs=[f"{letter}_proj", f"b_{letter}"],
            outputs=[f"{letter}"],
            name=f"add_bias_{letter}",
    ))
for letter in ["Q", "K", "V"]:
    nodes.append(helper.make_node("Reshape",
            inputs=[letter, "shape_heads"],
            outputs=[f"{letter}_h"],
            name=f"reshape_{letter}",
    ))
for letter in ["Q", "K", "V"]:
    nodes.append(helper.make_node("Transpose",
            inputs=[f"{letter}_h"],
            outputs=[f"{letter}_t"],
            perm=[0, 2, 1, 3],
            name=f"transpose_{letter}",
    ))
nodes.append(helper.make_node("Transpose",
        inputs=["K_t"],
        outputs=["K_t_T"],
        perm=[0, 1, 3, 2],
        name="transpose_K_for_attn",
))
nodes.append(helper.make_node("MatMul",
        inputs=["Q_t", "K_t_T"],
        outputs=["raw_scores"],
        name="attn_scores",
))
nodes.append(helper.make_node("Mul",
        inputs=["raw_scores", "attn_scale"],
        outputs=["scaled_scores"],
        name="scale_scores",
))
nodes.append(helper.make_node("Softmax",
        inputs=["scaled_scores"],
        outputs=["attn_weights"],
        axis=-1,
        name="attn_softmax",
))
nodes.append(helper.make_node("MatMul",
        inputs=["attn_weights", "V_t"],
        outputs=["context_t"],
        name="attn_context",
))
nodes.append(helper.make_node("Transpose",
        inputs=["context_t"],
        outputs=["context_h"],
        perm=[0, 2, 1, 3],
        name="transpose_context",
))
nodes.append(helper.make_node("Reshape",
        inputs=["context_h", "shape_restore"],
        outputs=["context"],
        name="reshape_context",
))
nodes.append(helper.make_node("MatMul",
        inputs=["context", "W_O"],
        outputs=["attn_out_proj"],
        name="output_proj",
))
nodes.append(helper.make_node("Add",
        inputs=["attn_out_proj", "b_O"],
        outputs=["attn_out"],
        name="add_output_bias",
))
nodes.append(helper.make_node("Add",
        inputs=["x", "attn_out"],
        outputs=["residual1"],
        name="residual1",
))
nodes.append(helper.make_node("LayerNormalization",
        inputs=["residual1", "ln1_scale", "ln1_bias"],
        outputs=["ln1_out"],
        axis=-1,
        epsilon=eps,
        name="layernorm1",
))
nodes.append(helper.make_node("MatMul",
        inputs=["ln1_out", "W_ff1"],
        outputs=["ff1_proj"],
        name="ff1_proj",
))
nodes.append(helper.make_node("Add",
        inputs=["ff1_proj", "b_ff1"],
        outputs=["ff1"],
        name="ff1_bias",
))
nodes.append(helper.make_node("Relu",
        inputs=["ff1"],
        outputs=["ff1_relu"],
        name="ff1_relu",
))
nodes.append(helper.make_node("MatMul",
        inputs=["ff1_relu", "W_ff2"],
        outputs=["ff2_proj"],
        name="ff2_proj",
))
nodes.append(helper.make_node("Add",
        inputs=["ff2_proj", "b_ff2"],
        outputs=["ff2"],
        name="ff2_bias",
))
nodes.append(helper.make_node("Add",
        inputs=["ln1_out", "ff2"],
        outputs=["residual2"],
        name="residual2",
))
nodes.append(helper.make_node("LayerNormalization",
        inputs=["residual2", "ln2_scale", "ln2_bias"],
        outputs=["output"],
        axis=-1,
        epsilon=eps,
        name="layernorm2",
))
x_info = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", seq_len, d_model])
out_info = helper.make_tensor_value_info("output", TensorProto.FLOAT, ["batch", seq_len, d_model])
graph = helper.make_graph(nodes, "transformer_encoder_block",
    inputs=[x_info], outputs=[out_info], initializer=inits)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
model.ir_version = 8
onnx.checker.check_model(model)
