"""Operators of ONNX Runtime (com.microsoft) that ONNX's own cannot express, so that they have no body."""
