"""Where the two sides first differ.

Every statement of the lifted source assigns values that have a name in the ONNX model. So the lifted model is run once
more with a probe after each statement, the ONNX model with these values as outputs, and the first pair that differs, in
the order of the ONNX nodes, is the place to look at. A file that was edited is matched with what was lifted line by
line: lines that were changed in place still stand for the same values.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from difflib import SequenceMatcher

from onnxlift.lifting.text.source_map import SourceMap

from .compare import Comparison
from .report import Divergence

LineMap = Mapping[int, int]
"""Line of the lifted source -> line of the file that is run."""


def match_lines(lifted: str, text: str) -> LineMap:
    """Which line of `text` stands for each line of the lifted source."""
    ours, theirs = lifted.splitlines(), text.splitlines()
    if ours == theirs:
        return {line: line for line in range(1, len(ours) + 1)}
    lines: dict[int, int] = {}
    matcher = SequenceMatcher(None, ours, theirs, autojunk=False)
    for tag, first, last, other, other_last in matcher.get_opcodes():
        if tag == "equal" or (tag == "replace" and last - first == other_last - other):
            lines.update({first + i + 1: other + i + 1 for i in range(last - first)})
    return lines


def probes_of(source_map: SourceMap, lines: LineMap, wanted: Collection[str]) -> dict[str, dict[str, list[str | None]]]:
    """What to record: line of a statement -> module path -> the names of the values that it assigns there."""
    probes: dict[str, dict[str, list[str | None]]] = {}
    for statement in source_map.statements:
        if statement.first_line not in lines:
            continue
        places = {
            path: [name if name in wanted else None for name in names]
            for path, names in statement.values.items()
            if any(name in wanted for name in names)
        }
        if places:
            probes[str(lines[statement.first_line])] = places
    return probes


def first_divergence(
    comparisons: Sequence[tuple[str, Sequence[Comparison]]],
    values: Mapping[str, tuple[str, str]],
    source_map: SourceMap,
    lines: LineMap,
    text: str,
) -> Divergence | None:
    """The first value that does not match. `values` says which node (name, operator) of the model computes each."""
    for index, (value, parts) in enumerate(comparisons):
        wrong = next((part for part in parts if not part.passed), None)
        if wrong is None:
            continue
        node, op_type = values[value]
        for statement in source_map.statements:
            module = next((path for path, names in statement.values.items() if value in names), None)
            if module is not None and statement.first_line in lines:
                first = lines[statement.first_line]
                last = max(lines.get(statement.last_line, first), first)
                source = "\n".join(text.splitlines()[first - 1 : last])
                return Divergence(value, node, op_type, wrong, statement.nodes, first, last, source, module, index)
        return Divergence(value, node, op_type, wrong, (), 0, 0, "", "", index)
    return None
