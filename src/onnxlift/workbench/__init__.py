"""The workbench: verbs that look at an ONNX model, or turn it into another one. A verb is a file or a folder."""
