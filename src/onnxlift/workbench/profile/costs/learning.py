"""Operators of classical machine learning (ai.onnx.ml)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import onnx_ir as ir

from ..amount import Amount
from ..formula import Size
from ..node import CostNode, NotKnownError
from ..registry import Work, cost

ML = "ai.onnx.ml"


@cost(
    *("ArrayFeatureExtractor", "CastMap", "CategoryMapper", "DictVectorizer", "FeatureVectorizer", "LabelEncoder"),
    *("OneHotEncoder", "ZipMap"),
    domain=ML,
)
def rename(n: CostNode) -> Work:
    """Elements are looked up, or put together."""
    return Work()


_PER_ELEMENT = {"Binarizer": 1, "Imputer": 1, "Scaler": 2, "Normalizer": 3}


@cost(*_PER_ELEMENT, domain=ML)
def elementwise(n: CostNode) -> Work:
    """A comparison; or a shift and a scale; or a norm and a division by it."""
    return Work(other=n.output_size() * _PER_ELEMENT[n.op_type])


def _rows(n: CostNode) -> Size:
    shape = n.shape()
    return shape[0] if len(shape) > 1 else 1


def _length(values: object) -> int:
    return values.size if isinstance(values, ir.TensorProtocol) else len(values) if isinstance(values, Sequence) else 0


@cost("LinearClassifier", "LinearRegressor", domain=ML)
def linear(n: CostNode) -> Work:
    """A product of each row with the coefficients; then the intercepts."""
    rows = _rows(n)
    coefficients, intercepts = _length(n.attribute("coefficients")), _length(n.attribute("intercepts"))
    return Work(macs=rows * coefficients, other=rows * intercepts, parameters=coefficients + intercepts)


@cost("SVMClassifier", "SVMRegressor", domain=ML)
def support_vectors(n: CostNode) -> Work:
    """Each row with each support vector, then the kernel, then the coefficients."""
    rows = _rows(n)
    vectors, coefficients = _length(n.attribute("support_vectors")), _length(n.attribute("coefficients"))
    features = n.shape()[-1]
    if not isinstance(features, int) or not features:
        raise NotKnownError("the number of features is not known")
    kernel = {"LINEAR": 0, "RBF": 3, "POLY": 3, "SIGMOID": 3}.get(str(n.attribute("kernel_type", "LINEAR")), 3)
    other = rows * (vectors // features) * kernel
    return Work(macs=rows * (vectors + coefficients), other=other, parameters=vectors + coefficients)


@cost("TreeEnsembleClassifier", "TreeEnsembleRegressor", domain=ML)
def trees(n: CostNode) -> Work:
    """A comparison for each node on the way to a leaf: between the shortest and the longest way of each tree."""
    roots = n.attribute("nodes_treeids", ())
    identifiers = list(zip(roots, n.attribute("nodes_nodeids", ()), strict=False))
    places = {identifier: place for place, identifier in enumerate(identifiers)}
    children: list[tuple[int, int] | None] = []
    sides = (n.attribute("nodes_truenodeids", ()), n.attribute("nodes_falsenodeids", ()))
    for tree, mode, true, false in zip(roots, n.attribute("nodes_modes", ()), *sides, strict=False):
        pair = places.get((tree, true), -1), places.get((tree, false), -1)
        children.append(None if mode == "LEAF" or -1 in pair else pair)
    return _walks(n, children, [])


@cost("TreeEnsemble", domain=ML)
def trees_with_leaves(n: CostNode) -> Work:
    """The same; here leaves are counted apart, and the roots are told."""
    children: list[tuple[int, int] | None] = []
    names = ("nodes_trueleafs", "nodes_truenodeids", "nodes_falseleafs", "nodes_falsenodeids")
    true_leaves, trues, false_leaves, falses = (n.attribute(name, ()) for name in names)
    leaf = len(trues)
    for true_leaf, true, false_leaf, false in zip(true_leaves, trues, false_leaves, falses, strict=False):
        children.append((leaf if true_leaf else true, leaf if false_leaf else false))
    return _walks(n, [*children, None], list(n.attribute("tree_roots", ())))


def _walks(n: CostNode, children: list[tuple[int, int] | None], roots: list[int]) -> Work:
    """Return the comparisons of all trees, for each row."""
    if not children:
        raise NotKnownError("its trees are not told")
    if not roots:
        below = Counter(child for pair in children if pair for child in pair)
        roots = [place for place in range(len(children)) if not below[place]]
    shortest, longest = _depths(children)
    rows = _rows(n)
    low = sum(shortest[root] for root in roots if root < len(shortest))
    high = sum(longest[root] for root in roots if root < len(longest))
    return Work(other=Amount(rows * low, rows * high), parameters=0)


def _depths(children: list[tuple[int, int] | None]) -> tuple[list[int], list[int]]:
    """Return the shortest and the longest way from each node to a leaf. Ways that never end have no length."""
    count = len(children)
    shortest, longest = [0] * count, [0] * count
    parents: dict[int, list[int]] = {}
    waiting = [0] * count
    for place, pair in enumerate(children):
        for child in {*pair} if pair else ():
            if not 0 <= child < count:
                raise NotKnownError("its trees name a node that is not there")
            parents.setdefault(child, []).append(place)
            waiting[place] += 1
    ready = [place for place in range(count) if not waiting[place]]
    done = 0
    while ready:
        place = ready.pop()
        done += 1
        pair = children[place]
        if pair:
            shortest[place] = 1 + min(shortest[child] for child in pair)
            longest[place] = 1 + max(longest[child] for child in pair)
        for parent in parents.get(place, ()):
            waiting[parent] -= 1
            if not waiting[parent]:
                ready.append(parent)
    if done < count:
        raise NotKnownError("its trees go round in circles")
    return shortest, longest
