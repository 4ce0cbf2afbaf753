"""The tables of cases, and all of them together: (domain, operator) -> rows."""

from __future__ import annotations

from matrix.case import Row
from matrix.tables import elementwise, imaging, indexing, layers, ml, recurrent, reducing, shaping, signals, structures

_DOMAINS = {
    "": [elementwise, imaging, indexing, layers, recurrent, reducing, shaping, signals, structures],
    "ai.onnx.ml": [ml],
}
TABLE: dict[tuple[str, str], list[Row]] = {
    **{(domain, op): rows for domain, modules in _DOMAINS.items() for m in modules for op, rows in m.ROWS.items()},
    **{("ai.onnx.preview", op): rows for op, rows in recurrent.PREVIEW.items()},
    **{("ai.onnx.preview.training", op): rows for op, rows in ml.TRAINING.items()},
}
