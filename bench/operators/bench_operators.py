#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure operators one at a time, and compare them with a copy, with a matrix product and with
other programs.

Each round runs all programs in turn, and least times are compared, so that a slow phase of
the machine affects all programs alike. The time of a Relu of one element is subtracted from
each time, because calls from Python cost more than calls from C.

An operator's bound is the longer of two times: a copy of as many bytes as its inputs and
outputs have, and its multiplications at the rate of a large matrix product. --peer
(onnxruntime, openvino) runs the same operator there, too, but operators of float64 not in
OpenVINO, which computes them in float32. Exit status 1 if an operator takes more than --limit
times its bound, or more than --peer-limit times the time of the fastest peer."""

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "models"))
from cases import Case, cases  # noqa: E402
from peers import PEERS  # noqa: E402
from tool import find_tool  # noqa: E402

SIDE = 512  # extents of the product that gives the rate
UNIT = Case("product", "MatMul", [(SIDE, SIDE), (SIDE, SIDE)], products=float(SIDE) ** 3)
EMPTY = Case("empty", "Relu", [(1,)])
OURS = "backplane"

Runner = Callable[[float], list[float]]  # seconds to milliseconds of runs


@dataclass
class Row:
    """An operator, the programs that run it, and their least milliseconds."""

    case: Case
    runners: dict[str, Runner] = field(default_factory=dict)
    least: dict[str, float] = field(default_factory=dict)
    copy_ms: float = math.inf

    def note(self, program: str, times: list[float]) -> None:
        self.least[program] = min([self.least.get(program, math.inf), *times])


def our_runner(tool: Path, path: Path, threads: int) -> Runner:
    """Backplane: the operator, compiled once. Each call runs `backplane bench`."""
    library = path.with_suffix(".so")
    compiled = [str(tool), "compile", str(path), "-o", str(library)]
    subprocess.run(compiled, capture_output=True, text=True, timeout=600, check=True)

    def run(seconds: float) -> list[float]:
        command = [str(tool), "bench", str(library), "--json", "--device", "cpu"]
        command += ["--threads", str(threads), "--runs", "3", "--warmup", "1"]
        command += ["--seconds", str(seconds)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
        return [float(json.loads(done.stdout)["min_ms"])]

    return run


def prepare(row: Row, folder: Path, tool: Path, peers: list[str], threads: int) -> None:
    """Compile the operator in every program. A program that fails is left out, with its reason."""
    path = folder / f"{len(list(folder.glob('*.onnx')))}.onnx"
    onnx.save(row.case.model(), path)
    makers: dict[str, Callable[[], Runner]] = {OURS: lambda: our_runner(tool, path, threads)}
    for peer in peers:
        if peer == "openvino" and row.case.dtype == "float64":
            continue
        makers[peer] = lambda peer=peer: PEERS[peer](path, row.case.values(), threads).times
    for program, make in makers.items():
        try:
            row.runners[program] = make()
        except subprocess.SubprocessError as error:
            print(f"{row.case.name}: {getattr(error, 'stderr', error)}", file=sys.stderr)
        except Exception as error:  # whatever a peer raises
            print(f"{row.case.name}: {program}: {str(error).splitlines()[0]}", file=sys.stderr)


def copy_ms(num_bytes: int) -> float:
    """Return the least time of a copy that moves a number of bytes: half of them are read, and
    half are written."""
    source = np.ones(max(num_bytes // 2, 1), np.uint8)
    target = np.zeros_like(source)
    least = math.inf
    for _ in range(10):
        start = time.perf_counter()
        np.copyto(target, source)
        least = min(least, time.perf_counter() - start)
    return least * 1e3


def measure(rows: list[Row], rounds: int, seconds: float) -> None:
    for _ in range(rounds):
        for row in rows:
            for program, run in row.runners.items():
                row.note(program, run(seconds))
            row.copy_ms = min(row.copy_ms, copy_ms(row.case.num_bytes()))


def report(rows: list[Row], options: argparse.Namespace) -> int:
    """Print a table in Markdown, the worst operator first; return the number of operators that
    miss a limit."""
    empty, unit, *others = rows
    net: Callable[[Row, str], float] = lambda row, program: max(  # noqa: E731
        row.least.get(program, math.inf) - empty.least[program], 1e-6
    )
    rate = unit.case.products / net(unit, OURS)
    lines: list[tuple[float, str]] = []
    ratios: list[float] = []
    failures = 0
    for row in others:
        bound = max(row.copy_ms, row.case.products / rate)
        ours = net(row, OURS)
        times = {peer: net(row, peer) for peer in options.peer if peer in row.least}
        text = f"| {row.case.name} | {ours:.3f} | {ours / bound:.1f} |"
        order = ours / bound
        failures += not ours / bound <= options.limit
        for peer in options.peer:
            text += f" {times[peer]:.3f} |" if peer in times else " |"
        if times:
            order = ours / min(times.values())
            ratios.append(order)
            text += f" {order:.2f} |"
            failures += not order <= options.peer_limit
        elif options.peer:
            text += " |"
        lines.append((order, text))
    ratio = ["ratio"] if options.peer else []
    heads = ["operator", "ms", "times its bound", *options.peer, *ratio]
    print("| " + " | ".join(heads) + " |\n" + "|---" * len(heads) + "|")
    print("\n".join(text for _, text in sorted(lines, reverse=True)))
    if ratios:
        print(f"\nGeometric mean of {len(ratios)} ratios: {statistics.geometric_mean(ratios):.2f}")
    return failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of cases, or their beginnings")
    parser.add_argument("--tool", type=Path, default=Path("backplane"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.1, help="of each program in a round")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--limit", type=float, default=10)
    parser.add_argument("--peer", action="append", default=[], choices=["onnxruntime", "openvino"])
    parser.add_argument("--peer-limit", type=float, default=2)
    options = parser.parse_args()
    tool = find_tool(options.tool)
    chosen = [c for c in cases() if not options.names or c.name.startswith(tuple(options.names))]
    rows = [Row(case) for case in (EMPTY, UNIT, *chosen)]
    with tempfile.TemporaryDirectory() as folder:
        for row in rows:
            prepare(row, Path(folder), tool, options.peer, options.threads)
        measure(rows, options.rounds, options.seconds)
    return 1 if report(rows, options) else 0


if __name__ == "__main__":
    sys.exit(main())
