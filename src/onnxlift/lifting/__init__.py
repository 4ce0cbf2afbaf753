"""Graph to modules to text: the tree of modules, operators, classes, names, and the files."""
