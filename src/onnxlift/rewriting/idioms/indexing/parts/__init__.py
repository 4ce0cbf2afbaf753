"""What idioms about indexing share."""
