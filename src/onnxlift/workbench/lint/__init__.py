"""`lint`: what may trouble whoever ships a model. A rule is one function of a file in rules/, found where it is."""
