"""Python code as data: expressions and statements that operator functions build and `lifting/text/` writes."""
