"""Save files so that they appear complete or not at all.

All files are written into a hidden folder inside the target folder. When they are complete, they are moved to their
places by renaming, the one that needs the others last: whoever finds NAME.py finds all that it needs. A full disk, an
error or Ctrl-C leaves nothing behind. A process that is killed leaves only the hidden folder.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from onnxlift.errors import OutputError


def save_files(
    directory: Path,
    name: str,
    write: Callable[[Path], list[Path]],
    *,
    ours: re.Pattern[str],
    last: str,
    force: bool = False,
    keep: Collection[Path] = (),
) -> list[Path]:
    """Save the files that `write(folder)` writes into the folder given to it. Return their paths in `directory`, in the
    order in which `write` returned them. The file called `last` appears after all others.

    Files whose names match `ours` are those of an earlier save. They are replaced with `force`; without it they raise
    an OutputError. Files of `keep` (the model's own files) are never replaced.
    """
    created = False
    try:
        created = not directory.exists()
        directory.mkdir(parents=True, exist_ok=True)
        earlier = sorted(path for path in directory.iterdir() if ours.fullmatch(path.name))
        _check(earlier, directory, force, keep)
        with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=directory) as folder:
            written = write(Path(folder))
            targets = [directory / file.name for file in written]
            for file, target in sorted(zip(written, targets, strict=True), key=lambda pair: pair[0].name == last):
                file.replace(target)
        for stale in set(earlier) - set(targets):  # such as shards that are one file now
            stale.unlink()
        return targets
    except BaseException as error:
        if created:
            _remove_if_empty(directory)
        if isinstance(error, OSError):
            reason = "it is a file, and no folder" if directory.is_file() else error.strerror or error
            raise OutputError(f"cannot write to {str(directory)!r}: {reason}.") from error
        raise


def _check(earlier: Sequence[Path], directory: Path, force: bool, keep: Collection[Path]) -> None:
    for path in earlier:
        if path.resolve() in keep:
            raise OutputError(f"{str(path)!r} belongs to the ONNX model itself: write to another folder.")
        if path.is_dir():
            raise OutputError(f"{str(path)!r} is a folder, where a file should be written: use another folder or name.")
    if earlier and not force:
        names = ", ".join(path.name for path in earlier[:3]) + (", ..." if len(earlier) > 3 else "")
        raise OutputError(
            f"{str(directory)!r} already holds {names}: pass --force (or force=True) to replace what is there, or "
            "write to another folder."
        )


def _remove_if_empty(directory: Path) -> None:
    try:
        directory.rmdir()
    except OSError:
        return  # somebody else has put something there, or it was never made
