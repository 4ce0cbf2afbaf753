"""The rules that every node must keep. A rule is one function of a file here; `table.py` finds them all.

Most rules ask only the schema: `signatures`, `attributes`, `subgraphs`. They hold for every node of the main graph, of
subgraphs and of functions, before any pass reads the graph. The others need the types that inference finds, and run as
soon as it has: `element_types`, `axes`, `sizes`, `windows`, `equations`.

A rule refuses only what ONNX forbids and what no run of the node could compute. What is not known breaks no rule.
"""
