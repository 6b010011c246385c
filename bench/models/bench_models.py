#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measure real models through the backplane tool beside onnxruntime and, on request, OpenVINO,
IREE and TVM.

Each program runs in its own process; rounds go round-robin over the programs, so that a slow phase
of the machine affects all programs alike; the minima are compared. Before the rounds every model is
compiled with an empty cache and started; its peak memory is measured, and its outputs are compared
with the outputs of onnxruntime. Exit status 1 if a model failed or its outputs are wrong; missed
bars are marked, but do not count as failures."""

import argparse
import ctypes
import json
import math
import os
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, AnyStr, NamedTuple

import numpy as np
import onnx

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "models"))
from fetch_models import FetchError, fetch  # noqa: E402
from make_references import make_references  # noqa: E402

from compare import Mismatch, compare_outputs, file_name, run_and_compare  # noqa: E402
from encoder import write_encoder  # noqa: E402
from models import CASES, ENCODER_WEIGHTS, FILES, Case  # noqa: E402
from tool import find_tool  # noqa: E402

MIB = 1 << 20
DIGITS = Case("digits", "digits.onnx", "image", (1, 1, 28, 28), kinds=("random",))
ENCODER = Case("encoder", "encoder.onnx", "input_ids", (1, 128), kinds=("tokens",))
OTHERS = (DIGITS, ENCODER)  # shown beside the models; not in the means

# The bars: limits of measured values. A value misses its bar if it exceeds the bar by more than 10 %.
SLACK = 1.1
MAX_RATIO = 2.5  # largest ratio to onnxruntime for a model
MAX_MEAN_RATIO = 1.5  # the geometric mean over the models
MAX_COMPILE_S = 30.0
MAX_START_MS = 50.0
STARTS = 5

# Seconds after which a peer is given up: for compiling, and in addition to the requested time of a run.
COMPILE_PATIENCE_S = 300.0
ROUND_PATIENCE_S = 30.0


def run_bound(parameters: int, planned: int) -> float:
    """Return the bytes that loading and running an artifact may need more than an idle process."""
    return 1.1 * parameters + planned + 20 * MIB


def compile_bound(parameters: int) -> float:
    """Return the bytes that compiling a model may need, including the C compiler."""
    return 2.0 * parameters + 200 * MIB


class Finished(NamedTuple):
    """A program that has ended."""

    stdout: str
    seconds: float
    peak_bytes: int


class Failure(Exception):
    """A program that failed, and its message."""


def pipe(stream: IO[AnyStr] | None) -> IO[AnyStr]:
    assert stream is not None, "the process was started with pipes"
    return stream


def adopt_orphans() -> None:
    """Make this process the parent of the orphans of a shell that it started."""
    pr_set_child_subreaper = 36
    if ctypes.CDLL(None, use_errno=True).prctl(pr_set_child_subreaper, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def run_program(command: list[str], environment: dict[str, str] | None = None) -> Finished:
    """Run a program to its end.

    Linux includes the memory of a process before exec in its peak memory, and this process is large.
    Therefore a shell forks the program, and this process adopts and reaps the program.
    """
    script = 'exec 3<&0; { read go <&3; exec "$@" 3<&-; } >"$OUT" 2>"$ERR" & echo $!'
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder) / "out", Path(folder) / "err"
        variables = os.environ | (environment or {}) | {"OUT": str(out), "ERR": str(err)}
        shell = subprocess.Popen(
            ["sh", "-c", script, "sh", *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=variables,
        )
        with shell:
            program = int(pipe(shell.stdout).readline())
            shell.wait()
            start = time.perf_counter()
            pipe(shell.stdin).write(b"go\n")
        _, status, usage = os.wait4(program, 0)
        seconds = time.perf_counter() - start
        if status != 0:
            code = os.waitstatus_to_exitcode(status)
            message = err.read_text(errors="replace").strip()
            raise Failure(f"{' '.join(command[:2])}: exit {code}: {message}")
        return Finished(out.read_text(), seconds, usage.ru_maxrss * 1024)


@dataclass
class Result:
    """The measurements of one model."""

    case: str
    error: str = ""
    worst_error: float = 0  # largest error of Backplane's outputs, as a fraction of the allowed error
    compile_s: float = 0
    start_ms: float = 0  # exec to exit of `backplane run`, less the run itself
    load_ms: float = 0  # time that the tool reports
    parameter_bytes: int = 0
    planned_bytes: int = 0
    peak_bytes: int = 0  # peak memory of a run, beyond that of an idle process
    compile_peak_bytes: int = 0
    ms: dict[str, list[float]] = field(default_factory=dict)  # "PROGRAM THREADS" to times
    peer_errors: dict[str, str] = field(default_factory=dict)

    def ratio(self, peer: str, threads: int) -> float | None:
        """Backplane's least time divided by the peer's."""
        ours = self.ms.get(f"backplane {threads}")
        theirs = self.ms.get(f"{peer} {threads}")
        if not ours or not theirs:
            return None
        return min(ours) / min(theirs)


# ---- The programs that are measured -------------------------------------------------------------


def run_bench(tool: Path, library: Path, threads: int, seconds: float) -> dict[str, Any]:
    """Return the report of `backplane bench`. A slow model runs a few times instead of for a fixed
    time."""
    command = [str(tool), "bench", str(library), "--threads", str(threads), "--json"]
    command += ["--seconds", str(seconds), "--runs", "2", "--warmup", "1"]
    report: dict[str, Any] = json.loads(run_program(command).stdout)
    return report


class PeerProcess:
    """A process of peers.py that stays alive for all rounds."""

    def __init__(self, peer: str, model: Path, inputs: Path, threads: int) -> None:
        self.outputs = model.parent / f"outputs-{peer}-{threads}"
        self.log = (model.parent / f"{peer}-{threads}.log").open("w+")
        script = str(Path(__file__).with_name("peers.py"))
        self.process = subprocess.Popen(
            [sys.executable, script, peer, str(model), str(inputs), str(threads)]
            + [str(self.outputs)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
        )
        try:
            self.compile_s = float(self.answer(COMPILE_PATIENCE_S)["compile_s"])
        except Failure:
            self.close()
            raise

    def answer(self, patience: float) -> dict[str, Any]:
        stdout = pipe(self.process.stdout)
        if not select.select([stdout], [], [], patience)[0]:
            self.process.kill()
            raise Failure(f"gave up after {patience:.0f} s")
        line = stdout.readline()
        if not line:
            self.log.seek(0)
            said = [text for text in self.log.read().splitlines() if "Error" in text]
            raise Failure(said[-1] if said else "ended without a word")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def times(self, seconds: float) -> list[float]:
        stdin = pipe(self.process.stdin)
        stdin.write(f"{seconds}\n")
        stdin.flush()
        times: list[float] = self.answer(ROUND_PATIENCE_S + seconds)["ms"]
        return times

    def close(self) -> None:
        with self.process, self.log:
            pipe(self.process.stdin).close()


# ---- One model ----------------------------------------------------------------------------------


@dataclass
class Bench:
    """The settings of the measurements, and the folders of the files."""

    tool: Path
    files: Path
    work: Path
    threads: list[int]
    peers: list[str]
    rounds: int
    seconds: float

    def references(self, case: Case) -> list[Path]:
        folder = self.work / "references" / case.name
        if not folder.is_dir():
            make_references(case, self.files, self.work / "references")
        return [folder / kind for kind in case.kinds]

    def measure(self, case: Case) -> Result:
        result = Result(case.name)
        folder = self.work / case.name
        folder.mkdir(parents=True, exist_ok=True)
        try:
            references = self.references(case)
            library = folder / "model.so"
            self.compile(case, library, result)
            result.worst_error = max(
                run_and_compare(self.tool, library, [], case.input, reference)
                for reference in references
            )
            value = references[-1] / "inputs" / file_name(case.input)
            self.start(case, library, value, result)
            self.latency(case, library, references[-1], value, result)
        except (Failure, Mismatch) as error:
            result.error = str(error)
        return result

    def compile(self, case: Case, library: Path, result: Result) -> None:
        """Cold: the cache of compiled code is empty."""
        command = [str(self.tool), "compile", str(self.files / case.file), "--target", "c"]
        command += ["--shape", case.shape_option, "-o", str(library)]
        with tempfile.TemporaryDirectory() as cache:
            finished = run_program(command, {"BACKPLANE_CACHE_DIR": cache})
        result.compile_s, result.compile_peak_bytes = finished.seconds, finished.peak_bytes

    def start(self, case: Case, library: Path, value: Path, result: Result) -> None:
        idle = run_program([str(self.tool), "--version"])
        with tempfile.TemporaryDirectory() as outputs:
            command = [str(self.tool), "run", str(library), "--input", f"{case.input}={value}"]
            command += ["--output-dir", outputs, "--json"]
            runs = [run_program(command) for _ in range(STARTS)]
        reports = [json.loads(run.stdout) for run in runs]
        times = zip(runs, reports, strict=True)
        result.start_ms = min(run.seconds * 1e3 - report["run_ms"] for run, report in times)
        result.load_ms = min(report["load_ms"] for report in reports)
        result.peak_bytes = max(run.peak_bytes for run in runs) - idle.peak_bytes

    def latency(
        self, case: Case, library: Path, reference: Path, value: Path, result: Result
    ) -> None:
        fixed, inputs = (self.work / case.name / name for name in ("fixed.onnx", "inputs.npz"))
        fix_shapes(self.files / case.file, case, fixed)
        np.savez(inputs, **{case.input: np.load(value)})
        peers: dict[str, PeerProcess] = {}
        try:
            for peer in self.peers:
                for threads in self.threads:
                    name = f"{peer} {threads}"
                    try:
                        peers[name] = PeerProcess(peer, fixed, inputs, threads)
                        compare_outputs(peers[name].outputs, reference / "outputs")
                    except (Failure, Mismatch) as error:
                        result.peer_errors[name] = str(error)
            for _ in range(self.rounds):
                self.round(library, peers, result)
        finally:
            for process in peers.values():
                process.close()

    def round(self, library: Path, peers: dict[str, PeerProcess], result: Result) -> None:
        """Run every program once; drop a peer that fails."""
        for threads in self.threads:
            report = run_bench(self.tool, library, threads, self.seconds)
            times = result.ms.setdefault(f"backplane {threads}", [])
            times += [report["min_ms"], report["median_ms"]]
            result.parameter_bytes = report["parameter_bytes"]
            result.planned_bytes = report["planned_bytes"]
        for name, process in list(peers.items()):
            try:
                result.ms.setdefault(name, []).extend(process.times(self.seconds))
            except Failure as failure:
                result.peer_errors[name] = str(failure)
                peers.pop(name).close()


def fix_shapes(model: Path, case: Case, fixed: Path) -> None:
    """Return the model with the case's shape written into it, for peers that require fixed shapes."""
    graph = onnx.load(model)
    value = next(value for value in graph.graph.input if value.name == case.input)
    del value.type.tensor_type.shape.dim[:]
    for extent in case.shape:
        value.type.tensor_type.shape.dim.add().dim_value = extent
    for output in graph.graph.output:
        for dim in output.type.tensor_type.shape.dim:
            if dim.dim_value <= 0:
                dim.Clear()
    del graph.graph.value_info[:]
    onnx.save(graph, fixed)


# ---- Report -------------------------------------------------------------------------------------


def marked(value: float, bar: float, text: str) -> str:
    return text + ("!" if value > bar * SLACK else "")


def print_model(result: Result, threads: list[int], peers: list[str]) -> None:
    if result.error:
        print(f"{result.case:<18} FAILED: {result.error}", flush=True)
        return
    limit = run_bound(result.parameter_bytes, result.planned_bytes) / MIB
    compile_limit = compile_bound(result.parameter_bytes) / MIB
    peak, compile_peak = result.peak_bytes / MIB, result.compile_peak_bytes / MIB
    print(
        f"{result.case:<18} error {result.worst_error:.2g} of the allowed"
        f"; compile {marked(result.compile_s, MAX_COMPILE_S, f'{result.compile_s:.1f} s')}"
        f"; start {marked(result.start_ms, MAX_START_MS, f'{result.start_ms:.0f} ms')}"
        f" (load {result.load_ms:.1f})"
        f"; peak {marked(peak, limit, f'{peak:.1f}')} of {limit:.1f} MiB"
        f", compiling {marked(compile_peak, compile_limit, f'{compile_peak:.0f}')}"
        f" of {compile_limit:.0f} MiB"
    )
    for count in threads:
        ours = result.ms[f"backplane {count}"]
        line = f"  {count} thread{'s' if count > 1 else ' '} {min(ours):9.3f} ms"
        for peer in peers:
            name = f"{peer} {count}"
            ratio = result.ratio(peer, count)
            if ratio is not None:
                bar = {"onnxruntime": MAX_RATIO, "iree": 1.0}.get(peer, math.inf)
                least = min(result.ms[name])
                line += f"; {peer} {least:.3f}, {marked(ratio, bar, f'{ratio:.2f}x')}"
            if name in result.peer_errors:
                line += f"; {peer}: {result.peer_errors[name]}"
        print(line, flush=True)


def print_means(results: Iterable[Result], threads: list[int], peers: list[str]) -> None:
    others = [case.name for case in OTHERS]
    counted = [result for result in results if result.case not in others]
    for peer in peers:
        for count in threads:
            ratios = [r for result in counted if (r := result.ratio(peer, count)) is not None]
            if ratios:
                mean = statistics.geometric_mean(ratios)
                bar = {"onnxruntime": MAX_MEAN_RATIO, "iree": 1.0}.get(peer, math.inf)
                text = marked(mean, bar, f"{mean:.2f}x")
                print(f"geometric mean to {peer}, {count} threads, {len(ratios)} models: {text}")


def add_cases(parser: argparse.ArgumentParser) -> None:
    names = [case.name for case in (*CASES, *OTHERS)]

    def case_name(text: str) -> str:
        if text not in names:
            raise argparse.ArgumentTypeError(f"no case {text}; there are {', '.join(names)}")
        return text

    parser.add_argument("cases", nargs="*", type=case_name, metavar="CASE",
                        help=f"of {', '.join(names)}; without a CASE all run")


def make_files(files: Path) -> None:
    """Fetch or write the files of all cases."""
    try:
        fetch(list(FILES), files)
    except (FetchError, OSError) as error:
        sys.exit(f"{Path(sys.argv[0]).stem}: {error}")
    shutil.copy(ROOT / "examples" / "digits" / DIGITS.file, files)
    write_encoder(files / ENCODER_WEIGHTS.name, files / ENCODER.file)


def thread_counts(text: str) -> list[int]:
    return [int(count) for count in text.split(",")]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "tool", type=Path, help="the backplane tool, installed or in a build folder"
    )
    add_cases(parser)
    parser.add_argument("--work", type=Path, default=Path("_build/bench-models"))
    parser.add_argument("--files", type=Path, help="the folder of fetch_models.py (WORK/files)")
    parser.add_argument("--threads", type=thread_counts, default=[1, 2], metavar="N[,N...]")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.4, help="of each program in a round")
    parser.add_argument(
        "--provider", action="store_true",
        help="beside Backplane's execution provider inside of onnxruntime (onnxruntime_ep_backplane), too")
    parser.add_argument("--openvino", action="store_true", help="beside OpenVINO, too")
    parser.add_argument("--iree", action="store_true", help="beside IREE, too")
    parser.add_argument("--tvm", action="store_true", help="beside untuned TVM, for information")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    return parser.parse_intermixed_args()


def main() -> None:
    arguments = parse_arguments()
    adopt_orphans()
    files = arguments.files or arguments.work / "files"
    make_files(files)
    peers = ["onnxruntime"] + ["provider"] * arguments.provider + ["openvino"] * arguments.openvino
    peers += ["iree"] * arguments.iree + ["tvm"] * arguments.tvm
    bench = Bench(
        find_tool(arguments.tool),
        files.resolve(),
        arguments.work.resolve(),
        arguments.threads,
        peers,
        arguments.rounds,
        arguments.seconds,
    )
    print("Least times; ratios are ours by theirs; ! marks a bar that is missed by over 10 %.")
    results = []
    for case in (*CASES, *OTHERS):
        if not arguments.cases or case.name in arguments.cases:
            results.append(bench.measure(case))
            print_model(results[-1], bench.threads, peers)
    print_means(results, bench.threads, peers)
    if arguments.json:
        figures = [asdict(result) for result in results]
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n")
    sys.exit(1 if any(result.error for result in results) else 0)


if __name__ == "__main__":
    main()
