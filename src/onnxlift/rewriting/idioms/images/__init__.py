"""Pooling, padding, resizing and unfolding of images and signals."""
