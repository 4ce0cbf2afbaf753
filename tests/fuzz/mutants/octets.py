"""Changes of the bytes of a file, without regard to what they mean."""

from __future__ import annotations

import random
import re

INTERESTING = (
    b"",
    b"\0",
    b"\xff",
    b"\x7f",
    b"\x80",
    b"\xff" * 9 + b"\x01",
    b"\xff\xff\xff\xff\x0f",
    b"\x08",
    b"\x12\x00",
)


def change(choose: random.Random, data: bytes, other: bytes) -> bytes:
    """The data with one to a few changes; `other` is another file."""
    for _ in range(choose.choice((1, 1, 1, 2, 4, 16))):
        data = choose.choice(CHANGES)(choose, data, other)
    return data


def flip(choose: random.Random, data: bytes, other: bytes) -> bytes:
    if not data:
        return data
    changed = bytearray(data)
    changed[choose.randrange(len(data))] ^= 1 << choose.randrange(8)
    return bytes(changed)


def replace(choose: random.Random, data: bytes, other: bytes) -> bytes:
    start = choose.randint(0, len(data))
    return (
        data[:start]
        + choose.choice((*INTERESTING, choose.randbytes(4)))
        + data[start + choose.choice((0, 1, 1, 2, 4)) :]
    )


def truncate(choose: random.Random, data: bytes, other: bytes) -> bytes:
    return data[: choose.randint(0, len(data))]


def delete(choose: random.Random, data: bytes, other: bytes) -> bytes:
    start = choose.randint(0, len(data))
    return data[:start] + data[start + choose.choice((1, 2, 4, 8, 30)) :]


def repeat(choose: random.Random, data: bytes, other: bytes) -> bytes:
    start = choose.randint(0, len(data))
    part = data[start : start + choose.choice((1, 2, 4, 8, 30, 200))]
    return data[:start] + part * choose.choice((2, 2, 3, 10)) + data[start + len(part) :]


def splice(choose: random.Random, data: bytes, other: bytes) -> bytes:
    """The beginning of one file and the end of another; protobuf merges what it finds twice."""
    if choose.random() < 0.3:
        return data + other
    return data[: choose.randint(0, len(data))] + other[choose.randint(0, len(other)) :]


def break_text(choose: random.Random, data: bytes, other: bytes) -> bytes:
    """Make a text that is no UTF-8, wherever it occurs, and of the same length, so that the file still parses."""
    words = sorted(set(re.findall(rb"[A-Za-z_][A-Za-z0-9_./]*", data)))
    if not words:
        return data
    word = choose.choice(words)
    place = choose.randrange(len(word))
    return data.replace(word, word[:place] + choose.choice((b"\xff", b"\x00", b"\x80", b"\n")) + word[place + 1 :])


CHANGES = (flip, flip, replace, replace, truncate, delete, repeat, splice, break_text, break_text)
