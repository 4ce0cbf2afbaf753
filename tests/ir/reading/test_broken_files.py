"""Every broken file gets a LoadError that says what is wrong with it: nothing crashes, hangs or reads elsewhere."""

from __future__ import annotations

from pathlib import Path

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
