"""Mutants of small valid models: files that are nearly models, as nobody would write them and anybody may send them.

    seeds.py       the valid models that are mutated
    hostile.py     numbers, texts and sizes that programs stumble over
    view.py        all the parts of a model, by kind
    nodes.py  attributes.py  tensors.py  values.py  functions.py  anything.py     changes of a parsed model
    octets.py      changes of the bytes of a file
    make.py        `make(seed, number)`: a mutant, always the same
    judge.py       lifts a mutant, and says what came of it
    children.py    judges mutants in forked children, with limits of time and memory

`benchmarks/mutants.py` runs as many as one likes.
"""
