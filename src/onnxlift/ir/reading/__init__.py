"""From untrusted bytes to a proto whose large tensors stay where they are."""
