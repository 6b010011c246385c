# SPDX-License-Identifier: Apache-2.0
"""ONNX's own node cases. To compute the cases takes ten seconds, so the first test of a build keeps them in the cache of the tests."""

import os
import pickle
import warnings
from pathlib import Path

import numpy as np
import onnx


def computed_cases():
    from onnx.backend.test.case.node import collect_testcases
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(collect_testcases(None))


def all_cases():
    if "BACKPLANE_CACHE_DIR" not in os.environ:
        return computed_cases()
    path = Path(os.environ["BACKPLANE_CACHE_DIR"]) / f"onnx-{onnx.__version__}-numpy-{np.__version__}.pickle"
    if not path.exists():
        part = path.with_suffix(f".{os.getpid()}")
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(pickle.dumps(computed_cases()))
        part.rename(path)
    return pickle.loads(path.read_bytes())
