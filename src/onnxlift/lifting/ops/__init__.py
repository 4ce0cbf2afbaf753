"""The operators: one function for each, named as in ONNX, in the file of its family. See `registry.op`."""
