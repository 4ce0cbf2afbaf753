"""What the restoring steps share: finding by the numbers which parameter a constant was computed from."""
