# SPDX-License-Identifier: Apache-2.0
"""What the tests share."""

import os
import pathlib

import pytest

os.environ.setdefault("POCL_DEVICES", "pthread pthread")  # two devices of one kind

import backplane  # pylint: disable=wrong-import-position

SOURCE = pathlib.Path(os.environ.get("top_srcdir", pathlib.Path(__file__).parents[2]))


def places(cases, first, others):
    """Targets with the device that runs their code, and cases: each case on the first and on one of the others and of
    the devices at hand in turn, or, in long tests, on all."""
    kinds = {str(device).split(":", maxsplit=1)[0] for device in backplane.devices()}
    turns = [*others, *(kind for kind in ("opencl", "vulkan") if kind in kinds)]
    for number, case in enumerate(cases):
        chosen = turns if os.environ.get("BP_TEST_LONG") else turns[number % len(turns):][:1]
        for target in [first, *chosen]:
            yield target, target if target in kinds else "cpu", case


def open_model(path, target, device):
    """Types that a device lacks are computed on the CPU."""
    if device == "cpu":
        return backplane.Model(backplane.compile(path, target), device)
    return backplane.Model(backplane.compile(path, target, fallback="c"), [backplane.device(device), backplane.device("cpu")])


@pytest.fixture(scope="session")
def digits_model(tmp_path_factory):
    """A small model, compiled for the CPU into a library."""
    path = tmp_path_factory.mktemp("model") / "digits.so"
    module = backplane.compile(SOURCE / "examples/digits/digits.onnx", "c", {"image": (1, 1, 28, 28)})
    module.export_library(path)
    return path


@pytest.fixture
def global_func():
    """Registers global functions, and removes them afterwards."""
    names = []

    def register(name, func):
        backplane.register_func(name, func)
        names.append(name)
        return backplane.get_global_func(name)

    yield register
    for name in names:
        backplane.remove_global_func(name)
