# SPDX-License-Identifier: Apache-2.0
"""The operators that bench_operators.py measures, at sizes that models have."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Shape = tuple[int, ...]
Inputs = dict[str, np.ndarray]
OPSET = 22

PICTURE: Shape = (1, 64, 56, 56)
ROWS: Shape = (1024, 1024)


@dataclass
class Case:
    """One operator: the shapes of its inputs, its constants, and its multiplications."""

    name: str
    operator: str
    inputs: list[Shape]
    constants: list[np.ndarray] = field(default_factory=list)
    products: float = 0  # multiplications of the whole output
    dtype: str = "float32"
    attributes: dict[str, Any] = field(default_factory=dict)

    def model(self) -> onnx.ModelProto:
        """Return a model of the operator alone, with inputs x0, x1 and so on."""
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype))
        names = [f"x{i}" for i in range(len(self.inputs))]
        values = [
            helper.make_tensor_value_info(name, kind, shape)
            for name, shape in zip(names, self.inputs, strict=True)
        ]
        constants = [numpy_helper.from_array(c, f"c{i}") for i, c in enumerate(self.constants)]
        operands = names + [c.name for c in constants]
        outputs = ["y0", "y1"] if self.operator == "TopK" else ["y0"]
        node = helper.make_node(self.operator, operands, outputs, **self.attributes)
        graph = helper.make_graph([node], "operator", values, [], constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
        model.ir_version = 10
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
        model.graph.output.extend(v for v in inferred.graph.value_info if v.name in outputs)
        if not model.graph.output:  # not inferred: these operators keep type and shape
            value = helper.make_tensor_value_info(outputs[0], kind, self.inputs[0])
            model.graph.output.append(value)
        return model

    def values(self) -> Inputs:
        """Return inputs from a fixed seed."""
        random = np.random.default_rng(1)
        least, most = (0.1, 1) if np.dtype(self.dtype).kind == "f" else (0, 256)
        return {
            f"x{i}": random.uniform(least, most, shape).astype(self.dtype)
            for i, shape in enumerate(self.inputs)
        }

    def num_bytes(self) -> int:
        """Return the bytes of inputs, large constants and outputs."""
        size = np.dtype(self.dtype).itemsize
        large = sum(c.nbytes for c in self.constants if c.dtype == self.dtype)
        outputs = 0
        for output in self.model().graph.output:
            dims = [d.dim_value for d in output.type.tensor_type.shape.dim]
            outputs += math.prod(dims) * size
        return sum(math.prod(s) * size for s in self.inputs) + large + outputs


def ints(*values: int) -> np.ndarray:
    """A constant vector of int64."""
    return np.array(values, np.int64)


def weights(*shape: int, dtype: str = "float32") -> np.ndarray:
    """A constant with random elements."""
    return (np.random.default_rng(2).standard_normal(shape) * 0.1).astype(dtype)


def conv(name: str, operator: str, shape: Shape, image: Shape, taps: float, **more: Any) -> Case:
    """A convolution. `taps` is the total number of multiplications."""
    dtype = more.pop("dtype", "float32")
    return Case(name, operator, [image], [weights(*shape, dtype=dtype)], taps, dtype, more)


def element_wise() -> list[Case]:
    """Return operators that compute each output element from one element of each input."""
    unary = "Relu Sigmoid Tanh Exp Log Sqrt Erf Cos Floor Gelu Softplus HardSwish".split()
    result = [Case(op, op, [ROWS]) for op in unary]
    result += [Case(op, op, [ROWS, ROWS]) for op in "Add Mul Div Pow Max Greater".split()]
    return result + [
        Case("Add, row", "Add", [ROWS, (1024,)]),
        Case("Add, column", "Add", [ROWS, (1024, 1)]),
        Case("Cast", "Cast", [ROWS], attributes={"to": TensorProto.FLOAT16}),
        Case("Clip", "Clip", [ROWS], [np.float32(0.2), np.float32(0.8)]),
        Case("PRelu", "PRelu", [PICTURE], [weights(64, 1, 1)]),
        Case(
            "BatchNormalization",
            "BatchNormalization",
            [PICTURE],
            [weights(64), weights(64), weights(64), np.abs(weights(64)) + 1],
        ),
    ]


def moving() -> list[Case]:
    """Operators that move elements."""
    reverse = np.arange(512, dtype=np.int64)[::-1].copy()
    transpose = lambda name, shape, *perm: Case(  # noqa: E731
        name, "Transpose", [shape], attributes={"perm": list(perm)}
    )
    scales = [np.zeros(0, np.float32), np.array([1, 1, 2, 2], np.float32)]
    rows = np.random.default_rng(3).permutation(1024)[:512].astype(np.int64)
    return [
        transpose("Transpose", ROWS, 1, 0),
        transpose("Transpose, 8 matrices", (8, 1024, 1024), 0, 2, 1),
        transpose("Transpose, heads", (1, 512, 16, 64), 0, 2, 1, 3),
        transpose("Transpose, NHWC to NCHW", (1, 56, 56, 64), 0, 3, 1, 2),
        transpose("Transpose, NCHW to NHWC", PICTURE, 0, 2, 3, 1),
        Case("Concat, one row", "Concat", [(32, 511, 64), (32, 1, 64)], attributes={"axis": 1}),
        Case("Concat, cache", "Concat", [(1, 32, 2047, 128), (1, 32, 1, 128)], attributes={"axis": 2}),
        Case("Concat, last", "Concat", [(1024, 500), (1024, 37)], attributes={"axis": 1}),
        Case("Concat, channels", "Concat", [PICTURE, (1, 32, 56, 56)], attributes={"axis": 1}),
        Case("Slice", "Slice", [ROWS], [ints(3), ints(1003), ints(1)]),
        Case("Slice, step 2", "Slice", [ROWS], [ints(0), ints(1024), ints(1), ints(2)]),
        Case("Split", "Split", [ROWS], attributes={"axis": 1, "num_outputs": 1}),
        Case("Pad", "Pad", [PICTURE], [ints(0, 0, 1, 1, 0, 0, 1, 1)]),
        Case("Pad, reflect", "Pad", [PICTURE], [ints(0, 0, 1, 1, 0, 0, 1, 1)], attributes={"mode": "reflect"}),
        Case("Gather", "Gather", [ROWS], [reverse]),
        Case("Gather, last", "Gather", [ROWS], [reverse], attributes={"axis": 1}),
        Case("GatherElements", "GatherElements", [ROWS], [np.tile(rows[:, None], (1, 1024))]),
        Case("GatherND", "GatherND", [ROWS], [rows[:, None]]),
        Case("ScatterND", "ScatterND", [ROWS], [rows[:, None], weights(512, 1024)]),
        Case("Expand", "Expand", [(1, 1024)], [ints(*ROWS)]),
        Case("Tile", "Tile", [(256, 256)], [ints(4, 4)]),
        Case("DepthToSpace", "DepthToSpace", [PICTURE], attributes={"blocksize": 2}),
        Case("SpaceToDepth", "SpaceToDepth", [PICTURE], attributes={"blocksize": 2}),
        Case("Trilu", "Trilu", [ROWS]),
        Case("Resize, nearest", "Resize", [PICTURE], scales, attributes={"mode": "nearest"}),
        Case("Resize, linear", "Resize", [PICTURE], scales, attributes={"mode": "linear"}),
        Case("Resize, cubic", "Resize", [PICTURE], scales, attributes={"mode": "cubic"}),
        Case("GridSample", "GridSample", [PICTURE, (1, 56, 56, 2)]),
    ]


def reducing() -> list[Case]:
    """Reductions, normalisations, pooling, sorting."""
    pool = lambda name, op, **attributes: Case(  # noqa: E731
        name, op, [PICTURE], attributes=attributes
    )
    return [
        Case("ReduceSum, rows", "ReduceSum", [ROWS], [ints(1)]),
        Case("ReduceSum, columns", "ReduceSum", [ROWS], [ints(0)]),
        Case("ReduceMean, picture", "ReduceMean", [PICTURE], [ints(2, 3)]),
        Case("ReduceMax, all", "ReduceMax", [ROWS]),
        Case("ArgMax", "ArgMax", [ROWS], attributes={"axis": 1}),
        Case("CumSum", "CumSum", [ROWS], [ints(1)]),
        Case("CumSum, columns", "CumSum", [ROWS], [ints(0)]),
        Case("TopK", "TopK", [ROWS], [ints(10)]),
        Case("Softmax", "Softmax", [ROWS]),
        Case("Softmax, columns", "Softmax", [ROWS], attributes={"axis": 0}),
        Case("LogSoftmax", "LogSoftmax", [ROWS]),
        Case("LayerNormalization", "LayerNormalization", [ROWS, (1024,)]),
        Case("InstanceNormalization", "InstanceNormalization", [PICTURE, (64,), (64,)]),
        Case("GroupNormalization", "GroupNormalization", [PICTURE, (64,), (64,)], attributes={"num_groups": 8}),
        Case("LRN", "LRN", [PICTURE], attributes={"size": 5}),
        pool("MaxPool", "MaxPool", kernel_shape=[2, 2], strides=[2, 2]),
        pool("MaxPool, 3x3", "MaxPool", kernel_shape=[3, 3]),
        pool("MaxPool, 3x3 by 2", "MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        pool("AveragePool", "AveragePool", kernel_shape=[3, 3]),
        pool("GlobalAveragePool", "GlobalAveragePool"),
    ]


def multiplying() -> list[Case]:
    """Matrix products, convolutions and recurrent layers."""
    padded: dict[str, Any] = {"pads": [1, 1, 1, 1]}
    twice: dict[str, Any] = {"pads": [1, 1, 1, 1], "strides": [2, 2]}
    image, elements = PICTURE, math.prod(PICTURE)
    result = [
        Case("MatMul", "MatMul", [(256, 512), (512, 512)], [], 256.0 * 512 * 512),
        Case("MatMul, constant", "MatMul", [(256, 512)], [weights(512, 512)], 256.0 * 512 * 512),
        Case("MatMul, vector", "MatMul", [(1, 1024)], [weights(1024, 1024)], 1024.0 * 1024),
        Case("MatMul, batches", "MatMul", [(16, 128, 64), (16, 64, 128)], [], 16.0 * 128 * 64 * 128),
        Case(
            "Gemm, transposed",
            "Gemm",
            [(256, 512)],
            [weights(512, 512)],
            256.0 * 512 * 512,
            attributes={"transB": 1},
        ),
        conv("Conv 3x3", "Conv", (64, 64, 3, 3), image, 576.0 * elements, **padded),
        conv("Conv 1x1", "Conv", (64, 64, 1, 1), image, 64.0 * elements),
        conv("Conv 1x1, 3 channels", "Conv", (16, 3, 1, 1), (1, 3, 512, 512), 48.0 * 512 * 512),
        conv("Conv 7x7 by 2, 3 channels", "Conv", (64, 3, 7, 7), (1, 3, 224, 224), 147.0 * 64 * 112 * 112, pads=[3] * 4, strides=[2, 2]),
        conv("Conv 3x3 by 2", "Conv", (64, 64, 3, 3), image, 144.0 * elements, **twice),
        conv("Conv, depthwise", "Conv", (64, 1, 3, 3), image, 9.0 * elements, **padded, group=64),
        conv("Conv, 4 groups", "Conv", (64, 16, 3, 3), image, 144.0 * elements, **padded, group=4),
        conv("Conv, 1 dimension", "Conv", (256, 256, 3), (1, 256, 512), 768.0 * 256 * 512, pads=[1, 1]),
        conv("ConvTranspose 2x2", "ConvTranspose", (64, 32, 2, 2), image, 128.0 * elements, strides=[2, 2]),
        conv("ConvTranspose 4x4", "ConvTranspose", (64, 32, 4, 4), image, 512.0 * elements, **twice),
        conv("ConvTranspose 3x3", "ConvTranspose", (64, 32, 3, 3), image, 288.0 * elements, **twice, output_padding=[1, 1]),
        conv("ConvTranspose, groups", "ConvTranspose", (64, 1, 4, 4), image, 16.0 * elements, **twice, group=64),
        Case("LSTM", "LSTM", [(64, 1, 128)], [weights(1, 512, 128), weights(1, 512, 128)], 64.0 * 512 * 256, attributes={"hidden_size": 128}),
        Case("GRU", "GRU", [(64, 1, 128)], [weights(1, 384, 128), weights(1, 384, 128)], 64.0 * 384 * 256, attributes={"hidden_size": 128}),
    ]
    for dtype in ("float16", "float64"):
        result.append(Case(f"MatMul, {dtype}", "MatMul", [(256, 512)], [weights(512, 512, dtype=dtype)], 256.0 * 512 * 512, dtype))
        result.append(conv(f"Conv 3x3, {dtype}", "Conv", (64, 64, 3, 3), image, 576.0 * elements, **padded, dtype=dtype))
    return result


def quantised() -> list[Case]:
    """Products and convolutions of bytes with constant weights of int8, whose results are bytes."""
    scale, zero = np.array(0.01, np.float32), np.array(128, np.uint8)
    padded: dict[str, Any] = {"pads": [1, 1, 1, 1]}

    def case(operator: str, text: str, shape: Shape, image: Shape, products: float, **attributes: Any) -> Case:
        levels = np.random.default_rng(2).integers(-127, 128, shape).astype(np.int8)
        constants = [scale, zero, levels, scale, np.array(0, np.int8), np.array(1, np.float32), zero]
        return Case(f"{operator}{text}", operator, [image], constants, products, "uint8", attributes)

    elements = math.prod(PICTURE)
    return [
        case("QLinearMatMul", "", (512, 512), (256, 512), 256.0 * 512 * 512),
        case("QLinearMatMul", ", vector", (1024, 1024), (1, 1024), 1024.0 * 1024),
        case("QLinearConv", " 3x3", (64, 64, 3, 3), PICTURE, 576.0 * elements, **padded),
        case("QLinearConv", " 1x1", (256, 64, 1, 1), PICTURE, 256.0 * elements),
        case("QLinearConv", " 7x7 by 2, 3 channels", (64, 3, 7, 7), (1, 3, 224, 224), 147.0 * 64 * 112 * 112, pads=[3] * 4, strides=[2, 2]),
        case("QLinearConv", ", depthwise", (64, 1, 3, 3), PICTURE, 9.0 * elements, **padded, group=64),
    ]


def cases() -> list[Case]:
    """Return all cases. Large families of operators have one or two cases."""
    return [*element_wise(), *moving(), *reducing(), *multiplying(), *quantised()]
