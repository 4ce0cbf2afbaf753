"""Make a tree of modules from a flat graph: find the module of each node, and names for modules and layers."""
