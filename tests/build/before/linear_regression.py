"""A linear regression, as a guide to onnx.helper writes it: what `docs/building.md` is compared with."""

# ruff: noqa
# fmt: off
import numpy as np
import onnx
from onnx import helper, TensorProto, numpy_helper
in_features = 8
out_features = 1
W_data = np.random.randn(in_features, out_features).astype(np.float32)
b_data = np.zeros(out_features, dtype=np.float32)
W_init = numpy_helper.from_array(W_data, name="W")
b_init = numpy_helper.from_array(b_data, name="b")
x_info = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", in_features])
y_info = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", out_features])
gemm_node = helper.make_node(
    op_type="Gemm",
    inputs=["x", "W", "b"],
    outputs=["y"],
    alpha=1.0,
    beta=1.0,
    transB=0, # W is already (in_features, out_features), no transpose needed
    name="linear",
)
graph = helper.make_graph(
    nodes=[gemm_node],
    name="linear_regression",
    inputs=[x_info],
    outputs=[y_info],
    initializer=[W_init, b_init],
)
model = helper.make_model(
    graph,
    opset_imports=[helper.make_opsetid("", 17)],
)
model.ir_version = 8
model.producer_name = "onnx_guide"
onnx.checker.check_model(model)
