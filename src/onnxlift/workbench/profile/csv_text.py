"""Write the nodes of a profile as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from .amount import Amount
from .rows import NodeCosts

HEADER = (
    *("node", "operator", "module", "place", "output", "times", "macs", "flops", "parameters", "weight_bytes"),
    *("bytes_read", "bytes_written", "intensity", "live_bytes", "seconds", "reason"),
)


def write_csv(rows: Sequence[NodeCosts]) -> str:
    """Return a line for each node. What is unknown is said; a range is written as `least..most`."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(HEADER)
    for row in rows:
        costs = row.costs
        amounts = [costs.macs, costs.flops, costs.parameters, costs.weight_bytes, costs.read, costs.written]
        intensity = "unknown" if costs.intensity is None and not costs.is_known else costs.intensity
        names = [row.name, row.operator, row.module, row.place, row.output]
        last = ["" if intensity is None else intensity, _amount(row.live), costs.seconds, row.reason]
        writer.writerow([*map(_harmless, names), _amount(row.times), *map(_amount, amounts), *last])
    return file.getvalue()


def _amount(amount: Amount) -> str:
    if amount.is_unknown:
        return "unknown"
    if amount.is_exact:
        return str(amount.low)
    return f"{amount.low}..{amount.high if amount.is_bounded else ''}"


def _harmless(text: str) -> str:
    """Return a name that no spreadsheet takes for a formula, and that can be written as UTF-8."""
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
