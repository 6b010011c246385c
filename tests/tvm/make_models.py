# SPDX-License-Identifier: Apache-2.0
"""Compile models to Relax executables with TVM, and compute their results with TVM's virtual
machine.

Writes a list of cases in the format of make_libraries.py. Models for OpenCL are compared with
TVM's results on the CPU: TVM's wheel compiles for OpenCL, but cannot run OpenCL."""

import os
import sys

import numpy as np
import onnx
import tvm
from make_libraries import Cases
from onnx import TensorProto, helper, numpy_helper
from tvm import relax
from tvm.relax.frontend import nn
from tvm.relax.frontend.nn import op
from tvm.relax.frontend.onnx import from_onnx
from tvm.s_tir import dlight

OPENCL = {"kind": "opencl", "host": "llvm", "max_num_threads": 256}


class MLP(nn.Module):
    """Two layers; the number of rows is symbolic."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 32), nn.Linear(32, 4)

    def forward(self, x):
        return op.softmax(self.second(op.relu(self.first(x))), axis=-1)


class LSTM(nn.Module):
    """Six steps of an LSTM cell; three outputs."""

    def __init__(self, inputs=5, hidden=8):
        super().__init__()
        self.hidden = hidden
        self.input, self.state = nn.Linear(inputs, 4 * hidden), nn.Linear(hidden, 4 * hidden)

    def forward(self, x, h, c):
        for step in range(6):
            row = op.reshape(op.take(x, nn.Tensor.from_const(np.array([step], "int32")), axis=0),
                             (1, 5))
            gates = self.input(row) + self.state(h)
            i, f, g, o = op.split(gates, 4, axis=-1)
            c = op.sigmoid(f) * c + op.sigmoid(i) * op.tanh(g)
            h = op.sigmoid(o) * op.tanh(c)
        return h, c


class Attention(nn.Module):
    """A block of a transformer: layer norms, two heads, a perceptron; the length is symbolic."""

    def __init__(self, width=16, heads=2):
        super().__init__()
        self.width, self.heads = width, heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def split_heads(self, x, length):
        size = self.width // self.heads
        return op.permute_dims(op.reshape(x, (1, length, self.heads, size)), (0, 2, 1, 3))

    def forward(self, x):
        length = x.shape[1]
        q, k, v = op.split(self.qkv(self.norm1(x)), 3, axis=-1)
        q, k, v = (self.split_heads(t, length) for t in (q, k, v))
        scores = op.matmul(q, op.permute_dims(k, (0, 1, 3, 2))) * (self.width // self.heads) ** -0.5
        mixed = op.matmul(op.softmax(scores, axis=-1), v)
        mixed = op.reshape(op.permute_dims(mixed, (0, 2, 1, 3)), (1, length, self.width))
        x = x + self.out(mixed)
        return x + self.down(op.gelu(self.up(self.norm2(x))))


class Block(nn.Module):
    """Two convolutions with a residual connection around them."""

    def __init__(self, channels):
        super().__init__()
        self.first = nn.Conv2D(channels, channels, 3, padding=1)
        self.second = nn.Conv2D(channels, channels, 3, padding=1)

    def forward(self, x):
        return op.relu(x + self.second(op.relu(self.first(x))))


class ResidualNet(nn.Module):
    """A stem, two residual blocks, a head."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2D(3, 8, 3, stride=2, padding=1)
        self.blocks = nn.ModuleList([Block(8), Block(8)])
        self.head = nn.Linear(8, 10)

    def forward(self, x):
        x = op.relu(self.stem(x))
        for block in self.blocks:
            x = block(x)
        return self.head(op.reshape(op.sum(x, axis=[2, 3]), (1, 8)))


def from_module(model, spec, random):
    """Return the Relax module of a model, with its weights bound."""
    module, params = model.export_tvm({"forward": spec})
    weights = {name: random.standard_normal([int(s) for s in p.shape]).astype(p.dtype) * 0.3
               for name, p in params}
    return relax.transform.BindParams("forward", weights)(module)


def with_parameters(random):
    """Return a model that takes its weights as arguments, and values for all of its arguments.
    The bytecode does not check the types of these arguments."""
    spec = {"x": nn.spec.Tensor(("n", 8), "float32")}
    module, params = MLP().export_tvm({"forward": spec})
    shapes = [(5, 8)] + [[int(extent) for extent in p.shape] for _, p in params]
    return module, [random.standard_normal(shape).astype("float32") for shape in shapes]


def convolutional(random):
    """A CNN of Relax operators: convolution, pooling, flattening, a tuple of two results."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((1, 1, 28, 28), "float32"))
    weight = relax.const(random.standard_normal((8, 1, 5, 5)).astype("float32") * 0.2)
    dense = relax.const(random.standard_normal((8 * 12 * 12, 10)).astype("float32") * 0.05)
    with builder.function("forward", [x]):
        with builder.dataflow():
            y = builder.emit(relax.op.nn.relu(relax.op.nn.conv2d(x, weight)))
            y = builder.emit(relax.op.nn.max_pool2d(y, (2, 2), (2, 2)))
            y = builder.emit(relax.op.reshape(y, (1, 8 * 12 * 12)))
            logits = builder.emit(relax.op.matmul(y, dense))
            best = builder.emit(relax.op.argmax(logits, axis=1))
            out = builder.emit_output(relax.Tuple([logits, best]))
        builder.emit_func_output(out)
    return builder.get()


def imported(random):
    """Return an ONNX model as TVM imports it."""
    weight = random.standard_normal((4, 3, 3, 3)).astype("float32") * 0.3
    dense = random.standard_normal((4 * 8 * 8, 6)).astype("float32") * 0.1
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
             helper.make_node("Relu", ["c"], ["r"]),
             helper.make_node("AveragePool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
             helper.make_node("Flatten", ["p"], ["f"]),
             helper.make_node("MatMul", ["f", "d"], ["m"]),
             helper.make_node("Softmax", ["m"], ["y"])]
    graph = helper.make_graph(
        nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 16, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 6])],
        [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(dense, "d")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    onnx.checker.check_model(model)
    module = from_onnx(model)
    function = module["main"].with_attr("global_symbol", "forward")
    return tvm.IRModule({"forward": function})


def branching():
    """A condition, with booleans and scalars."""
    from tvm.script import ir as I  # pylint: disable=import-outside-toplevel
    from tvm.script import relax as R  # pylint: disable=import-outside-toplevel

    @I.ir_module
    class Module:
        @R.function
        def forward(x: R.Tensor((4,), "float32"), flag: R.Tensor((), "bool")) -> R.Tensor(
            (4,), "float32"
        ):
            if flag:
                y = R.add(x, x)
            else:
                y = R.multiply(x, x)
            return y

    return Module


def calling():
    """A function that calls another function, and a function that calls itself."""
    from tvm.script import ir as I  # pylint: disable=import-outside-toplevel
    from tvm.script import relax as R  # pylint: disable=import-outside-toplevel

    @I.ir_module
    class Module:
        @R.function
        def twice(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            y = R.add(x, x)
            return y

        @R.function
        def descend(
            x: R.Tensor((4,), "float32"), n: R.Tensor((), "int64")
        ) -> R.Tensor((4,), "float32"):
            cls = Module
            positive = R.greater(n, R.const(0, "int64"))
            if positive:
                less = R.subtract(n, R.const(1, "int64"))
                more = R.add(x, R.const(1.0, "float32"))
                y = cls.descend(more, less)
            else:
                y = cls.twice(x)
            return y

        @R.function
        def forward(
            x: R.Tensor((4,), "float32"), n: R.Tensor((), "int64")
        ) -> R.Tensor((4,), "float32"):
            cls = Module
            a = cls.twice(x)
            b = cls.descend(a, n)
            y = R.add(a, b)
            return y

    return Module


def gpu_schedule(module, target):
    with target:
        return dlight.ApplyDefaultSchedule(
            dlight.gpu.Matmul(), dlight.gpu.GEMV(), dlight.gpu.Reduction(),
            dlight.gpu.GeneralReduction(), dlight.gpu.Fallback())(module)


def compile_for(cases, name, module, device, **options):
    target = tvm.target.Target(OPENCL if device == "opencl" else "llvm")
    module = relax.get_pipeline("zero")(module)
    if device == "opencl":
        module = gpu_schedule(module, target)
    path = os.path.join(cases.folder, f"{name}_{device}{'_compiled' if options else ''}.so")
    relax.build(module, target, **options).export_library(path)
    return path


def flatten(result):
    if isinstance(result, tvm.runtime.Tensor):
        return [result.numpy()]
    return [item for part in result for item in flatten(part)]


def add_case(cases, name, path, device, inputs, results, how="machine"):
    cases.lines += [f"case model/{name}", f"library {os.path.basename(path)}", f"device {device}",
                    how, "function forward"]
    cases.lines += [f"arg {cases.word(x)}" for x in inputs]
    if device != "cpu":
        cases.lines += ["tolerance 1e-4"]
    cases.lines += [f"result {cases.word(r)}" for r in results] + ["run"]


def add_model(cases, name, module, variants):
    """Write a model. `variants` are lists of inputs, of different extents where the model allows
    that."""
    path = compile_for(cases, name, module, "cpu")
    compiled = compile_for(cases, name, module, "cpu", exec_mode="compiled")
    opencl = compile_for(cases, name, module, "opencl")
    machine = relax.VirtualMachine(tvm.runtime.load_module(path), tvm.cpu())
    for number, inputs in enumerate(variants):
        results = flatten(machine["forward"](*[tvm.runtime.tensor(x) for x in inputs]))
        add_case(cases, f"{name}/{number}/bytecode", path, "cpu", inputs, results)
        add_case(cases, f"{name}/{number}/compiled", compiled, "cpu", inputs, results)
        add_case(cases, f"{name}/{number}/opencl", opencl, "opencl", inputs, results)
        add_case(cases, f"{name}/{number}/model", path, "cpu", inputs, results, "model")
        add_case(cases, f"{name}/{number}/model-opencl", opencl, "opencl", inputs, results, "model")


def main():
    cases = Cases(sys.argv[1])
    random = cases.random
    tensor = nn.spec.Tensor
    floats = lambda *shape: cases.array("float32", shape)
    add_model(cases, "mlp", from_module(MLP(), {"x": tensor(("n", 8), "float32")}, random),
              [[floats(1, 8)], [floats(7, 8)]])
    add_model(cases, "cnn", convolutional(random), [[floats(1, 1, 28, 28)]])
    add_model(cases, "residual",
              from_module(ResidualNet(), {"x": tensor((1, 3, 32, 32), "float32")}, random),
              [[floats(1, 3, 32, 32)]])
    add_model(cases, "lstm",
              from_module(LSTM(), {"x": tensor((6, 5), "float32"), "h": tensor((1, 8), "float32"),
                                   "c": tensor((1, 8), "float32")}, random),
              [[floats(6, 5), floats(1, 8), floats(1, 8)]])
    add_model(cases, "transformer",
              from_module(Attention(), {"x": tensor((1, "length", 16), "float32")}, random),
              [[floats(1, 1, 16)], [floats(1, 12, 16)]])
    add_model(cases, "onnx", imported(random), [[floats(1, 3, 16, 16)]])
    add_model(cases, "branching", branching(),
              [[floats(4), np.array(True)], [floats(4), np.array(False)]])
    add_model(cases, "calling", calling(), [[floats(4), np.array(3)], [floats(4), np.array(0)]])
    module, inputs = with_parameters(random)
    add_model(cases, "parameters", module, [inputs])
    cases.write()


if __name__ == "__main__":
    main()
