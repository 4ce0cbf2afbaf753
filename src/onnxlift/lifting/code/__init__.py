"""Python code as data: expressions and statements, which operator functions build and `text/` turns into text."""
