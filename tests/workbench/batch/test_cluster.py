"""A batch on a cluster of dask: the same rows, also if a worker dies."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from distributed import Client, LocalCluster

import onnxlift
from onnxlift.workbench.batch import Row

from .small import POISON, good, poisoned, save


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{Path(onnxlift.__file__).parents[1]}{os.pathsep}{POISON}")
        folder = tmp_path_factory.mktemp("cluster")
        with LocalCluster(2, threads_per_worker=1, dashboard_address=None, local_directory=str(folder)) as found:
            yield found.scheduler_address


def test_a_worker_that_dies_costs_nothing(cluster: str, tmp_path: Path) -> None:
    names = ["a", "b", "c", "crash"]
    for number, name in enumerate(names):
        save(poisoned("Crash") if name == "crash" else good(number), tmp_path / f"models/{name}.onnx")
    for number in range(2):
        save(poisoned("Slow"), tmp_path / f"models/slow{number}.onnx")
    config = {"inputs": str(tmp_path / "models"), "output_dir": str(tmp_path / "out"), "steps": ["convert"]}
    killed: list[int] = []

    def kill_one(row: Row, done: int, total: int) -> None:
        if not killed:
            with Client(cluster, set_as_default=False) as client:
                (pid, *_) = client.run(os.getpid).values()
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)

    report = onnxlift.batch(config, dask=cluster, on_row=kill_one)
    assert len(killed) == 1
    assert {Path(row.model).stem: row.kind for row in report.rows} == {
        **dict.fromkeys(("a", "b", "c", "slow0", "slow1"), "passed"),
        "crash": "crash",
    }
    assert (tmp_path / "out/slow1/slow1.py").exists()


def test_an_address_without_a_scheduler_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onnxlift.workbench.batch.cluster.CONNECT_SECONDS", 0.5)
    path = save(good(), tmp_path / "a.onnx")
    config = {"inputs": str(path), "output_dir": str(tmp_path / "out"), "steps": ["lint"]}
    with pytest.raises(onnxlift.OnnxLiftError, match=r"there is no scheduler of dask at 'tcp://127.0.0.1:9'"):
        onnxlift.batch(config, dask="tcp://127.0.0.1:9")
