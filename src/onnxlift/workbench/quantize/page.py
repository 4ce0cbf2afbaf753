"""The report of `quantize` as a page of HTML: one file with a plot, without scripts, that asks for nothing else.

Names come from the model, so every text is escaped, and a policy in the page forbids all that could be loaded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from onnxlift.saving import save_files
from onnxlift.sizes import format_bytes
from onnxlift.terminal import plain

if TYPE_CHECKING:
    from .report import Layer, Quality, QuantizeReport

WIDTH, HEIGHT = 960, 320
LEFT, RIGHT, TOP, BOTTOM = 56, 16, 16, 40
_STYLE = """
:root { color-scheme: light dark; --ink: #1d2733; --soft: #64748b; --line: #d7dee8; --paper: #fff;
  --own: #2563eb; --total: #d97706; --kept: #94a3b8; --bound: #dc2626; }
@media (prefers-color-scheme: dark) { :root { --ink: #e2e8f0; --soft: #94a3b8; --line: #334155; --paper: #0f172a;
  --own: #60a5fa; --total: #fbbf24; --kept: #64748b; --bound: #f87171; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2rem auto;
  max-width: 1000px; padding: 0 1rem; }
h1 { font-size: 1.3rem; overflow-wrap: anywhere; } h2 { font-size: 1.05rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; } td, th { padding: .25rem .6rem; border-bottom: 1px solid var(--line);
  text-align: left; overflow-wrap: anywhere; } td.n, th.n, td.op { white-space: nowrap; }
  td.n, th.n { text-align: right; }
.facts td:first-child { color: var(--soft); width: 9rem; } .bad { color: var(--bound); font-weight: 600; }
.kept td { color: var(--soft); } svg { width: 100%; height: auto; } svg text { font: 12px system-ui, sans-serif;
  fill: var(--soft); } .key { color: var(--soft); } .key b { font-weight: 600; }
"""


def page_of(report: QuantizeReport) -> str:
    """Return the page of a report."""
    name = _text(report.name)
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{name}, quantised</title><style>{_STYLE}</style></head><body>",
        f"<h1>{name}, quantised</h1>",
        _rows_table(_facts(report), "facts"),
        "<h2>Outputs</h2>",
        _outputs(report),
        "<h2>Layers</h2>",
        _plot(report),
        _layers(report.layers),
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def write_page(report: QuantizeReport, path: Path, *, force: bool) -> list[Path]:
    """Write the page of a report to a file, whole or not at all."""

    def write(folder: Path) -> list[Path]:
        (folder / path.name).write_text(page_of(report), encoding="utf-8")
        return [folder / path.name]

    ours = re.compile(re.escape(path.name))
    return save_files(path.parent, path.name, write, ours=ours, last=path.name, force=force)


def _facts(report: QuantizeReport) -> Iterator[tuple[str, str]]:
    yield "verdict", f"good enough: every output has {report.bound:g} dB" if report.passed else "TOO MUCH NOISE"
    yield "how", str(report.recipe)
    before, after = report.bytes_before, report.bytes_after
    yield "size", f"{format_bytes(before)} to {format_bytes(after)}, {before / max(1, after):.2f} times smaller"
    if report.speed is not None:
        yield "speed", str(report.speed)
    if report.samples:
        yield "ranges from", f"{report.samples:,} samples"
    if report.outputs:
        made_up = "made-up inputs, not real samples" if report.made_up else f"{report.measured_on:,} samples"
        yield "measured on", made_up
    yield "layers", f"{len(report.layers) - len(report.kept):,} quantised, {len(report.kept):,} kept in float"
    for note in report.notes:
        yield "note", note


def _rows_table(rows: Iterable[tuple[str, str]], kind: str) -> str:
    body = "".join(f"<tr><td>{_text(name)}</td><td>{_text(value)}</td></tr>" for name, value in rows)
    return f'<table class="{kind}">{body}</table>'


def _outputs(report: QuantizeReport) -> str:
    if not report.outputs:
        return "<p>Nothing was measured.</p>"
    rows = []
    for output in report.outputs:
        kind = "n" if output.reaches(report.bound) else "n bad"
        rows.append(f'<tr><td>{_text(output.name)}</td><td class="{kind}">{_text(str(output))}</td>')
        rows.append(f'<td class="n">{output.largest:.3g}</td></tr>')
    head = '<tr><th>output</th><th class="n">SQNR</th><th class="n">largest difference</th></tr>'
    return f"<table>{head}{''.join(rows)}</table>"


def _layers(layers: Sequence[Layer]) -> str:
    if not layers:
        return ""
    head = '<tr><th class="n">#</th><th>node</th><th>operator</th><th class="n">by itself</th><th class="n">in all</th>'
    rows = [f"<table>{head}<th>kept in float</th></tr>"]
    for number, layer in enumerate(layers):
        kind = ' class="kept"' if layer.kept else ""
        own, total = ("" if each is None else _text(str(each)) for each in (layer.own, layer.total))
        rows.append(f'<tr{kind}><td class="n">{number}</td><td>{_text(layer.name)}</td>')
        rows.append(f'<td class="op">{_text(layer.op_type)}</td>')
        rows.append(f'<td class="n">{own}</td><td class="n">{total}</td><td>{_text(layer.kept)}</td></tr>')
    return "".join([*rows, "</table>"])


def _plot(report: QuantizeReport) -> str:
    """Return the SQNR of all layers, in the order of the graph, as SVG."""
    layers = report.layers
    numbers = [n for layer in layers for each in (layer.own, layer.total) if (n := _number(each)) is not None]
    if not numbers:
        return "<p>Single layers were not measured.</p>"
    top = max(40.0, *(10.0 * -(-number // 10) for number in (*numbers, report.bound)))
    low = min(0.0, *(10.0 * (number // 10) for number in numbers))
    step = (WIDTH - LEFT - RIGHT) / max(1, len(layers))

    def x(place: float) -> float:
        return LEFT + (place + 0.5) * step

    def y(number: float) -> float:
        return TOP + (top - number) / (top - low) * (HEIGHT - TOP - BOTTOM)

    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="SQNR of each layer">']
    for mark in range(int(low), int(top) + 1, 10 if top - low <= 100 else 20):
        parts.append(f'<path d="M{LEFT} {y(mark):.1f}H{WIDTH - RIGHT}" stroke="var(--line)"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y(mark) + 4:.1f}" text-anchor="end">{mark}</text>')
    parts.append(f'<text x="{LEFT}" y="{HEIGHT - 8}">layers, in the order of the graph</text>')
    parts.append(
        f'<text x="14" y="{HEIGHT / 2}" text-anchor="middle" transform="rotate(-90 14 {HEIGHT / 2})">dB</text>'
    )
    bar = max(1.0, min(18.0, step * 0.7))
    for place, layer in enumerate(layers):
        number = _number(layer.own)
        if number is not None:
            color = "var(--kept)" if layer.kept else "var(--own)"
            height = max(1.0, y(low) - y(number))
            parts.append(
                f'<rect x="{x(place) - bar / 2:.1f}" y="{y(number):.1f}" width="{bar:.1f}" height="{height:.1f}" '
                f'fill="{color}"><title>{_text(layer.name)}: {_text(str(layer.own))}</title></rect>'
            )
    points = [(x(place), y(number)) for place, each in enumerate(layers) if (number := _number(each.total)) is not None]
    path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
    parts.append(f'<polyline points="{path}" fill="none" stroke="var(--total)" stroke-width="2"/>')
    bound = f'<path d="M{LEFT} {y(report.bound):.1f}H{WIDTH - RIGHT}" stroke="var(--bound)" stroke-dasharray="6 4"/>'
    key = (
        '<p class="key"><b style="color:var(--own)">bars</b>: the noise that a layer adds by itself (grey if it was '
        'kept in float). <b style="color:var(--total)">line</b>: the noise that has come together there. '
        '<b style="color:var(--bound)">dashes</b>: what every output must have. Higher is better; a bit more in every '
        "number is about 6 dB.</p>"
    )
    return "".join([*parts, bound, "</svg>", key])


def _number(quality: Quality | None) -> float | None:
    return None if quality is None else quality.sqnr


def _text(text: str) -> str:
    """Return a text that may come from the model: characters that move or hide others are escaped, then HTML's own."""
    return escape(plain(text), quote=True)
