# SPDX-License-Identifier: Apache-2.0
"""Compare calls from Python with tvm_ffi. Prints the least times of alternating batches, and
their ratio.

    PYTHONPATH=BUILT_PACKAGE python bench/tvm/bench_python.py"""

import os
import subprocess
import sys
import tempfile
import time

import numpy as np
import tvm
import tvm_ffi

import backplane

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "tests", "tvm"))
import make_libraries  # pylint: disable=wrong-import-position

CALLS, BATCHES = 2000, 60


def measure(call, *args):
    began = time.perf_counter()
    for _ in range(CALLS):
        call(*args)
    return (time.perf_counter() - began) / CALLS * 1e9


def compare(what, ours, our_args, theirs, their_args):
    least = [float("inf")] * 2
    for _ in range(BATCHES):
        least[0] = min(least[0], measure(ours, *our_args))
        least[1] = min(least[1], measure(theirs, *their_args))
    print(f"{what:16} ours {least[0]:7.0f} ns   tvm_ffi {least[1]:7.0f} ns   "
          f"ratio {least[0] / least[1]:.2f}")


MEMORY = "[l for l in open('/proc/self/status') if l.startswith('VmRSS')][0].split()[1]"


def run(code):
    """Return the numbers that a program prints."""
    output = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return tuple(map(float, output.stdout.split()))


def import_cost(package):
    """Return the seconds of a program, and its MB of memory more than an empty Python program."""
    bare = min(run(f"print({MEMORY})")[0] for _ in range(3))
    runs = [run(f"import time; b = time.perf_counter(); import {package}; "
                f"print(time.perf_counter() - b, {MEMORY})") for _ in range(5)]
    return min(r[0] for r in runs), (min(r[1] for r in runs) - bare) / 1024


def main():
    with tempfile.TemporaryDirectory() as folder:
        cases = make_libraries.Cases(folder)
        scalars = cases.library("scalars", make_libraries.Scalars)
        combine = cases.library("combine", make_libraries.elementwise((33,), "float32"))
        ours, theirs = backplane.load(scalars)["add"], tvm_ffi.load_module(scalars)["add"]
        compare("scalars", ours, (1, 2), theirs, (1, 2))
        ours, theirs = backplane.load(combine)["combine"], tvm_ffi.load_module(combine)["combine"]
        arrays = [np.zeros(33, "float32") for _ in range(3)]
        compare("3 numpy arrays", ours, arrays, theirs, arrays)
        compare("3 tensors", ours, [backplane.tensor(a) for a in arrays], theirs,
                [tvm.runtime.tensor(a) for a in arrays])
    for package in ["backplane", "tvm"]:
        seconds, memory = import_cost(package)
        print(f"import {package:12} {seconds * 1e3:8.1f} ms {memory:8.1f} MB")


if __name__ == "__main__":
    main()
