"""Random graphs: generated from a seed, lifted, and compared with ONNX Runtime."""
