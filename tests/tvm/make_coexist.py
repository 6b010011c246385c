# SPDX-License-Identifier: Apache-2.0
"""Write a library whose C code calls the host's functions by name."""

import os
import sys

import tvm
from tvm.script import ir as I
from tvm.script import tirx as T


@I.ir_module
class Module:
    """An odd number goes to a function that does not exist."""

    @T.prim_func(s_tir=True)
    def half(n: T.int64):
        if n % T.int64(2) == T.int64(1):
            T.call_packed("backplane.test.nobody.has", n)


tvm.compile(Module, target="c").export_library(os.path.join(sys.argv[1], "coexist.so"))
