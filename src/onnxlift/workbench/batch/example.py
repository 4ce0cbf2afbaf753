"""The configuration that `onnxlift batch --init` writes: every key, with what it means."""

from __future__ import annotations

from pathlib import Path

from onnxlift.errors import OutputError, quote

EXAMPLE = """\
# What `onnxlift batch` does with many models. Paths are relative to where it is started.

# Where the models are: a file, a glob, a folder, or a list of these. In a folder, names must match `pattern`.
inputs:
  - path: models
    pattern: '*.onnx'
    recursive: true

# Where results go: a folder for each model, report.jsonl and report.html.
output_dir: out

# What is done with each model, in this order, each with the options of the Python function of that name.
#   simplify, opset, quantize   change the model; the last one's result is written as NAME.onnx
#   convert                     writes PyTorch source and weights
#   export                      writes a bundle of torch.export, NAME.pt2
#   verify, profile, lint       look at the model as it is by then
# `save: false` keeps a step from writing.
steps:
  - lint: {fail_on: error}
  - simplify
  # - opset: {version: 21}
  - convert
  - verify: {gradients: false}

# Shapes of inputs of models that leave sizes open. They are fixed for good. A key may be a glob.
# input_shapes:
#   models/resnet50.onnx:
#     input: [1, 3, 224, 224]

# What to do with other models that leave sizes open: refuse to start (and list them all), or keep the sizes open.
open_sizes: refuse

# Files with inputs to compare with, by model or glob: .npz by name, .npy, .pb. Without them, inputs are made up.
# example_inputs:
#   models/resnet50.onnx: samples/resnet50.npz

# Where steps run that take a device.
# device: cpu

# How many models are worked on at a time, and what each of them may take.
jobs: 2
timeout: 600
# memory: 8GB

# What to do if a model fails: go on with the others (continue), or begin no others (stop).
on_error: continue
"""


def write_example(path: Path, *, force: bool = False) -> Path:
    """Write a commented configuration to a file, and return it."""
    if path.exists() and not force:
        raise OutputError(f"{quote(str(path))} is there already: pass --force to replace it, or write to another file.")
    try:
        path.write_text(EXAMPLE, encoding="utf-8")
    except OSError as error:
        raise OutputError(f"cannot write {quote(str(path))}: {error.strerror or error}.") from error
    return path
