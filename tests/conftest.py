"""What several test files share: the option that rewrites golden files, and models that are built once a run."""

from __future__ import annotations

import gc
import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
from filelock import FileLock

from models import Example


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite tests/golden/sources with what is lifted now"
    )
    parser.addoption(
        "--models",
        type=Path,
        help="a folder to keep exported models in and to take them from, until tests/models change",
    )


def pytest_collection_finish() -> None:
    """Let the garbage collector look seldom at what stays: torch, onnx and 18,000 tests."""
    gc.set_threshold(50_000, 20, 100)


@pytest.fixture(scope="session")
def model_file(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> Iterator[Callable[[Example], Path]]:
    """The file of an example's model. Exporting takes seconds, so all processes of a run share what one has built; and
    all runs, if they are told of a folder.

    It is done in a process of its own: once torch.export has been called, exporting a recurrent layer to ONNX fails.
    """
    from models.every import save

    folder = pytestconfig.getoption("--models")
    if folder is None:
        folder = tmp_path_factory.getbasetemp()
        if "PYTEST_XDIST_WORKER" in os.environ:
            folder = folder.parent
    folder.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as exporter:

        def build(example: Example) -> Path:
            path = folder / f"{example.name}.onnx"
            with FileLock(path.with_suffix(".lock")):
                if not path.exists():
                    exporter.submit(save, example.name, path).result()
            return path

        yield build
