"""A multi-layer perceptron, as a guide to onnx.helper writes it: what `docs/building.md` is compared with."""

# ruff: noqa
# fmt: off
import numpy as np
import onnx
from onnx import helper, TensorProto, numpy_helper
in_dim = 784 # e.g., MNIST flattened
h1_dim = 256
h2_dim = 128
out_dim = 10 # classes
def make_fc_weights(in_d, out_d, name_prefix):
    W = np.random.randn(in_d, out_d).astype(np.float32) * np.sqrt(2.0 / in_d)
    b = np.zeros(out_d, dtype=np.float32)
    W_init = numpy_helper.from_array(W, name=f"{name_prefix}_W")
    b_init = numpy_helper.from_array(b, name=f"{name_prefix}_b")
    return W_init, b_init
fc1_W, fc1_b = make_fc_weights(in_dim, h1_dim, "fc1")
fc2_W, fc2_b = make_fc_weights(h1_dim, h2_dim, "fc2")
fc3_W, fc3_b = make_fc_weights(h2_dim, out_dim, "fc3")
all_initializers = [fc1_W, fc1_b, fc2_W, fc2_b, fc3_W, fc3_b]
nodes = []
nodes.append(helper.make_node(
        "Gemm", inputs=["x", "fc1_W", "fc1_b"], outputs=["fc1_out"],
        name="fc1", alpha=1.0, beta=1.0,
))
nodes.append(helper.make_node(
        "Relu", inputs=["fc1_out"], outputs=["relu1_out"],
        name="relu1",
))
nodes.append(helper.make_node(
        "Gemm", inputs=["relu1_out", "fc2_W", "fc2_b"], outputs=["fc2_out"],
        name="fc2", alpha=1.0, beta=1.0,
))
nodes.append(helper.make_node(
        "Relu", inputs=["fc2_out"], outputs=["relu2_out"],
        name="relu2",
))
nodes.append(helper.make_node(
        "Gemm", inputs=["relu2_out", "fc3_W", "fc3_b"], outputs=["logits"],
        name="fc3", alpha=1.0, beta=1.0,
))
nodes.append(helper.make_node(
        "Softmax", inputs=["logits"], outputs=["probs"],
        name="softmax", axis=-1,
))
x_info = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", in_dim])
prob_info = helper.make_tensor_value_info("probs", TensorProto.FLOAT, ["batch", out_dim])
graph = helper.make_graph(
    nodes, "mlp",
    inputs=[x_info],
    outputs=[prob_info],
    initializer=all_initializers,
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
model.ir_version = 8
onnx.checker.check_model(model)
