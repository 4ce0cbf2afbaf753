"""`build-script`: the Python of `onnxlift.build` that makes a model again."""
