# SPDX-License-Identifier: Apache-2.0
"""Builds the extension against the installed library, which pkg-config finds. BACKPLANE_CFLAGS and
BACKPLANE_LIBS in the environment override pkg-config."""

import os
import shlex
import subprocess
import sys
import sysconfig

from setuptools import Extension, setup


LIBRARIES = ["backplane-graph", "backplane-compiler", "backplane"]


def flags(variable, option):
    given = os.environ.get(variable)
    if given is None:
        try:
            given = subprocess.run(["pkg-config", option, *LIBRARIES], check=True, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
        except (OSError, subprocess.CalledProcessError) as error:
            what = "runs no program" if isinstance(error, OSError) else "finds no libraries"
            sys.exit(f"error: pkg-config {what} for the package backplane: install the libraries of "
                     "Backplane with their headers (on Debian libbackplane-dev) and pkg-config; of a "
                     "library under a prefix of its own, set PKG_CONFIG_PATH=PREFIX/lib/pkgconfig")
    return shlex.split(given)


if sysconfig.get_config_var("Py_GIL_DISABLED"):
    sys.exit("error: the package backplane is for Python with its global lock; this one is built "
             "without it (free-threaded)")

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
