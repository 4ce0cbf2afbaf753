"""From untrusted bytes to an onnx_ir.Model whose weights stay where they are."""
