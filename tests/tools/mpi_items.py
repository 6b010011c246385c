# SPDX-License-Identifier: Apache-2.0
"""Write loop.onnx, whose loop runs as many steps as its input says, and items for it, into a folder. Write into its
subfolder `staged` a model with the loop between other operators, whose tensors bypass the loop, and items for it."""
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper


def value(name, dtype, shape):
    return helper.make_tensor_value_info(name, dtype, shape)


def loop_node():
    body = helper.make_graph(
        [helper.make_node("Identity", ["keep"], ["kept"]),
         helper.make_node("Mul", ["sum", "half"], ["less"]),
         helper.make_node("Add", ["less", "one"], ["more"])],
        "body",
        [value("step", TensorProto.INT64, []), value("keep", TensorProto.BOOL, []),
         value("sum", TensorProto.FLOAT, [1])],
        [value("kept", TensorProto.BOOL, []), value("more", TensorProto.FLOAT, [1])],
    )
    return helper.make_node("Loop", ["steps", "", "zero"], ["y"], body=body)


def save(path, nodes, inputs, outputs, constants):
    numbers = {"zero": 0.0, "half": 0.5, "one": 1.0}
    constants = constants + [helper.make_tensor(name, TensorProto.FLOAT, [1], [x]) for name, x in numbers.items()]
    graph = helper.make_graph(nodes, "loop", inputs, outputs, constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def save_staged(path):
    weights = np.random.default_rng(7).standard_normal((4, 4)).astype(np.float32)
    save(
        path,
        [helper.make_node("Add", ["a", "b"], ["sum"]),
         helper.make_node("MatMul", ["sum", "w"], ["product"]),
         helper.make_node("Softmax", ["product"], ["shares"]),
         loop_node(),
         helper.make_node("MatMul", ["shares", "w"], ["again"]),
         helper.make_node("Mul", ["again", "y"], ["scaled"]),
         helper.make_node("Sub", ["scaled", "b"], ["z"])],
        [value("steps", TensorProto.INT64, []), value("a", TensorProto.FLOAT, ["n", 4]), value("b", TensorProto.FLOAT, ["n", 4])],
        [value("z", TensorProto.FLOAT, ["n", 4]), value("sum", TensorProto.FLOAT, ["n", 4])],
        [helper.make_tensor("w", TensorProto.FLOAT, [4, 4], weights.ravel())],
    )


def save_item(path, steps, rows):
    a, b = np.random.default_rng(rows).standard_normal((2, rows, 4)).astype(np.float32)
    np.savez(path, steps=np.array(steps, np.int64), a=a, b=b)


save(f"{sys.argv[1]}/loop.onnx", [loop_node()], [value("steps", TensorProto.INT64, [])],
     [value("y", TensorProto.FLOAT, [1])], [])
os.mkdir(f"{sys.argv[1]}/staged")
save_staged(f"{sys.argv[1]}/staged/model.onnx")
for steps in range(6):
    save_item(f"{sys.argv[1]}/staged/short-{steps}.npz", steps, steps + 1)
save_item(f"{sys.argv[1]}/staged/endless.npz", 1 << 60, 2)
for steps in range(6):
    np.save(f"{sys.argv[1]}/short-{steps}.npy", np.array(steps, np.int64))
np.save(f"{sys.argv[1]}/endless.npy", np.array(1 << 60, np.int64))
