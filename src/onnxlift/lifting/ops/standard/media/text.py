"""Join, split, match, normalise and count strings."""

from __future__ import annotations

import re
import warnings
from itertools import pairwise
from typing import Any

import numpy as np

from onnxlift.lifting.ops.arguments import changed
from onnxlift.lifting.ops.kernel import kernel
from onnxlift.lifting.ops.ml.scores import table
from onnxlift.lifting.ops.node import Node, Result, Unpack
from onnxlift.lifting.ops.operand import Tensor
from onnxlift.lifting.ops.registry import op


@op("StringConcat")
def StringConcat(n: Node, X: Tensor, Y: Tensor) -> Result:
    return kernel("join_strings")(X, Y)


@op("StringSplit")
def StringSplit(n: Node, X: Tensor, *, delimiter: str | None, maxsplit: int | None) -> Result:
    """An empty delimiter means white space, as a missing one does."""
    options = {"delimiter": delimiter or None, "most": -1 if maxsplit is None else maxsplit}
    return Unpack(kernel("split_strings")(X, **changed(options, delimiter=None, most=-1)), 2)


@op("RegexFullMatch")
def RegexFullMatch(n: Node, X: Tensor, *, pattern: str) -> Result:
    """The pattern is in the syntax of RE2. Python's `re` has nearly all of it, but searches by backtracking, which can
    take long where RE2 would not."""
    translated = _python_pattern(n, pattern)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a warning that `[[` may mean something else one day
            re.compile(translated)
    except (re.error, ValueError, OverflowError, RecursionError) as error:
        n.fail(f"Python cannot read its pattern: {error}")
    return kernel("match_strings")(X, translated)


# Syntax that RE2 and Python read differently. In RE2 these classes hold ASCII only, and `$` is the very end.
_CLASSES = {r"\d": "0-9", r"\w": "0-9A-Za-z_", r"\s": r"\t\n\f\r "}
_OTHERS = {r"\b": r"(?a:\b)", r"\B": r"(?a:\B)", r"\z": r"\Z", "$": r"\Z"}


def _python_pattern(n: Node, pattern: str) -> str:
    """Return a pattern of RE2 in Python's syntax."""
    if re.search(r"\[:\^?\w+:\]", pattern):
        n.fail("its pattern names a class of characters ([:alpha:]), which Python does not know")
    if re.search(r"\{,\d", pattern):
        n.fail("its pattern has {,n}, which is no repetition to RE2")
    tokens = re.findall(r"\\.|\(\?[A-Za-z-]*|.", pattern, re.DOTALL)
    written = []
    opening: int | None = None  # the place of the opening bracket, if the token is inside brackets
    for place, token in enumerate(tokens):
        if opening is None:
            opening = place if token == "[" else None
            written.append(_outside_brackets(n, token))
        else:
            if token == "]" and tokens[opening + 1 : place] not in ([], ["^"]):
                opening = None
            written.append(_inside_brackets(n, token))
    return "".join(written)


def _outside_brackets(n: Node, token: str) -> str:
    if token.startswith("(?") and set(token) & set("mUxaLu"):
        n.fail(f"its pattern has the flags {token}), which Python reads differently")
    if token.lower() in _CLASSES:
        return f"[{'^' if token[1].isupper() else ''}{_CLASSES[token.lower()]}]"
    return _OTHERS.get(token, token)


def _inside_brackets(n: Node, token: str) -> str:
    if token in (r"\D", r"\W", r"\S"):
        n.fail(f"its pattern has {token} within brackets, which Python reads differently")
    return r"\[" if token == "[" else _CLASSES.get(token, token)


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
    """TF counts, IDF gives 1 if there are any, TFIDF counts; IDF and TFIDF multiply by a weight."""
    ngrams = _ngrams(n, pool_int64s or pool_strings or (), ngram_counts)
    if not ngrams or len(ngrams) != len(ngram_indexes) or len(weights or ngrams) != len(ngrams):
        n.fail(f"it has {len(ngrams)} n-grams, {len(ngram_indexes)} indexes and {len(weights or ())} weights for them")
    if min(ngram_indexes) < 0 or (mode == "IDF" and len(set(ngram_indexes)) < len(ngrams)):
        n.fail("its n-grams do not have a place of their own each")
    lengths = sorted({len(ngram) for ngram in ngrams if min_gram_length <= len(ngram) <= max_gram_length})
    result = kernel("count_ngrams")(X, ngrams, lengths, max_skip_count, n.device)
    if mode == "IDF":
        result = result.clamp(max=1)
    if mode != "TF" and weights:
        result = result * table("weights", np.array(weights, np.float32))
    if ngram_indexes == tuple(range(len(ngrams))):
        return result
    return kernel("add_at")(result, list(ngram_indexes), max(ngram_indexes) + 1)


def _ngrams(n: Node, items: tuple[Any, ...], starts: tuple[int, ...]) -> list[tuple[Any, ...]]:
    """Return the n-grams whose concatenation is `items`: first single items, then pairs from `starts[1]` on, and so
    on."""
    ngrams = []
    for length, (start, end) in enumerate(pairwise((*starts, len(items))), 1):
        if not 0 <= start <= end <= len(items):
            n.fail(f"its n-grams begin at {starts} of {len(items)} items")
        ngrams += [items[i : i + length] for i in range(start, end - length + 1, length)]
    return ngrams
