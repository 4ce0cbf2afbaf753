"""Sort operators, layers and functions into a few families, which get a colour each."""

from __future__ import annotations

import re

WEIGHTED, NORM, ACTIVATION, ATTENTION, SHAPE, REDUCING = (
    "weighted",
    "norm",
    "activation",
    "attention",
    "shape",
    "reducing",
)
FAMILIES = (WEIGHTED, NORM, ACTIVATION, ATTENTION, SHAPE, REDUCING)

# The first that matches a name counts: `F.scaled_dot_product_attention` is no product.
_WORDS = (
    (ATTENTION, r"attention"),
    (NORM, r"norm|lrn"),
    (WEIGHTED, r"conv|linear|gemm|matmul|embedding|bilinear|lstm|gru|rnn|einsum|qlinear|svm|treeensemble|@"),
    (
        ACTIVATION,
        r"relu|sigmoid|tanh|gelu|elu|silu|swish|mish|softmax|softplus|softsign|softmin|prelu|shrink|clamp|clip|dropout",
    ),
    (
        SHAPE,
        r"reshape|view|flatten|transpose|permute|squeeze|cat|concat|split|chunk|stack|slice|gather|expand|tile|repeat|"
        r"pad|unbind|flip|roll|shuffle|depthtospace|spacetodepth|resize|interpolate|upsample|cast|to|float|int|long|"
        r"bool|half|double|type|contiguous|select|narrow|movedim|shape|size|identity|\[",
    ),
    (REDUCING, r"pool|mean|sum|amax|amin|max|min|argmax|argmin|topk|reduce|prod|logsumexp|cumsum|sort|norm"),
)
_PATTERNS = [(family, re.compile(pattern)) for family, pattern in _WORDS]
_NAME = re.compile(r"(?:\w+\.)*(?P<name>\w+)|\[|\S")


def family_of(title: str) -> str:
    """Return the family of an operator, layer or call by its title; "" if it is none of those with a colour."""
    if " @ " in title[:200]:
        return WEIGHTED
    found = _NAME.match(title[:200])
    if found is None:
        return ""
    name = (found["name"] or found[0]).lower()
    for family, pattern in _PATTERNS:
        if family in (SHAPE, REDUCING):
            match = re.match(r"(adaptive_?|global_?|reduce_?|un|in)*", name)
            rest = name[match.end() :] if match else name
            if pattern.match(rest) or pattern.match(name):
                return family
        elif pattern.search(name):
            return family
    return ""
