#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draw docs/pictures/overview.svg: the libraries, the plugins, and the stable ABI between them.

draw.py [FILE.svg] writes to standard output by default. A test compares the result with the committed file.
"""

import sys
from xml.sax.saxutils import escape

WIDTH = 760
ROW = 64
GAP = 14

# From top to bottom: the colour of a row and its boxes, each a title and a line below it.
ROWS = [
    ("#e8eef7", [("backplane", "command line"), ("Python package", "numpy, torch by DLPack"), ("your program", "C or C++")]),
    ("#dcecdc", [("libbackplane-graph", "ONNX import, fusion, memory plan, executor")]),
    ("#dcecdc", [("libbackplane-compiler", "tensor expressions, schedules, IR, emitters")]),
    ("#dcecdc", [("libbackplane", "registry, modules, devices, plugins, targets")]),
    None,
    ("#f7ead8", [("cpu", "C compiler"), ("cpu-llvm", "LLVM"), ("opencl", "OpenCL"), ("vulkan", "Vulkan"),
                 ("cuda", "CUDA"), ("yours", "any driver")]),
]


def box(x, y, width, colour, title, line):
    centre = x + width / 2
    return [f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{ROW}" rx="6" fill="{colour}" stroke="#556"/>',
            f'<text x="{centre:g}" y="{y + 28:g}" font-weight="bold">{escape(title)}</text>',
            f'<text x="{centre:g}" y="{y + 48:g}" font-size="12">{escape(line)}</text>']


def row(y, colour, boxes):
    width = (WIDTH - GAP * (len(boxes) + 1)) / len(boxes)
    return [part for i, (title, line) in enumerate(boxes)
            for part in box(GAP + i * (width + GAP), y, width, colour, title, line)]


def border(y):
    return [f'<line x1="{GAP}" y1="{y}" x2="{WIDTH - GAP}" y2="{y}" stroke="#a33" stroke-width="2" stroke-dasharray="8 5"/>',
            f'<text x="{WIDTH / 2:g}" y="{y - 8}" font-size="12" fill="#a33">'
            'plugin ABI: C tables with sizes; found at run time, loaded when used</text>']


def draw():
    parts, y = [], GAP
    for content in ROWS:
        if content:
            parts += row(y, *content)
            y += ROW + GAP
        else:
            y += 22
            parts += border(y)
            y += GAP
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y}" viewBox="0 0 {WIDTH} {y}"'
                      ' font-family="sans-serif" font-size="15" text-anchor="middle" fill="#223">',
                      '<title>Backplane: programs use libraries, libraries use plugins through a stable ABI</title>',
                      f'<rect width="{WIDTH}" height="{y}" fill="#ffffff"/>', *parts, '</svg>', ''])


if __name__ == "__main__":
    if len(sys.argv) > 1:
        with open(sys.argv[1], "w", encoding="utf-8") as out:
            out.write(draw())
    else:
        sys.stdout.write(draw())
