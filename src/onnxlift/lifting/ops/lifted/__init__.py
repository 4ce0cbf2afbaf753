"""Operators of the domain onnxlift, which the idioms make."""
