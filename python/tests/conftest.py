# SPDX-License-Identifier: Apache-2.0
"""What the tests share."""

import os
import pathlib

import pytest

os.environ.setdefault("POCL_DEVICES", "pthread pthread")  # two devices of one kind

import backplane  # pylint: disable=wrong-import-position

SOURCE = pathlib.Path(os.environ.get("top_srcdir", pathlib.Path(__file__).parents[2]))


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
