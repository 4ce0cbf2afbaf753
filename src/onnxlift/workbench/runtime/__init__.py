"""Run models with ONNX Runtime, as the user asks for it: providers, options, custom operators, profiles.

settings       what the user asks for, checked
prepared       a model, its file and its inputs, ready to be run in a child
file_inputs    inputs from pictures and texts
origins        which nodes of the model a kernel of the optimised graph came from
node_times     seconds for each node of a model
placement      where nodes ran, and whether they may
timings        where the time of a run went: by node, operator and module

In the child:

worker         its program
engines        the ways to run a model
options        the session options of ONNX Runtime
session        a session of ONNX Runtime
python_ops     a model with operators that are written in Python
torch_engines  the lifted module
trace          the trace that ONNX Runtime writes, summed up by kernel
torch_trace    that of the lifted module
"""
