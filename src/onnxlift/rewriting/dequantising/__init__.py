"""Rewrite a quantised graph as the graph of floats that it stands for: what `lift(dequantize=True)` asks for."""
