"""Kernels for operators of ai.onnx.ml."""
