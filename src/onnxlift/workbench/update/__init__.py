"""`update`: trained weights go back into the ONNX file that was lifted. docs/workbench/update.md."""
