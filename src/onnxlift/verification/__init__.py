"""Run a lifted model and the ONNX model that it came from, compare them, and find where they first differ.

verify         all of it: lift, make inputs, run both sides, compare, locate
inputs         values for the model's inputs: given by the user, or made up
files          inputs that are read from files
roles          what an input is for, so that values that are made up make sense
model_file     the ONNX model as a file that ONNX Runtime takes
child          a child process with limits of time and memory; untrusted models and code run only there
worker         the program of the child: `reference` runs the ONNX model, `candidate` the lifted source
gradients      the call with gradients on, forward and backward
values         values on their way between the two processes
byte_products  a rewrite of the ONNX model that makes ONNX Runtime multiply bytes exactly
compare        the comparison of two values, with the tolerance of their type
locate         the first value that differs, and the line of source that computes it
report         the result that the user sees
"""
