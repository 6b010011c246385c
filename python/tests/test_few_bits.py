# SPDX-License-Identifier: Apache-2.0
"""Products with weights of few bits whose accuracy_level permits int8, compared with numpy."""

import numpy as np
import pytest

import backplane

from conftest import open_model, places

onnx = pytest.importorskip("onnx")

RANDOM = np.random.default_rng(11)
INT8 = 4  # the accuracy_level
TARGETS = ["c -byte_dot=4", "c -byte_dot=4 -mcpu=x86-64", "c -byte_dot=4 -vector_bits=0", "c -byte_dot=2 -vector_bits=128",
           "llvm -byte_dot=4", "llvm -byte_dot=4 -mcpu=x86-64", "c -byte_dot=4 -num_cores=3"]


class Weights:
    """A random matrix of numbers of few bits, in the form of MatMulNBits."""

    def __init__(self, bits, block, rows, columns, zeros):
        blocks = -(-rows // block)
        self.attrs = {"K": rows, "N": columns, "bits": bits, "block_size": block}
        codes = RANDOM.integers(0, 1 << bits, (columns, blocks * block))
        self.packed = self.pack(codes.reshape(-1, 8 // bits)).reshape(columns, blocks, -1)
        self.scales = RANDOM.uniform(0.01, 0.1, (columns, blocks)).astype("f")
        self.zeros, middle = None, np.full((columns, blocks), 1 << (bits - 1), "f")
        if zeros == "floats":
            self.zeros = middle = RANDOM.uniform(0, 1 << bits, (columns, blocks)).astype("f")
        if zeros == "packed":
            middle = RANDOM.integers(0, 1 << bits, (columns, blocks))
            spare = -blocks % (8 // bits)
            self.zeros = self.pack(np.pad(middle, ((0, 0), (0, spare))).reshape(-1, 8 // bits)).reshape(columns, -1)
        codes = codes.reshape(columns, blocks, block)
        numbers = (codes - middle[..., None].astype("d")) * self.scales[..., None]
        self.numbers = numbers.reshape(columns, -1)[:, :rows].T

    def pack(self, codes):
        """Pack each row of codes into a byte; the first code has the lowest bits."""
        bits = self.attrs["bits"]
        return sum(codes[:, i] << bits * i for i in range(8 // bits)).astype("u1")

    def save(self, path, shape, level=INT8, kind="f"):
        """Save a model of the product of x and the weights."""
        constants = {"b": self.packed, "s": self.scales.astype(kind), "z": self.zeros}
        names = [name if value is not None else "" for name, value in constants.items()]
        node = onnx.helper.make_node("MatMulNBits", ["x", *names], ["y"], domain="com.microsoft", accuracy_level=level,
                                     **self.attrs)
        inits = [onnx.numpy_helper.from_array(v, name) for name, v in constants.items() if v is not None]
        dtype = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind))
        graph = onnx.helper.make_graph([node], "g", [onnx.helper.make_tensor_value_info("x", dtype, shape)],
                                       [onnx.helper.make_tensor_value_info("y", dtype, None)], inits)
        imports = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("com.microsoft", 1)]
        onnx.save(onnx.helper.make_model(graph, opset_imports=imports, ir_version=8), path)


def in_bytes(x, block):
    """Return the rows of x rounded to multiples of a scale for each block, in the range of int8."""
    columns = x.shape[-1]
    whole = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, -columns % block)])
    blocks = whole.reshape(*x.shape[:-1], -(-columns // block), block)
    scale = abs(blocks).max(-1, keepdims=True) / np.float32(127)
    rounded = np.round(blocks / np.where(scale == 0, np.float32(1), scale)) * scale.astype("d")
    return rounded.reshape(whole.shape)[..., :columns]


def assert_product(y, x, weights):
    """Check a product computed in float32."""
    bound = abs(x).astype("d") @ abs(weights.numbers)
    assert np.all(abs(y - x.astype("d") @ weights.numbers) <= 1e-5 * bound + 1e-30)


PRODUCTS = [
    # bits, block, rows and columns of the weights, zero points, shape of x
    (4, 32, 64, 48, "packed", (5, 64)),
    (4, 16, 40, 16, None, (1, 40)),
    (4, 128, 300, 37, "floats", (33, 300)),
    (4, 8, 9, 1, "packed", (7, 9)),
    (8, 32, 100, 20, "packed", (2, 3, 100)),
    (8, 8, 24, 64, None, (16, 24)),
    (2, 32, 96, 32, "packed", (9, 96)),
    (2, 8, 24, 16, None, (3, 24)),  # a block of two bytes: no word
    (4, 256, 256, 130, None, (256,)),
]


@pytest.mark.parametrize("target, device, case", places(PRODUCTS, "c -byte_dot=4", TARGETS))
def test_accuracy_level_4_multiplies_bytes(target, device, case, tmp_path):
    """Rows of the first operand are rounded to bytes in blocks; other levels and targets do not round."""
    *numbers, shape = case
    weights = Weights(*numbers)
    weights.save(tmp_path / "m.onnx", shape)
    x = RANDOM.normal(size=shape).astype("f")
    x.flat[: numbers[1]] = 0
    y = backplane.Model(backplane.compile(tmp_path / "m.onnx", target), device).run(x=x)["y"].numpy()
    has_words = numbers[0] * numbers[1] % 32 == 0
    assert_product(y, in_bytes(x, numbers[1]) if has_words and "byte_dot" in target else x, weights)


@pytest.mark.parametrize("level, target", [(0, "c -byte_dot=4"), (1, "c -byte_dot=4"), (INT8, "c -byte_dot=1")])
def test_other_levels_multiply_floats(level, target, tmp_path):
    """Without the permission, or without a faster product of bytes, nothing is rounded."""
    weights = Weights(4, 32, 64, 48, "packed")
    weights.save(tmp_path / "m.onnx", (5, 64), level)
    x = RANDOM.normal(size=(5, 64)).astype("f")
    y = backplane.Model(backplane.compile(tmp_path / "m.onnx", target), "cpu").run(x=x)["y"].numpy()
    assert_product(y, x, weights)


def test_open_rows_of_float16(tmp_path):
    """A reference and a compiled model agree for any number of rows, and values that are no numbers stay in their rows."""
    weights = Weights(4, 32, 96, 33, "packed")
    weights.save(tmp_path / "m.onnx", ("batch", "rows", 96), kind="f2")
    weights.numbers = (weights.numbers / np.repeat(weights.scales.T, 32, 0)) * np.repeat(weights.scales.astype("f2").T, 32, 0)
    models = [backplane.Model(backplane.compile(tmp_path / "m.onnx", "c -byte_dot=4", reference=is_reference), "cpu")
              for is_reference in (False, True)]
    for shape in (1, 1), (3, 7), (0, 5), (2, 40):
        x = RANDOM.normal(size=(*shape, 96)).astype("f2")
        if x.size > 96:
            x[0, 0, 5], x[-1, -1, 40] = np.nan, np.inf
        y, plain = (model.run(x=x)["y"].numpy() for model in models)
        finite = np.isfinite(x.astype("f")).all(-1)
        np.testing.assert_allclose(y[finite].astype("f"), plain[finite].astype("f"), rtol=2e-3, atol=2e-3)
        rounded = in_bytes(x.astype("f")[finite], 32)
        np.testing.assert_allclose(y[finite].astype("d"), rounded @ weights.numbers, rtol=2e-3, atol=2e-3)
        assert not np.isfinite(y[~finite].astype("f")).any()
