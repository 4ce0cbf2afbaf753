"""Run models with ONNX Runtime, as the user asks for it: providers, options, custom operators, profiles.

settings    what the user asks for, checked
prepared    a model, its file and its inputs, ready to be run in a child
session     in the child: the session of ONNX Runtime
worker      the program of the child
trace       in the child: the trace that ONNX Runtime writes, summed up by kernel
origins     which nodes of the model a kernel of the optimised graph came from
node_times  seconds for each node of a model
"""
