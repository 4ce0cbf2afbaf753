"""From any valid graph to the one form that all later stages expect: no calls of functions, constants are initialisers,
no Identity nodes, operators that we know, types inferred, nothing dead. Inputs and outputs stay."""
