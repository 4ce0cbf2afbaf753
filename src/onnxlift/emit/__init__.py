"""From the tree of modules to files: the source, the weights, the source map."""
