# SPDX-License-Identifier: Apache-2.0
"""The command that the benchmarks run."""

import os
from pathlib import Path


def find_tool(tool: Path) -> Path:
    """Return the program itself where the tool is libtool's script in a build folder, and set
    the paths of libraries and plugins for it. libtool's script would add time and memory to the
    measurement."""
    build = tool.resolve().parent
    program = build / ".libs" / tool.name
    if not program.exists():
        return tool.resolve()
    os.environ["LD_LIBRARY_PATH"] = str(program.parent)
    os.environ.setdefault("BACKPLANE_PLUGIN_PATH", str(build / "plugins" / "built"))
    return program
