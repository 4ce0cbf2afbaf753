"""Lower nodes into modules, and restructure the modules: loops, lists, shared classes."""
