"""The parts by which `nn.MultiheadAttention` is recognised: projections, layouts, masks, added keys."""
