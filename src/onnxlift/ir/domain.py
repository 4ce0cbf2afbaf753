"""What idioms leave in a graph for those that write the source."""

DOMAIN = "onnxlift"
"""The domain of the operators that idioms make. No ONNX file uses it."""
MADE = "made"
"""Key in `Value.meta` of a constant that is not in the file: a pass or an idiom has made it."""
USUAL_NAME = "usual_name"
"""Key in `Value.meta` of what a value is usually called, by the operator or idiom that gives it."""
AXES = "axes"
"""Key in `Value.meta` of what the sizes of a constant are called: `("offsets", "heads")`."""
WEIGHT = "weight"
"""Key in `Value.meta` of what a constant is to be called that is to be trained, although its name or size does not say
so."""
