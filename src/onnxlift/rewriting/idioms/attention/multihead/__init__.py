"""What `nn.MultiheadAttention` is recognised by: projections, layouts, masks, added keys."""
