"""What the matrix cannot show. A test holds that both lists are exact."""

from __future__ import annotations

# Revision -> why nobody but us can tell what some case of it gives. It is still lifted and run.
WITHOUT_ORACLE = dict.fromkeys(
    ["GRU-1", "GRU-3", "LSTM-1", "RNN-1"],
    "`output_sequence` was given up in opset 7, before ONNX Runtime, and the reference does not know it",
)

# Operator -> why some case that its schema allows is refused: only what nobody has an answer to.
REFUSED = {("", "Col2Im"): "it adds strings"}
