#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run one peer in a separate process, driven by bench_models.py through a pipe:

  peers.py onnxruntime|provider|openvino|iree|tvm MODEL.onnx INPUTS.npz THREADS FOLDER

compiles the model (all shapes fixed), writes its outputs to FOLDER/NAME.npy and prints a line of
JSON, {"compile_s": S}; then for each line with a number of seconds that it reads, runs for that
long and prints {"ms": [...]}, the times of single runs (iree: of short repetitions).

bench_operators.py uses onnxruntime and openvino from here in its own process."""

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


Inputs = dict[str, np.ndarray]


class Peer(Protocol):
    """A model ready to run on its inputs."""

    def outputs(self) -> list[np.ndarray]: ...
    def times(self, seconds: float) -> list[float]:
        """Return the milliseconds of each run."""


def time_runs(run: Callable[[], object], seconds: float) -> list[float]:
    times: list[float] = []
    end = time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        times.append((time.perf_counter() - start) * 1e3)
    return times


class OnnxRuntime:
    """onnxruntime. Inputs and outputs are bound once, so that a run copies no array in Python."""

    def __init__(self, model: Path, inputs: Inputs, threads: int) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self.session = self.make_session(model, options)
        self.binding = self.session.io_binding()
        for name, value in inputs.items():
            self.binding.bind_cpu_input(name, value)
        for output in self.session.get_outputs():
            self.binding.bind_output(output.name)
        self.session.run_with_iobinding(self.binding)

    def make_session(self, model: Path, options: Any) -> Any:
        import onnxruntime

        providers = ["CPUExecutionProvider"]
        return onnxruntime.InferenceSession(str(model), options, providers=providers)

    def outputs(self) -> list[np.ndarray]:
        return list(self.binding.copy_outputs_to_cpu())

    def times(self, seconds: float) -> list[float]:
        return time_runs(lambda: self.session.run_with_iobinding(self.binding), seconds)


class Provider(OnnxRuntime):
    """Backplane's execution provider inside onnxruntime. An unclaimed node is an error: another provider's node
    would falsify the measurement."""

    def make_session(self, model: Path, options: Any) -> Any:
        import onnxruntime
        import onnxruntime_ep_backplane as package

        onnxruntime.register_execution_provider_library("backplane", package.get_library_path())
        devices = [device for device in onnxruntime.get_ep_devices()
                   if device.ep_name == package.get_ep_name()]
        threads = str(options.intra_op_num_threads)
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        options.add_provider_for_devices(devices[:1], {"device": "cpu", "threads": threads})
        return onnxruntime.InferenceSession(str(model), options)


class OpenVino:
    """OpenVINO, one request at a time. OpenVINO computes in float32 as the other peers do, even on processors
    with bfloat16."""

    def __init__(self, model: Path, inputs: Inputs, threads: int) -> None:
        import openvino

        settings = {
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": 1,
            "INFERENCE_PRECISION_HINT": "f32",
        }
        compiled = openvino.Core().compile_model(str(model), "CPU", settings)
        self.request = compiled.create_infer_request()
        self.inputs = inputs  # the request reads their memory
        for name, value in inputs.items():
            self.request.set_tensor(name, openvino.Tensor(value, shared_memory=True))
        self.num_outputs = len(compiled.outputs)
        self.request.infer()

    def outputs(self) -> list[np.ndarray]:
        return [self.request.get_output_tensor(i).data.copy() for i in range(self.num_outputs)]

    def times(self, seconds: float) -> list[float]:
        return time_runs(self.request.infer, seconds)


class Iree:
    """IREE, run by its command line tools. The compiled module is kept beside the model."""

    def __init__(self, model: Path, inputs: Inputs, threads: int) -> None:
        self.tools = Path(sys.executable).parent
        self.folder = model.parent
        graph = onnx.load(model).graph
        self.num_outputs = len(graph.output)
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
        self.arguments = [f"--module={module}", function, *device]
        for value in graph.input:  # IREE takes inputs by position
            path = self.folder / f"iree-input-{file_name(value.name)}"
            np.save(path, inputs[value.name])
            self.arguments.append(f"--input=@{path}")

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
    """TVM with its default pipeline, not tuned."""

    def __init__(self, model: Path, inputs: Inputs, threads: int) -> None:
        os.environ["TVM_NUM_THREADS"] = str(threads)
        import tvm
        from tvm import relax
        from tvm.relax.frontend.onnx import from_onnx

        graph = onnx.load(model)
        module = from_onnx(graph, keep_params_in_input=False)
        target = tvm.target.Target({"kind": "llvm", **host_cpu(tvm), "num-cores": os.cpu_count()})
        self.machine = relax.VirtualMachine(tvm.compile(module, target=target), tvm.cpu())
        values = [tvm.runtime.tensor(inputs[value.name]) for value in graph.graph.input]
        self.machine.set_input("main", *values)
        self.machine.invoke_stateful("main")

    def outputs(self) -> list[np.ndarray]:
        result: Any = self.machine.get_outputs("main")
        return [x.numpy() for x in ([result] if hasattr(result, "numpy") else result)]

    def times(self, seconds: float) -> list[float]:
        return time_runs(lambda: self.machine.invoke_stateful("main"), seconds)


def host_cpu(tvm: Any) -> dict[str, str]:
    """Return the name of this CPU for TVM's LLVM."""
    return {"mcpu": str(tvm.get_global_func("target.llvm_get_system_cpu")())}


PEERS: dict[str, Callable[[Path, Inputs, int], Peer]] = {
    "onnxruntime": OnnxRuntime,
    "provider": Provider,
    "openvino": OpenVino,
    "iree": Iree,
    "tvm": Tvm,
}


def main() -> None:
    peer_name, model, inputs, threads, folder = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # the output of libraries must not mix with the answers
    start = time.perf_counter()
    peer = PEERS[peer_name](Path(model), dict(np.load(inputs)), int(threads))
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
