# SPDX-License-Identifier: Apache-2.0
"""Writes the 64-32-10 MLP that bench/executor runs: two dense layers with ReLU between, seeded weights."""

import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def make_mlp() -> onnx.ModelProto:
    rng = np.random.default_rng(1)
    shapes = {"w1": (64, 32), "b1": (32,), "w2": (32, 10), "b2": (10,)}
    weights = [
        numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32) * 0.1, name)
        for name, shape in shapes.items()
    ]
    nodes = [
        helper.make_node("Gemm", ["x", "w1", "b1"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("Gemm", ["r", "w2", "b2"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "mlp",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 10])],
        weights,
    )
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 13)])


if __name__ == "__main__":
    onnx.save(make_mlp(), sys.argv[1])
