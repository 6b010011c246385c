# SPDX-License-Identifier: Apache-2.0
"""Runs ONNX's own node cases: onnx_cases.py BACKPLANE FOLDER TARGET [OPERATOR...]

Of each case of one node of these operators, or if none is given of all cases, the model and its inputs are written to FOLDER and run
by the command `backplane` for the target; its outputs are those that the case expects. Inputs that
have to be constant become initializers. Prints TAP, one line a case."""

import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

warnings.filterwarnings("ignore")

DEVICES = {"c": "cpu", "llvm": "cpu", "opencl": "opencl", "vulkan": "vulkan"}


def has_numpy_types(case):
    """Sequences, bfloat16 and the narrower types have no .npy files."""
    return all(not isinstance(value, list) and np.asarray(value).dtype.kind in "biufc"
               for part in case.data_sets[0] for value in part)


def node_cases(operators):
    from onnx.backend.test.case.node import collect_testcases
    for case in collect_testcases(None):
        nodes = case.model.graph.node
        is_wanted = not operators or (len(nodes) == 1 and nodes[0].op_type in operators)
        if is_wanted and has_numpy_types(case):
            yield case


def make_constant(model, values):
    """The small inputs as initializers, as models have shapes, axes and scales."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    kept = []
    for info, value in zip(model.graph.input, values):
        if value.size <= 8 and value.dtype in (np.int32, np.int64, np.bool_, np.float32):
            result.graph.initializer.append(numpy_helper.from_array(value, info.name))
        else:
            kept.append(info)
    del result.graph.input[:]
    result.graph.input.extend(kept)
    return result


class Case:
    def __init__(self, case, command, folder, target):
        self.name, self.model = case.name, case.model
        self.inputs, self.outputs = case.data_sets[0]
        self.inputs = [np.asarray(value) for value in self.inputs]
        self.rtol, self.atol = max(case.rtol, 1e-3), max(case.atol, 1e-5)
        self.command, self.target = command, target
        self.folder = folder / f"{target}-{case.name}"

    def call(self, model):
        self.folder.mkdir(exist_ok=True)
        path = self.folder / "model.onnx"
        onnx.save(model, path)
        arguments = [self.command, "run", str(path), "-t", self.target, "-o", str(self.folder),
                     "-d", DEVICES[self.target.split()[0]]]
        constants = {value.name for value in model.graph.initializer}
        names = [info.name for info in self.model.graph.input]
        for number, (name, value) in enumerate(zip(names, self.inputs)):
            if name in constants:
                continue
            np.save(self.folder / f"input{number}.npy", value)
            arguments += ["-i", f"{name}={self.folder}/input{number}.npy"]
        return subprocess.run(arguments, capture_output=True, text=True)

    def compare(self):
        for info, want in zip(self.model.graph.output, self.outputs):
            want = np.asarray(want)
            got = np.load(self.folder / f"{info.name}.npy")
            if got.shape != want.shape or got.dtype != want.dtype:
                return f"{info.name} is {got.dtype} {got.shape}, not {want.dtype} {want.shape}"
            if want.dtype.kind == "f":
                same = np.allclose(got, want, self.rtol, self.atol, equal_nan=True)
            else:
                same = np.array_equal(got, want)
            if not same:
                return f"{info.name} is {got.ravel()[:12]}, not {want.ravel()[:12]}"
        return None

    def run(self):
        """Why it has failed, or None."""
        done = self.call(self.model)
        if done.returncode and "constant" in done.stderr:
            done = self.call(make_constant(self.model, self.inputs))
        return done.stderr.strip() or "no message" if done.returncode else self.compare()


def main():
    command, folder, target = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    cases = [Case(case, command, folder, target) for case in node_cases(set(sys.argv[4:]))]
    print(f"1..{len(cases)}")
    failed = 0
    with ThreadPoolExecutor(2) as pool:
        for number, (case, why) in enumerate(
                zip(cases, pool.map(lambda case: case.run(), cases)), 1):
            name = f"/onnx/{target.split()[0]}/{case.name.removeprefix('test_')}"
            print(f"{'not ok' if why else 'ok'} {number} {name}", flush=True)
            if why:
                failed += 1
                print("# " + why.replace("\n", "\n# "))
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
