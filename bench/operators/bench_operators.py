#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure operators beside a copy of the same bytes or beside a matrix product, on one core.

Each round runs all of them in turn, and least times are compared, so that whatever slows the
machine down hits all alike. An operator's bound is the slower of a copy that moves as many bytes as
its inputs and outputs have, and of its products at the rate of a large matrix product. Exit status
1 if an operator takes more than --limit times its bound: it is a cliff."""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Shape = tuple[int, ...]
SIDE = 512  # of the product that gives the rate


@dataclass
class Case:
    """One operator, and what it moves and multiplies."""

    name: str
    operator: str
    inputs: list[Shape]
    output: Shape
    products: float = 0
    constants: list[Any] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)
    least: float = math.inf  # milliseconds

    def elements(self) -> int:
        """Of inputs, large constants and the output."""
        large = sum(np.asarray(c).size for c in self.constants if np.asarray(c).dtype == np.float32)
        return sum(math.prod(s) for s in self.inputs) + math.prod(self.output) + large


PICTURE: Shape = (1, 64, 56, 56)
ROWS: Shape = (1024, 1024)


def conv(name: str, operator: str, weights: Shape, output: Shape, taps: float, **more: Any) -> Case:
    """A convolution of PICTURE; `taps`: products for each element of the output."""
    values = np.random.default_rng(1).standard_normal(weights).astype(np.float32)
    return Case(name, operator, [PICTURE], output, taps * math.prod(output), [values], more)


def cases() -> list[Case]:
    """The operators, the large families by one or two."""
    ints = np.int64
    unary = ["Relu", "Sigmoid", "Tanh", "Exp", "Log", "Sqrt", "Erf", "Cos", "Floor", "Gelu"]
    unary.append("Softplus")
    result = [Case(op, op, [ROWS], ROWS) for op in unary]
    result += [Case(op, op, [ROWS, ROWS], ROWS) for op in ("Add", "Mul", "Div", "Pow", "Max")]
    result += [
        Case("Add, row", "Add", [ROWS, (1024,)], ROWS),
        Case("Add, column", "Add", [ROWS, (1024, 1)], ROWS),
        Case("Greater", "Greater", [ROWS, ROWS], ROWS),
        Case("Cast", "Cast", [ROWS], ROWS, attributes={"to": TensorProto.FLOAT16}),
        Case("Transpose", "Transpose", [ROWS], ROWS, attributes={"perm": [1, 0]}),
        Case(
            "Transpose 8",
            "Transpose",
            [(8, 512, 256)],
            (8, 256, 512),
            attributes={"perm": [0, 2, 1]},
        ),
        Case(
            "Transpose, heads",
            "Transpose",
            [(1, 512, 16, 64)],
            (1, 16, 512, 64),
            attributes={"perm": [0, 2, 1, 3]},
        ),
        Case(
            "Concat", "Concat", [(32, 511, 64), (32, 1, 64)], (32, 512, 64), attributes={"axis": 1}
        ),
        Case(
            "Concat, last", "Concat", [(1024, 500), (1024, 37)], (1024, 537), attributes={"axis": 1}
        ),
        Case(
            "Slice",
            "Slice",
            [ROWS],
            (1024, 1000),
            constants=[np.array([3], ints), np.array([1003], ints), np.array([1], ints)],
        ),
        Case(
            "Slice, step 2",
            "Slice",
            [ROWS],
            (1024, 512),
            constants=[np.array([value], ints) for value in (0, 1024, 1, 2)],
        ),
        Case(
            "Pad",
            "Pad",
            [PICTURE],
            (1, 64, 58, 58),
            constants=[np.array([0, 0, 1, 1, 0, 0, 1, 1], ints)],
        ),
        Case(
            "Gather",
            "Gather",
            [ROWS],
            (512, 1024),
            constants=[np.arange(512, dtype=ints)[::-1].copy()],
        ),
        Case(
            "Gather, last",
            "Gather",
            [ROWS],
            (1024, 512),
            constants=[np.arange(512, dtype=ints)[::-1].copy()],
            attributes={"axis": 1},
        ),
        Case("Expand", "Expand", [(1, 1024)], ROWS, constants=[np.array(ROWS, ints)]),
        Case("Tile", "Tile", [(256, 256)], ROWS, constants=[np.array([4, 4], ints)]),
        Case(
            "DepthToSpace",
            "DepthToSpace",
            [PICTURE],
            (1, 16, 112, 112),
            attributes={"blocksize": 2},
        ),
        Case(
            "SpaceToDepth", "SpaceToDepth", [PICTURE], (1, 256, 28, 28), attributes={"blocksize": 2}
        ),
        Case("Trilu", "Trilu", [ROWS], ROWS),
        Case("CumSum", "CumSum", [(1024, 1024)], ROWS, constants=[np.array(1, ints)]),
        Case(
            "Resize, nearest",
            "Resize",
            [PICTURE],
            (1, 64, 112, 112),
            constants=[np.zeros(0, np.float32), np.array([1, 1, 2, 2], np.float32)],
            attributes={"mode": "nearest"},
        ),
        Case(
            "Resize, linear",
            "Resize",
            [PICTURE],
            (1, 64, 112, 112),
            constants=[np.zeros(0, np.float32), np.array([1, 1, 2, 2], np.float32)],
            attributes={"mode": "linear"},
        ),
        Case("ReduceSum, rows", "ReduceSum", [ROWS], (1024, 1), constants=[np.array([1], ints)]),
        Case("ReduceSum, columns", "ReduceSum", [ROWS], (1, 1024), constants=[np.array([0], ints)]),
        Case("ReduceMax, all", "ReduceMax", [ROWS], (1, 1)),
        Case("ArgMax", "ArgMax", [ROWS], (1024, 1), attributes={"axis": 1}),
        Case("Softmax", "Softmax", [ROWS], ROWS),
        Case("Softmax, columns", "Softmax", [ROWS], ROWS, attributes={"axis": 0}),
        Case("LayerNormalization", "LayerNormalization", [ROWS, (1024,)], ROWS),
        Case("InstanceNormalization", "InstanceNormalization", [PICTURE, (64,), (64,)], PICTURE),
        Case("LRN", "LRN", [PICTURE], PICTURE, attributes={"size": 5}),
        Case(
            "MaxPool",
            "MaxPool",
            [PICTURE],
            (1, 64, 28, 28),
            attributes={"kernel_shape": [2, 2], "strides": [2, 2]},
        ),
        Case(
            "MaxPool, 3x3",
            "MaxPool",
            [PICTURE],
            (1, 64, 54, 54),
            attributes={"kernel_shape": [3, 3]},
        ),
        Case(
            "AveragePool",
            "AveragePool",
            [PICTURE],
            (1, 64, 54, 54),
            attributes={"kernel_shape": [3, 3]},
        ),
        Case("GlobalAveragePool", "GlobalAveragePool", [PICTURE], (1, 64, 1, 1)),
        Case("MatMul", "MatMul", [(256, 512), (512, 512)], (256, 512), 256.0 * 512 * 512),
        Case("MatMul, vector", "MatMul", [(1, 1024), ROWS], (1, 1024), 1024.0 * 1024),
        Case(
            "MatMul, batches",
            "MatMul",
            [(16, 128, 64), (16, 64, 128)],
            (16, 128, 128),
            16.0 * 128 * 64 * 128,
        ),
        Case(
            "Gemm, transposed",
            "Gemm",
            [(256, 512), (512, 512)],
            (256, 512),
            256.0 * 512 * 512,
            attributes={"transB": 1},
        ),
        conv("Conv 3x3", "Conv", (64, 64, 3, 3), PICTURE, 576, pads=[1, 1, 1, 1]),
        conv("Conv 1x1", "Conv", (64, 64, 1, 1), PICTURE, 64),
        conv(
            "Conv 3x3, stride 2",
            "Conv",
            (64, 64, 3, 3),
            (1, 64, 28, 28),
            576,
            pads=[1, 1, 1, 1],
            strides=[2, 2],
        ),
        conv("Conv, depthwise", "Conv", (64, 1, 3, 3), PICTURE, 9, pads=[1, 1, 1, 1], group=64),
        conv("Conv, 4 groups", "Conv", (64, 16, 3, 3), PICTURE, 144, pads=[1, 1, 1, 1], group=4),
        conv(
            "ConvTranspose 4x4",
            "ConvTranspose",
            (64, 32, 4, 4),
            (1, 32, 112, 112),
            256,
            pads=[1, 1, 1, 1],
            strides=[2, 2],
        ),
        conv(
            "ConvTranspose 3x3",
            "ConvTranspose",
            (64, 32, 3, 3),
            (1, 32, 112, 112),
            144,
            pads=[1, 1, 1, 1],
            strides=[2, 2],
            output_padding=[1, 1],
        ),
        conv(
            "ConvTranspose, groups",
            "ConvTranspose",
            (64, 1, 4, 4),
            (1, 64, 112, 112),
            4,
            pads=[1, 1, 1, 1],
            strides=[2, 2],
            group=64,
        ),
    ]
    return result


def write_model(case: Case, path: Path) -> None:
    """The operator alone."""
    names = [f"x{i}" for i in range(len(case.inputs))]
    inputs = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
        for n, s in zip(names, case.inputs, strict=True)
    ]
    constants = [
        numpy_helper.from_array(np.asarray(c), f"c{i}") for i, c in enumerate(case.constants)
    ]
    kind = {"Cast": TensorProto.FLOAT16, "ArgMax": TensorProto.INT64, "Greater": TensorProto.BOOL}
    output = helper.make_tensor_value_info("y", kind.get(case.operator, TensorProto.FLOAT), None)
    operands = names + [c.name for c in constants]
    node = helper.make_node(case.operator, operands, ["y"], **case.attributes)
    graph = helper.make_graph([node], "operator", inputs, [output], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.save(model, path)


def run(tool: Path, path: Path) -> float:
    """The least milliseconds of a run."""
    command = [str(tool), "bench", str(path), "--json", "--device", "cpu", "--threads", "1"]
    command += ["--runs", "5", "--seconds", "0.1", "--warmup", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    return float(json.loads(done.stdout)["min_ms"])


def copy_ms(elements: int) -> float:
    """The least time of a copy that moves so many floats: half are read and half written."""
    source = np.ones(max(elements // 2, 1), np.float32)
    target = np.zeros_like(source)
    least = math.inf
    for _ in range(10):
        start = time.perf_counter()
        np.copyto(target, source)
        least = min(least, time.perf_counter() - start)
    return least * 1e3


def find_tool(tool: Path) -> Path:
    """The program behind libtool's script of a build folder."""
    build = tool.resolve().parent
    program = build / ".libs" / tool.name
    if not program.exists():
        return tool.resolve()
    os.environ["LD_LIBRARY_PATH"] = str(program.parent)
    os.environ.setdefault("BACKPLANE_PLUGIN_PATH", str(build / "plugins" / "built"))
    return program


def main() -> int:
    """Prints a table in Markdown, the worst first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tool", type=Path, default=Path("backplane"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=10)
    options = parser.parse_args()
    tool = find_tool(options.tool)
    square = (SIDE, SIDE)
    unit = Case("product", "MatMul", [square, square], square, float(SIDE) ** 3)
    everything = [unit, *cases()]
    copies: dict[int, float] = {}
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        for i, case in enumerate(everything):
            write_model(case, Path(folder) / f"{i}.onnx")
        for _ in range(options.rounds):
            for i, case in enumerate(everything):
                try:
                    case.least = min(case.least, run(tool, Path(folder) / f"{i}.onnx"))
                except (RuntimeError, subprocess.TimeoutExpired) as error:
                    print(f"{case.name}: {error}", file=sys.stderr)
                copies[i] = min(copies.get(i, math.inf), copy_ms(case.elements()))
    rate = unit.products / unit.least
    rows = []
    for i, case in enumerate(everything):
        bound = max(copies[i], case.products / rate)
        kind = "copy" if bound == copies[i] else "product"
        rows.append((case.least / bound, case, kind, bound))
        failures += not case.least / bound <= options.limit
    print("| operator | ms | ns an element | bound | times its bound |")
    print("|---|---|---|---|---|")
    for ratio, case, kind, bound in sorted(rows, key=lambda row: -row[0]):
        each = case.least * 1e6 / max(math.prod(case.output), math.prod(case.inputs[0]))
        print(f"| {case.name} | {case.least:.3f} | {each:.2f} | {kind} {bound:.3f} | {ratio:.1f} |")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
