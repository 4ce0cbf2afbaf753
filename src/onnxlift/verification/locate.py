"""Find where the two sides first differ.

Every statement of the lifted source assigns values that have a name in the ONNX model. So the lifted model is run once
more with a probe after each statement, and the ONNX model with these values as outputs. The first pair that differs, in
the order of the ONNX nodes, is the place to look at. If the user has edited the file, its lines are matched with those
of the lifted source: lines that were changed in place still stand for the same values.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from difflib import SequenceMatcher

from onnxlift.lifting.text.source_map import SourceMap

from .report import Divergence
from .trace import Traced

LineMap = Mapping[int, int]
"""Line of the lifted source -> line of the file that is run."""


def match_lines(lifted: str, text: str) -> LineMap:
    """Match the lines of the lifted source with those of `text`."""
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
    """Return the values to record: line of a statement -> module path -> names of the values that it assigns there.

    None stands for a value that is not `wanted`."""
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
    rows: Sequence[Traced],
    source_map: SourceMap,
    lines: LineMap,
    text: str,
) -> Divergence | None:
    """Find the first value that does not match; None if all do."""
    for index, row in enumerate(rows):
        wrong = next((part for part in row.comparisons if not part.passed), None)
        if wrong is None:
            continue
        value, node, op_type = row.value, row.node, row.operator
        for statement in source_map.statements:
            module = next((path for path, names in statement.values.items() if value in names), None)
            if module is not None and statement.first_line in lines:
                first = lines[statement.first_line]
                last = max(lines.get(statement.last_line, first), first)
                source = "\n".join(text.splitlines()[first - 1 : last])
                return Divergence(value, node, op_type, wrong, statement.nodes, first, last, source, module, index)
        return Divergence(value, node, op_type, wrong, (), 0, 0, "", "", index)
    return None
