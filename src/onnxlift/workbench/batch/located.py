"""Read YAML that nobody vouches for, and remember the line of everything in it.

Only YAML's own types are read, and no tag can name another. Aliases are followed, as long as what they stand for stays
small when it is written out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onnxlift.errors import OnnxLiftError, quote

MOST_BYTES = 1 << 20
MOST_ITEMS = 200_000
"""So many keys and values there may be when all aliases are written out."""
MOST_NESTED = 40
PLAIN_TAGS = ("tag:yaml.org,2002:seq", "tag:yaml.org,2002:map")


class ConfigError(OnnxLiftError):
    """The configuration of a batch is wrong. The message names each line."""


@dataclass(frozen=True)
class Item:
    """A value of the configuration with its line: a scalar, a list of items, or a dict of items by name."""

    value: Any
    line: int = 0
    """0 if it was not read from a file."""

    def plain(self) -> Any:
        """Return the value without its lines."""
        if isinstance(self.value, dict):
            return {name: item.plain() for name, item in self.value.items()}
        return [item.plain() for item in self.value] if isinstance(self.value, list) else self.value

    @property
    def pairs(self) -> Iterator[tuple[str, Item]]:
        """The names and values of a mapping."""
        yield from self.value.items()

    @property
    def kind(self) -> str:
        """What to call the value in a message."""
        kinds: dict[type, str] = {
            dict: "a mapping",
            list: "a list",
            str: "a text",
            type(None): "nothing",
            bool: "true or false",
            int: "a whole number",
            float: "a number",
        }
        return kinds.get(type(self.value), "a value")


def item_of(value: Any) -> Item:
    """Return plain dicts, lists and scalars as items without lines."""
    if isinstance(value, Mapping):
        return Item({str(name): item_of(each) for name, each in value.items()})
    if isinstance(value, list | tuple):
        return Item([item_of(each) for each in value])
    return Item(os.fspath(value) if isinstance(value, os.PathLike) else value)


def read_items(path: Path) -> Item:
    """Return what a YAML file holds. Raises a ConfigError that names the line, if it is not what it should be."""
    try:
        if path.is_dir():
            raise ConfigError(
                f"{quote(str(path))} is a folder: name a YAML file, whose `inputs` may be this folder (`onnxlift batch "
                "--init models.yml` writes one)."
            )
        if not path.is_file():
            raise ConfigError(f"there is no file {quote(str(path))}: `onnxlift batch --init {path.name}` writes one.")
        if path.stat().st_size > MOST_BYTES:
            raise ConfigError(f"{quote(str(path))} is larger than {MOST_BYTES >> 20} MiB, which no configuration is.")
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{quote(str(path))} is not text in UTF-8.") from error
    except OSError as error:
        raise ConfigError(f"cannot read {quote(str(path))}: {error.strerror or error}.") from error
    return parse_items(text, path.name)


def parse_items(text: str, name: str) -> Item:
    """Return what a text of YAML holds; `name` is that of its file."""
    try:
        import yaml
    except ImportError as error:
        raise OnnxLiftError("`batch` reads YAML: pip install 'onnxlift[batch]'.") from error
    try:
        loader = yaml.SafeLoader(text)
        try:
            root = loader.get_single_node()
            return Item({}, 1) if root is None else _Reader(loader, name).item(root)
        finally:
            loader.dispose()
    except RecursionError as error:
        raise ConfigError(f"{name} is nested more deeply than {MOST_NESTED} levels.") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        where = f"{name}:{mark.line + 1}" if mark is not None else name
        told = [str(part) for part in (getattr(error, "context", ""), getattr(error, "problem", "")) if part]
        raise ConfigError(f"{where}: this is not YAML: {', '.join(told) or error}.") from error


class _Reader:
    """Turns the nodes of a document into items. What an alias stands for is read once, and shared."""

    def __init__(self, loader: Any, name: str) -> None:
        self.loader = loader
        self.name = name
        self.known: dict[int, tuple[Item, int]] = {}
        self.open: set[int] = set()

    def item(self, root: Any) -> Item:
        return self._read(root, 0)[0]

    def _read(self, node: Any, depth: int) -> tuple[Item, int]:
        """Return the item of a node, and the number of items in it when its aliases are written out."""
        if id(node) in self.open:
            raise self._wrong(node, "what stands here refers to itself")
        if id(node) in self.known:
            return self.known[id(node)]
        if depth > MOST_NESTED:
            raise self._wrong(node, f"this is nested more deeply than {MOST_NESTED} levels")
        self.open.add(id(node))
        value, count = self._value(node, depth)
        self.open.discard(id(node))
        if count > MOST_ITEMS:
            raise self._wrong(node, f"it holds more than {MOST_ITEMS:,} values, what aliases stand for included")
        self.known[id(node)] = found = Item(value, node.start_mark.line + 1), count
        return found

    def _value(self, node: Any, depth: int) -> tuple[Any, int]:
        if node.id != "scalar" and node.tag not in PLAIN_TAGS:
            raise self._wrong(node, f"a tag like {quote(node.tag)} is not read")
        if node.id == "sequence":
            read = [self._read(each, depth + 1) for each in node.value]
            return [item for item, _ in read], 1 + sum(count for _, count in read)
        if node.id == "mapping":
            return self._mapping(node, depth)
        value = self.loader.construct_object(node)
        if not isinstance(value, str | int | float | bool | None):
            value = node.value  # a date: it is a text to us
        return value, 1

    def _mapping(self, node: Any, depth: int) -> tuple[dict[str, Item], int]:
        found: dict[str, Item] = {}
        total = 1
        for key, each in node.value:
            if key.id != "scalar":
                raise self._wrong(key, "a key must be a text")
            if key.tag == "tag:yaml.org,2002:merge":
                raise self._wrong(key, "a merge key (<<) is not read: write the keys out")
            if key.value in found:
                raise self._wrong(key, f"the key {quote(key.value)} stands in line {found[key.value].line}, too")
            item, count = self._read(each, depth + 1)
            found[key.value] = Item(item.value, key.start_mark.line + 1)
            total += 1 + count
        return found, total

    def _wrong(self, node: Any, text: str) -> ConfigError:
        return ConfigError(f"{self.name}:{node.start_mark.line + 1}: {text}.")
