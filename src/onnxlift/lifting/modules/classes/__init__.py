"""Let equal modules share one class, whose constructor takes the numbers and parts in which they differ."""
