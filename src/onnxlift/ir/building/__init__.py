"""From a checked proto to an onnx_ir.Model that is in one spelling and sorted, and has its weights."""
