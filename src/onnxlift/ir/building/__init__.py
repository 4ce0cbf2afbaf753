"""From a checked proto to an onnx_ir.Model in one spelling, sorted, with its weights attached."""
