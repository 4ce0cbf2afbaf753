"""Every operator at every revision of its schema: a table of cases per operator, crossed with the revisions."""
