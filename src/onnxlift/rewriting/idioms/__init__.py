"""Many nodes become the one operation that they mean together.

Idioms run on a graph in normal form, which may be simplified or not. Each idiom replaces the nodes of its pattern by
one node of the domain `onnxlift` (see lifting/ops/lifted/). The new node takes the name of the node that holds the
weight. The values that the rest of the graph reads stay. Each idiom is optional: without it the source is longer and
the numbers are the same. Each folder is a family of idioms; its folder `parts` has the code that they share.
"""
