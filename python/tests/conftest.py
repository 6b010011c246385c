# SPDX-License-Identifier: Apache-2.0
"""Fixtures and helpers that the tests share."""

import os
import pathlib

import pytest

os.environ.setdefault("POCL_DEVICES", "pthread pthread")  # two devices of one kind

import backplane  # pylint: disable=wrong-import-position

SOURCE = pathlib.Path(os.environ.get("top_srcdir", pathlib.Path(__file__).parents[2]))


def places(cases, first, others):
    """Return targets with the devices that run their code, combined with cases. Each case uses the first target and
    one of the other targets and present devices in turn; in long tests it uses all of them."""
    kinds = {str(device).split(":", maxsplit=1)[0] for device in backplane.devices()}
    turns = [*others, *(kind for kind in ("opencl", "vulkan") if kind in kinds)]
    for number, case in enumerate(cases):
        chosen = turns if os.environ.get("BP_TEST_LONG") else turns[number % len(turns):][:1]
        for target in [first, *chosen]:
            yield target, target if target in kinds else "cpu", case


def open_model(path, target, device):
    """The CPU computes the types that a device lacks."""
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
    """Register global functions, and remove them afterwards."""
    names = []

    def register(name, func):
        backplane.register_func(name, func)
        names.append(name)
        return backplane.get_global_func(name)

    yield register
    for name in names:
        backplane.remove_global_func(name)
