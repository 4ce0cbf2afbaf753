"""Fuse nodes for runtimes: a step a file. None of these runs when a model is lifted to source."""
