# SPDX-License-Identifier: Apache-2.0
"""Quantised operators with constant weights, compared with numpy's integers."""

import numpy as np
import pytest

import backplane

from conftest import open_model, places

onnx = pytest.importorskip("onnx")

RANDOM = np.random.default_rng(7)
# The CPUs have an instruction for dot products of bytes, pairs of products of 16 bits, and vectors of other lengths.
TARGETS = ["c -byte_dot=0 -winograd=false", "c -mcpu=x86-64 -winograd=false", "c -vector_bits=128", "c -vector_bits=256",
           "c -vector_bits=0", "llvm", "llvm -mcpu=x86-64 -winograd=false", "llvm -vector_bits=128", "llvm -vector_bits=0"]


def bytes_of(kind, *shape):
    """Return random bytes, the least and the largest among them."""
    range_ = np.iinfo(kind)
    values = RANDOM.integers(range_.min, range_.max + 1, shape).astype(kind)
    values.flat[0], values.flat[-1] = range_.min, range_.max
    return values


def save_model(path, nodes, kind, shape, result, **constants):
    """Save a model of one input, x, and one output, y; constants that are None are absent."""
    inits = [onnx.numpy_helper.from_array(value, name) for name, value in constants.items() if value is not None]
    for node in nodes:
        node.input[:] = [name if constants.get(name, 0) is not None else "" for name in node.input]
    graph = onnx.helper.make_graph(
        nodes, "g", [onnx.helper.make_tensor_value_info("x", onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind)), shape)],
        [onnx.helper.make_tensor_value_info("y", result, None)], inits)
    imports = [onnx.helper.make_opsetid("", 13), onnx.helper.make_opsetid("com.microsoft", 1)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=imports, ir_version=8), path)


def wide(values, zero):
    """Return integers minus their zero point."""
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
    ((16, 16), (16, 1), "u1", "i1", 5, None),
]


@pytest.mark.parametrize("target, device, case", places(PRODUCTS, "c", TARGETS))
def test_products_of_bytes_are_exact(target, device, case, tmp_path):
    shape_a, shape_b, kind_a, kind_b, zero_a, zero_b = case
    b = bytes_of(kind_b, *shape_b)
    zero_a = None if zero_a is None else np.array(zero_a, kind_a)
    if zero_b == "columns":
        zero_b = bytes_of(kind_b, shape_b[-1])
    elif zero_b is not None:
        zero_b = np.array(zero_b, kind_b)
    path = tmp_path / "product.onnx"
    save_model(path, [onnx.helper.make_node("MatMulInteger", ["x", "b", "za", "zb"], ["y"])], kind_a,
               [*shape_a[:-2], "m", shape_a[-1]], onnx.TensorProto.INT32, b=b, za=zero_a, zb=zero_b)
    model = open_model(path, target, device)
    for rows in (shape_a[-2], 1, 40):
        a = bytes_of(kind_a, *shape_a[:-2], rows, shape_a[-1])
        got = model.run(x=a)["y"].numpy()
        np.testing.assert_array_equal(got, np.matmul(wide(a, zero_a), wide(b, zero_b)))


CONVOLUTIONS = [
    # the shapes of x and w, their types, zero points, pads, strides, dilations
    ((1, 3, 9, 11), (8, 3, 3, 3), "u1", "i1", 128, 0, (1, 1, 1, 1), (1, 1), (1, 1)),
    ((2, 20, 7, 6), (33, 20, 3, 2), "i1", "i1", -5, 0, (2, 0, 1, 1), (2, 1), (1, 2)),
    ((1, 64, 5, 5), (16, 64, 1, 1), "i1", "i1", None, None, (0, 0, 0, 0), (1, 1), (1, 1)),
    ((1, 48, 6, 6), (5, 48, 3, 3), "u1", "u1", 255, 128, (1, 1, 1, 1), (1, 1), (1, 1)),
    ((1, 6, 8, 8), (4, 6, 5, 5), "u1", "u1", 0, 0, (2, 2, 2, 2), (1, 1), (1, 1)),
    ((1, 8, 8, 8), (8, 4, 3, 3), "u1", "i1", 7, None, (1, 1, 1, 1), (1, 1), (1, 1)),
    ((1, 9, 8, 8), (9, 1, 3, 3), "i1", "i1", 7, None, (1, 1, 1, 1), (1, 1), (1, 1)),
    ((2, 33, 14, 13), (33, 1, 5, 5), "u1", "u1", 255, 128, (2, 1, 2, 3), (1, 1), (1, 1)),
    ((1, 16, 9, 9), (16, 1, 3, 3), "u1", "i1", 130, None, (0, 0, 0, 0), (2, 1), (1, 2)),
    ((1, 5, 20, 18), (5, 1, 17, 17), "u1", "u1", 0, None, (1, 1, 1, 1), (1, 1), (1, 1)),
    ((1, 4, 7), (6, 4, 3), "u1", "i1", 9, None, (1, 1), (1,), (1,)),
]


def convolve(x, w, pads, strides, dilations):
    """Return the convolution of integers, padded with zeros, in as many groups as the channels show."""
    rank = x.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:])])
    groups = x.shape[1] // w.shape[1]
    spans = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilations)]
    windows = np.lib.stride_tricks.sliding_window_view(x, spans, tuple(range(2, 2 + rank)))
    steps = (..., *(slice(None, None, s) for s in strides), *(slice(None, None, d) for d in dilations))
    windows = windows[steps].reshape(x.shape[0], groups, -1, *windows[steps].shape[2:])
    letters = "hw"[:rank], "kl"[:rank]
    terms = f"ngc{letters[0]}{letters[1]},goc{letters[1]}->ngo{letters[0]}"
    result = np.einsum(terms, windows, w.reshape(groups, -1, *w.shape[1:]))
    return result.reshape(x.shape[0], w.shape[0], *result.shape[3:])


@pytest.mark.parametrize("target, device, case", places(CONVOLUTIONS, "c", TARGETS))
def test_convolutions_of_bytes_are_exact(target, device, case, tmp_path):
    shape_x, shape_w, kind_x, kind_w, zero_x, zero_w, *window = case
    x, w = bytes_of(kind_x, *shape_x), bytes_of(kind_w, *shape_w)
    zeros = [None if zero is None else np.array(zero, kind) for zero, kind in ((zero_x, kind_x), (zero_w, kind_w))]
    path = tmp_path / "convolution.onnx"
    node = onnx.helper.make_node("ConvInteger", ["x", "w", "zx", "zw"], ["y"], group=shape_x[1] // shape_w[1],
                                 **dict(zip(("pads", "strides", "dilations"), window)))
    save_model(path, [node], kind_x, [None, *shape_x[1:]], onnx.TensorProto.INT32, w=w, zx=zeros[0], zw=zeros[1])
    got = open_model(path, target, device).run(x=x)["y"].numpy()
    np.testing.assert_array_equal(got, convolve(wide(x, zeros[0]), wide(w, zeros[1]), *window))


DEQUANTISED = [
    # operator, shapes, types, whether each channel has a scale
    ("MatMul", (2, 1, 1, 1, 3, 20), (20, 6), "u1", "i1", True),
    ("MatMul", (3, 5, 65), (65, 40), "u1", "i1", True),
    ("MatMul", (4, 300), (300, 17), "i1", "i1", False),
    ("MatMul", (4, 300), (300, 17), "i1", "u1", True),
    ("Conv", (1, 20, 9, 9), (24, 20, 3, 3), "u1", "i1", True),
    ("Conv", (1, 16, 9, 9), (7, 16, 1, 1), "i1", "i1", False),
    ("Conv", (1, 16, 9, 9), (16, 1, 3, 3), "i1", "i1", True),
    ("Conv", (2, 21, 7, 9), (21, 1, 3, 5), "u1", "u1", True),
    ("Conv", (1, 5, 9, 9), (5, 1, 3, 3), "i1", "u1", False),
]


@pytest.mark.parametrize("target, device, case", places(DEQUANTISED, "c", TARGETS))
def test_operators_of_dequantised_tensors(target, device, case, tmp_path):
    """Scales are powers of two, so that float32 is exact; those of channels differ."""
    op, shape_x, shape_w, kind_x, kind_w, has_scales = case
    axis = 1 if op == "MatMul" else 0
    x, w = bytes_of(kind_x, *shape_x), bytes_of(kind_w, *shape_w)
    w[..., 0] = w.flat[-1]  # a column, or the first tap of a channel's rows, of one number
    channels = shape_w[axis]
    scales = 2.0 ** -RANDOM.integers(3, 9, channels).astype("f4") if has_scales else np.float32(1 / 32)
    zero_x, zero_w = np.array(100, kind_x), np.full(scales.shape, 0 if kind_w == "i1" else 128, kind_w)
    bias = RANDOM.integers(-99, 99, channels).astype("f4")
    names, attrs = (["xf", "wf"], {}) if op == "MatMul" else (["xf", "wf", "bias"], dict(group=shape_x[1] // shape_w[1]))
    path = tmp_path / "dequantised.onnx"
    nodes = [onnx.helper.make_node("DequantizeLinear", ["x", "sx", "zx"], ["xf"]),
             onnx.helper.make_node("DequantizeLinear", ["w", "sw", "zw"], ["wf"], axis=axis),
             onnx.helper.make_node(op, names, ["yf"], **attrs),
             onnx.helper.make_node("QuantizeLinear", ["yf", "sy", "zx"], ["y"])]
    save_model(path, nodes, kind_x, shape_x, onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind_x)), sx=np.float32(.25),
               zx=zero_x, w=w, sw=scales, zw=zero_w, sy=np.float32(2), bias=bias)
    got = open_model(path, target, device).run(x=x)["y"].numpy()
    centred = wide(x, zero_x), wide(w, zero_w if axis == 1 else zero_w.reshape(-1, 1, 1, 1)[:channels])
    if op == "MatMul":
        exact = np.matmul(*centred) * scales * .25
    else:
        exact = convolve(*centred, (0,) * 4, (1, 1), (1, 1))
        exact = exact * (scales * .25).reshape(-1, 1, 1) + bias.reshape(-1, 1, 1)
    range_ = np.iinfo(kind_x)
    np.testing.assert_array_equal(got, np.clip(np.rint(exact / 2) + zero_x, range_.min, range_.max).astype(kind_x))


@pytest.mark.parametrize("op", ["MatMulInteger", "MatMul", "Conv"])
def test_weights_stay_bytes(op, tmp_path):
    """Only dot products read weights as bytes."""
    w = bytes_of("i1", 700, 700, *((1, 1) if op == "Conv" else ()))
    path = tmp_path / "model.onnx"
    nodes = [onnx.helper.make_node("MatMulInteger", ["x", "w"], ["y"])]
    if op != "MatMulInteger":
        nodes = [onnx.helper.make_node("DequantizeLinear", ["x", "s", "z"], ["xf"]),
                 onnx.helper.make_node("DequantizeLinear", ["w", "s", "zw"], ["wf"]),
                 onnx.helper.make_node(op, ["xf", "wf"], ["y"])]
    save_model(path, nodes, "u1", (1, 700, 3, 3) if op == "Conv" else (2, 700),
               onnx.TensorProto.INT32 if op == "MatMulInteger" else onnx.TensorProto.FLOAT, w=w, s=np.float32(.3),
               z=np.array(7, "u1"), zw=np.array(0, "i1"))
    sizes = []
    for speed in (4, 0):
        backplane.compile(path, f"c -byte_dot={speed}").export_library(tmp_path / "model.so")
        sizes.append((tmp_path / "model.so").stat().st_size)
    assert sizes[0] < 2 * w.size < 4 * w.size < sizes[1]


LAYERS = [
    # steps, batch, inputs and states; the type of the weights; their zero point
    ((5, 1, 8, 16), "i1", 0),
    ((4, 3, 5, 32), "i1", None),
    ((3, 2, 6, 7), "u1", 128),
    ((6, 1, 9, 12), "u1", "rows"),
    ((2, 20, 3, 64), "i1", "rows"),
    ((1, 1, 300, 5), "i1", -128),
]


def quantise(values, axes):
    """Return codes of bytes minus their zero points, and the scales: onnxruntime's dynamic quantisation along axes."""
    least, most = (np.minimum(values.min(axes, keepdims=True), 0), np.maximum(values.max(axes, keepdims=True), 0))
    scale = np.where(most > least, (most - least) / np.float32(255), np.float32(1))
    zero = np.rint(-least / scale).clip(0, 255)
    return (np.rint(values / scale) + zero).clip(0, 255) - zero, scale


def sigmoid(values):
    return 1 / (1 + np.exp(-values))


def run_layer(x, weights, scales, bias):
    """Return all states of an LSTM with integer weights, centred, whose inputs and states are quantised."""
    codes, scale = quantise(x, (0, 2))
    gates = codes @ weights[0] * (scale * scales[0]) + bias
    state = content = np.zeros((x.shape[1], weights[1].shape[0]), "f4")
    states = []
    for step in gates:
        codes, scale = quantise(state, (1,))
        parts = np.split((step + codes @ weights[1] * (scale * scales[1])).astype("f4"), 4, -1)
        content = sigmoid(parts[2]) * content + sigmoid(parts[0]) * np.tanh(parts[3])
        state = (sigmoid(parts[1]) * np.tanh(content)).astype("f4")
        states.append(state)
    return np.stack(states)


@pytest.mark.parametrize("target, device, case", places(LAYERS, "c", TARGETS))
def test_layers_of_bytes(target, device, case, tmp_path):
    """Each row of the batch has its ranges. A state may be on the border of two codes: the weights are small."""
    (steps, batch, inputs, hidden), kind, zero = case
    weights = [bytes_of(kind, 2, rows, 4 * hidden) for rows in (inputs, hidden)]
    many = (2, 4 * hidden) if zero == "rows" else (2,)
    scales = [RANDOM.uniform(.5, 1, many).astype("f4") / limit for limit in (1000, 20000)]
    zeros = [None if zero is None else bytes_of(kind, *many) if zero == "rows" else np.full(many, zero, kind) for _ in range(2)]
    bias = RANDOM.uniform(-1, 1, (2, 8 * hidden)).astype("f4")
    names = dict(w=weights[0], r=weights[1], b=bias, ws=scales[0], wz=zeros[0], rs=scales[1], rz=zeros[1])
    path = tmp_path / "layer.onnx"
    node = onnx.helper.make_node("DynamicQuantizeLSTM", ["x", "w", "r", "b", "", "", "", "", "ws", "wz", "rs", "rz"], ["y"],
                                 domain="com.microsoft", hidden_size=hidden, direction="bidirectional")
    save_model(path, [node], "f4", ["steps", "batch" if batch > 1 else 1, inputs], onnx.TensorProto.FLOAT, **names)
    x = RANDOM.normal(size=(steps, batch, inputs)).astype("f4")
    got = open_model(path, target, device).run(x=x)["y"].numpy()
    for way in (0, 1):
        centred = [wide(w[way], None if z is None else np.reshape(z[way], (1, -1))) for w, z in zip(weights, zeros)]
        order = slice(None, None, 1 - 2 * way)
        own = [s[way].reshape(-1) for s in scales]
        expected = run_layer(x[order], centred, own, bias[way].reshape(2, -1).sum(0))[order]
        np.testing.assert_allclose(got[:, way], expected, atol=2e-4)


@pytest.mark.parametrize("scale, zero, axis", [
    (np.float32(.25), None, 1), (np.float32(.25), np.array(-3, "i1"), 1), (np.float32([.5, 2, 3]), np.array(7, "i1"), 0),
    (np.float32(.5), np.array([4, -5, 6], "i1"), 0), (np.float32([.5, 2, 3, 4]), np.array([1, 2, 3, 4], "i1"), 1),
])
def test_constant_bytes_become_numbers(scale, zero, axis, tmp_path):
    """The scale and the zero point may have different numbers of elements."""
    w = bytes_of("i1", 3, 4, 5)
    path = tmp_path / "constant.onnx"
    nodes = [onnx.helper.make_node("DequantizeLinear", ["w", "s", "z"], ["f"], axis=axis),
             onnx.helper.make_node("Add", ["x", "f"], ["y"])]
    save_model(path, nodes, "f4", (3, 4, 5), onnx.TensorProto.FLOAT, w=w, s=scale, z=zero)
    shape = [-1 if i == axis else 1 for i in range(3)]
    expected = wide(w, np.int8(0) if zero is None else zero if zero.ndim == 0 else zero.reshape(shape))
    expected = expected * (scale if scale.ndim == 0 else scale.reshape(shape))
    got = open_model(path, "c", "cpu").run(x=np.zeros((3, 4, 5), "f4"))["y"].numpy()
    np.testing.assert_array_equal(got, expected)


FP4 = [0, 1 / 192, 2 / 3, 1, 1 / 3, 1 / 2, 1 / 6, 1 / 4]
NF4 = [-1, -.6961928009986877, -.5250730514526367, -.39491748809814453, -.28444138169288635, -.18477343022823334,
       -.09105003625154495, 0, .07958029955625534, .16093020141124725, .24611230194568634, .33791524171829224,
       .44070982933044434, .5626170039176941, .7229568362236023, 1]
CODED = [
    # inner, columns and block; the table
    (64, 48, 16, 0),
    (512, 333, 64, 1),
    (128, 16, 128, 1),
    (40, 7, 16, 1),  # blocks that continue in the next column
]


@pytest.mark.parametrize("target, device, case", places(CODED, "c", TARGETS))
def test_codes_of_four_bits(target, device, case, tmp_path):
    inner, columns, block, kind = case
    codes = bytes_of("u1", inner * columns // 2)
    scales = RANDOM.uniform(.1, 1, -(-inner * columns // block)).astype("f4")
    path = tmp_path / "product.onnx"
    node = onnx.helper.make_node("MatMulBnb4", ["x", "w", "s"], ["y"], domain="com.microsoft", K=inner, N=columns,
                                 block_size=block, quant_type=kind)
    save_model(path, [node], "f4", ["rows", inner], onnx.TensorProto.FLOAT, w=codes, s=scales)
    table = np.array([FP4 + [-number for number in FP4], NF4][kind], "f4")
    weights = table[np.stack([codes >> 4, codes & 15], -1)].reshape(-1)
    weights = weights * scales.repeat(block)[:weights.size]
    model = open_model(path, target, device)
    for rows in (1, 5, 40):
        x = RANDOM.normal(size=(rows, inner)).astype("f4")
        expected = x.astype("f8") @ weights.reshape(columns, inner).T
        np.testing.assert_allclose(model.run(x=x)["y"].numpy(), expected, atol=1e-4)
    if device == "cpu" and inner * columns > 100000:
        backplane.compile(path, target).export_library(tmp_path / "product.so")
        assert (tmp_path / "product.so").stat().st_size < inner * columns * 2


def save_product_of_bytes(path, weights, scale):
    """Save a product of dequantised bytes and weights of float32."""
    nodes = [onnx.helper.make_node("DequantizeLinear", ["x", "s"], ["xf"]), onnx.helper.make_node("MatMul", ["xf", "w"], ["y"])]
    save_model(path, nodes, "u1", (4, len(weights)), onnx.TensorProto.FLOAT, s=np.float32(scale), w=weights)


@pytest.mark.parametrize("target", ["c", "llvm"])
def test_dequantised_bytes_that_overflow_are_infinite(target, tmp_path):
    """The weights are small enough for finite sums of integers times the scales of both."""
    path = tmp_path / "overflow.onnx"
    save_product_of_bytes(path, np.full((8, 16), 2.0 ** -60, "f4"), 2.0 ** 123)
    x = np.full((4, 8), 200, "u1")
    x[1:] = 0, 1, 2, 3, 4, 5, 6, 7
    got = open_model(path, target, "cpu").run(x=x)["y"].numpy()
    np.testing.assert_array_equal(got[0], np.inf)
    np.testing.assert_array_equal(got[1:], 28 * 2.0 ** 63)
