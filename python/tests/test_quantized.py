# SPDX-License-Identifier: Apache-2.0
"""Quantised operators with constant weights, compared with numpy's integers."""

import numpy as np
import pytest

import backplane

from conftest import open_model, places

onnx = pytest.importorskip("onnx")

RANDOM = np.random.default_rng(7)
# The CPUs have an instruction for dot products of bytes, pairs of products of 16 bits, and vectors of other lengths.
TARGETS = ["c -byte_dot=false", "c -mcpu=x86-64", "c -vector_bits=128", "c -vector_bits=256", "c -vector_bits=0", "llvm",
           "llvm -mcpu=x86-64", "llvm -vector_bits=128", "llvm -vector_bits=0"]


def bytes_of(kind, *shape):
    """Return random bytes, the least and the largest among them."""
    range_ = np.iinfo(kind)
    values = RANDOM.integers(range_.min, range_.max + 1, shape).astype(kind)
    values.flat[0], values.flat[-1] = range_.min, range_.max
    return values


def product_model(path, a, b, zero_a, zero_b):
    """MatMulInteger of an input with open rows and constant weights; zero points are constant or absent."""
    names, inits = ["a", "b", "", ""], [onnx.numpy_helper.from_array(b, "b")]
    for place, zero in ((2, zero_a), (3, zero_b)):
        if zero is not None:
            names[place] = f"z{place}"
            inits.append(onnx.numpy_helper.from_array(zero, names[place]))
    node = onnx.helper.make_node("MatMulInteger", names, ["y"])
    shape = [*a.shape[:-2], "m", a.shape[-1]]
    graph = onnx.helper.make_graph(
        [node], "g", [onnx.helper.make_tensor_value_info("a", onnx.helper.np_dtype_to_tensor_dtype(a.dtype), shape)],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.INT32, None)], inits)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8), path)


def wide(values, zero):
    """Return integers minus their zero point; one of rows becomes a column."""
    if zero is None:
        return values.astype("i8")
    return values.astype("i8") - zero.astype("i8")


PRODUCTS = [
    # shapes of a and b, their types, zero points
    ((5, 8), (8, 16), "u1", "i1", None, None),
    ((1, 300), (300, 37), "u1", "i1", 128, 0),
    ((70, 65), (65, 130), "i1", "i1", None, None),
    ((70, 66), (66, 48), "i1", "u1", -128, 255),
    ((3, 67), (67, 5), "u1", "u1", 255, "columns"),
    ((2, 9, 1), (1, 7), "u1", "i1", 3, "columns"),
    ((2, 3, 12), (2, 12, 20), "i1", "i1", 7, -128),
    ((17, 2000), (2000, 33), "u1", "u1", 0, None),
]


@pytest.mark.parametrize("target, device, case", places(PRODUCTS, "c", TARGETS))
def test_products_of_bytes_are_exact(target, device, case, tmp_path):
    shape_a, shape_b, kind_a, kind_b, zero_a, zero_b = case
    a, b = bytes_of(kind_a, *shape_a), bytes_of(kind_b, *shape_b)
    zero_a = None if zero_a is None else np.array(zero_a, kind_a)
    if zero_b == "columns":
        zero_b = bytes_of(kind_b, shape_b[-1])
    elif zero_b is not None:
        zero_b = np.array(zero_b, kind_b)
    path = tmp_path / "product.onnx"
    product_model(path, a, b, zero_a, zero_b)
    model = open_model(path, target, device)
    for rows in (shape_a[-2], 1, 40):
        a = bytes_of(kind_a, *shape_a[:-2], rows, shape_a[-1])
        got = model.run(a=a)["y"].numpy()
        np.testing.assert_array_equal(got, np.matmul(wide(a, zero_a), wide(b, zero_b)))
