"""Write what an idiom recognises as an operator of ONNX, if the opset has one: for ONNX files only, not for source.

There is one file for each idiom. Its step runs the idiom, which puts one node of the domain `onnxlift` in the place of
several, and says how the node is spelled in ONNX (parts/spelling.py). If something has no spelling, in this opset or
for these types and sizes, it becomes again what it was (parts/memory.py).
"""
