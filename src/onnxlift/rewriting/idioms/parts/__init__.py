"""What idioms of several families share."""
