"""Kernels for operators of ONNX Runtime."""
