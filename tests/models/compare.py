# SPDX-License-Identifier: Apache-2.0
"""Run a model through the backplane tool and compare its outputs with stored references."""

import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

RTOL = 1e-3
ATOL = 1e-3  # share of the reference's largest magnitude


class Mismatch(Exception):
    """A difference, or the reason why the outputs could not be compared."""


def file_name(tensor: str) -> str:
    """Return the file of an input or output, named as `backplane run --output-dir` names it."""
    return "".join("_" if c == "/" or c < " " or c == "\x7f" else c for c in tensor) + ".npy"


def worst_error(result: np.ndarray, reference: np.ndarray) -> float:
    """Return the largest difference, as a fraction of the tolerance of its element; infinity if
    a value is not finite."""
    if result.dtype != reference.dtype or result.shape != reference.shape:
        raise Mismatch(f"is {result.dtype} {result.shape}, not {reference.dtype} {reference.shape}")
    if not np.all(np.isfinite(result)):
        return float("inf")
    magnitude = np.abs(reference.astype(np.float64))
    allowed = RTOL * magnitude + ATOL * magnitude.max(initial=0)
    difference = np.abs(result.astype(np.float64) - reference)
    wrong = np.where(difference == 0, 0, difference / np.maximum(allowed, 1e-300))
    return float(wrong.max(initial=0))


def compare_outputs(results: Path, references: Path) -> float:
    """Return the largest error of all files of a folder. Raise Mismatch unless both folders have
    the same files."""
    wanted = sorted(path.name for path in references.glob("*.npy"))
    found = sorted(path.name for path in results.glob("*.npy"))
    if not wanted or wanted != found:
        raise Mismatch(f"outputs are {found}, not {wanted}")
    worst = 0.0
    for name in wanted:
        try:
            error = worst_error(np.load(results / name), np.load(references / name))
        except Mismatch as mismatch:
            raise Mismatch(f"{name} {mismatch}") from None
        if error > 1:
            raise Mismatch(f"{name} differs by {error:.3g} times what is allowed")
        worst = max(worst, error)
    return worst


def run_and_compare(
    tool: Path, model: Path, arguments: Sequence[str], input_name: str, reference: Path
) -> float:
    """Runs a model (ONNX, or compiled) on reference/inputs with further arguments of `backplane
    run`, and return the largest error against reference/outputs, as a fraction of the
    tolerance."""
    value = reference / "inputs" / file_name(input_name)
    with tempfile.TemporaryDirectory() as results:
        command = [str(tool), "run", str(model), *arguments]
        command += ["--input", f"{input_name}={value}", "--output-dir", results]
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", check=False
        )
        if done.returncode != 0:
            raise Mismatch(f"exit {done.returncode}: {done.stderr.strip()}")
        return compare_outputs(Path(results), reference / "outputs")
