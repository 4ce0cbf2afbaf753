"""What several test files share: the option that rewrites golden files, and models that are built once a run."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from filelock import FileLock

from models import Example


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite tests/golden/sources with what is lifted now"
    )


@pytest.fixture(scope="session")
def model_file(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Example], Path]:
    """The file of an example's model. Exporting takes seconds, so all processes of a run share what one has built."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent

    def build(example: Example) -> Path:
        path = folder / f"{example.name}.onnx"
        with FileLock(path.with_suffix(".lock")):
            if not path.exists():
                onnx.save(example.build(), path)
        return path

    return build
