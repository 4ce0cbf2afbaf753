"""Attention: scores, masks, heads, positions, and `nn.MultiheadAttention`."""
