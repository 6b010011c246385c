#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run every model that has stored references with the backplane tool on each device, and compare
the outputs. Each model runs from its ONNX file, and from one library with code for all
devices. Prints TAP. Needs numpy."""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from compare import Mismatch, run_and_compare
from models import CASES, Case


class Tap:
    def __init__(self) -> None:
        self.count = 0
        self.failed = False

    def test(self, name: str, run: Callable[[], str]) -> None:
        """A test. `run` returns a remark, or raises Mismatch."""
        self.count += 1
        try:
            result, remark = "ok", run()
        except Mismatch as mismatch:
            self.failed = True
            result, remark = "not ok", str(mismatch)
        print(f"{result} {self.count} {name}")
        for line in remark.splitlines():
            print(f"# {line}")
        sys.stdout.flush()


# A device, and the target whose code runs there.
TARGETS = {"cpu": "c", "opencl": "opencl", "vulkan": "vulkan"}


def compile_case(tool: Path, model: Path, case: Case, library: Path) -> str:
    command = [str(tool), "compile", str(model), "--target", ",".join(TARGETS.values())]
    command += ["--shape", case.shape_option]
    command += ["-o", str(library)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        raise Mismatch(f"exit {done.returncode}: {done.stderr.strip()}")
    return f"{library.stat().st_size} bytes"


def compare_case(tool: Path, file: Path, arguments: list[str], case: Case, reference: Path) -> str:
    error = run_and_compare(tool, file, arguments, case.input, reference)
    return f"worst error: {error:.2g} of what is allowed"


def has_device(tool: Path, device: str) -> bool:
    done = subprocess.run([str(tool), "inspect", "device", device], capture_output=True, check=False)
    return done.returncode == 0


def check_case(
    tap: Tap, tool: Path, model: Path, case: Case, references: Path, devices: list[str]
) -> None:
    shape = ["--shape", case.shape_option]
    ways = [(device, "onnx", model, shape) for device in devices]
    with tempfile.TemporaryDirectory() as scratch:
        library = Path(scratch) / f"{case.name}.so"
        tap.test(f"/models/{case.name}/compile", partial(compile_case, tool, model, case, library))
        ways += [(device, "library", library, []) for device in devices]
        for kind in case.kinds:
            reference = references / case.name / kind
            for device, how, file, arguments in ways:
                name = f"/models/{case.name}/{kind}/{device}/{how}-gives-onnxruntime-outputs"
                on_device = [*arguments, "--device", device]
                tap.test(name, partial(compare_case, tool, file, on_device, case, reference))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tool", type=Path, help="the backplane tool")
    parser.add_argument("files", type=Path, help="the folder that fetch_models.py filled")
    parser.add_argument("references", type=Path, help="the folder that make_references.py filled")
    arguments = parser.parse_args()
    tap = Tap()
    devices = [device for device in TARGETS if has_device(arguments.tool, device)]
    for case in CASES:
        if (arguments.references / case.name).is_dir():
            model = arguments.files / case.file
            check_case(tap, arguments.tool, model, case, arguments.references, devices)
    print(f"1..{tap.count}")
    sys.exit(1 if tap.failed or tap.count == 0 else 0)


if __name__ == "__main__":
    main()
