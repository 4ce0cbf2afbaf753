"""Python code as data: expressions and statements that operator functions build and `emit/` turns into text."""
