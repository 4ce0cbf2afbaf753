"""Arrays know where their numbers come from, whatever numpy does to them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest

from onnxlift.workbench.update.traced import NOWHERE, Array, NotMovedError, TracedTensor, trace_of

A = TracedTensor(ir.tensor(np.arange(6, dtype=np.float32).reshape(2, 3)))
B = TracedTensor(ir.tensor(np.arange(6, 10, dtype=np.float32)))
STARTS = {A: 0, B: 6}
"""The numbers of both are their positions, so that the positions of an array must be its numbers."""


@pytest.mark.parametrize(
    "move",
    [
        lambda a, b: a,
        lambda a, b: a.T,
        lambda a, b: a[1, ::-1],
        lambda a, b: a[:, None, [2, 0]].squeeze(1),
        lambda a, b: a.reshape(3, 2).swapaxes(0, 1).astype(np.float16),
        lambda a, b: np.concatenate([a.reshape(-1), b]),
        lambda a, b: np.stack([b, b[::-1]]).transpose(1, 0),
        lambda a, b: np.split(b, 2)[1],
        lambda a, b: np.moveaxis(np.expand_dims(a, 0), 2, 0).copy(),
        lambda a, b: np.repeat(b, 2).reshape(2, 4).flatten(),
        lambda a, b: np.take(a, [1, 0], axis=1).ravel(),
        lambda a, b: np.broadcast_to(b, (2, 4)),
    ],
)
def test_moved_numbers_tell_their_positions(move: Callable[[Array, Array], Array]) -> None:
    result = move(A.numpy(), B.numpy())
    trace = trace_of(result)
    assert trace is not None
    np.testing.assert_array_equal(trace.positions(STARTS), result)


def test_numbers_of_no_tensor_are_nowhere() -> None:
    trace = trace_of(np.concatenate([B.numpy(), np.ones(2, np.float32)]))
    assert trace is not None and list(trace.sources()) == [B]
    assert trace.positions({B: 0}).tolist() == [0, 1, 2, 3, NOWHERE, NOWHERE]


def test_computed_numbers_have_no_positions_but_sources() -> None:
    trace = trace_of(np.sqrt(A.numpy()).T * 2)
    assert trace is not None and list(trace.sources()) == [A]
    with pytest.raises(NotMovedError):
        trace.positions(STARTS)


def test_answers_are_plain() -> None:
    assert (A.numpy() == A.plain()).all()
    assert type(A.numpy() == 1) is np.ndarray
    assert trace_of(np.zeros(3)) is None
