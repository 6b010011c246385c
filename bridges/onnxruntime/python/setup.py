# SPDX-License-Identifier: Apache-2.0
"""Makes the package with the library of the installed Backplane, which pkg-config finds.
BACKPLANE_ONNXRUNTIME_LIBRARY in the environment overrides pkg-config."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

LIBRARY = "libbackplane-onnxruntime.so"


def find_library():
    given = os.environ.get("BACKPLANE_ONNXRUNTIME_LIBRARY")
    if given:
        return Path(given)
    try:
        folder = subprocess.run(["pkg-config", "--variable=bridgedir", "backplane"], check=True, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        sys.exit("error: pkg-config does not find the package backplane: install Backplane with its headers (on Debian "
                 "libbackplane-dev and backplane-onnxruntime) and pkg-config; for a prefix of its own, set "
                 "PKG_CONFIG_PATH=PREFIX/lib/pkgconfig")
    return Path(folder) / LIBRARY


class Build(build_py):
    """Copy the library beside the modules."""

    def run(self):
        super().run()
        library = find_library()
        if not library.is_file():
            sys.exit(f"error: there is no {library}; build Backplane without --disable-onnxruntime, or on Debian install "
                     "backplane-onnxruntime")
        shutil.copyfile(library, Path(self.build_lib) / "onnxruntime_ep_backplane" / LIBRARY)


class Binary(Distribution):
    """Tag the wheel for this machine's platform and for any Python."""

    def has_ext_modules(self):
        return True


try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:
    try:
        from wheel.bdist_wheel import bdist_wheel
    except ImportError:
        bdist_wheel = None

commands = {"build_py": Build}
if bdist_wheel:

    class Wheel(bdist_wheel):
        def get_tag(self):
            return "py3", "none", super().get_tag()[2]

    commands["bdist_wheel"] = Wheel

setup(cmdclass=commands, distclass=Binary)
