"""The rules of `lint`, by what they are about. A rule is one function; ../table.py finds them all.

Identifiers: OL1 names and what the file says, OL2 types and sizes, OL3 weights, OL4 nodes without use, OL5 runtimes.
(OL0 are the rules of the gate, in ir/checking/.) An identifier is never given to another rule."""
