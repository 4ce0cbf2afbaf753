"""Equal modules share one class, whose constructor takes what differs."""
