# SPDX-License-Identifier: Apache-2.0
"""Ray: devices as resources of a node, and models in actors. See docs/ray.md.

    ray start --head --resources="$(python3 -m backplane.ray)"

    dataset.map_batches(backplane.ray.Predictor, fn_constructor_args=(backplane.ray.put("net.so"),),
                        resources=backplane.ray.request("cuda"), batch_size=32, compute=ActorPoolStrategy(size=2))"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import stat
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import IO, Any

import numpy as np
import ray

import backplane
from . import Model, Module, Preferences, Target, errors

PREFIX = "backplane:"
# The time that an actor waits for a device that an ending actor still holds.
CLAIM_SECONDS = 30.0


# ---- Resources ---------------------------------------------------------------------------------------


def _kind(device: backplane.Device) -> str:
    return str(device).split(":", maxsplit=1)[0]


def resources() -> dict[str, int]:
    """Return the devices of this machine as resources of its node: {"backplane:cuda": 2, "backplane:cpu": 1}."""
    return {PREFIX + kind: count for kind, count in Counter(map(_kind, backplane.devices())).items()}


def request(kind: str, share: float = 1.0) -> dict[str, float]:
    """Return the resources of an actor that takes a device of a kind, or a share of a device: with 0.5 two actors
    use one device. An error is raised if no node of the cluster has the kind; Ray itself would wait for such a
    node."""
    if not 0 < share <= 1:
        raise errors.InvalidValueError(f"an actor takes a device or a share of one, more than 0 and at most 1; not {share}")
    there = sorted(name for name in ray.cluster_resources() if name.startswith(PREFIX))
    if PREFIX + kind not in there:
        raise errors.NotFoundError(
            f"no node of the cluster has {PREFIX + kind!r}; the cluster has {', '.join(there) or 'no device of Backplane'}: start "
            'the nodes that have devices with ray start --resources="$(python3 -m backplane.ray)"')
    return {PREFIX + kind: share}


# ---- Files that a user's actors on one machine share ---------------------------------------------------


def _folder() -> Path:
    """Return the user's folder for libraries and locks. Only the user may write to the folder, because code is
    loaded from it."""
    folder = Path(tempfile.gettempdir()) / f"backplane-ray-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    about = folder.lstat()
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.getuid() or about.st_mode & 0o022:
        raise errors.InvalidValueError(f"{folder} has to be a folder of this user that nobody else may write to; remove it")
    return folder


def _lock(path: Path, how: int) -> IO[bytes] | None:
    """Return the file, locked in the way `how` until it is closed or the process ends; None if another process holds
    a conflicting lock."""
    file = open(path, "ab")  # pylint: disable=consider-using-with
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


def _remove_unused(folder: Path) -> None:
    """Remove the libraries that no process has locked."""
    for path in folder.glob("*.so"):
        unused = _lock(path, fcntl.LOCK_EX)
        if unused:
            path.unlink(missing_ok=True)
            unused.close()


def _store(artifact: np.ndarray[Any, Any]) -> tuple[Path, IO[bytes]]:
    """Return the file of an artifact, and the lock that protects the file from removal. All actors map one file, so
    its code and parameters are in memory once."""
    folder = _folder()
    path = folder / f"{hashlib.sha256(artifact.data).hexdigest()}.so"
    with open(folder / "lock", "ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            _remove_unused(folder)
            partial = path.with_suffix(".partial")
            try:
                partial.write_bytes(artifact.data)  # numpy's tofile ignores a full disk that it finds when it closes the file
                partial.rename(path)
            finally:
                partial.unlink(missing_ok=True)
        held = _lock(path, fcntl.LOCK_SH)
    if held is None:
        raise errors.BackplaneError(f"{path} is locked by another program")
    return path, held


# ---- Artifacts -----------------------------------------------------------------------------------------


def put(source: str | PathLike[str] | Module, targets: str | Target | Sequence[str | Target] | None = None,
        shapes: Mapping[str, Sequence[int]] | None = None) -> ray.ObjectRef:
    """Put a model into Ray's object store. Each node fetches the model from the store once. `source` is a library
    that `backplane compile` wrote, a module that backplane.compile returned, or an ONNX file. An ONNX file is
    compiled here for `targets` with `shapes`, both as for backplane.compile."""
    if isinstance(source, (str, PathLike)) and str(source).lower().endswith(".onnx"):
        if targets is None:
            raise errors.InvalidValueError(f'{source}: an ONNX file is compiled for the targets of the nodes; name them, for example "c,opencl"')
        source = backplane.compile(Path(source), targets, shapes)
    elif targets is not None or shapes is not None:
        raise errors.InvalidValueError("targets and shapes are for an ONNX file; a compiled model has its own")
    if not isinstance(source, Module):
        return ray.put(np.fromfile(source, np.uint8))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.so"
        source.export_library(path)
        return ray.put(np.fromfile(path, np.uint8))


# ---- Actors --------------------------------------------------------------------------------------------


def _claim(kind: str, share: float) -> tuple[backplane.Device, IO[bytes]]:
    """Return a device of this node that no other actor has, and the lock that reserves the device until this process
    ends."""
    devices = [device for device in backplane.devices() if _kind(device) == kind]
    if not devices:
        backplane.select_device(kind)  # says why there is none
    node = ray.get_runtime_context().get_node_id()
    deadline = time.monotonic() + CLAIM_SECONDS
    while True:
        for turn in range(int(1 / share + 1e-6)):
            for device in devices:
                lock = _lock(_folder() / f"{node}-{kind}-{device.device_id}-{turn}.lock", fcntl.LOCK_EX)
                if lock:
                    return device, lock
        if time.monotonic() > deadline:
            raise errors.BackplaneError(
                f"node {node} has {len(devices)} device(s) of kind {kind}, and all are taken; was it started with more of "
                f"{PREFIX + kind!r} than `python3 -m backplane.ray` prints there?")
        time.sleep(0.1)


class Predictor:
    """Run a model: for map_batches, or as an actor, ray.remote(Predictor). The model's device has the kind that the
    actor's resources name (see request). Without such resources, `on` selects the device."""

    def __init__(self, artifact: ray.ObjectRef | np.ndarray[Any, Any], keep: Sequence[str] = (), on: Preferences = None) -> None:
        """Load the model. `artifact` is the value that put returned, or the array that Ray passes to an actor in
        place of that value. `keep` names the columns of a batch that are passed on unchanged. `on` is a list of
        preferences as for select_device."""
        held = ray.get(artifact) if isinstance(artifact, ray.ObjectRef) else artifact
        assigned = {name: share for name, share in ray.get_runtime_context().get_assigned_resources().items()
                    if name.startswith(PREFIX)}
        if len(assigned) > 1:
            raise errors.InvalidValueError(f"an actor takes a device of one kind, not of {', '.join(sorted(assigned))}")
        for name, share in assigned.items():
            if share > 1:
                raise errors.InvalidValueError(f"an actor takes one device, or a share of one; not {share:g} of {name!r}")
            on, self._claimed = _claim(name.removeprefix(PREFIX), share)
        path, self._file = _store(held)
        self._model, self._keep = Model(path, on), tuple(keep)
        lists = [info.name for info in [*self._model.inputs, *self._model.outputs] if info.kind != "tensor"]
        if lists:
            raise errors.InvalidValueError(f"{', '.join(map(repr, lists))} of the model is a sequence or an optional; a batch has "
                                           "columns of arrays alone")
        both = [info.name for info in self._model.outputs if info.name in self._keep]
        if both:
            raise errors.InvalidValueError(f"{', '.join(map(repr, both))} of keep is an output of the model, too; rename the column")

    def device(self) -> str:
        """Return the name of the device that the model runs on."""
        return str(self._model.device)

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Return the outputs for a batch, and the batch's columns that `keep` names. The model reads the arrays in
        place if it can. Other columns are ignored."""
        missing = [name for name in [*(info.name for info in self._model.inputs), *self._keep] if name not in batch]
        if missing:
            raise errors.NotFoundError(f"the batch has no column {', '.join(map(repr, missing))}; it has {', '.join(batch)}")
        results = self._model.run({info.name: batch[info.name] for info in self._model.inputs})
        return {**{name: batch[name] for name in self._keep}, **{name: result.numpy() for name, result in results.items()}}

    predict = __call__  # Ray calls the methods of an actor by name


if __name__ == "__main__":
    print(json.dumps(resources()))
