"""Running a lifted model beside the ONNX model that it came from, comparing, and finding where they first differ.

verify         the whole: lift, make inputs, run both sides, compare, locate
inputs         values for the model's inputs, made up or read from files
child          a child process with limits of time and memory; nothing of a stranger runs in ours
worker         what the child does: `reference` runs the ONNX model, `candidate` the lifted source
compare        one value against another, within what its type allows
report         what is told to the user
"""
