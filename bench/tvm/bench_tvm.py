# SPDX-License-Identifier: Apache-2.0
"""Compare Backplane and TVM on code that TVM compiled. Prints the least times of alternating runs,
and their ratio.

    make bench-tvm && PYTHON_WITH_TVM bench/tvm/bench_tvm.py ./bench-tvm

Set BACKPLANE_NUM_THREADS and TVM_NUM_THREADS to the same number."""

import os
import subprocess
import sys
import tempfile

import numpy as np
import tvm
from tvm import relax

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "tests", "tvm"))
import make_libraries  # pylint: disable=wrong-import-position
import make_models  # pylint: disable=wrong-import-position

ROUNDS = 5


def ours(*args):
    """Return the numbers that Backplane's program prints."""
    output = subprocess.run([sys.argv[1], *map(str, args)], check=True, capture_output=True, text=True)
    return [float(word) for word in output.stdout.split()]


def bench_call(cases):
    path = cases.library("scalars", make_libraries.Scalars)
    direct, through = map(min, zip(*(ours("call", path, "add") for _ in range(ROUNDS))))
    print(f"call             direct {direct:8.2f} ns   ours {through:8.2f} ns   "
          f"ours - 1.1 direct {through - 1.1 * direct:6.2f} ns (at most 3)")
    print(f"start to result  {ours('start', path, 'add')[0] / 1e6:.2f} ms (below 3)")


def bench_model(cases, name, module, spec):
    path = make_models.compile_for(cases, name, module, "cpu")
    machine = relax.VirtualMachine(tvm.runtime.load_module(path), tvm.cpu())
    inputs = [tvm.runtime.tensor(np.zeros(shape, dtype)) for shape, dtype in spec]
    machine.set_input("forward", *inputs)
    calls = 200
    evaluate = machine.time_evaluator("invoke_stateful", tvm.cpu(), number=calls, repeat=40)
    ours_least = theirs_least = float("inf")
    for _ in range(ROUNDS):
        ours_least = min(ours_least, *ours("model", path, calls))
        theirs_least = min(theirs_least, evaluate("forward").min * 1e9)
    print(f"{name:12} ours {ours_least / 1e3:9.2f} us   TVM {theirs_least / 1e3:9.2f} us   "
          f"ratio {ours_least / theirs_least:.2f}")


def main():
    nn = make_models.nn.spec.Tensor
    with tempfile.TemporaryDirectory() as folder:
        cases = make_libraries.Cases(folder)
        random = cases.random
        bench_call(cases)
        bench_model(cases, "mlp", make_models.from_module(
            make_models.MLP(), {"x": nn((4, 8), "float32")}, random), [((4, 8), "float32")])
        bench_model(cases, "cnn", make_models.convolutional(random), [((1, 1, 28, 28), "float32")])
        bench_model(cases, "residual", make_models.from_module(
            make_models.ResidualNet(), {"x": nn((1, 3, 32, 32), "float32")}, random),
                    [((1, 3, 32, 32), "float32")])
        bench_model(cases, "lstm", make_models.from_module(
            make_models.LSTM(), {"x": nn((6, 5), "float32"), "h": nn((1, 8), "float32"),
                                 "c": nn((1, 8), "float32")}, random),
                    [((6, 5), "float32"), ((1, 8), "float32"), ((1, 8), "float32")])
        bench_model(cases, "transformer", make_models.from_module(
            make_models.Attention(), {"x": nn((1, 12, 16), "float32")}, random),
                    [((1, 12, 16), "float32")])


if __name__ == "__main__":
    main()
