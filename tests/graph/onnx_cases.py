# SPDX-License-Identifier: Apache-2.0
"""Runs ONNX's own node cases: onnx_cases.py BACKPLANE FOLDER TARGET [--graph-compiler=NAME] [--third | OPERATOR...]

The cases are the one-node cases of the given operators, or all cases, or with --third a fixed third of all cases.
Of all cases some are refused by name. The script writes each model and its inputs to FOLDER, runs it with the
command `backplane` for the target, and compares the outputs with the case. The models are unchanged: shapes and
axes that are inputs stay inputs. Prints TAP, one line a case."""

import re
import subprocess
import sys
import warnings
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx

from onnx_node_cases import all_cases

warnings.filterwarnings("ignore")

# Cases in which Backplane computes the result of onnxruntime, or rounds float16 at another place than ONNX's reference.
OTHERWISE = {f"test_{name}" for name in (
    "attention_4d_causal_fp16", "attention_4d_causal_fp16_expanded", "resize_downsample_scales_cubic_align_corners",
    "resize_downsample_scales_linear_align_corners")}
# A refusal names the node, the operators, the input, or the function that the target's language lacks for float64.
NAMES = ("node '", "operator", "operator set", "input '", "is not a tensor of a supported type", "has no type", "of float64")

DEVICES = {"c": "cpu", "llvm": "cpu", "cuda": "cuda", "opencl": "opencl", "vulkan": "vulkan"}


def items(value):
    """The tensors of a value: a tensor, a sequence, or an optional, which may be None."""
    return [np.asarray(item) for item in ([] if value is None else value if isinstance(value, list) else [value])]


def has_numpy_types(case):
    """.npy files do not support bfloat16 and the narrower types."""
    return all(item.dtype.kind in "biufc" for part in case.data_sets[0] for value in part for item in items(value))


def node_cases(operators, is_third):
    for case in all_cases():
        nodes = case.model.graph.node
        is_wanted = not operators or (len(nodes) == 1 and nodes[0].op_type in operators)
        if is_wanted and has_numpy_types(case) and (not is_third or zlib.crc32(case.name.encode()) % 3 == 0):
            yield case


class Case:
    def __init__(self, case, command, folder, target, options):
        self.name, self.model = case.name, case.model
        self.inputs, self.outputs = case.data_sets[0]
        self.rtol, self.atol = max(case.rtol, 1e-3), max(case.atol, 1e-5)
        self.command, self.target, self.options = command, target, options
        self.folder = folder / f"{target}-{case.name}"

    def call(self):
        self.folder.mkdir(exist_ok=True)
        path = self.folder / "model.onnx"
        onnx.save(self.model, path)
        arguments = [self.command, "run", str(path), "-o", str(self.folder), "-d", DEVICES[self.target.split()[0]], *self.options]
        if self.target not in DEVICES or DEVICES[self.target] == "cpu":  # else what the device has
            arguments += ["-t", self.target]
        names = [info.name for info in self.model.graph.input]
        for number, (name, value) in enumerate(zip(names, self.inputs)):
            arguments += [] if items(value) else ["-i", f"{name}="]
            for place, item in enumerate(items(value)):
                np.save(self.folder / f"input{number}.{place}.npy", item)
                arguments += ["-i", f"{name}={self.folder}/input{number}.{place}.npy"]
        return subprocess.run(arguments, capture_output=True, text=True)

    def compare_file(self, name, want):
        got = np.load(self.folder / f"{name}.npy")
        if got.shape != want.shape or got.dtype != want.dtype:
            return f"{name} is {got.dtype} {got.shape}, not {want.dtype} {want.shape}"
        if want.dtype.kind == "f":
            same = np.allclose(got, want, self.rtol, self.atol, equal_nan=True)
        else:
            same = np.array_equal(got, want)
        return None if same else f"{name} is {got.ravel()[:12]}, not {want.ravel()[:12]}"

    def compare(self, printed):
        for info, want in zip(self.model.graph.output, self.outputs):
            is_tensor = info.type.HasField("tensor_type")
            for place, item in enumerate(items(want)):
                why = self.compare_file(info.name if is_tensor else f"{info.name}.{place}", item)
                if why:
                    return why
            if not is_tensor and not re.search(rf"Output '{info.name}': .* of {len(items(want))} tensor", printed):
                return f"{info.name} has another length than {len(items(want))}: {printed}"
        return None

    def run(self):
        """Return the reason of a failure, or None, and whether the failure is a refusal by name."""
        done = self.call()
        self.is_claimed = "graph compilers claim 1 of 1 node" in done.stderr
        if done.returncode == 0:
            return self.compare(done.stdout), False
        return done.stderr.strip() or "no message", done.returncode == 1 and any(name in done.stderr for name in NAMES)


def print_result(number, case, why, may_skip):
    name = f"/onnx/{case.target.split()[0]}/{case.name.removeprefix('test_')}"
    if why and may_skip:
        print(f"ok {number} {name} # SKIP " + why.splitlines()[0], flush=True)
    else:
        print(f"{'not ok' if why else 'ok'} {number} {name}", flush=True)
        print("# " + why.replace("\n", "\n# ") if why else "", end="\n" if why else "")


def main():
    command, folder, target, is_third = sys.argv[1], Path(sys.argv[2]), sys.argv[3], "--third" in sys.argv
    options = [word for word in sys.argv[4:] if word.startswith("--graph-compiler=")]
    operators = set(sys.argv[4:]) - {"--third", *options}
    cases = [Case(case, command, folder, target, options) for case in node_cases(operators, is_third)]
    print(f"1..{len(cases)}")
    passed = skipped = 0
    with ThreadPoolExecutor(2) as pool:
        for number, (case, (why, is_refused)) in enumerate(zip(cases, pool.map(lambda case: case.run(), cases)), 1):
            may_skip = not operators and (is_refused or case.name in OTHERWISE)
            print_result(number, case, why, may_skip)
            passed += why is None
            skipped += why is not None and may_skip
    if options:
        print(f"# {sum(case.is_claimed for case in cases)} of {len(cases)} cases are claimed as a whole")
    print(f"# {target}: {passed} of {len(cases)} cases give what they expect, {skipped} are refused or differ by a known reason")
    return passed + skipped < len(cases)


if __name__ == "__main__":
    sys.exit(main())
