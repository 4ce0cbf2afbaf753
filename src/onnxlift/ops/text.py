"""Strings: joined, split, matched, normalised, counted."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import numpy as np

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
    """TF counts, IDF says only whether there are any, TFIDF counts too; the latter two times a weight."""
    items: tuple[Any, ...] = pool_int64s or pool_strings or ()
    ngrams = []
    for length, (start, end) in enumerate(pairwise((*ngram_counts, len(items))), 1):
        ngrams += [items[i : i + length] for i in range(start, end - length + 1, length)]
    if not ngrams or len(ngrams) != len(ngram_indexes) or len(weights or ngrams) != len(ngrams):
        n.fail(f"it has {len(ngrams)} n-grams, {len(ngram_indexes)} indexes and {len(weights or ())} weights for them")
    if min(ngram_indexes) < 0 or (mode == "IDF" and len(set(ngram_indexes)) < len(ngrams)):
        n.fail("its n-grams do not have a place of their own each")
    lengths = builtin("range")(min_gram_length, max_gram_length + 1)
    result = kernel("count_ngrams")(X.tolist(), ngrams, lengths, max_skip_count, n.device)
    if mode == "IDF":
        result = result.clamp(max=1)
    if mode != "TF" and weights:
        result = result * result.new_tensor([float(str(np.float32(weight))) for weight in weights])
    if ngram_indexes == tuple(range(len(ngrams))):
        return result
    return kernel("add_at")(result, list(ngram_indexes), max(ngram_indexes) + 1)
