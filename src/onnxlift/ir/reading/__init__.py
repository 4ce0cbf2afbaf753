"""From untrusted bytes to a proto without its large tensors, which stay where they are until they are needed."""
