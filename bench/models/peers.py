#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One peer in a process of its own, driven by bench_models.py through a pipe:

  peers.py onnxruntime|iree|tvm MODEL.onnx INPUT-NAME INPUT.npy THREADS FOLDER

compiles the model (all shapes fixed), writes its outputs to FOLDER/NAME.npy and prints a line of
JSON, {"compile_s": S}; then for each line with a number of seconds that it reads, runs for that
long and prints {"ms": [...]}, the times of single runs (iree: of short repetitions)."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import onnx

TESTS = Path(__file__).resolve().parents[2] / "tests" / "models"
sys.path.insert(0, str(TESTS))
from compare import file_name  # noqa: E402

IREE_REPETITION_S = 0.02


class Peer(Protocol):
    """A model ready to run on its input."""

    def outputs(self) -> list[np.ndarray]: ...
    def times(self, seconds: float) -> list[float]:
        """Milliseconds of each run."""


def time_runs(run: Callable[[], object], seconds: float) -> list[float]:
    times: list[float] = []
    end = time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        times.append((time.perf_counter() - start) * 1e3)
    return times


class OnnxRuntime:
    """Inputs and outputs are bound once, so that a run copies nothing in Python."""

    def __init__(self, model: Path, name: str, value: Path, threads: int) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        providers = ["CPUExecutionProvider"]
        self.session = onnxruntime.InferenceSession(str(model), options, providers=providers)
        self.binding = self.session.io_binding()
        self.binding.bind_cpu_input(name, np.load(value))
        for output in self.session.get_outputs():
            self.binding.bind_output(output.name)
        self.session.run_with_iobinding(self.binding)

    def outputs(self) -> list[np.ndarray]:
        return list(self.binding.copy_outputs_to_cpu())

    def times(self, seconds: float) -> list[float]:
        return time_runs(lambda: self.session.run_with_iobinding(self.binding), seconds)


class Iree:
    """IREE's own command line tools; the compiled module is kept beside the model."""

    def __init__(self, model: Path, name: str, value: Path, threads: int) -> None:
        del name  # it takes inputs by position
        self.tools = Path(sys.executable).parent
        self.folder = model.parent
        self.num_outputs = len(onnx.load(model).graph.output)
        mlir = model.with_suffix(".mlir")
        module = model.with_suffix(".vmfb")
        if not module.exists():
            self.compile(model, mlir, module)
        entry = re.search(r'func\.func @(?:"([^"]+)"|([\w$.-]+))', mlir.read_text())
        if not entry:
            raise RuntimeError(f"{mlir} has no function")
        device = ["--device=local-sync"]
        if threads > 1:
            device = ["--device=local-task", f"--task_topology_max_group_count={threads}"]
        function = f"--function={entry[1] or entry[2]}"
        self.arguments = [f"--module={module}", function, f"--input=@{value}", *device]

    def tool(self, name: str, *arguments: str) -> str:
        command = [str(self.tools / name), *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", check=False
        )
        if done.returncode != 0:
            raise RuntimeError(f"{name}: {done.stderr.strip()[:300]}")
        return done.stdout

    def compile(self, model: Path, mlir: Path, module: Path) -> None:
        self.tool("iree-import-onnx", str(model), "-o", str(mlir), "--opset-version", "17")
        flags = [
            "--iree-hal-target-device=local",
            "--iree-hal-local-target-device-backends=llvm-cpu",
        ]
        flags += ["--iree-llvmcpu-target-cpu=host", "--iree-opt-level=O3"]
        part = module.with_suffix(".part")
        self.tool("iree-compile", str(mlir), *flags, "-o", str(part))
        part.rename(module)

    def outputs(self) -> list[np.ndarray]:
        files = [self.folder / f"iree-output-{i}.npy" for i in range(self.num_outputs)]
        self.tool("iree-run-module", *self.arguments, *(f"--output=@{file}" for file in files))
        return [np.load(file) for file in files]

    def times(self, seconds: float) -> list[float]:
        repetitions = max(1, int(seconds / IREE_REPETITION_S))
        report = self.tool(
            "iree-benchmark-module",
            *self.arguments,
            f"--benchmark_min_time={IREE_REPETITION_S}s",
            f"--benchmark_repetitions={repetitions}",
            "--benchmark_format=json",
        )
        unit = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3}
        runs = [b for b in json.loads(report)["benchmarks"] if b["run_type"] == "iteration"]
        return [run["real_time"] * unit[run["time_unit"]] for run in runs]


class Tvm:
    """TVM's default pipeline, not tuned."""

    def __init__(self, model: Path, name: str, value: Path, threads: int) -> None:
        os.environ["TVM_NUM_THREADS"] = str(threads)
        import tvm
        from tvm import relax
        from tvm.relax.frontend.onnx import from_onnx

        del name  # one input
        module = from_onnx(onnx.load(model), keep_params_in_input=False)
        target = tvm.target.Target({"kind": "llvm", **host_cpu(tvm), "num-cores": os.cpu_count()})
        self.machine = relax.VirtualMachine(tvm.compile(module, target=target), tvm.cpu())
        self.machine.set_input("main", tvm.runtime.tensor(np.load(value)))
        self.machine.invoke_stateful("main")

    def outputs(self) -> list[np.ndarray]:
        result: Any = self.machine.get_outputs("main")
        return [x.numpy() for x in ([result] if hasattr(result, "numpy") else result)]

    def times(self, seconds: float) -> list[float]:
        return time_runs(lambda: self.machine.invoke_stateful("main"), seconds)


def host_cpu(tvm: Any) -> dict[str, str]:
    """The name of this CPU for TVM's LLVM."""
    return {"mcpu": str(tvm.get_global_func("target.llvm_get_system_cpu")())}


PEERS: dict[str, Callable[[Path, str, Path, int], Peer]] = {
    "onnxruntime": OnnxRuntime,
    "iree": Iree,
    "tvm": Tvm,
}


def main() -> None:
    peer_name, model, input_name, value, threads, folder = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print does not belong among the answers
    start = time.perf_counter()
    peer = PEERS[peer_name](Path(model), input_name, Path(value), int(threads))
    seconds = time.perf_counter() - start
    names = [output.name for output in onnx.load(model).graph.output]
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name, array in zip(names, peer.outputs(), strict=True):
        np.save(Path(folder) / file_name(name), array)
    print(json.dumps({"compile_s": seconds}), file=answers)
    for line in sys.stdin:
        print(json.dumps({"ms": peer.times(float(line))}), file=answers)


if __name__ == "__main__":
    main()
