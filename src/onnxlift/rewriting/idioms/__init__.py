"""From many nodes to the one operation that they mean together.

Idioms run on a graph in normal form, simplified or not. Each puts a node of the domain `onnxlift` (see
lifting/ops/lifted/) in the place of the nodes of its pattern, under the name of the node that holds the weight, and
keeps the values that the rest of the graph reads. Idioms are optional, one by one: without them the source is longer
and the numbers are the same. A folder is a family of idioms; `parts` in it is what they share.
"""
