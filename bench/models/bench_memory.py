#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare the memory that Backplane plans for a model's values with the arena of onnxruntime.

Backplane's figure is the storage of a context: inputs, outputs and intermediate values. onnxruntime
runs on one thread with its default options and writes a profile (1.31 or newer), which has the
statistics of the arena after each node. The figures of the arena do not include what the session
holds before the first run, packed parameters among it, and do not include inputs, which the caller
allocates:

  first   the most in use in the first run, in which each value is allocated when it is computed
  later   the most in use in all runs; from the second run on one block holds the planned values
  held    what the arena has taken from the system; it keeps this memory

Shares are Backplane's storage without the inputs, divided by onnxruntime's figures. ! marks a share
above 1.1, which is not a failure. Exit status 1 if a model failed."""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime

from bench_models import CASES, MIB, OTHERS, Case, add_cases, fix_shapes, make_files
from tool import find_tool

BAR = 1.1
RUNS = 4


class Arena(NamedTuple):
    """Bytes of onnxruntime's arena beyond those before the first run."""

    first: int
    later: int
    held: int


def planned_bytes(tool: Path, model: Path, case: Case, folder: Path) -> int:
    library = str(folder / "model.so")
    compiling = [str(tool), "compile", str(model), "--target", "c", "--shape", case.shape_option]
    subprocess.run([*compiling, "-o", library], check=True, stdout=subprocess.DEVNULL)
    inspecting = [str(tool), "inspect", "model", library, "--json"]
    report: dict[str, Any] = json.loads(subprocess.check_output(inspecting))
    return int(report["planned_bytes"])


def make_session(model: Path, prefix: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.enable_profiling = True
    options.profile_file_prefix = str(prefix)
    return onnxruntime.InferenceSession(
        str(model), options, providers=["CPUExecutionProvider"]
    )


def input_values(model: Path) -> dict[str, np.ndarray]:
    """Return ones for each input; the values change no allocation of these models."""
    graph = onnx.load(model).graph
    parameters = {parameter.name for parameter in graph.initializer}
    values = {}
    for value in graph.input:
        if value.name not in parameters:
            tensor = value.type.tensor_type
            shape = [dim.dim_value for dim in tensor.shape.dim]
            values[value.name] = np.ones(shape, onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type))
    return values


def arena_bytes(model: Path, folder: Path) -> Arena:
    session = make_session(model, folder / "profile")
    values = input_values(model)
    for _ in range(RUNS):
        session.run(None, values)
    events = json.loads(Path(session.end_profiling()).read_text())
    nodes = [e["args"] for e in sorted(events, key=lambda e: e["ts"]) if e["cat"] == "Node"]
    nodes = [node for node in nodes if "mem_in_use_peak" in node]
    if not nodes:
        raise ValueError(
            f"the profile of onnxruntime {onnxruntime.__version__} has no statistics of the arena; install 1.31 or newer"
        )
    start = nodes[0]
    used = int(start["mem_bytes_in_use"]) - int(start["mem_in_use_delta"])
    held = int(start["mem_arena_held"]) - int(start["mem_arena_held_delta"])
    first = nodes[: len(nodes) // RUNS]
    return Arena(
        max(int(node["mem_in_use_peak"]) for node in first) - used,
        max(int(node["mem_in_use_peak"]) for node in nodes) - used,
        max(int(node["mem_arena_held"]) for node in nodes) - held,
    )


def share(ours: int, theirs: int) -> str:
    value = ours / theirs
    return f"{value:.2f}" + ("!" if value > BAR else "")


def measure(tool: Path, files: Path, case: Case) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fixed = folder / "fixed.onnx"
        fix_shapes(files / case.file, case, fixed)
        ours = planned_bytes(tool, files / case.file, case, folder)
        theirs = arena_bytes(fixed, folder)
        inputs = sum(value.nbytes for value in input_values(fixed).values())
    figures = [f"{value / MIB:.2f}" for value in (ours, inputs, *theirs)]
    shares = [share(ours - inputs, value) for value in theirs]
    print("| " + " | ".join([case.name, *figures, *shares]) + " |", flush=True)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tool", type=Path, help="the backplane tool, installed or in a build folder")
    add_cases(parser)
    parser.add_argument("--files", type=Path, default=Path("_build/bench-models/files"),
                        help="the folder of fetch_models.py")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    files = arguments.files
    make_files(files)
    print("MiB; shares are of Backplane's storage without the inputs")
    print("| model | planned | inputs | first | later | held | of first | of later | of held |")
    print("|---|---|---|---|---|---|---|---|---|")
    failed = False
    for case in (*CASES, *OTHERS):
        if arguments.cases and case.name not in arguments.cases:
            continue
        try:
            measure(find_tool(arguments.tool), files, case)
        except (subprocess.CalledProcessError, ValueError) as error:
            print(f"| {case.name} | FAILED: {error} |", flush=True)
            failed = True
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
