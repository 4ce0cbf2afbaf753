"""Operators of ONNX Runtime (com.microsoft) that have no body of ONNX's own."""
