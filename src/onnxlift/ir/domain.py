"""The domain of the operators that idioms make. No ONNX file uses it."""

DOMAIN = "onnxlift"
