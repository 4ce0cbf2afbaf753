"""Layers with weights: linear, convolution, embedding, and weights that are no layer's."""
