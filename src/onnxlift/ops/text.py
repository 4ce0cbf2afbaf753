"""Strings: joined, split, matched, normalised, counted."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

from ..code.expr import builtin
from .arguments import changed
from .kernel import kernel
from .node import Node, Result, Unpack
from .operand import Tensor
from .registry import op


@op("StringConcat")
def StringConcat(n: Node, X: Tensor, Y: Tensor) -> Result:
    return kernel("join_strings")(X, Y)


@op("StringSplit")
def StringSplit(n: Node, X: Tensor, *, delimiter: str | None, maxsplit: int | None) -> Result:
    """An empty delimiter means white space, as none does."""
    options = {"delimiter": delimiter or None, "most": -1 if maxsplit is None else maxsplit}
    return Unpack(kernel("split_strings")(X, **changed(options, delimiter=None, most=-1)), 2)


@op("RegexFullMatch")
def RegexFullMatch(n: Node, X: Tensor, *, pattern: str) -> Result:
    """ONNX takes the language of RE2, of which Python's is nearly a superset."""
    try:
        re.compile(pattern, re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        n.fail(f"Python cannot read its pattern: {error}")
    if "[:" in pattern:
        n.fail("its pattern names a class of characters ([:alpha:]), which Python does not know")
    return kernel("match_strings")(X, pattern)


@op("StringNormalizer", ignores=["locale"])
def StringNormalizer(
    n: Node, X: Tensor, *, case_change_action: str, is_case_sensitive: int, stopwords: tuple[str, ...] | None
) -> Result:
    options = {"stopwords": stopwords or (), "case_sensitive": bool(is_case_sensitive), "case": case_change_action}
    return kernel("normalize_strings")(X, **changed(options, stopwords=(), case_sensitive=False, case="NONE"))


@op("TfIdfVectorizer")
def TfIdfVectorizer(
    n: Node,
    X: Tensor,
    *,
    max_gram_length: int,
    max_skip_count: int,
    min_gram_length: int,
    mode: str,
    ngram_counts: tuple[int, ...],
    ngram_indexes: tuple[int, ...],
    pool_int64s: tuple[int, ...] | None,
    pool_strings: tuple[str, ...] | None,
    weights: tuple[float, ...] | None,
) -> Result:
    """TF counts, IDF only whether there are any, TFIDF counts too; the latter two times the weight of the place."""
    items: tuple[Any, ...] = pool_int64s or pool_strings or ()
    ngrams = []
    for length, (start, end) in enumerate(pairwise((*ngram_counts, len(items))), 1):
        ngrams += [items[i : i + length] for i in range(start, end - length + 1, length)]
    if len(ngrams) != len(ngram_indexes) or not ngrams or min(ngram_indexes) < 0:
        n.fail(f"it has {len(ngrams)} n-grams and {len(ngram_indexes)} indexes for them")
    size = max(ngram_indexes) + 1
    if weights and mode != "TF" and len(weights) != size:
        n.fail(f"it has {len(weights)} weights for {size} counts")
    known = [(g, i) for g, i in zip(ngrams, ngram_indexes, strict=True) if min_gram_length <= len(g) <= max_gram_length]
    lengths = builtin("range")(min_gram_length, max_gram_length + 1)
    pool, places = [g for g, _ in known], [i for _, i in known]
    counts = kernel("count_ngrams")(X.tolist(), pool, places, size, lengths, max_skip_count, n.device)
    if mode == "IDF":
        counts = (counts > 0).float()
    if mode == "TF" or not weights:
        return counts
    return counts * counts.new_tensor([float(w) for w in weights])
