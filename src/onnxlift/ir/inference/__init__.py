"""Types and symbolic sizes of every value, and the values that can be computed ahead."""
