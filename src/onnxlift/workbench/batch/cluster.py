"""Work on models on a cluster of dask, whose workers see the same files as we do.

A worker of the cluster has a server of its own for each of its threads, and works on each model in a child, as this
machine does. If the worker itself dies, the cluster gives its models to another one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from types import TracebackType
from typing import Any, Self

from onnxlift.errors import OnnxLiftError, quote

from .children import Children, Ended, Limits
from .plan import versions

CONNECT_SECONDS = 20
_OWN = threading.local()


class Cluster:
    """An existing cluster, by the address of its scheduler."""

    def __init__(self, address: str, packages: Sequence[str], memory: int | None) -> None:
        try:
            from distributed import Client
        except ImportError as error:
            raise OnnxLiftError("a cluster needs dask: pip install 'onnxlift[cluster]'.") from error
        self.packages, self.memory = tuple(packages), memory
        try:
            self.client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError) as error:
            raise OnnxLiftError(f"there is no scheduler of dask at {quote(address)}: {error}.") from error

    def __enter__(self) -> Self:
        self._check_workers()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.client.close()

    def _check_workers(self) -> None:
        """Refuse workers that have other versions than we: their results would be others than their keys say."""
        ours = versions()
        for worker, theirs in self.client.run(versions).items():
            other = [f"{name} {theirs.get(name)}, not {ours[name]}" for name in ours if theirs.get(name) != ours[name]]
            if other:
                raise OnnxLiftError(
                    f"the worker {worker} has {'; '.join(other)}: install the same versions everywhere."
                )

    def run(self, tasks: Sequence[Mapping[str, Any]], limits: Limits) -> Iterator[tuple[int, Ended]]:
        """Do the tasks on the cluster, and yield the number of each with how it has ended, as they end."""
        from distributed import KilledWorker, as_completed

        submit = self.client.submit
        futures = {
            submit(run_task, dict(task), self.packages, limits.seconds, self.memory, len(tasks), pure=False): number
            for number, task in enumerate(tasks)
        }
        for future in as_completed(futures, loop=self.client.loop):
            try:
                ended = future.result()
            except KilledWorker as error:
                ended = Ended(kind="crash", text=f"the workers of the cluster that had it died: {error}")
            except CancelledError as error:
                raise OnnxLiftError("the scheduler of the cluster is gone: start again to go on.") from error
            yield futures[future], ended


def run_task(
    task: Mapping[str, Any], packages: Sequence[str], seconds: float, memory: int | None, expected: int
) -> Ended:
    """On a worker of the cluster: do a task in a child, with the server of this thread."""
    from distributed import get_worker

    key = tuple(packages)
    if getattr(_OWN, "key", None) != key:
        if hasattr(_OWN, "children"):
            _OWN.children.close()
        _OWN.key, _OWN.children = key, Children("work", packages, expected=expected)
    children: Children = _OWN.children
    return children.run_one(task, Limits.of(seconds, memory, get_worker().state.nthreads))
