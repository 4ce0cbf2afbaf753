"""From bytes to a typed graph: reading and checking a file that nobody vouches for, schemas, types and inference.

Nothing in this folder imports torch.
"""
