"""What the steps of this stage share."""
