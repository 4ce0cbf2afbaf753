"""Code that the steps of this stage share."""
