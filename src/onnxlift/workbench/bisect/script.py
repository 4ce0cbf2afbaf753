"""The script `reproduce.py` of a reproducer. Names from the model stand in it as literals only."""

from __future__ import annotations

from collections.abc import Mapping

from onnxlift.verification.compare import Tolerance

_HEAD = '''"""Run both sides on the same inputs, and print how far they are apart.

The exit status is 1 if they differ, and 0 if they agree.
"""

import sys
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent
NODE = {node}
RTOL, ATOL = {rtol!r}, {atol!r}{relative}
'''

_ORT = """

def run_{name}(model, feeds):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.{level}
    session = onnxruntime.InferenceSession(str(FOLDER / model), options, providers=["CPUExecutionProvider"])
    return session.run(None, {{name: INPUTS[key] for name, key in feeds.items()}})[0]
"""

_REFERENCE = """

def run_reference(model, feeds):
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(str(FOLDER / model))
    return evaluator.run(None, {name: INPUTS[key] for name, key in feeds.items()})[0]
"""

_LIFTED = """

def run_lifted(model, feeds):
    import onnxlift
    import torch

    module = onnxlift.lift(FOLDER / model).module()
    with torch.no_grad():
        result = module(*(torch.from_numpy(INPUTS[key].copy()) for key in feeds.values()))
    return np.asarray(result)
"""

_MAIN = """

def main():
    expected = np.asarray({first})
    found = np.asarray({second})
    print(f"node      {{NODE}}")
    print(f"expected  {{expected.dtype}} {{expected.shape}}, found {{found.dtype}} {{found.shape}}")
    if expected.shape != found.shape:
        return 1
    if expected.dtype.kind not in "fc":
        wrong = int(np.sum(expected != found))
        print(f"differ    {{wrong:,}} of {{expected.size:,}} elements")
        return int(wrong > 0)
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    a, b = expected.astype(wide), found.astype(wide)
    odd = ~((np.isfinite(a) & np.isfinite(b)) | (a == b) | (np.isnan(a) & np.isnan(b)))
    finite = np.isfinite(a) & np.isfinite(b)
    a, b = a[finite], b[finite]
    distance, size = np.abs(a - b), np.abs(a)
    wrong = distance > RTOL * size + ATOL{magnitude}
    print(f"max abs   {{distance.max(initial=0.0):.3g}}")
    print(f"differ    {{int(wrong.sum() + odd.sum()):,}} of {{expected.size:,}} elements")
    return int(bool(wrong.any() or odd.any()))


if __name__ == "__main__":
    sys.exit(main())
"""


def script(
    feeds: tuple[Mapping[str, str], Mapping[str, str]],
    runtimes: tuple[str, str],
    node: str,
    tolerance: Tolerance,
    *,
    has_other: bool,
    has_found: bool,
) -> str:
    """Return the text of the script. `feeds` tell which array of inputs.npz each input of a part is."""
    relative = "" if tolerance.is_absolute else "  # ATOL is relative to the largest number"
    parts = [_HEAD.format(node=ascii(node), rtol=tolerance.rtol, atol=tolerance.atol, relative=relative)]
    parts.append('INPUTS = np.load(FOLDER / "inputs.npz")\n')
    parts.append(f"FEEDS = {_literal(feeds[0])}\n")
    second_feeds = "FEEDS"
    if has_other and dict(feeds[1]) != dict(feeds[0]):
        parts.append(f"OTHER_FEEDS = {_literal(feeds[1])}\n")
        second_feeds = "OTHER_FEEDS"
    parts += [_FUNCTIONS[runtime] for runtime in dict.fromkeys(runtimes[:1] if has_found else runtimes)]
    first = f'run_{_function(runtimes[0])}("model.onnx", FEEDS)'
    second = f'run_{_function(runtimes[1])}("{"other" if has_other else "model"}.onnx", {second_feeds})'
    magnitude = "" if tolerance.is_absolute else " * max(size.max(initial=0.0), 0.1)"
    if has_found:
        second = 'np.load(FOLDER / "found.npz")["found"]'
    return "".join([*parts, _MAIN.format(first=first, second=second, magnitude=magnitude)])


_FUNCTIONS = {
    "ort": _ORT.format(name="optimised", level="ORT_ENABLE_ALL"),
    "ort-plain": _ORT.format(name="onnxruntime", level="ORT_DISABLE_ALL"),
    "reference": _REFERENCE,
    "lifted": _LIFTED,
}


def _function(runtime: str) -> str:
    return {"ort": "optimised", "ort-plain": "onnxruntime"}.get(runtime, runtime)


def _literal(names: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{name!a}: {key!a}" for name, key in names.items()) + "}"
