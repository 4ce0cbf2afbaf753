"""What idioms leave in a graph for those that write the source."""

DOMAIN = "onnxlift"
"""The domain of the operators that idioms make. No ONNX file uses it."""
USUAL_NAME = "usual_name"
"""Key in `Value.meta` of what a value is usually called, by the operator or idiom that gives it."""
AXES = "axes"
"""Key in `Value.meta` of what the sizes of a constant are called: `("offsets", "heads")`."""
