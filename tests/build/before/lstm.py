"""A classifier of sequences, as a guide to onnx.helper writes it: what `docs/building.md` is compared with."""

# ruff: noqa
# fmt: off
import numpy as np
import onnx
from onnx import helper, TensorProto, numpy_helper
seq_len = 20 # sequence length
batch_size = 4 # batch size
input_size = 16 # features per timestep
hidden_size = 32 # LSTM hidden dim
num_layers = 1
directions = 1 # 1 for forward, 2 for bidirectional
W_data = np.random.randn(directions, 4 * hidden_size, input_size).astype(np.float32)
R_data = np.random.randn(directions, 4 * hidden_size, hidden_size).astype(np.float32)
B_data = np.zeros((directions, 8 * hidden_size), dtype=np.float32)
W_init = numpy_helper.from_array(W_data, name="lstm_W")
R_init = numpy_helper.from_array(R_data, name="lstm_R")
B_init = numpy_helper.from_array(B_data, name="lstm_B")
lstm_node = helper.make_node(
    "LSTM",
    inputs=["x", "lstm_W", "lstm_R", "lstm_B"], # omit optional inputs
    outputs=["Y", "Y_h", "Y_c"],
    hidden_size=hidden_size,
    direction="forward",
    name="lstm_layer",
)
squeeze_axes = numpy_helper.from_array(np.array([0], dtype=np.int64), name="squeeze_axes")
squeeze_node = helper.make_node(
    "Squeeze",
    inputs=["Y_h", "squeeze_axes"],
    outputs=["h_final"], # shape: [batch, hidden_size]
    name="squeeze_h",
)
fc_W_data = np.random.randn(hidden_size, 5).astype(np.float32) # 5 output classes
fc_b_data = np.zeros(5, dtype=np.float32)
fc_W_init = numpy_helper.from_array(fc_W_data, name="fc_W")
fc_b_init = numpy_helper.from_array(fc_b_data, name="fc_b")
fc_node = helper.make_node(
    "Gemm",
    inputs=["h_final", "fc_W", "fc_b"],
    outputs=["logits"],
    alpha=1.0, beta=1.0,
    name="fc_out",
)
softmax_node = helper.make_node(
    "Softmax",
    inputs=["logits"],
    outputs=["probs"],
    axis=-1,
    name="softmax",
)
x_info = helper.make_tensor_value_info("x", TensorProto.FLOAT,
    [seq_len, "batch", input_size])
prob_info = helper.make_tensor_value_info("probs", TensorProto.FLOAT, ["batch", 5])
graph = helper.make_graph(
    [lstm_node, squeeze_node, fc_node, softmax_node],
    "lstm_classifier",
    inputs=[x_info],
    outputs=[prob_info],
    initializer=[W_init, R_init, B_init, squeeze_axes, fc_W_init, fc_b_init],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
model.ir_version = 8
onnx.checker.check_model(model)
