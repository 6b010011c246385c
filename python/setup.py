# SPDX-License-Identifier: Apache-2.0
"""The extension, against the installed library that pkg-config knows. BACKPLANE_CFLAGS and
BACKPLANE_LIBS in the environment take its place."""

import os
import shlex
import subprocess

from setuptools import Extension, setup


def flags(variable, option):
    given = os.environ.get(variable)
    if given is None:
        command = ["pkg-config", option, "backplane-graph", "backplane-compiler", "backplane"]
        given = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return shlex.split(given)


SOURCES = ["core", "errors", "function", "ir", "model", "module", "target", "te", "tensor", "value"]

setup(
    ext_modules=[
        Extension(
            "backplane._core",
            [f"core/{name}.c" for name in SOURCES],
            depends=["core/core.h"],
            define_macros=[("Py_LIMITED_API", "0x030B0000")],
            extra_compile_args=["-std=gnu11", "-Wall", "-Wextra", *flags("BACKPLANE_CFLAGS", "--cflags")],
            extra_link_args=flags("BACKPLANE_LIBS", "--libs"),
            py_limited_api=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
