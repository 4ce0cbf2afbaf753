"""Every broken file gets a LoadError that says what is wrong with it: nothing crashes, hangs or reads elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from ir.reading.broken_files import TABLE, BrokenFile
from onnxlift.errors import LoadError
from onnxlift.ir.load import load


@pytest.mark.timeout(20)
@pytest.mark.parametrize("broken", TABLE, ids=lambda broken: broken.name)
def test_says_what_is_wrong(broken: BrokenFile, tmp_path: Path) -> None:
    path = broken.build(tmp_path)
    with pytest.raises(LoadError) as caught:
        load(path)
    message = str(caught.value)
    assert broken.says in message
    assert "\n" not in message
    assert len(message) < 1000


def test_a_name_that_is_no_text_is_an_answer_with_the_protobuf_in_plain_python() -> None:
    """Which refuses it while it parses; the compiled one hands out bytes."""
    model = onnx.ModelProto(ir_version=10, graph=onnx.GraphProto(name="name"))
    data = model.SerializeToString().replace(b"name", b"n\xa0me")
    code = f"import onnxlift\ntry:\n    onnxlift.lift({data!r})\nexcept onnxlift.LoadError as error:\n    print(error)"
    environment = {**os.environ, "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert "is not an ONNX model, or a damaged one" in done.stdout, done.stdout
