"""A convolutional network, as a guide to onnx.helper writes it: what `docs/building.md` is compared with."""

# ruff: noqa
# fmt: off
import numpy as np
import onnx
from onnx import helper, TensorProto, numpy_helper
def conv_weight(out_ch, in_ch, kH, kW, name):
    fan_in = in_ch * kH * kW
    W = np.random.randn(out_ch, in_ch, kH, kW).astype(np.float32) * np.sqrt(2.0 / fan_in)
    return numpy_helper.from_array(W, name=name)
def conv_bias(out_ch, name):
    b = np.zeros(out_ch, dtype=np.float32)
    return numpy_helper.from_array(b, name=name)
def bn_params(channels, name_prefix):
    scale = numpy_helper.from_array(np.ones(channels, dtype=np.float32), name=f"{name_prefix}_scale")
    bias = numpy_helper.from_array(np.zeros(channels, dtype=np.float32), name=f"{name_prefix}_bias")
    mean = numpy_helper.from_array(np.zeros(channels, dtype=np.float32), name=f"{name_prefix}_mean")
    var = numpy_helper.from_array(np.ones(channels, dtype=np.float32), name=f"{name_prefix}_var")
    return scale, bias, mean, var
def fc_params(in_d, out_d, name_prefix):
    W = np.random.randn(in_d, out_d).astype(np.float32) * np.sqrt(2.0 / in_d)
    b = np.zeros(out_d, dtype=np.float32)
    return (numpy_helper.from_array(W, name=f"{name_prefix}_W"),
        numpy_helper.from_array(b, name=f"{name_prefix}_b"))
inits = []
inits += [conv_weight(32, 3, 3, 3, "conv1_W"), conv_bias(32, "conv1_b")]
inits += list(bn_params(32, "bn1"))
inits += [conv_weight(64, 32, 3, 3, "conv2_W"), conv_bias(64, "conv2_b")]
inits += list(bn_params(64, "bn2"))
inits += [conv_weight(128, 64, 3, 3, "conv3_W"), conv_bias(128, "conv3_b")]
inits += list(bn_params(128, "bn3"))
inits += list(fc_params(128 * 4 * 4, 256, "fc1"))
inits += list(fc_params(256, 10, "fc2"))
nodes = []
def conv_bn_relu(x_name, conv_w, conv_b, bn_prefix, out_name, kH=3, kW=3, pad=1):
    conv_out = f"{out_name}_conv"
    bn_out = f"{out_name}_bn"
    return [
        helper.make_node("Conv",
            inputs=[x_name, conv_w, conv_b],
            outputs=[conv_out],
            kernel_shape=[kH, kW],
            strides=[1, 1],
            pads=[pad, pad, pad, pad],
            name=f"{out_name}_conv_op",
        ),
        helper.make_node("BatchNormalization",
            inputs=[conv_out,
                f"{bn_prefix}_scale", f"{bn_prefix}_bias",
                f"{bn_prefix}_mean", f"{bn_prefix}_var"],
            outputs=[bn_out],
            epsilon=1e-5,
            momentum=0.9,
            name=f"{out_name}_bn_op",
        ),
        helper.make_node("Relu",
            inputs=[bn_out],
            outputs=[out_name],
            name=f"{out_name}_relu_op",
        ),
    ]
nodes += conv_bn_relu("x", "conv1_W", "conv1_b", "bn1", "block1_out")
nodes.append(helper.make_node("MaxPool",
        inputs=["block1_out"], outputs=["pool1_out"],
        kernel_shape=[2, 2], strides=[2, 2], name="pool1",
))
nodes += conv_bn_relu("pool1_out", "conv2_W", "conv2_b", "bn2", "block2_out")
nodes.append(helper.make_node("MaxPool",
        inputs=["block2_out"], outputs=["pool2_out"],
        kernel_shape=[2, 2], strides=[2, 2], name="pool2",
))
nodes += conv_bn_relu("pool2_out", "conv3_W", "conv3_b", "bn3", "block3_out")
nodes.append(helper.make_node("MaxPool",
        inputs=["block3_out"], outputs=["pool3_out"],
        kernel_shape=[2, 2], strides=[2, 2], name="pool3",
))
nodes.append(helper.make_node("Flatten",
        inputs=["pool3_out"], outputs=["flat_out"],
        axis=1, name="flatten",
))
nodes.append(helper.make_node("Gemm",
        inputs=["flat_out", "fc1_W", "fc1_b"], outputs=["fc1_out"],
        alpha=1.0, beta=1.0, name="fc1",
))
nodes.append(helper.make_node("Relu",
        inputs=["fc1_out"], outputs=["fc1_relu"],
        name="fc1_relu",
))
nodes.append(helper.make_node("Gemm",
        inputs=["fc1_relu", "fc2_W", "fc2_b"], outputs=["logits"],
        alpha=1.0, beta=1.0, name="fc2",
))
nodes.append(helper.make_node("Softmax",
        inputs=["logits"], outputs=["probs"],
        axis=-1, name="softmax",
))
x_info = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, 32, 32])
prob_info = helper.make_tensor_value_info("probs", TensorProto.FLOAT, ["batch", 10])
graph = helper.make_graph(nodes, "cnn_classifier",
    inputs=[x_info], outputs=[prob_info], initializer=inits)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
model.ir_version = 8
onnx.checker.check_model(model)
