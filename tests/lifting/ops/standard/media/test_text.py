"""Strings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

import onnxlift
from lifting.ops.checking import check, check_official, model_of, official_cases

NODE = helper.make_node
OPERATORS = ("StringConcat", "StringSplit", "RegexFullMatch", "StringNormalizer", "TfIdfVectorizer")


@pytest.mark.parametrize("case", official_cases(*OPERATORS, alone=True))
def test_official(case: Any) -> None:
    check_official(case)


def words(*texts: str) -> np.ndarray:
    return np.array(texts, dtype=object)


def test_concatenation_broadcasts() -> None:
    a, b = words("a", "b\n", "ü").reshape(3, 1), words("", "1", "'\"\\")
    check(NODE("StringConcat", ["a", "b"], ["y"]), {"a": a, "b": b}, opset=20)
    check(NODE("StringConcat", ["a", "b"], ["y"]), {"a": np.array("x", object), "b": np.array("y", object)}, opset=20)


@pytest.mark.parametrize("delimiter", [None, "", ",", ", ", "\\'"])
@pytest.mark.parametrize("maxsplit", [None, 1, 2])
def test_split(delimiter: str | None, maxsplit: int | None) -> None:
    x = words("a,b, c", "", "no delimiter", "  spaces  around ", ",,").reshape(5, 1)
    given = {"delimiter": delimiter, "maxsplit": maxsplit}
    node = NODE("StringSplit", ["x"], ["y", "count"], **{k: v for k, v in given.items() if v is not None})
    check(node, {"x": x}, opset=20, reference=True)


@pytest.mark.parametrize("pattern", [r"\w+@\w+\.com", r"(?i)ab+|c?", r"\d{2,3}", "", r'"\'\\', r"\bc\b|AB+"])
def test_match(pattern: str) -> None:
    x = words("ab@cd.com", "ABB", "c", "12", "1234", "", "٣٤", "\"'\\").reshape(2, 4)
    check(NODE("RegexFullMatch", ["x"], ["y"], pattern=pattern), {"x": x}, opset=20)


@pytest.mark.parametrize(
    "pattern",
    [r"a$\n?", r"a\z", r"\s", r"[^\s]", r"\W", "[]a]+", "[^]a]", "[a[]", "[a$]", "[(?a]+", "(?i)é", "(?i)k", "(?s)."],
)
def test_match_where_python_differs(pattern: str) -> None:
    x = words("a", "a\n", "\v", " ", "]", "a]", "[", "$", "É", "\u212a", "(?a", "\n", "_", "٣")
    check(NODE("RegexFullMatch", ["x"], ["y"], pattern=pattern), {"x": x}, opset=20)


@pytest.mark.parametrize(
    "pattern", [r"\pL+", "[[:alpha:]]+", "(", "(" * 9999, r"[\S]", "a{,2}", "(?m)a$", "(?U)a+", "(?L)a", "a\\"]
)
def test_patterns_that_python_does_not_have(pattern: str) -> None:
    model = model_of(NODE("RegexFullMatch", ["x"], ["y"], pattern=pattern), {"x": words("a")}, 20)
    with pytest.raises(onnxlift.UnsupportedError, match="pattern"):
        onnxlift.lift(model)


@pytest.mark.parametrize("case", ["NONE", "LOWER", "UPPER"])
@pytest.mark.parametrize("sensitive", [0, 1])
@pytest.mark.parametrize("stopwords", [None, ["monday", "Sunday"], ["Monday", "tuesday"]])
@pytest.mark.parametrize("rows", [False, True])
def test_normalization(case: str, sensitive: int, stopwords: list[str] | None, rows: bool) -> None:
    x = words("Monday", "tuesday", "MONDAY", "sunday")
    attributes = {"case_change_action": case, "is_case_sensitive": sensitive}
    node = NODE("StringNormalizer", ["x"], ["y"], **attributes, **({"stopwords": stopwords} if stopwords else {}))
    unwanted = [word if sensitive else word.lower() for word in stopwords or []]
    kept = [word for word in x if (word if sensitive else word.lower()) not in unwanted]
    change = {"NONE": str, "LOWER": str.lower, "UPPER": str.upper}[case]
    expected = words(*map(change, kept))  # not from ONNX Runtime, which wants a locale to be installed
    check(node, {"x": x[None] if rows else x}, opset=10, expected=[expected[None] if rows else expected])


def test_nothing_is_left() -> None:
    node = NODE("StringNormalizer", ["x"], ["y"], stopwords=["a", "b"])
    check(node, {"x": words("a", "B")}, opset=10, expected=[words("")])
    check(node, {"x": words("a", "B")[None]}, opset=10, expected=[words("")[None]])


@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize("weights", [None, [0.5, 2.0, 3.0, 1.5, 4.0, 0.25, 7.0, 0.1]])
@pytest.mark.parametrize("lengths", [(1, 1), (1, 2), (2, 2), (1, 3), (3, 3)])
@pytest.mark.parametrize("skip", [0, 2])
def test_ngrams(mode: str, weights: list[float] | None, lengths: tuple[int, int], skip: int) -> None:
    pool = [2, 3, 5, 5, 4, 5, 6, 7, 8, 6, 7, 2, 3, 5]
    given = {
        "mode": mode,
        "min_gram_length": lengths[0],
        "max_gram_length": lengths[1],
        "max_skip_count": skip,
        "ngram_counts": [0, 3, 11],
        "ngram_indexes": [0, 2, 1, 6, 4, 5, 3, 7 if mode == "IDF" else 6],
    }
    more = {} if weights is None else {"weights": weights}
    for x in (np.array([1, 2, 3, 5, 5, 4, 6, 7, 8, 6, 7]), np.array([[2, 3, 5, 6], [5, 4, 5, 5]], np.int32)):
        check(NODE("TfIdfVectorizer", ["x"], ["y"], pool_int64s=pool, **given, **more), {"x": x}, opset=9)
        texts = x.astype(str).astype(object)
        check(
            NODE("TfIdfVectorizer", ["x"], ["y"], pool_strings=[str(i) for i in pool], **given, **more),
            {"x": texts},
            opset=9,
        )


def test_ngrams_of_nothing() -> None:
    given = {"mode": "TF", "min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 2**40}
    pool = {"pool_int64s": [3, 1, 2, 1], "ngram_counts": [0, 2], "ngram_indexes": [0, 1, 2]}
    node = NODE("TfIdfVectorizer", ["x"], ["y"], **given, **pool)
    check(node, {"x": np.array([], np.int64)}, opset=9, expected=[np.zeros(3, np.float32)])
    check(node, {"x": np.zeros((0, 4), np.int64)}, opset=9, expected=[np.zeros((0, 3), np.float32)])
    check(node, {"x": np.array([2, 1, 3])}, opset=9, expected=[np.array([1, 1, 1], np.float32)])


@pytest.mark.parametrize("starts", [[0, 2**40], [-3], [2, 1]])
def test_ngrams_that_are_not_there(starts: list[int]) -> None:
    given = {"mode": "TF", "min_gram_length": 1, "max_gram_length": 2**40, "max_skip_count": 0}
    pool = {"pool_int64s": [3, 1, 2, 1], "ngram_counts": starts, "ngram_indexes": [0, 1, 2]}
    model = model_of(NODE("TfIdfVectorizer", ["x"], ["y"], **given, **pool), {"x": np.array([1, 2])}, 9)
    with pytest.raises(onnxlift.UnsupportedError, match="n-grams begin at"):
        onnxlift.lift(model)
