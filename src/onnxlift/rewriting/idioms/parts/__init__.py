"""Code that idioms of several families share."""
