# SPDX-License-Identifier: Apache-2.0
"""Compile libraries of kernels with TVM, and compute their results with TVM.

Writes libraries, arrays and a list of cases, `cases.txt`, into the folder given. run-cases.c
documents the format of the list, and repeats the calls with Backplane."""

import os
import sys

import numpy as np
import tvm
import tvm_ffi
from tvm import te, tirx
from tvm.script import ir as I
from tvm.script import tirx as T

FLOATS = ["float16", "float32", "float64"]
INTS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


class Cases:
    """Compiles functions, calls them with TVM, and writes the results."""

    def __init__(self, folder):
        self.folder = folder
        self.lines = []
        self.arrays = 0
        self.random = np.random.default_rng(7)

    def array(self, dtype, shape):
        if dtype == "bool":
            return self.random.integers(0, 2, shape).astype(bool)
        if dtype.startswith("float"):
            return np.asarray(self.random.standard_normal(shape)).astype(dtype)
        return self.random.integers(0, 100, shape).astype(dtype)

    def save(self, array):
        self.arrays += 1
        name = f"a{self.arrays}.npy"
        np.save(os.path.join(self.folder, name), np.ascontiguousarray(array).reshape(array.shape))
        return name

    def library(self, name, module, target="llvm"):
        path = os.path.join(self.folder, f"{name}.so")
        tvm.compile(module, target=target).export_library(path)
        return path

    def word(self, value):
        """Return an argument or a result in the format of the list's lines."""
        if value is None:
            return "none"
        if isinstance(value, bool):
            return f"bool {int(value)}"
        if isinstance(value, int):
            return f"int {value}"
        if isinstance(value, float):
            return f"float {value!r}"
        if isinstance(value, str):
            return f"str {value}"
        return f"tensor {self.save(value)}"

    def call(self, name, path, function, args, outputs=(), device="cpu"):
        """Call a function with `args` and then `outputs`, arrays that the function fills."""
        self.lines += [f"case {name}", f"library {os.path.basename(path)}", f"device {device}",
                       f"function {function}"]
        library = tvm.runtime.load_module(path)
        values = [tvm.runtime.tensor(a) if isinstance(a, np.ndarray) else a for a in args]
        filled = [tvm.runtime.tensor(a) for a in outputs]
        self.lines += [f"arg {self.word(a)}" for a in args]
        try:
            result = library[function](*values, *filled)
        except Exception as error:  # pylint: disable=broad-except
            text = str(error).replace("\n", "\\n")
            self.lines += [f"arg {self.word(a)}" for a in outputs]
            self.lines += [f"error {type(error).__name__} {text}", "run"]
            return
        self.lines += [f"output {self.save(a.numpy())}" for a in filled]
        self.lines += [f"result {self.word(result)}", "run"]

    def expect(self, name, path, function, args, outputs, device):
        """Write a case for a device that TVM's wheel has no runtime for: NumPy computes the
        result."""
        self.lines += [f"case {name}", f"library {os.path.basename(path)}", f"device {device}",
                       f"function {function}"]
        self.lines += [f"arg {self.word(a)}" for a in args]
        self.lines += ["tolerance 1e-5"]
        self.lines += [f"output {self.save(a)}" for a in outputs]
        self.lines += ["result none", "run"]

    def write(self):
        with open(os.path.join(self.folder, "cases.txt"), "w", encoding="utf-8") as file:
            file.write("".join(f"{line}\n" for line in self.lines))


def module_of(name, *tensors):
    function = te.create_prim_func(list(tensors)).with_attr("global_symbol", name)
    return tvm.IRModule({name: function})


def elementwise(shape, dtype):
    a, b = (te.placeholder(shape, dtype, name=n) for n in "AB")
    if dtype == "bool":
        combine = lambda *i: tirx.all(a(*i), b(*i))
    else:
        combine = lambda *i: a(*i) * b(*i) + a(*i)
    return module_of("combine", a, b, te.compute(shape, combine, name="C"))


def add_elementwise(cases):
    for dtype in FLOATS + INTS + ["bool"]:
        path = cases.library(f"dtype_{dtype}", elementwise((33,), dtype))
        cases.call(f"dtype/{dtype}", path, "combine",
                   [cases.array(dtype, (33,)), cases.array(dtype, (33,))],
                   [np.zeros((33,), dtype)])
    for rank in range(6):
        shape = (2, 3, 4, 5, 6)[:rank]
        path = cases.library(f"rank_{rank}", elementwise(shape, "float32"))
        cases.call(f"rank/{rank}", path, "combine",
                   [cases.array("float32", shape), cases.array("float32", shape)],
                   [np.zeros(shape, "float32")])
    for dtype in ["float32", "float64", "int32", "uint8", "int64"]:
        path = cases.library(f"c_{dtype}", elementwise((5, 7), dtype), "c")
        cases.call(f"c/{dtype}", path, "combine",
                   [cases.array(dtype, (5, 7)), cases.array(dtype, (5, 7))],
                   [np.zeros((5, 7), dtype)])


def add_dynamic(cases):
    n, m = te.var("n"), te.var("m")
    module = elementwise((n, m), "float32")
    for target in ["llvm", "c"]:
        path = cases.library(f"dynamic_{target}", module, target)
        for shape in [(1, 1), (3, 17), (0, 4)]:
            cases.call(f"dynamic/{target}/{shape[0]}x{shape[1]}", path, "combine",
                       [cases.array("float32", shape), cases.array("float32", shape)],
                       [np.zeros(shape, "float32")])


def add_reductions(cases):
    a = te.placeholder((9, 31), "float32", name="A")
    k = te.reduce_axis((0, 31), name="k")
    total = te.compute((9,), lambda i: te.sum(a[i, k], axis=k), name="S")
    path = cases.library("sum", module_of("reduce", a, total))
    cases.call("reduction/sum", path, "reduce", [cases.array("float32", (9, 31))],
               [np.zeros((9,), "float32")])
    k = te.reduce_axis((0, 31), name="k")
    largest = te.compute((9,), lambda i: te.max(a[i, k], axis=k), name="M")
    path = cases.library("max", module_of("reduce", a, largest))
    cases.call("reduction/max", path, "reduce", [cases.array("float32", (9, 31))],
               [np.zeros((9,), "float32")])
    b = te.placeholder((31, 12), "float32", name="B")
    k = te.reduce_axis((0, 31), name="k")
    product = te.compute((9, 12), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="P")
    for target in ["llvm", "c"]:
        path = cases.library(f"matmul_{target}", module_of("matmul", a, b, product), target)
        cases.call(f"reduction/matmul/{target}", path, "matmul",
                   [cases.array("float32", (9, 31)), cases.array("float32", (31, 12))],
                   [np.zeros((9, 12), "float32")])


@I.ir_module
class Parallel:
    """A parallel loop over a symbolic extent."""

    @T.prim_func(s_tir=True)
    def twice(a: T.handle, b: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n, 64), "float32")
        B = T.match_buffer(b, (n, 64), "float32")
        for i in T.parallel(n):
            for j in range(64):
                with T.sblock("B"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    B[vi, vj] = A[vi, vj] * T.float32(2) + T.exp(A[vi, vj])


@I.ir_module
class Workspace:
    """An intermediate buffer that is too large for the stack."""

    @T.prim_func(s_tir=True)
    def transpose(a: T.handle, b: T.handle):
        A = T.match_buffer(a, (128, 128), "float32")
        B = T.match_buffer(b, (128, 128), "float32")
        C = T.sblock_alloc_buffer((128, 128), "float32")
        for i, j in T.grid(128, 128):
            with T.sblock("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi, vj] * T.float32(2)
        for i, j in T.grid(128, 128):
            with T.sblock("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = C[vj, vi] + T.float32(1)


@I.ir_module
class Packed:
    """Calls of host functions, with every sort of argument."""

    @T.prim_func(s_tir=True)
    def record(n: T.int64, x: T.float64, a: T.handle):
        A = T.match_buffer(a, (4,), "float32")
        T.call_packed("backplane.test.note", n, x, "a text of more than seven bytes", "short")
        T.call_packed("backplane.test.note", T.int32(5), T.float32(1.5))
        for i in range(4):
            with T.sblock("A"):
                vi = T.axis.remap("S", [i])
                A[vi] = T.Cast("float32", x)


@I.ir_module
class Failing:
    """A call of a function that raises an error."""

    @T.prim_func(s_tir=True)
    def fail(n: T.int64):
        T.call_packed("backplane.test.fail", n)


@I.ir_module
class Scalars:
    """Numbers as arguments and results, and several functions in one module."""

    @T.prim_func(s_tir=True)
    def add(x: T.int64, y: T.int64) -> T.int64:
        return x + y

    @T.prim_func(s_tir=True)
    def scale(x: T.float64, y: T.int32) -> T.float64:
        return x * T.Cast("float64", y)

    @T.prim_func(s_tir=True)
    def is_less(x: T.int32, y: T.int32) -> T.bool:
        return x < y

    @T.prim_func(s_tir=True)
    def fill(x: T.float32, a: T.handle):
        A = T.match_buffer(a, (3,), "float32")
        for i in range(3):
            with T.sblock("A"):
                vi = T.axis.remap("S", [i])
                A[vi] = x


def note(*args):
    """The counterpart of a function of this name in run-cases.c: adds up its arguments."""
    total = 0.0
    for value in args:
        total += len(value) if isinstance(value, str) else float(value)
    note.total += total


note.total = 0.0


def fail(_):
    raise ValueError("the callback says no")


def add_host_services(cases):
    tvm_ffi.register_global_func("backplane.test.note", note)
    tvm_ffi.register_global_func("backplane.test.fail", fail)
    path = cases.library("parallel", Parallel)
    for rows in [1, 2, 129]:
        cases.call(f"parallel/{rows}", path, "twice", [cases.array("float32", (rows, 64))],
                   [np.zeros((rows, 64), "float32")])
    for target in ["llvm", "c"]:
        path = cases.library(f"workspace_{target}", Workspace, target)
        cases.call(f"workspace/{target}", path, "transpose", [cases.array("float32", (128, 128))],
                   [np.zeros((128, 128), "float32")])
        path = cases.library(f"packed_{target}", Packed, target)
        note.total = 0.0
        cases.call(f"packed/{target}", path, "record", [40, 2.25], [np.zeros((4,), "float32")])
        cases.lines.insert(-1, f"noted {note.total!r}")
    path = cases.library("scalars", Scalars)
    cases.call("scalars/add", path, "add", [40, 2])
    cases.call("scalars/scale", path, "scale", [1.25, 4])
    cases.call("scalars/is-less", path, "is_less", [1, 2])
    cases.call("scalars/fill", path, "fill", [0.5], [np.zeros((3,), "float32")])


def add_errors(cases):
    path = cases.library("errors", elementwise((4, 4), "float32"))
    good = cases.array("float32", (4, 4))
    cases.call("error/count", path, "combine", [good])
    cases.call("error/type", path, "combine", [good, 3], [good])
    cases.call("error/rank", path, "combine", [good, cases.array("float32", (16,))], [good])
    cases.call("error/shape", path, "combine", [good, cases.array("float32", (4, 5))], [good])
    cases.call("error/dtype", path, "combine", [good, cases.array("int32", (4, 4))], [good])
    for target in ["llvm", "c"]:
        path = cases.library(f"failing_{target}", Failing, target)
        cases.lines += [f"case error/callback/{target}", f"library {os.path.basename(path)}",
                        "device cpu", "function fail", "arg int 1",
                        "error ValueError the callback says no", "run"]


def add_device(cases, kind, targets):
    """Host code that imports device code: nested modules, kernels found by name."""
    n = te.var("n")
    a, b = (te.placeholder((n,), "float32", name=name) for name in "AB")
    module = module_of("add", a, b, te.compute((n,), lambda i: a[i] + b[i], name="C"))
    schedule = tvm.s_tir.Schedule(module)
    (loop,) = schedule.get_loops(schedule.get_sblock("C", func_name="add"))
    outer, inner = schedule.split(loop, [None, 64])
    schedule.bind(outer, "blockIdx.x")
    schedule.bind(inner, "threadIdx.x")
    for name, target in targets.items():
        path = cases.library(f"{kind}_{name}", schedule.mod, tvm.target.Target(target))
        for size in [1, 64, 1000]:
            x, y = cases.array("float32", (size,)), cases.array("float32", (size,))
            cases.expect(f"{kind}/{name}/{size}", path, "add", [x, y], [x + y], kind)


def main():
    cases = Cases(sys.argv[1])
    add_elementwise(cases)
    add_dynamic(cases)
    add_reductions(cases)
    add_host_services(cases)
    add_errors(cases)
    add_device(cases, "opencl", {"llvm": {"kind": "opencl", "host": "llvm"},
                                 "c": {"kind": "opencl", "host": "c"}})
    add_device(cases, "cuda", {"source": {"kind": "cuda", "arch": "sm_80", "host": "llvm"},
                               "ptx": {"kind": "nvptx", "mcpu": "sm_80", "host": "llvm"}})
    cases.write()


if __name__ == "__main__":
    main()
