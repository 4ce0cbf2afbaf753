"""From a flat graph to a tree of modules: where each node belongs, and what things are called."""
