"""Images, signals, and text."""
