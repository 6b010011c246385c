# SPDX-License-Identifier: Apache-2.0
"""Backplane's execution provider for ONNX Runtime.

    import onnxruntime
    import onnxruntime_ep_backplane as backplane

    onnxruntime.register_execution_provider_library("backplane", backplane.get_library_path())

The package can be imported without onnxruntime, and does not depend on it."""

import ctypes
import json
import os
import sys
from pathlib import Path
from typing import Any

__version__ = "0.1.0"
__all__ = ["get_ep_name", "get_ep_names", "get_library_path", "report"]

_LIBRARY = "libbackplane-onnxruntime.so"

# Only onnxruntime 1.23 and later have the function that registers the library.
_runtime = sys.modules.get("onnxruntime")
if _runtime is not None and not hasattr(_runtime, "register_execution_provider_library"):
    raise ImportError(f"this is onnxruntime {getattr(_runtime, '__version__', 'of no version')}, and the provider {__version__} "
                      "needs 1.23 or a later 1.x; upgrade the package onnxruntime")


def get_library_path() -> str:
    """Return the path of the library to register: BACKPLANE_ONNXRUNTIME_LIBRARY if it is set, otherwise the library
    in the package."""
    given = os.environ.get("BACKPLANE_ONNXRUNTIME_LIBRARY")
    path = Path(given) if given else Path(__file__).resolve().parent / _LIBRARY
    if not path.is_file():
        raise FileNotFoundError(
            f"there is no {path}; " + ("BACKPLANE_ONNXRUNTIME_LIBRARY names it" if given else
                                       "build the package where Backplane is installed, or set "
                                       "BACKPLANE_ONNXRUNTIME_LIBRARY to the path of " + _LIBRARY))
    return str(path.resolve())


def get_ep_name() -> str:
    """Return the name of the provider, as in `providers=[...]`."""
    return "backplane"


def get_ep_names() -> list[str]:
    """Return the names of all providers of the library."""
    return [get_ep_name()]


def report() -> list[dict[str, Any]]:
    """Return the claims of each open session, the newest last. Each session is a dict of `graph`, `device`,
    `target`, the numbers `nodes`, `claimed` and `parts`, and `left`. `left` lists the nodes that other providers
    run, as {`node`, `operator`, `why`}."""
    function = ctypes.CDLL(get_library_path()).bp_onnxruntime_report
    function.restype = ctypes.c_size_t
    function.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    room = 1 << 16
    while True:
        text = ctypes.create_string_buffer(room)
        size = function(text, room)
        if size < room:
            return json.loads(text.value or b"[]")
        room = size + 1
