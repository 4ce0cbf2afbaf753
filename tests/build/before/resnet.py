"""A residual network, as a guide to onnx.helper writes it: what `docs/building.md` is compared with."""

# ruff: noqa
# fmt: off
import numpy as np
import onnx
from onnx import helper, TensorProto, numpy_helper
def make_conv_bn_relu(x_name, out_name, in_ch, out_ch, stride, inits, nodes, kH=3, kW=3):
    fan_in = in_ch * kH * kW
    W_data = np.random.randn(out_ch, in_ch, kH, kW).astype(np.float32) * np.sqrt(2.0 / fan_in)
    W_init = numpy_helper.from_array(W_data, name=f"{out_name}_cW")
    b_init = numpy_helper.from_array(np.zeros(out_ch, dtype=np.float32), name=f"{out_name}_cb")
    sc_init = numpy_helper.from_array(np.ones(out_ch, dtype=np.float32), name=f"{out_name}_bns")
    bi_init = numpy_helper.from_array(np.zeros(out_ch, dtype=np.float32), name=f"{out_name}_bnb")
    mn_init = numpy_helper.from_array(np.zeros(out_ch, dtype=np.float32), name=f"{out_name}_bnm")
    vr_init = numpy_helper.from_array(np.ones(out_ch, dtype=np.float32), name=f"{out_name}_bnv")
    inits += [W_init, b_init, sc_init, bi_init, mn_init, vr_init]
    conv_out = f"{out_name}_c"
    bn_out = f"{out_name}_bn"
    nodes.append(helper.make_node("Conv",
            inputs=[x_name, f"{out_name}_cW", f"{out_name}_cb"],
            outputs=[conv_out],
            kernel_shape=[kH, kW],
            strides=[stride, stride],
            pads=[kH//2, kW//2, kH//2, kW//2],
            name=f"{out_name}_conv",
    ))
    nodes.append(helper.make_node("BatchNormalization",
            inputs=[conv_out, f"{out_name}_bns", f"{out_name}_bnb",
                f"{out_name}_bnm", f"{out_name}_bnv"],
            outputs=[bn_out],
            epsilon=1e-5, momentum=0.1,
            name=f"{out_name}_bn",
    ))
    nodes.append(helper.make_node("Relu",
            inputs=[bn_out],
            outputs=[out_name],
            name=f"{out_name}_relu",
    ))
def make_residual_block(x_name, out_name, in_ch, out_ch, stride, inits, nodes):
    mid_name = f"{out_name}_mid"
    make_conv_bn_relu(x_name, mid_name, in_ch, out_ch, stride, inits, nodes)
    fan_in = out_ch * 3 * 3
    W2_data = np.random.randn(out_ch, out_ch, 3, 3).astype(np.float32) * np.sqrt(2.0 / fan_in)
    W2_init = numpy_helper.from_array(W2_data, name=f"{out_name}_c2W")
    b2_init = numpy_helper.from_array(np.zeros(out_ch, dtype=np.float32), name=f"{out_name}_c2b")
    sc2 = numpy_helper.from_array(np.ones(out_ch, dtype=np.float32), name=f"{out_name}_bn2s")
    bi2 = numpy_helper.from_array(np.zeros(out_ch, dtype=np.float32), name=f"{out_name}_bn2b")
    mn2 = numpy_helper.from_array(np.zeros(out_ch, dtype=np.float32), name=f"{out_name}_bn2m")
    vr2 = numpy_helper.from_array(np.ones(out_ch, dtype=np.float32), name=f"{out_name}_bn2v")
    inits += [W2_init, b2_init, sc2, bi2, mn2, vr2]
    conv2_out = f"{out_name}_c2"
    bn2_out = f"{out_name}_bn2"
    nodes.append(helper.make_node("Conv",
            inputs=[mid_name, f"{out_name}_c2W", f"{out_name}_c2b"],
            outputs=[conv2_out],
            kernel_shape=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1],
            name=f"{out_name}_conv2",
    ))
    nodes.append(helper.make_node("BatchNormalization",
            inputs=[conv2_out, f"{out_name}_bn2s", f"{out_name}_bn2b",
                f"{out_name}_bn2m", f"{out_name}_bn2v"],
            outputs=[bn2_out],
            epsilon=1e-5, momentum=0.1,
            name=f"{out_name}_bn2",
    ))
    if in_ch != out_ch or stride != 1:
        Ws_data = np.random.randn(out_ch, in_ch, 1, 1).astype(np.float32) * np.sqrt(2.0 / in_ch)
        Ws_init = numpy_helper.from_array(Ws_data, name=f"{out_name}_sW")
        bs_init = numpy_helper.from_array(np.zeros(out_ch, dtype=np.float32), name=f"{out_name}_sb")
        inits += [Ws_init, bs_init]
        shortcut_name = f"{out_name}_shortcut"
        nodes.append(helper.make_node("Conv",
                inputs=[x_name, f"{out_name}_sW", f"{out_name}_sb"],
                outputs=[shortcut_name],
                kernel_shape=[1, 1], strides=[stride, stride], pads=[0, 0, 0, 0],
                name=f"{out_name}_shortcut_conv",
        ))
    else:
        shortcut_name = x_name
    nodes.append(helper.make_node("Add",
            inputs=[bn2_out, shortcut_name],
            outputs=[f"{out_name}_sum"],
            name=f"{out_name}_add",
    ))
    nodes.append(helper.make_node("Relu",
            inputs=[f"{out_name}_sum"],
            outputs=[out_name],
            name=f"{out_name}_relu_final",
    ))
inits = []
nodes = []
make_conv_bn_relu("x", "stem_out", in_ch=3, out_ch=64, stride=2, inits=inits, nodes=nodes, kH=7, kW=7)
nodes.append(helper.make_node("MaxPool",
        inputs=["stem_out"], outputs=["pool_out"],
        kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1],
        name="stem_pool",
))
make_residual_block("pool_out", "layer1a", in_ch=64, out_ch=64, stride=1, inits=inits, nodes=nodes)
make_residual_block("layer1a", "layer1b", in_ch=64, out_ch=64, stride=1, inits=inits, nodes=nodes)
make_residual_block("layer1b", "layer2a", in_ch=64, out_ch=128, stride=2, inits=inits, nodes=nodes)
make_residual_block("layer2a", "layer2b", in_ch=128, out_ch=128, stride=1, inits=inits, nodes=nodes)
nodes.append(helper.make_node("GlobalAveragePool",
        inputs=["layer2b"], outputs=["gap_out"],
        name="global_avg_pool",
))
nodes.append(helper.make_node("Flatten",
        inputs=["gap_out"], outputs=["flat_out"],
        axis=1, name="flatten",
))
fc_W = numpy_helper.from_array(
    np.random.randn(128, 10).astype(np.float32) * 0.01, name="fc_W")
fc_b = numpy_helper.from_array(np.zeros(10, dtype=np.float32), name="fc_b")
inits += [fc_W, fc_b]
nodes.append(helper.make_node("Gemm",
        inputs=["flat_out", "fc_W", "fc_b"],
        outputs=["logits"], alpha=1.0, beta=1.0, name="classifier",
))
nodes.append(helper.make_node("Softmax",
        inputs=["logits"], outputs=["probs"], axis=-1, name="softmax",
))
x_info = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, 224, 224])
prob_info = helper.make_tensor_value_info("probs", TensorProto.FLOAT, ["batch", 10])
graph = helper.make_graph(nodes, "tiny_resnet",
    inputs=[x_info], outputs=[prob_info], initializer=inits)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
model.ir_version = 8
onnx.checker.check_model(model)
