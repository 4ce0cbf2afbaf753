"""What modules hold: the order of their members, constants, and weights that are one."""
