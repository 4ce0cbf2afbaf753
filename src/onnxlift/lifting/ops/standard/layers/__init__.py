"""Operators with weights: convolution, norms, attention, recurrence, quantisation, pooling."""
