"""Layers with weights (linear, convolution, embedding), and weights that belong to no layer."""
