"""From an onnx_ir.Model to an ONNX file: streamed, so that weights of any size pass through little memory."""
