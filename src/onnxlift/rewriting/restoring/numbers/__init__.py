"""Find by its numbers which parameter a constant was computed from. The restoring steps share this."""
