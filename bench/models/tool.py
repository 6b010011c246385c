# SPDX-License-Identifier: Apache-2.0
"""The command that the benchmarks run."""

import os
from pathlib import Path


def find_tool(tool: Path) -> Path:
    """The program itself, where the tool is libtool's script in a build folder: running through a
    script costs time and memory that are not ours. It then finds libraries and plugins there."""
    build = tool.resolve().parent
    program = build / ".libs" / tool.name
    if not program.exists():
        return tool.resolve()
    os.environ["LD_LIBRARY_PATH"] = str(program.parent)
    os.environ.setdefault("BACKPLANE_PLUGIN_PATH", str(build / "plugins" / "built"))
    return program
