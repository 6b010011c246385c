# SPDX-License-Identifier: Apache-2.0
"""Write Relax executables of one operator or a few: operators that need more of a runtime than
arithmetic. Writes a list of cases in the format of make_models.py."""

import os
import sys

import numpy as np
import onnx
import tvm
from make_libraries import Cases
from make_models import add_case, flatten
from onnx import TensorProto, helper, numpy_helper
from tvm import relax, tirx
from tvm.relax.frontend.onnx import from_onnx

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def of_onnx(nodes, inputs, outputs, **constants):
    """Return an ONNX graph as TVM imports it. Inputs and outputs are names with type and shape."""
    graph = helper.make_graph(
        [helper.make_node(op, takes.split(), gives.split(), **attributes)
         for op, takes, gives, attributes in nodes], "net",
        [helper.make_tensor_value_info(*value) for value in inputs],
        [helper.make_tensor_value_info(*value) for value in outputs],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    onnx.checker.check_model(model)
    return tvm.IRModule({"forward": from_onnx(model)["main"].with_attr("global_symbol", "forward")})


def of_relax(shape, dtype, function):
    """A function of one tensor."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(shape, dtype))
    with builder.function("forward", [x]):
        with builder.dataflow():
            out = builder.emit_output(function(x))
        builder.emit_func_output(out)
    return builder.get()


def sorting(cases):
    """The sorted elements include equal ones, and zeros of either sign."""
    rows = cases.random.integers(-4, 5, (3, 4, 9)) / 2
    rows[0, 0, :3] = [0, -0.0, 0]
    for dtype in ["float16", "float32", "float64", "int32", "int64"]:
        x = rows.astype(dtype)
        for axis in range(3):
            yield (f"sort/{dtype}/{axis}",
                   of_relax(x.shape, dtype, lambda v, a=axis: relax.op.sort(v, a)), [x])
        yield (f"argsort/{dtype}", of_relax(
            x.shape, dtype, lambda v: relax.op.argsort(v, 1, descending=True, dtype="int64")), [x])
    x = rows.astype("float32")
    for wanted in ["both", "values", "indices"]:
        for largest in [True, False]:
            yield (f"topk/{wanted}/{'largest' if largest else 'smallest'}", of_relax(
                x.shape, "float32", lambda v, w=wanted, l=largest: relax.op.topk(
                    v, 4, ret_type=w, largest=l)), [x])
    corners = np.sort(cases.random.random((1, 8, 2, 2)), axis=2).reshape(1, 8, 4)
    yield "nms", of_onnx(
        [("NonMaxSuppression", "boxes scores most overlap least", "kept", {})],
        [("boxes", FLOAT, (1, 8, 4)), ("scores", FLOAT, (1, 2, 8))],
        [("kept", INT64, (None, 3))], most=np.array([3]), overlap=np.array([0.4], "float32"),
        least=np.array([0.1], "float32")), [
            corners.astype("float32"), cases.random.random((1, 2, 8)).astype("float32")]


def others(cases):
    table, x = cases.array("float32", (30, 8)), cases.array("float32", (3, 9))
    yield "embedding", of_onnx(
        [("Gather", "table rows", "y", {"axis": 0})], [("rows", INT64, ("n", "m"))],
        [("y", FLOAT, ("n", "m", 8))], table=table), [cases.random.integers(0, 30, (2, 5))]
    scale, shift, mean = (cases.array("float32", (4,)) for _ in range(3))
    yield "batch-norm", of_onnx(
        [("BatchNormalization", "x s b m v", "n", {}), ("Dropout", "n", "y", {})],
        [("x", FLOAT, ("n", 4, 5, 5))], [("y", FLOAT, ("n", 4, 5, 5))],
        s=scale, b=shift, m=mean, v=np.abs(mean) + 1), [cases.array("float32", (2, 4, 5, 5))]
    yield "quantized", of_onnx(
        [("QuantizeLinear", "x s z", "q", {}), ("DequantizeLinear", "q s z", "y", {})],
        [("x", FLOAT, (3, 9))], [("y", FLOAT, (3, 9))],
        s=np.array(0.05, "float32"), z=np.array(3, "uint8")), [x]
    yield "integer-product", of_onnx(
        [("MatMulInteger", "x w", "y", {})], [("x", TensorProto.UINT8, (3, 4))],
        [("y", TensorProto.INT32, (3, 5))], w=cases.array("int8", (4, 5))), [
            cases.array("uint8", (3, 4))]
    yield "split", of_onnx(
        [("Add", "a b", "c", {}), ("Split", "c", "d e", {"axis": 1}), ("Mul", "a b", "f", {})],
        [("a", FLOAT, ("n", 4)), ("b", FLOAT, ("n", 4))],
        [("d", FLOAT, ("n", 2)), ("e", FLOAT, ("n", 2)), ("f", FLOAT, ("n", 4))]), [
            cases.array("float32", (5, 4)), cases.array("float32", (5, 4))]
    yield "cumsum", of_relax((tirx.Var("n", "int64"), 9), "float32",
                             lambda v: relax.op.cumsum(v, 1)), [x]
    yield "where", of_relax((3, 9), "float32", lambda v: relax.op.where(
        relax.op.greater(v, relax.const(0.0)), v, relax.const(0.5))), [x]
    yield "shape", of_relax((tirx.Var("n", "int64"), 9), "float32",
                            lambda v: relax.op.shape_to_tensor(relax.op.shape_of(v))), [x]
    yield "comparison", of_relax((3, 9), "float32",
                                 lambda v: relax.op.greater(v, relax.const(0.0))), [x]
    yield "no-elements", of_relax((0, 4), "float32", lambda v: relax.op.add(v, v)), [
        np.zeros((0, 4), "float32")]


def main():
    cases = Cases(sys.argv[1])
    for number, (name, module, inputs) in enumerate([*sorting(cases), *others(cases)]):
        path = os.path.join(cases.folder, f"operator{number}.so")
        relax.build(relax.get_pipeline("zero")(module), tvm.target.Target("llvm")).export_library(path)
        machine = relax.VirtualMachine(tvm.runtime.load_module(path), tvm.cpu())
        results = flatten(machine["forward"](*[tvm.runtime.tensor(x) for x in inputs]))
        add_case(cases, f"operator/{name}", path, "cpu", inputs, results, "model")
    cases.write()


if __name__ == "__main__":
    main()
