"""The scopes in the name of a node: PyTorch's are modules, and not all of TensorFlow's are."""

from __future__ import annotations

import pytest

from onnxlift.lifting.tree.scopes import scopes_in


@pytest.mark.parametrize(
    ("name", "scopes"),
    [
        ("/encoder/layer.0/MatMul", ["encoder", "layer.0"]),
        ("/PartitionedCall/tf.x/MatMul", ["PartitionedCall", "tf.x"]),  # whatever PyTorch calls a module
        ("encoder/dense/MatMul", ["encoder", "dense"]),
        ("net/a/Relu6;net/b/FusedBatchNormV3;net/c/Conv2D", ["net", "a"]),
        ("net/a/Relu6_net/b/FusedBatchNormV3_net/c/Conv2D", ["net", "a"]),
        ("net/a/depthwise_net/c/Conv2D", ["net", "a"]),
        ("net/my_net/Conv", ["net", "my_net"]),  # a scope that ends like the first one, and joins nothing
        ("StatefulPartitionedCall/net/conv1/Conv2D", ["net", "conv1"]),
        ("PartitionedCall_1/PartitionedCall/net/tf.math.multiply_69/Mul", ["net"]),
        ("net/tf_op_layer_Pad_2/Pad", ["net"]),
        ("jax2tf_logits_/pjit_logits_/Net/Conv_0/slice", ["Net", "Conv_0"]),
        ("Conv__3", []),
        ("", []),
    ],
)
def test_scopes(name: str, scopes: list[str]) -> None:
    assert scopes_in(name) == scopes


def test_a_long_name_takes_no_time() -> None:
    assert scopes_in("a" + "/b_a" * 100_000 + "/c")[:2] == ["a", "b_a"]
