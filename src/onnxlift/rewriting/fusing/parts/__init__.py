"""What several steps of fusing share."""
