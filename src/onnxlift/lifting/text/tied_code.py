"""Write the code that ties weights.

    def tie_weights(self) -> None:
        self.head.weight = self.embed.weight
        for block in self.blocks[1:]:
            block.ff = self.blocks[0].ff

1. A layer or module is tied as a whole, if it has several weights, and all of them are tied to those of another one of
   the same kind with the same arguments.
2. Weights that are tied to one owner in consecutive members of a list are tied in a loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from onnxlift.lifting.modules.classes.module_class import ModuleClass
from onnxlift.lifting.modules.loops.loops import singular
from onnxlift.lifting.modules.module import Module, Stored, reach, state_paths
from onnxlift.lifting.ops.layers import Layer
from onnxlift.lifting.tree.paths import Path

Member = Module | Layer | Stored


def tie_lines(ties: Mapping[str, str], root: Module, class_of: Mapping[object, ModuleClass]) -> list[str]:
    """Write the statements that tie each key to its owner."""
    paths = state_paths(root)
    tied = {paths[key]: paths[owner] for key, owner in ties.items()}
    pairs = _of_modules(tied, dict(_modules(root)), class_of)
    loops: dict[tuple[Path, int, int], list[str]] = {}
    lines: list[str | list[str]] = []
    done: set[Path] = set()
    for key, owner in pairs.items():
        if key in done:
            continue
        place, last = _run(key, pairs)
        if not place:
            lines.append(f"{reach(key, root)} = {reach(owner, root)}")
            continue
        start, end = int(key[place]), last + 1
        done.update((*key[:place], str(number), *key[place + 1 :]) for number in range(start, end))
        if place + 1 == len(key):  # the members themselves
            members = reach(key, root).removesuffix(f"[{start}]")
            lines.append([f"for i in range({start}, {end}):", f"    {members}[i] = {reach(owner, root)}"])
            continue
        loop = (key[:place], start, end)
        if loop not in loops:
            loops[loop] = [_head(*loop, root)]
            lines.append(loops[loop])
        members = reach(key[: place + 1], root)
        variable = singular(key[place - 1])
        loops[loop].append(f"    {variable}{reach(key, root).removeprefix(members)} = {reach(owner, root)}")
    return [line for entry in lines for line in ([entry] if isinstance(entry, str) else entry)]


def _of_modules(
    pairs: Mapping[Path, Path], modules: Mapping[Path, Module | Layer], class_of: Mapping[object, ModuleClass]
) -> dict[Path, Path]:
    """Return the pairs of key and owner, with one pair for each module that is tied as a whole (rule 1)."""
    found: dict[Path, Path] = {}
    is_whole: dict[Path, bool] = {}
    for key, owner in pairs.items():
        for end in range(1, len(key)):
            path, other = key[:end], owner[: len(owner) - len(key) + end]
            if path not in is_whole:
                module, counterpart = modules.get(path), modules.get(other)
                parts = [] if module is None or counterpart is None else list(_parts(module))
                is_tied = len(parts) > 1 and all(pairs.get(path + part) == other + part for part in parts)
                is_whole[path] = is_tied and _are_alike(module, counterpart, class_of)
            if is_whole[path]:
                found[path] = other
                break
        else:
            found[key] = owner
    return found


def _modules(module: Module, prefix: Path = ()) -> Iterator[tuple[Path, Module | Layer]]:
    for path, member in module.members.items():
        if not isinstance(member, Stored):
            yield prefix + path, member
        if isinstance(member, Module):
            yield from _modules(member, prefix + path)


def _parts(module: Module | Layer) -> Iterator[Path]:
    """Yield the keys of a module's own state dict."""
    if isinstance(module, Layer):
        yield from (tuple(key.split(".")) for key in module.weights)
    else:
        yield from state_paths(module).values()


def _are_alike(module: Member | None, other: Member | None, class_of: Mapping[object, ModuleClass]) -> bool:
    """Tell whether both are made in the same way (rule 1)."""
    if isinstance(module, Layer) and isinstance(other, Layer):
        return _made(module) == _made(other)
    if not isinstance(module, Module) or not isinstance(other, Module):
        return type(module) is type(other)
    cls = class_of.get(module)
    if cls is not None:
        arguments, absent = cls.arguments, cls.absent
        is_same = arguments.get(module) == arguments.get(other)
        return class_of.get(other) is cls and is_same and absent.get(module) == absent.get(other)
    pairs = zip(module.members.values(), other.members.values(), strict=False)
    return module.members.keys() == other.members.keys() and all(_are_alike(a, b, class_of) for a, b in pairs)


def _made(layer: Layer) -> tuple[object, ...]:
    return layer.kind, layer.arguments, layer.wrapper


def _run(key: Path, pairs: Mapping[Path, Path]) -> tuple[int, int]:
    """Find a number in a key that can be counted up for the same owner (rule 2): `blocks.1.ff`, `blocks.2.ff`,
    `blocks.3.ff`.

    Return the place of the number in the key, and the last number that has this owner, here (1, 3). Return (0, 0) if
    there is none. The number must follow a name, that of the list.
    """
    for place, part in enumerate(key[1:], 1):
        if not part.isdigit() or key[place - 1].isdigit():
            continue
        last = int(part)
        while pairs.get((*key[:place], str(last + 1), *key[place + 1 :])) == pairs[key]:
            last += 1
        if last > int(part):
            return place, last
    return 0, 0


def _head(container: Path, start: int, end: int, root: Module) -> str:
    members = reach((*container, "0"), root).removesuffix("[0]")
    count = _count(container, root)
    part = "" if (start, end) == (0, count) else f"[{start or ''}:{end if end < count else ''}]"
    return f"for {singular(container[-1])} in {members}{part}:"


def _count(container: Path, module: Module) -> int:
    """Return the number of members of a list."""
    own = next((path for path in module.members if container[: len(path)] == path), None)
    inner = module.members[own] if own is not None else None
    if own is not None and isinstance(inner, Module):
        return _count(container[len(own) :], inner)
    depth = len(container)
    return len({path[depth] for path in module.members if path[:depth] == container and len(path) > depth})
