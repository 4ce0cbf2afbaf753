"""Write a profile for a terminal: the whole, then tables by operator, module and node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import TypeVar

from onnxlift.ir.graph.types import shape_text
from onnxlift.sizes import format_bytes
from onnxlift.terminal import plain

from .amount import Amount
from .formula import short_number
from .report import Profile, weight_of
from .rows import Costs, GroupCosts, NodeCosts, ratio

Row = GroupCosts | NodeCosts
AnyRow = TypeVar("AnyRow", GroupCosts, NodeCosts)

MOST_MODULES = 24
"""Without --depth, as many levels of modules are shown as fit into so many rows."""
WIDEST_FORMULA = 34
WIDEST_SUM = 96
WIDEST_NAME = 56
SHOWN_UNKNOWN = 3


def write_table(profile: Profile, by: Sequence[str], depth: int | None, sort: str, top: int | None) -> str:
    """Return the profile as text."""
    lines = [plain(profile.name), *_summary(profile)]
    tables: Mapping[str, Callable[[], list[str]]] = {
        "operator": lambda: _operators(profile, sort, top),
        "module": lambda: _modules(profile, depth, sort, top),
        "node": lambda: _nodes(profile, sort, top),
    }
    for each in dict.fromkeys(by):
        table = tables[each]()
        lines += ["", *table] if table else []
    return "\n".join(lines)


def _summary(profile: Profile) -> list[str]:
    total, costs = profile.total, profile.total.costs
    weights = f" ({_bytes(costs.weight_bytes)} of weights)" if costs.weight_bytes != Amount() else ""
    parameters = costs.parameters.number
    lines = [
        f"  nodes          {total.nodes:,}",
        f"  parameters     {costs.parameters if parameters is None else f'{parameters:,}'}{weights}",
        f"  MACs           {_told(profile, costs.macs, _whole)}",
        f"  FLOPs          {_told(profile, costs.flops, _whole)}",
        f"  read           {_told(profile, costs.read, _long_bytes)}",
        f"  written        {_told(profile, costs.written, _long_bytes)}",
        f"  intensity      {_intensity(profile)}",
        f"  peak memory    {_peak(profile)}",
    ]
    lines += _time_lines(profile)
    lines += _symbol_lines(profile)
    if profile.unknown:
        lines += _unknown_lines(profile)
    return [*lines, *(f"  note           {plain(note)}" for note in profile.notes)]


def _time_lines(profile: Profile) -> list[str]:
    measured = profile.measured
    if measured is None:
        return []
    threads = f", {measured.threads} thread{'s' * (measured.threads != 1)}" if measured.threads else ""
    how = f"{measured.runtime}, median of {measured.runs} runs{threads}{', as written' * measured.as_written}"
    shapes = ", ".join(f"{name} {shape_text(tuple(shape))}" for name, shape in measured.inputs.items())
    lines = [
        f"  time           {_seconds(measured.total)} ({plain(how)}), {_seconds(measured.overhead)} of it between nodes"
    ]
    if measured.elsewhere:
        lines.append(f"{'':17}{_seconds(measured.elsewhere)} in kernels of which it is not known what they came from")
    return [*lines, f"  measured on    {plain(shapes)}"]


def _symbol_lines(profile: Profile) -> list[str]:
    lines = [
        f"  {'open sizes' if not place else '':13}  {name}: {plain(what)}"
        for place, (name, what) in enumerate(profile.dimensions.items())
    ]
    return lines + [
        f"  {'loops' if not place else '':13}  {name}: how often the graph in {plain(node)!r} runs (--iterations)"
        for place, (name, node) in enumerate(profile.iterations.items())
    ]


def _unknown_lines(profile: Profile) -> list[str]:
    shown = profile.unknown if profile.strict else profile.unknown[:SHOWN_UNKNOWN]
    count = len(profile.unknown)
    hint = "; more is known once sizes are fixed (--dim, --shape)" if profile.dimensions else ""
    lines = [f"  unknown        {count:,} node{'s' * (count != 1)}, whose costs the sums leave out{hint}"]
    lines += [f"{'':17}{_name(row.name)} ({plain(row.operator)}): {plain(row.reason)}" for row in shown]
    return lines if len(shown) == count else [*lines, f"{'':17}and {count - len(shown):,} more (--strict lists all)"]


def _peak(profile: Profile) -> str:
    place = f", at {_name(profile.peak_node)}" if profile.peak_node else ""
    return f"{_told(profile, profile.peak, _long_bytes, 'of activations')}{place}"


def _told(profile: Profile, amount: Amount, write: Callable[[Amount], str], what: str = "") -> str:
    """Write an amount of the whole model; a formula that nobody could read, as a number at example sizes."""
    text, what = write(amount), f" {what}" if what else ""
    if len(text) <= WIDEST_SUM or not amount.names:
        return f"{text}{what}"
    return f"{write(amount.at(profile.example))}{what} at {_sizes(profile)} (--json has the formula)"


def _sizes(profile: Profile) -> str:
    return ", ".join(f"{name}={size}" for name, size in profile.example.items())


def _intensity(profile: Profile) -> str:
    """Write FLOPs per byte; where it is a formula, at example sizes."""
    costs = profile.total.costs
    value, where = costs.intensity, ""
    if isinstance(value, str):
        flops, moved = costs.flops.at(profile.example), costs.bytes.at(profile.example)
        value, where = ratio(flops.low, moved.low), f" at {_sizes(profile)}"
    return f"{value:.3g} FLOPs per byte{where}" if isinstance(value, float) else "?"


def _operators(profile: Profile, sort: str, top: int | None) -> list[str]:
    groups = _sorted(profile.operators, profile, sort)
    return _table(profile, "operator", [(group, group.name) for group in groups], sort, top)


def _nodes(profile: Profile, sort: str, top: int | None) -> list[str]:
    """A row for each node in the order of execution; or the dearest ones, if only some are to be shown."""
    rows: Sequence[NodeCosts] = profile.nodes
    if top is not None:
        rows = [row for row in _sorted(rows, profile, sort) if not row.holds_graphs]
    named = [(row, f"{'  ' * bool(row.place)}{row.name or '(no name)'}") for row in rows]
    return _table(profile, "node", named, sort, top)


def _modules(profile: Profile, depth: int | None, sort: str, top: int | None) -> list[str]:
    """Modules as a tree, down to `depth` levels; the dearest ones of these, if only some are to be shown."""
    if not profile.modules:
        return []
    levels = _fitting_depth(profile.modules) if depth is None else depth
    shown = [group for group in profile.modules if group.name.count(".") < levels]
    most = top if top is not None else MOST_MODULES if depth is None else len(shown)
    dearest = set(islice((group.name for group in _sorted(shown, profile, sort)), most))
    left_out = len(shown) - len(dearest)
    shown = [group for group in shown if group.name in dearest]
    deepest = max(group.name.count(".") + 1 for group in profile.modules)
    title = "module" if levels >= deepest else f"module (--depth {deepest} shows all)"
    named = [(group, f"{'  ' * group.name.count('.')}{_last(group.name)}") for group in shown]
    return _table(profile, title, named, sort, None, left_out)


def _last(path: str) -> str:
    return path.rpartition(".")[2]


def _fitting_depth(modules: Sequence[GroupCosts]) -> int:
    depths = [group.name.count(".") + 1 for group in modules]
    fitting = [depth for depth in range(1, max(depths) + 1) if sum(each <= depth for each in depths) <= MOST_MODULES]
    return max(fitting, default=1)


def _sorted(rows: Iterable[AnyRow], profile: Profile, sort: str) -> list[AnyRow]:
    return sorted(rows, key=lambda row: -weight_of(row, sort, profile.example))


def _table(
    profile: Profile, title: str, rows: Sequence[tuple[Row, str]], sort: str, top: int | None, left_out: int = 0
) -> list[str]:
    shown = rows if top is None else rows[:top]
    left_out += len(rows) - len(shown)
    whole = weight_of(profile.total, sort, profile.example)
    is_open = bool(profile.dimensions or profile.iterations) and not profile.total.costs.flops.number
    columns = _OPEN if is_open else _FIXED
    columns = columns if profile.measured is not None else [each for each in columns if each[0] != "time"]
    heads = [title, *([] if title == "node" else ["nodes"]), *(head for head, _ in columns), "share"]
    cells = [heads]
    for row, name in shown:
        share = weight_of(row, sort, profile.example)
        count = [] if isinstance(row, NodeCosts) else [f"{row.nodes:,}"]
        percent = f"{share / whole:.1%}" if whole else ""
        cells.append([_shortened(name), *count, *(write(row.costs) for _, write in columns), percent])
    if title == "node":
        for line, (row, _) in zip(cells[1:], shown, strict=True):
            line.insert(1, plain(row.operator) if isinstance(row, NodeCosts) else "")
        cells[0].insert(1, "operator")
    lines = _aligned(cells, left=2 if title == "node" else 1)
    if left_out:
        lines.append(f"  ... and {left_out:,} more (--top)")
    return [*lines, *_share_note(profile, sort)]


def _share_note(profile: Profile, sort: str) -> list[str]:
    what = {"flops": "FLOPs", "macs": "MACs", "bytes": "bytes", "parameters": "parameters", "time": "time"}[sort]
    depends = profile.example and sort not in ("time", "parameters")
    return [f"  share: of all {what}{f' at {_sizes(profile)}' if depends else ''}"]


def _aligned(cells: Sequence[Sequence[str]], left: int) -> list[str]:
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    lines = []
    for row in cells:
        texts = [
            f"{cell:{width}}" if column < left else f"{cell:>{width}}"
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(f"  {'  '.join(texts)}".rstrip())
    return lines


def _shortened(name: str) -> str:
    indent = len(name) - len(name.lstrip(" "))
    text = plain(name)
    return text if len(text) <= WIDEST_NAME else f"{text[:indent]}...{text[-(WIDEST_NAME - indent - 3) :]}"


def _name(name: str) -> str:
    return repr(plain(name)[:100])


def _whole(amount: Amount) -> str:
    """Write an amount in full, and a large number also with a letter."""
    if amount.number is None:
        return amount.text(short=True, longest=WIDEST_SUM - 20)
    text = f"{amount.number:,}"
    return text if amount.number < 10**4 else f"{text} ({short_number(amount.number)})"


def _short(amount: Amount) -> str:
    text = amount.text(short=True, longest=WIDEST_FORMULA)
    return text if len(text) <= WIDEST_FORMULA else f"{text[: WIDEST_FORMULA - 1]}…"


def _long_bytes(amount: Amount) -> str:
    return _bytes(amount, long=True)


def _bytes(amount: Amount, *, long: bool = False) -> str:
    if amount.number is not None:
        return format_bytes(amount.number) if amount.number else "0"
    low, high = amount.low, amount.high
    if isinstance(low, int) and (isinstance(high, int) or not amount.is_bounded) and not amount.is_unknown:
        least = format_bytes(low)
        return f"{least} to {format_bytes(high)}" if isinstance(high, int) else f"at least {least}"
    text = amount.text(short=True, longest=WIDEST_SUM - 20)
    return f"{text} bytes" if long and not amount.is_unknown else text


def _ratio(costs: Costs) -> str:
    value = costs.intensity
    return ("" if costs.is_known else "?") if value is None else f"{value:.3g}" if isinstance(value, float) else "…"


def _seconds(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds * 1e6:,.1f} µs" if seconds < 1e-3 else f"{seconds * 1e3:,.2f} ms"


_Column = tuple[str, Callable[[Costs], str]]
_FIXED: list[_Column] = [
    ("MACs", lambda costs: _short(costs.macs)),
    ("FLOPs", lambda costs: _short(costs.flops)),
    ("params", lambda costs: _short(costs.parameters)),
    ("read", lambda costs: _bytes(costs.read)),
    ("written", lambda costs: _bytes(costs.written)),
    ("FLOPs/B", _ratio),
    ("time", lambda costs: _seconds(costs.seconds)),
]
_OPEN: list[_Column] = [
    ("MACs", lambda costs: _short(costs.macs)),
    ("FLOPs", lambda costs: _short(costs.flops)),
    ("params", lambda costs: _short(costs.parameters)),
    ("time", lambda costs: _seconds(costs.seconds)),
]
