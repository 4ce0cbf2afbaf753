"""Write the files: source, weights, source map, dump of the graph."""
