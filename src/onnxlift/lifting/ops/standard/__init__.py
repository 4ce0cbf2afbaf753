"""Operators of ONNX's own domain, by family."""
