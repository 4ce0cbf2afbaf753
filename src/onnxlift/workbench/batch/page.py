"""The page of a batch: one file of HTML with a table of all models, which asks nothing of any host.

What comes from models and from the disk is data of strangers: it reaches the page as escaped text only, and the page
allows no script but its own, by its digest.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from onnxlift.sizes import format_bytes

from .config import Config
from .records import Row
from .report import BatchReport

MOST_SOURCE, MOST_SOURCES = 200_000, 16_000_000
"""So many bytes of source the page shows of a model, and of all."""
LONGEST_TEXT = 20_000

STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8882; --good: #1a7f37; --bad: #cf222e; }
@media (prefers-color-scheme: dark) { :root { --good: #4ac26b; --bad: #ff7b72; } }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem; }
h1 { font-size: 1.4rem; margin: 0 0 .3rem; }
p { margin: .3rem 0; }
.quiet { opacity: .7; }
.bar { display: flex; gap: .6rem; flex-wrap: wrap; margin: 1rem 0 .6rem; align-items: center; }
input, select { font: inherit; padding: .3rem .5rem; border: 1px solid var(--line); border-radius: .3rem;
  background: transparent; color: inherit; }
input { flex: 1 1 16rem; }
table { border-collapse: collapse; width: 100%; table-layout: fixed; }
th, td { text-align: left; padding: .35rem .5rem; border-bottom: 1px solid var(--line); vertical-align: top;
  overflow-wrap: anywhere; }
th { cursor: pointer; user-select: none; position: sticky; top: 0; background: Canvas; }
th[aria-sort=ascending]::after { content: " \\2191"; } th[aria-sort=descending]::after { content: " \\2193"; }
th.number, td.number { text-align: right; width: 5.5rem; font-variant-numeric: tabular-nums; white-space: nowrap; }
th.kind { width: 5rem; } th.steps { width: 34%; }
tr.model { cursor: pointer; } tr.model:hover { background: var(--soft); }
tr.model > td:first-child::before { content: "\\25b8 "; opacity: .6; }
tr.model.open > td:first-child::before { content: "\\25be "; }
.passed { color: var(--good); } .wrong { color: var(--bad); }
tr.more > td { background: var(--soft); padding: .6rem 1rem; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: .3rem 0 .8rem; font: 13px/1.4 ui-monospace, monospace; }
details > summary { cursor: pointer; } .step { margin-right: .7rem; white-space: nowrap; }
.reason { display: block; }
[hidden] { display: none; }
"""

SCRIPT = """
const table = document.querySelector('table'), body = table.tBodies[0];
const words = document.querySelector('input'), kind = document.querySelector('select');
const pairs = [...body.querySelectorAll('tr.model')].map(row => [row, row.nextElementSibling]);
const shown = document.querySelector('#shown');
function filter() {
  const wanted = words.value.toLowerCase().split(/\\s+/).filter(Boolean);
  let count = 0;
  for (const [row, more] of pairs) {
    const text = row.textContent.toLowerCase();
    const fits = wanted.every(word => text.includes(word)) && (!kind.value || row.dataset.kind === kind.value);
    row.hidden = !fits;
    more.hidden = !fits || !row.classList.contains('open');
    count += fits;
  }
  shown.textContent = `${count} shown`;
}
function toggle(row, more) {
  const open = row.classList.toggle('open');
  row.setAttribute('aria-expanded', open);
  more.hidden = !open;
}
for (const [row, more] of pairs) {
  row.addEventListener('click', event => { if (!event.target.closest('a')) toggle(row, more); });
  row.addEventListener('keydown', event => { if (event.key === 'Enter') toggle(row, more); });
}
table.tHead.addEventListener('click', event => {
  const head = event.target.closest('th');
  const column = [...head.parentNode.children].indexOf(head), up = head.ariaSort !== 'ascending';
  for (const each of head.parentNode.children) each.ariaSort = 'none';
  head.ariaSort = up ? 'ascending' : 'descending';
  const value = row => row.cells[column].dataset.value ?? row.cells[column].textContent;
  const number = head.classList.contains('number');
  const order = (a, b) => number ? a - b : a.localeCompare(b, undefined, {numeric: true});
  pairs.sort(([a], [b]) => order(value(a), value(b)) * (up ? 1 : -1));
  body.append(...pairs.flat());
});
words.addEventListener('input', filter);
kind.addEventListener('change', filter);
filter();
"""


def page_of(report: BatchReport, config: Config) -> str:
    """Return the page of a batch."""
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'"
    kinds = sorted(report.counts)
    options = "".join(
        f'<option value="{escape(kind)}">{escape(kind)} ({report.counts[kind]})</option>' for kind in kinds
    )
    steps = " → ".join(map(str, config.steps))
    head = (
        '<th aria-sort="none">model</th><th class="kind">result</th><th class="steps">steps</th>'
        '<th class="number">seconds</th><th class="number">memory</th><th class="number">files</th>'
    )
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="referrer" content="no-referrer">',
        f"<title>{escape(report.name)}</title><style>{STYLE}</style></head><body>",
        f"<h1>{escape(report.name)}</h1><p>{escape(report.summary)}</p>",
        f'<p class="quiet">{escape(_visible(steps))}</p>',
        *(f'<p class="quiet">{escape(_visible(note))}</p>' for note in report.notes),
        '<div class="bar">',
        '<input type="search" placeholder="filter: parts of a name, a step, a reason" aria-label="filter">',
        f'<select aria-label="result"><option value="">all ({len(report.rows)})</option>{options}</select>',
        '<span id="shown" class="quiet"></span></div>',
        f"<table><thead><tr>{head}</tr></thead><tbody>",
        *_rows(report),
        f"</tbody></table><script>{SCRIPT}</script></body></html>\n",
    ]
    return "\n".join(parts)


def _rows(report: BatchReport) -> Iterator[str]:
    left = MOST_SOURCES
    parents = [str(Path(row.model).parent) for row in report.rows]
    shared = os.path.commonpath(parents) if len({Path(each).is_absolute() for each in parents}) == 1 else ""
    for row in sorted(report.rows, key=lambda row: row.passed):  # those first that somebody has to look at
        sources = list(_sources(row, left))
        left -= sum(len(text) for _, text in sources)
        yield _row(row, shared)
        yield f'<tr class="more" hidden><td colspan="6">{_details(row, report.folder, dict(sources))}</td></tr>'


def _row(row: Row, shared: str) -> str:
    files = [Path(path) for path in row.written]
    size = sum(path.stat().st_size for path in files if path.is_file())
    steps = "".join(_badge(step) for step in row.steps)
    reason = "" if row.passed else f'<span class="reason wrong">{escape(_first_line(row.reason))}</span>'
    return (
        f'<tr class="model" data-kind="{escape(row.kind)}" tabindex="0" aria-expanded="false">'
        f'<td title="{escape(_visible(row.model))}">{escape(_visible(os.path.relpath(row.model, shared or None)))}</td>'
        f'<td class="{"passed" if row.passed else "wrong"}">{escape(row.kind)}</td><td>{steps}{reason}</td>'
        f'<td class="number" data-value="{row.seconds:.4f}">{row.seconds:.2f}</td>'
        f'<td class="number" data-value="{row.memory}">{format_bytes(row.memory)}</td>'
        f'<td class="number" data-value="{size}">{format_bytes(size) if files else "-"}</td></tr>'
    )


def _badge(step: Mapping[str, Any]) -> str:
    good = bool(step["passed"])
    return f'<span class="step {"passed" if good else "wrong"}">{"✓" if good else "✗"} {escape(step["step"])}</span>'


def _details(row: Row, folder: Path, sources: Mapping[str, str]) -> str:
    parts = [] if row.passed else [f'<pre class="wrong">{_text(row.reason)}</pre>']
    for step in row.steps:
        told = step.get("text") or step.get("error") or ""
        parts.append(
            f"<div>{_badge(step)} <span class=quiet>{step['seconds']:.2f} s</span></div><pre>{_text(told)}</pre>"
        )
    for path in row.written:
        link = f'<a href="{escape(_link(path, folder))}">{escape(_visible(os.path.relpath(path, folder)))}</a>'
        if path in sources:
            parts.append(
                f"<details><summary>{link}</summary><pre>{escape(_visible(sources[path], lines=True))}</pre></details>"
            )
        else:
            parts.append(f"<div>{link}</div>")
    return "".join(parts)


def _sources(row: Row, left: int) -> Iterator[tuple[str, str]]:
    """Yield the sources that a model has become, as far as there is room for them."""
    for name in row.written:
        path = Path(name)
        if path.suffix == ".py" and path.is_file() and path.stat().st_size <= min(MOST_SOURCE, left):
            yield name, path.read_text(encoding="utf-8", errors="replace")


def _link(path: str, folder: Path) -> str:
    """Return a link to a file, relative to the page."""
    return quote(os.path.relpath(path, folder.resolve()), errors="surrogateescape")


def _text(text: str) -> str:
    shown = text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}\n..."
    return escape(_visible(shown, lines=True))


def _first_line(text: str) -> str:
    line = _visible(text.split("\n")[0])
    return line if len(line) <= 300 else f"{line[:300]}..."


def _visible(text: str, *, lines: bool = False) -> str:
    """Return a text whose characters can all be seen: those that hide or turn text around become escapes."""
    kept = "\n\t" if lines else ""
    return "".join(char if char.isprintable() or char in kept else repr(char)[1:-1] for char in text)
