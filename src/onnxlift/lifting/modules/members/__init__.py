"""Handle the members of modules: their order, constants, and weights that are one."""
