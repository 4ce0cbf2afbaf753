"""What steps of simplifying are made of."""
