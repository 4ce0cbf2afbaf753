"""Kernels for operators of ONNX."""
