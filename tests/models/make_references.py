#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write the inputs of the model cases, and onnxruntime's outputs for them, as .npy files:
OUT/CASE/KIND/inputs/NAME.npy and OUT/CASE/KIND/outputs/NAME.npy.

The files of ppocr-cls are committed in references/; the other files are made for benchmarks.
Needs the packages of requirements.txt."""

import argparse
from pathlib import Path

import numpy as np
import onnxruntime

from compare import file_name
from inputs import make_input
from models import CASES, Case


def run_reference(model: Path, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the outputs by name, from one thread, so that sums are always added in the same
    order."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


def write_arrays(folder: Path, arrays: dict[str, np.ndarray]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in arrays.items():
        np.save(folder / file_name(name), array)


def make_references(case: Case, files: Path, out: Path) -> None:
    """Write the files of a case. `files` is the folder that fetch_models.py filled."""
    for kind in case.kinds:
        feeds = {case.input: make_input(case, kind, files)}
        write_arrays(out / case.name / kind / "inputs", feeds)
        write_arrays(out / case.name / kind / "outputs", run_reference(files / case.file, feeds))


def main() -> None:
    names = [case.name for case in CASES]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", type=Path, help="the folder that fetch_models.py filled")
    parser.add_argument("out", type=Path)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(names)}; or all")
    arguments = parser.parse_args()
    for name in arguments.cases:
        if name not in names:
            parser.error(f"no case {name}; there are {', '.join(names)}")
    for case in CASES:
        if not arguments.cases or case.name in arguments.cases:
            make_references(case, arguments.files, arguments.out)


if __name__ == "__main__":
    main()
