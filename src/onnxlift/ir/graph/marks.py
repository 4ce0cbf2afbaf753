"""The marks that steps leave in a graph for later steps and for those that write the source."""

DOMAIN = "onnxlift"
"""The domain of the operators that idioms make. No ONNX file uses it."""
ROUNDING = ("FakeQuantize", "Quantize")
"""The operators of this domain that only round what another node gives."""
USUAL_NAME = "usual_name"
"""Key in `Value.meta` of the name that the operator or idiom which computes the value suggests for it: `"bias"`."""
AXES = "axes"
"""Key in `Value.meta` of the names of a constant's axes: `("offsets", "heads")`."""
LOOKED_UP = "looked_up"
"""Key in `Value.meta` of a constant that is the result of an embedding for all its rows in order."""
STORED = "stored"
"""Key in the `meta` of a tensor that stands for another one of the same numbers: the tensor that is in the file."""
