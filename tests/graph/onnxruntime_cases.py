# SPDX-License-Identifier: Apache-2.0
"""Compares with onnxruntime: onnxruntime_cases.py BACKPLANE FOLDER TARGET...

The first part tests operators with extreme numbers, attributes and shapes, listed in the table below. For each
target and operator set the command `backplane` runs one model of all these operators. The second part tests each
node of the random graphs that test-random-graphs wrote to FOLDER, alone; its inputs are the values that
Backplane's interpreter computed. onnxruntime runs each node without optimisations. Prints TAP."""

import functools
import re
import subprocess
import sys
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

warnings.filterwarnings("ignore")
np.seterr(all="ignore")
onnxruntime.set_default_logger_severity(4)

DEVICES = {"c": "cpu", "llvm": "cpu", "opencl": "opencl", "vulkan": "vulkan"}
NAN, INF = np.nan, np.inf
RANDOM = np.random.RandomState(1)

# Operators that differ at NaN and infinity. ONNX does not define maxima of NaN: Backplane returns NaN or its index, as
# numpy does; onnxruntime clips infinity to the largest number if a bound is left out, takes a running sum for LRN,
# which stays NaN, and reads beyond the edge of a resized picture with the weight 0.
OPEN_AT_NAN = {"ArgMax", "ArgMin", "Clip", "GlobalMaxPool", "LRN", "MaxPool", "MaxRoiPool", "ReduceLogSumExp", "ReduceMax",
               "ReduceMin", "Resize", "ScatterElements", "ScatterND", "Upsample"}


def is_by_reference(node, first=None):
    """Return whether the peer is ONNX's reference instead of onnxruntime. onnxruntime has no LinearAttention; where
    the length is no power of two, its transforms are off by a thousandth; a cubic GridSample with padding_mode
    border moves the place into the picture before it takes neighbours; AffineGrid with align_corners puts the one
    point of an axis of extent 1 at 1, not at -1; a linear Resize of integers rounds down."""
    modes = {attribute.name: attribute.s for attribute in node.attribute if attribute.name in ("mode", "padding_mode")}
    if node.op_type == "Resize" and first is not None and first.dtype.kind in "iu":
        return modes["mode"] != b"nearest"
    return node.op_type in ("AffineGrid", "DFT", "STFT", "LinearAttention") or (node.op_type == "GridSample" and modes == {
        "mode": b"cubic", "padding_mode": b"border"})


# ---- Models --------------------------------------------------------------------------------------


def opsets(version):
    return [helper.make_opsetid("", version), helper.make_opsetid("com.microsoft", 1)]


def node_model(node, inputs, opset):
    """Return a model of one node; `inputs` are given by name."""
    graph = helper.make_graph(
        [node], "node",
        [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype),
                                       value.shape) for name, value in inputs.items()],
        [onnx.ValueInfoProto(name=name) for name in node.output if name])
    return helper.make_model(graph, opset_imports=opsets(opset), ir_version=8)


@functools.lru_cache(None)
def peer_saturates():
    """Return whether onnxruntime adds products of uint8 and int8 in pairs that saturate at 16 bits. onnxruntime saturates on x86 processors without VNNI. Weights of 7 bits avoid saturation."""
    x, w = np.full((3, 300), 255, "u1"), np.full((300, 7), 127, "i1")
    node = helper.make_node("MatMulInteger", ["x", "w"], ["y"])
    return peer(node, {"x": x, "w": w}, 20)[0][0, 0] != 300 * 255 * 127


def by_rows(node, inputs, opset):
    """Return the outputs of DynamicQuantizeLSTM for each row of the batch alone: onnxruntime quantises rows together."""
    axes = dict(zip(node.input, [1, None, None, None, 0, 1, 1]))
    parts = []
    for row in range(inputs[node.input[0]].shape[1]):
        parts.append(run_alone(node, {name: value if axes.get(name) is None else value.take([row], axes[name])
                                      for name, value in inputs.items()}, opset))
        if parts[-1] is None:
            return None
    return [np.concatenate(part, 2 - min(i, 1)) for i, part in enumerate(zip(*parts))]


def peer(node, inputs, opset):
    """Return the outputs of onnxruntime, or None if it lacks the operator for this type or rejects the node."""
    return (by_rows if node.op_type == "DynamicQuantizeLSTM" else run_alone)(node, inputs, opset)


def run_alone(node, inputs, opset):
    """Return the outputs of onnxruntime, or None, for all rows together."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    model = node_model(node, inputs, opset)
    if is_by_reference(node, next(iter(inputs.values()), None)):
        return ReferenceEvaluator(model).run(None, inputs)
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options,
                                               providers=["CPUExecutionProvider"])
        return session.run(None, inputs)
    except Exception:  # pylint: disable=broad-exception-caught; its own have no common base
        return None


# Sums of integer products.
PRODUCTS = {"ConvInteger", "DynamicQuantizeMatMul", "MatMulInteger", "MatMulIntegerToFloat", "QGemm", "QLinearConv",
            "QLinearMatMul"}


def is_saturated(node, inputs):
    """Return whether the peer may saturate in a node: it multiplies integers in ReduceProd as floats."""
    first = next(iter(inputs.values()), np.array(0))
    if node.op_type == "ReduceProd" and first.dtype.kind == "i":
        return bool(np.log2(np.maximum(np.abs(first.astype("f8")), 1)).sum() >= 8 * first.itemsize - 1)
    return node.op_type in PRODUCTS and peer_saturates() and any(
        value.dtype == np.int8 and ((value < -64) | (value > 63)).any() for value in inputs.values())


def is_without_terms(node, inputs):
    """Return whether onnxruntime leaves empty sums uninitialised, as in products of integers, or returns 0 for the
    mean of no elements, which is 0/0, NaN."""
    return node.op_type in {"ReduceMean", *PRODUCTS} and any(value.size == 0 for value in inputs.values())


def is_misread(node, inputs):
    """Return whether onnxruntime computes something else: with g_idx it misreads weights of 2 bits and takes no zero
    points, and it leaves out experts whose router weights are not positive."""
    given = [inputs.get(name) for name in node.input] + [None] * 15
    bits = [attribute.i for attribute in node.attribute if attribute.name == "bits"]
    if node.op_type == "MatMulNBits":
        return given[4] is not None and (bits == [2] or given[3] is not None)
    return node.op_type == "QMoE" and given[14] is not None and bool((given[14] <= 0).any())


def largest(values):
    """Return the largest magnitude of the finite floats in a list of arrays."""
    finite = [np.abs(value[np.isfinite(value)].astype("f8")).max(initial=0)
              for value in map(np.asarray, values) if value.dtype.kind == "f"]
    return float(max(finite, default=0))


# Operators with exact results, and operators whose results have a significant sign of zero.
EXACT = {"Abs", "Neg", "Floor", "Ceil", "Round", "Identity", "Sqrt", "Mul"}


# Integer results of these operators may differ by one: onnxruntime rounds tables and products differently, and its
# QLinearSoftmax rounds down.
ROUNDED = {"QLinearAdd", "QLinearMul", "QLinearLeakyRelu", "QLinearSigmoid", "QLinearSoftmax", "QLinearWhere",
           "QLinearGlobalAveragePool", "QLinearAveragePool", "QLinearConcat", "QGemm"}


def difference(got, want, inputs, signs=False, most=0):
    """Return the difference of two arrays as text, or None. The sign of a zero is compared only on request; integers
    may differ by at most `most`. The tolerance of a sum is relative to its largest term."""
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{got.shape} instead of {want.dtype}{want.shape}"
    if want.dtype.kind == "f":
        relative = 2e-3 if want.dtype == np.float16 else 1e-5
        least = relative * largest([want]) + relative / 50 * largest(inputs)
        same = np.isclose(got.astype("f8"), want.astype("f8"), 10 * relative, least, equal_nan=True)
        if signs:
            same &= (np.signbit(got) == np.signbit(want)) | (want != 0)
    else:
        same = np.abs(got.astype("i8") - want.astype("i8")) <= most if most else got == want
    if same.all():
        return None
    place = tuple(int(i) for i in np.argwhere(~same)[0])
    return (f"{int((~same).sum())} of {want.size} differ, at {place} {got[place]} instead of "
            f"{want[place]}")


def disturbed(inputs):
    """Return the inputs with floats that differ by one or two rounding errors."""
    return {name: (value * (1 + 3e-7 * (-1) ** np.arange(value.size).reshape(value.shape))).astype("f4")
            if value.dtype == np.float32 else value for name, value in inputs.items()}


def is_ill_conditioned(node, inputs, opset, want):
    """Return whether these rounding errors change the peer's outputs by more than the tolerance."""
    other = peer(node, disturbed(inputs), opset)
    return other is not None and any(
        a.dtype.kind == "f" and difference(b, a, []) and np.isclose(a, b, .05, equal_nan=True).all()
        for a, b in zip(want, other))


def is_negative_variance(node, inputs, want):
    """onnxruntime computes the variance of MeanVarianceNormalization as a difference. For equal elements it may be
    less than 0, and its root NaN, although the mean is a number."""
    if node.op_type != "MeanVarianceNormalization":
        return False
    axes = [tuple(attribute.ints) for attribute in node.attribute] or [(0, 2, 3)]
    mean = next(iter(inputs.values())).mean(axes[0], keepdims=True)
    return bool((np.isnan(want) & np.isfinite(mean)).any())


# ---- Operators at the ends -----------------------------------------------------------------------


def floats(*values):
    return np.array(values, "f4")


def ints(*values):
    return np.array(values, "i8")


def numbers(name, *shape):
    """Return integers from the whole range of a type."""
    info = np.iinfo(name)
    return RANDOM.randint(info.min, info.max + 1, shape).astype(name)


def weights(other, name, *shape):
    """Return integers that are multiplied with integers of the type `other`. int8 beside uint8 has 7 bits, if the
    peer needs it."""
    values = numbers(name, *shape)
    return values // 2 if (other, name) == ("u1", "i1") and peer_saturates() else values


def noise(*shape):
    return RANDOM.randn(*shape).astype("f4")


def unary_cases():
    ends = floats(NAN, INF, -INF, 0, -0.0, 1, -1, .5, -.5, 1.5, 2.5, -1.5, -2.5, -.3, 88.9, -104,
                  1e-6, -1e6, 1e10)
    ends = RANDOM.permutation(np.tile(ends, 4))  # so that they meet in vectors
    for op in ("Abs Neg Sqrt Exp Log Sin Cos Tanh Erf Floor Ceil Round Sign Reciprocal Relu "
               "LeakyRelu ThresholdedRelu Elu Selu Celu Sigmoid HardSigmoid HardSwish Softplus "
               "Softsign Mish Gelu IsNaN IsInf Tan Asin Acos Atan Sinh Cosh Asinh Acosh Atanh").split():
        yield op, 20, {}, [ends]
    yield "Shrink", 20, dict(lambd=.5, bias=.25), [ends]
    for negative, positive in ((0, 0), (0, 1), (1, 0)):
        yield "IsInf", 20, dict(detect_negative=negative, detect_positive=positive), [ends]
    yield "Gelu", 20, dict(approximate="tanh"), [ends]
    others = RANDOM.permutation(np.resize(floats(1, NAN, -0.0, 0, INF, -INF, 2, 3, .25, 10), ends.shape))
    for op in "Add Sub Mul Div Max Min Pow Equal Less LessOrEqual Greater GreaterOrEqual".split():
        yield op, 20, {}, [ends, others]
        yield op, 20, {}, [others, ends]
    yield "Mod", 20, dict(fmod=1), [ends, others]
    yield "PRelu", 20, {}, [ends, others]
    for low, high in ((-.5, .5), (2, 1), (None, .5), (0, None)):
        yield "Clip", 20, {}, [floats(-3, -.5, 0, .7, 9), None if low is None else np.float32(low),
                               None if high is None else np.float32(high)]


def integer_cases():
    for name in "i1 i2 i4 i8 u1 u2 u4 u8".split():
        info = np.iinfo(name)
        a = np.array([info.max, info.min, 0, 1, 7, 100, info.max, info.min, 3], name)
        b = np.array([1, 1, 5, info.max, 3, 100, 2, 2, info.max], name)
        for op in "Add Sub Mul Div Max Min Equal Less Greater BitwiseXor".split():
            yield op, 20, {}, [a, b]
        for op in "Abs Sign BitwiseNot".split():
            yield op, 20, {}, [a]
        x = np.array([7, 8, 9, 0] + [-7, -8, -9] * (info.min < 0)).astype(name)
        y = np.array([3, 3, 5, 2] + [3, -3, -4] * (info.min < 0)).astype(name)
        yield "Mod", 20, {}, [x, y]
        yield "Mod", 20, dict(fmod=1), [x, y]
        yield "Div", 20, {}, [x, y]
        yield "Clip", 20, {}, [a, np.array(1, name), np.array(50, name)]
        near = np.array([0, 1, 2, 5, 100] + [-1, -2, -5, -100] * (info.min < 0)).astype(name)
        for bias in (0.0, 1.0, 1.5, -.5):
            yield "Shrink", 20, dict(lambd=1.5, bias=bias), [near]
        yield "Shrink", 20, dict(lambd=-1.5, bias=1.0), [near]
        yield "ArgMax", 20, {}, [a]
        yield "ArgMin", 20, dict(select_last_index=1), [a]
        yield "CumSum", 20, {}, [b, np.array(0)]
        for other in "i1 i2 i4 i8 u1 u2 u4 u8 f4".split():
            to = helper.np_dtype_to_tensor_dtype(np.dtype(other))
            yield "Cast", 20, dict(to=to), [a]
    for name in "u1 u4 u8".split():
        bits = np.iinfo(name).bits
        for direction in ("LEFT", "RIGHT"):
            yield "BitShift", 20, dict(direction=direction), [
                np.array([1, 255, np.iinfo(name).max], name), np.array([1, 7, bits - 1], name)]
    for name in "i1 i4 i8 u1".split():
        yield "Cast", 20, dict(to=helper.np_dtype_to_tensor_dtype(np.dtype(name))), [
            floats(0, 1.5, 2.5, .99, -.99, 127, 3)]
    yield "Cast", 20, dict(to=TensorProto.BOOL), [floats(NAN, 0, -0.0, .5, INF)]
    yield "Cast", 20, dict(to=TensorProto.FLOAT16), [
        floats(65504, 65519, 65520, 1 + 2.0**-11, 1 + 3 * 2.0**-11, NAN, INF, 6.1e-5)]


def window_cases():
    windows = [dict(kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1, pads=[1, 1, 1, 1]),
               dict(kernel_shape=[2, 2], strides=[3, 3], ceil_mode=1),
               dict(kernel_shape=[3, 3], dilations=[2, 3], strides=[2, 2], ceil_mode=1,
                    pads=[1, 1, 1, 1]),
               dict(kernel_shape=[3, 2], auto_pad="SAME_LOWER", strides=[2, 2]),
               dict(kernel_shape=[2, 3], auto_pad="SAME_UPPER", strides=[2, 1]),
               dict(kernel_shape=[3, 2], auto_pad="VALID", strides=[2, 3], ceil_mode=1)]
    for window in windows:
        yield "MaxPool", 22, window, [noise(1, 3, 9, 8)]
        yield "AveragePool", 22, window, [noise(1, 3, 9, 8)]
        yield "AveragePool", 22, dict(window, count_include_pad=1), [noise(1, 3, 9, 8)]
        yield "LpPool", 22, dict(window, p=3), [noise(1, 3, 9, 8)]
    for attrs in (dict(pads=[1, 2, 3, 0]), dict(auto_pad="SAME_LOWER", strides=[2, 2]),
                  dict(dilations=[2, 3], pads=[2, 3, 2, 3]), dict(pads=[9, 9, 9, 9]),
                  dict(auto_pad="VALID", strides=[3, 1])):
        for inputs, outputs, group in ((3, 4, 1), (4, 6, 2), (4, 4, 4)):
            yield "Conv", 22, dict(attrs, group=group), [
                noise(1, inputs, 9, 8), noise(outputs, inputs // group, 3, 2), noise(outputs)]
    for attrs in (dict(strides=[2, 3], pads=[1, 1, 1, 1]), dict(strides=[2, 2], output_padding=[1, 0]),
                  dict(auto_pad="SAME_LOWER", strides=[2, 2]), dict(output_shape=[9, 9], strides=[2, 2]),
                  dict(dilations=[2, 1], strides=[3, 2], pads=[1, 0, 2, 1]), dict(strides=[4, 4])):
        for inputs, outputs, group in ((3, 4, 1), (4, 3, 2)):
            yield "ConvTranspose", 22, dict(attrs, group=group), [
                noise(1, inputs, 5, 4), noise(inputs, outputs, 2, 3), noise(outputs * group)]
    weights = np.linspace(-1, 1, 72, dtype="f4").reshape(3, 4, 2, 3)
    weights[0, 0, 0, 0], weights[1, 2, 1, 2] = NAN, INF
    for attrs in (dict(strides=[4, 4]), dict(strides=[1, 2], pads=[1, 1, 1, 1])):  # with elements that no window covers
        yield "ConvTranspose", 22, attrs, [np.ones((1, 3, 5, 4), "f4"), weights]


def resize_cases():
    for mode in ("nearest", "linear", "cubic"):
        for rule in ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel", "tf_half_pixel_for_nn"):
            for rounding in ("round_prefer_ceil", "floor", "ceil") if mode == "nearest" else (None,):
                attrs = dict(mode=mode, coordinate_transformation_mode=rule)
                attrs.update(dict(nearest_mode=rounding) if rounding else {})
                yield "Resize", 19, attrs, [noise(1, 2, 5, 10), None, floats(1, 1, 1.5, .7)]
                yield "Resize", 19, attrs, [noise(1, 2, 5, 4), None, None, ints(1, 2, 7, 1)]
                if rule == "half_pixel":
                    attrs["axes"] = [3, 2]
                    for policy in ("not_larger", "not_smaller"):
                        yield "Resize", 19, dict(attrs, keep_aspect_ratio_policy=policy), [
                            noise(1, 2, 5, 4), None, None, ints(7, 9)]
        crop = dict(mode=mode, coordinate_transformation_mode="tf_crop_and_resize",
                    extrapolation_value=7.0)
        for sizes in ((1, 2, 4, 6), (1, 2, 1, 3)):
            yield "Resize", 19, crop, [noise(1, 2, 5, 4), floats(0, 0, -.3, .2, 1, 1, .8, 1.1), None,
                                       ints(*sizes)]
    for mode in ("linear", "cubic"):
        for outside in (0, 1):
            for size in (3, 5, 9):
                yield "Resize", 19, dict(mode=mode, antialias=1, exclude_outside=outside), [
                    noise(1, 2, 8, 8), None, None, ints(1, 2, size, 4)]
    far = noise(1, 1, 1, 40)
    far[..., 17] = INF
    yield "Resize", 19, dict(mode="linear", antialias=1), [far, None, floats(1, 1, 1, .9)]
    for mode in ("linear", "cubic"):
        for dtype in ("u1", "i1", "u2", "i4"):
            whole = np.arange(70).reshape(1, 2, 5, 7).astype(dtype)
            yield "Resize", 19, dict(mode=mode), [whole, None, floats(1, 1, 1.3, .7)]
            yield "Resize", 19, dict(mode=mode), [whole, None, floats(1, 1, 2, 4)]
    for mode in ("nearest", "linear"):
        yield "Resize", 10, dict(mode=mode), [noise(1, 1, 4, 5), floats(1, 1, .8, 1.7)]
        yield "Upsample", 9, dict(mode=mode), [noise(1, 1, 3, 4), floats(1, 1, 1.5, 2.5)]


def move_cases():
    for start, end, axis, step in (((0,), (2**63 - 1,), (1,), (2,)), ((-1,), (-2**63,), (-1,), (-1,)),
                                   ((100,), (-100,), (0,), (-2,)), ((2,), (1,), (1,), (1,)),
                                   ((3, 1), (0, 5), (1, 0), (-1, 2)), ((4,), (-6,), (1,), (-1,))):
        yield "Slice", 20, {}, [noise(3, 5), ints(*start), ints(*end), ints(*axis), ints(*step)]
    for start, end in ((-2**63, 3), (2**63 - 1, -2**63), (-2**31, 2**31 - 2), (-1, -2**63), (-9, -2**63)):
        for step in (1, -1, 2):
            yield "Slice", 20, {}, [noise(5), ints(start), ints(end), ints(0), ints(step)]
    for pads in ((-1, 1), (2, -2), (-2, 3), (-3, 2), (-5, 3)):
        for mode in ("reflect", "edge", "wrap"):
            yield "Pad", 20, dict(mode=mode), [noise(6), ints(*pads)]
    for mode, pads in (("constant", (-1, 1, 1, -2)), ("reflect", (0, 2, 0, 1)), ("edge", (0, 5, 0, 7)),
                       ("wrap", (0, 3, 0, 2)), ("edge", (0, -1, 0, 2))):
        yield "Pad", 20, dict(mode=mode), [noise(3, 3), ints(*pads)]
    for mode in ("reflect", "edge", "wrap"):
        for shape, pads in (((3, 37), (1, 5, 2, 3)), ((2, 40), (1, 39, 0, 18)), ((70,), (35, 33)), ((2, 21), (0, -3, 0, 4))):
            yield "Pad", 20, dict(mode=mode), [noise(*shape), ints(*pads)]
    yield "Pad", 20, dict(mode="wrap"), [noise(2, 5), ints(0, 7, 0, 12)]
    yield "Pad", 20, {}, [noise(3, 3), ints(2, 1), np.float32(9), ints(-1)]
    yield "Pad", 20, {}, [noise(3, 3), ints(1, 0, 0, 2), floats([9])]
    for axis in (0, -1):
        yield "Gather", 20, dict(axis=axis), [noise(4, 4), np.array([[-1, 0], [3, -4]])]
        yield "GatherElements", 20, dict(axis=axis), [noise(2, 2), np.array([[-1, 0], [1, -2]])]
        yield "Concat", 20, dict(axis=axis), [noise(3, 3), noise(3, 3)]
        yield "CumSum", 20, dict(exclusive=1, reverse=1), [noise(3, 4), np.array(axis)]
    for diagonal in (-9, -1, 2):
        yield "Trilu", 20, dict(upper=0), [noise(3, 5), np.array(diagonal)]
    for axis in (0, 1, -1):
        for version in (11, 13):
            yield "Softmax", version, dict(axis=axis), [noise(2, 3, 4)]
            yield "LogSoftmax", version, dict(axis=axis), [noise(2, 3, 4)]
            yield "Flatten", version, dict(axis=axis), [noise(2, 3, 4)]


def picture_cases():
    """Cases of parts of images, and of the windows on images."""
    x = noise(2, 3, 7, 9)
    inside = floats([1, 1, 5, 4], [0, 0, 8, 6], [2.3, 1.7, 2.9, 6.4])
    outside = floats([-3, -2, 4, 3], [5, 4, 30, 30], [4, 4, 2, 1], [-50, -50, -40, -40], [3, 3, 3, 3])
    for rois in (inside, outside):
        places = ints(*(i % 2 for i in range(len(rois))))
        for size in (dict(output_height=2, output_width=3), dict(output_height=5, output_width=4, sampling_ratio=2),
                     dict(output_height=1, output_width=1, spatial_scale=.5)):
            for mode in ("avg", "max"):
                yield "RoiAlign", 16, dict(mode=mode, **size), [x, rois, places]
                yield "RoiAlign", 16, dict(mode=mode, coordinate_transformation_mode="output_half_pixel", **size), [x, rois, places]
                yield "RoiAlign", 10, dict(mode=mode, **size), [x, rois, places]
        for size in (dict(pooled_shape=[2, 3]), dict(pooled_shape=[9, 1], spatial_scale=.5)):
            yield "MaxRoiPool", 20, size, [x, np.concatenate([places[:, None].astype("f4"), rois], 1)]
    for group, parts, attrs in ((1, 1, {}), (2, 1, dict(pads=[1, 2, 0, 1])), (1, 2, dict(strides=[2, 1], dilations=[1, 2])),
                                (2, 4, dict(pads=[1, 1, 1, 1]))):
        x, w = noise(2, 4, 7, 8), noise(6, 4 // group, 2, 3)
        pads, strides, dilations = (attrs.get(key, [default] * 4) for key, default in (("pads", 0), ("strides", 1), ("dilations", 1)))
        out = [(x.shape[2 + i] + pads[i] + pads[2 + i] - dilations[i] * (w.shape[2 + i] - 1) - 1) // strides[i] + 1 for i in (0, 1)]
        offset, mask = noise(2, parts * 12, *out) * 2, noise(2, parts * 6, *out)
        for rest in ([], [noise(6)], [None, mask], [noise(6), mask]):
            yield "DeformConv", 19, dict(attrs, group=group, offset_group=parts), [x, w, offset] + rest
    for image, block, attrs, count in (((5, 6), (2, 3), {}, 16), ((5, 6), (2, 2), dict(strides=[2, 3], pads=[1, 0, 0, 1]), 6),
                                       ((7, 5), (3, 2), dict(dilations=[2, 3]), 6), ((4, 3, 3), (2, 1, 2), {}, 18)):
        yield "Col2Im", 18, attrs, [noise(2, 3 * int(np.prod(block)), count), ints(*image), ints(*block)]
    for shape in ((1, 1), (4, 4), (3, 5, 5), (2, 0, 3, 3), (2, 7, 7)):
        yield "Det", 20, {}, [noise(*shape)]
    yield "Det", 20, {}, [np.ones((3, 3), "f4")]
    yield "Det", 20, {}, [floats([0, 1], [np.nan, 1])]
    yield "Det", 20, {}, [floats([0, 2, 1], [0, 0, 3], [4, 1, 1])]
    tokens = [noise(2, 5, 12), noise(2, 5, 6), noise(2, 5, 8)]
    decay, beta, past = -np.abs(noise(2, 5, 6)), noise(2, 5, 2) / 4, noise(2, 2, 3, 4)
    for rule, rest in (("linear", []), ("gated", [decay]), ("gated", [decay[..., :2]]), ("delta", [None, beta]),
                       ("gated_delta", [decay, beta]), ("gated_delta", [decay[..., :2], beta[..., :1]])):
        for before in (None, past):
            yield "LinearAttention", 27, dict(q_num_heads=4, kv_num_heads=2, update_rule=rule), [
                *tokens, before, *rest][:4 + len(rest) if rest else 3 + (before is not None)]


def empty_cases():
    empty = np.zeros((2, 0), "f4")
    yield "Relu", 20, {}, [empty]
    for op in "Sum Prod L1 L2 SumSquare".split():
        yield f"Reduce{op}", 18, {}, [empty, ints(1)]
    yield "Add", 20, {}, [empty, noise(2, 1)]
    yield "Concat", 20, dict(axis=1), [empty, noise(2, 3)]
    yield "MatMul", 20, {}, [empty, np.zeros((0, 3), "f4")]
    yield "Gemm", 20, {}, [empty, np.zeros((0, 3), "f4"), noise(3)]
    yield "Pad", 20, {}, [empty, ints(0, 1, 0, 1)]
    yield "Tile", 20, {}, [noise(2, 3), ints(0, 2)]
    yield "Gather", 20, dict(axis=1), [noise(3, 4), np.zeros((2, 0), "i8")]
    yield "Transpose", 20, dict(perm=[1, 0]), [np.zeros((1, 0), "f4")]
    yield "Transpose", 20, dict(perm=[1, 0, 2]), [np.zeros((0, 1, 0), "f4")]
    yield "Einsum", 20, dict(equation="bij,bkj->bki"), [np.zeros((2, 0, 3), "f4"), noise(2, 4, 3)]
    yield "DepthToSpace", 20, dict(blocksize=2), [np.zeros((1, 4, 0, 5), "f4")]
    yield "Conv", 20, dict(pads=[1, 1, 1, 1]), [np.zeros((0, 3, 5, 5), "f4"), noise(4, 3, 3, 3)]
    yield "InstanceNormalization", 20, {}, [np.zeros((0, 3, 4, 4), "f4"), noise(3), noise(3)]
    for shape in ((3, 0), (0, 3), (2, 0, 4)):
        yield "Hardmax", 11, dict(axis=1), [np.zeros(shape, "f4")]
        yield "Hardmax", 13, dict(axis=1), [np.zeros(shape, "f4")]
    yield "ScatterND", 20, {}, [noise(3, 4), np.zeros((0, 1), "i8"), np.zeros((0, 4), "f4")]


def loss_cases():
    scores, labels = noise(3, 5, 4), RANDOM.randint(0, 5, (3, 4))
    for op in "NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss".split():
        for reduction in "none sum mean".split():
            yield op, 13, dict(reduction=reduction), [scores, labels]
            yield op, 13, dict(reduction=reduction, ignore_index=2), [
                scores, labels.astype("i4"), np.abs(noise(5))]
        yield op, 13, dict(ignore_index=-1), [scores, np.full((3, 4), -1)]


def spectral_cases():
    for size in (3, 9, 16):
        for op in "HannWindow HammingWindow BlackmanWindow".split():
            for periodic in (0, 1):
                yield op, 20, dict(periodic=periodic), [np.array(size)]
    yield "MelWeightMatrix", 20, {}, [np.array(8), np.array(64), np.array(8000), np.float32(20), np.float32(4000)]
    yield "MelWeightMatrix", 20, {}, [np.array(40), np.array(63), np.array(8000), np.float32(0), np.float32(3999)]
    for length in (1, 8, 67, 120, 400, 512, 997):
        for inverse in (0, 1):
            yield "DFT", 20, dict(inverse=inverse), [noise(2, length, 2)]
            yield "DFT", 17, dict(inverse=inverse, axis=0), [noise(length, 3, 2), np.array(length + 3)]
        yield "DFT", 20, dict(onesided=1), [noise(2, length, 1)]
        yield "STFT", 20, {}, [noise(2, length + 150, 1), np.array(40), noise(length)]


def reduction_cases():
    rows = [floats(1, NAN, 2), floats(INF, 1, 2), floats(-INF, -INF, -INF), floats(1e30, 1e30, 1),
            floats(0, -0.0, 0), floats(100, 200, 300), floats(-INF, 0, 1)]
    for row in rows:
        for op in ("ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 "
                   "ReduceSumSquare").split():
            yield op, 13, {}, [row]
        yield "ReduceLogSumExp", 13, {}, [row]
        yield "Softmax", 13, {}, [row]
        yield "LogSoftmax", 13, {}, [row]
    for p in (1, 2):
        yield "LpNormalization", 20, dict(axis=0, p=p), [np.array([[3e-50, 0], [4e-50, 0]])]
    for rows in (7, 11):  # three elements beside the vectors, which two loops read by different ones
        yield "LogSoftmax", 11, dict(axis=0), [noise(rows, 5)]
    for op in "ReduceL1 ReduceSumSquare ReduceMax ReduceLogSumExp".split():
        yield op, 18, dict(keepdims=0), [noise(2, 3), ints(-1, 0)]
        yield op, 18, dict(noop_with_empty_axes=1), [noise(2, 3), ints()]
    for last in (0, 1):
        yield "ArgMax", 20, dict(axis=-1, select_last_index=last), [floats(1, 3, 2, 3, 1)]
        yield "ArgMin", 20, dict(axis=0, select_last_index=last), [floats(INF, INF, INF)]
    for a, b in (((3,), (3,)), ((3,), (3, 2)), ((4, 2, 3), (3,)), ((4, 1, 2, 3), (5, 3, 2))):
        yield "MatMul", 20, {}, [noise(*a), noise(*b)]
    for bias in ((4,), (2, 1), ()):
        yield "Gemm", 20, dict(transA=1, transB=1, alpha=.5, beta=2.0), [
            noise(3, 2), noise(4, 3), noise(*bias) if bias else np.float32(3)]
    for bounds in ((2**53 + 1, 2**53 + 5, 1), (10, -2, -3), (5, 1, 1)):
        yield "Range", 20, {}, [np.array(bound) for bound in bounds]


def microsoft_cases():
    """Cases of the operators that optimisers write for chains of operators."""
    for shape in ((3, 7), (2, 3, 8), (2, 5, 1)):
        x, bias = noise(*shape) * 3, noise(shape[-1])
        yield "BiasGelu", 20, {}, [x, bias]
        yield "FastGelu", 20, {}, [x, bias]
        yield "FastGelu", 20, {}, [x]
        yield "QuickGelu", 20, {}, [x]
        yield "QuickGelu", 20, dict(alpha=.5), [x]
    for left, right, attrs in (((2, 3, 4), (2, 4, 5), {}), ((2, 4, 3), (4, 5), dict(transA=1)),
                               ((3, 4), (2, 5, 4), dict(transB=1, alpha=.3)), ((4,), (4, 5), dict(transA=1)),
                               ((2, 1, 4, 3), (3, 5, 4), dict(transA=1, transB=1, alpha=-2.0))):
        yield "FusedMatMul", 20, attrs, [noise(*left), noise(*right)]
    for left, right, attrs in (((3, 2, 4), (2, 4, 5), dict(transBatchA=1)), ((2, 3, 4), (4, 2, 5), dict(transBatchB=1)),
                               ((4, 2, 5, 3), (4, 2, 5, 6), dict(transBatchA=1, transA=1, transBatchB=1)),
                               ((3, 2, 4), (5, 2, 4), dict(transBatchA=1, transBatchB=1, transB=1))):
        yield "FusedMatMul", 20, attrs, [noise(*left), noise(*right)]
    x, w, bias, more = noise(2, 4, 6, 5), noise(6, 4, 3, 3), noise(6), noise(2, 6, 4, 3)
    for activation, numbers in (("Relu", []), ("Tanh", []), ("Sigmoid", []), ("LeakyRelu", [.1]), ("Clip", [-.5, .7]), ("HardSigmoid", [.3, .4])):
        attrs = dict(activation=activation, **(dict(activation_params=numbers) if numbers else {}))
        for rest in ([], [bias], [bias, more]):
            yield "FusedConv", 20, attrs, [x, w] + rest
        yield "FusedConv", 20, dict(attrs, group=2, strides=[2, 1], pads=[1, 0, 0, 1]), [x, noise(6, 2, 3, 3), bias]
    for attrs in (dict(activation="Relu"), dict(activation="LeakyRelu", activation_alpha=.2, alpha=.5, transB=1), dict(activation="Sigmoid", transA=1, beta=.3)):
        a, b = noise(3, 4), noise(4, 5)
        a, b = a.T.copy() if "transA" in attrs else a, b.T.copy() if "transB" in attrs else b
        for rest in ([], [noise(5)]):
            yield "FusedGemm", 20, attrs, [a, b] + rest
    for shape, skip in (((2, 3, 8), (2, 3, 8)), ((2, 3, 8), (1, 3, 8)), ((2, 3, 8), (3, 8)), ((5, 6), (5, 6))):
        x, other, (gamma, beta, bias) = noise(*shape), noise(*skip), noise(3, shape[-1])
        for rest in ([], [beta], [beta, bias], [None, bias]):
            yield "SkipLayerNormalization", 20, {}, [x, other, gamma] + rest
            yield "SkipLayerNormalization", 20, dict(epsilon=.5), [x, other, gamma] + rest
        for rest in ([], [bias]):
            yield "SkipSimplifiedLayerNormalization", 20, {}, [x, other, gamma] + rest
            yield "SkipSimplifiedLayerNormalization", 20, dict(epsilon=.5), [x, other, gamma] + rest
        yield "SkipLayerNormalization", 20, {}, [x * 0, other * 0, gamma, beta]


def quantized_cases():
    ends = floats(0, -0.0, INF, -INF, .25, .75, 1.25, -.25, -.75, 3.4e38, 1e-30, 63.75, 64.25, -64.25, 40000)
    for zero in (np.uint8(0), np.uint8(7), np.uint8(255), np.int8(-128), np.int8(3), np.uint16(33), np.int16(-5)):
        for scale in (.5, .1, 3e-30):
            yield "QuantizeLinear", 21, {}, [ends, np.float32(scale), zero]
        info = np.iinfo(zero.dtype)
        whole = np.array([info.min, info.max, 0, 1, 5], zero.dtype)
        yield "DequantizeLinear", 21, {}, [whole, np.float32(.1), zero]
    for axis in (0, 1, -1):
        x = noise(4, 4) * 100
        scales, zeros = np.abs(noise(4)) + 1, np.array([0, 3, 128, 255], "u1")
        yield "QuantizeLinear", 13, dict(axis=axis), [x, scales, zeros]
        yield "DequantizeLinear", 13, dict(axis=axis), [zeros * np.ones((4, 1), "u1"), scales, zeros]
    for block in (1, 2, 3):
        count = -(-4 // block)
        scales, zeros = np.abs(noise(count, 5)) + 1, RANDOM.randint(0, 255, (count, 5)).astype("u1")
        yield "QuantizeLinear", 21, dict(axis=0, block_size=block), [noise(4, 5) * 99, scales, zeros]
        yield "DequantizeLinear", 21, dict(axis=0, block_size=block), [
            RANDOM.randint(0, 255, (4, 5)).astype("u1"), scales, zeros]
    yield "DequantizeLinear", 13, {}, [np.array([2**31 - 1, -2**31, 2**24 + 1], "i4"), np.float32(.5)]
    for row in (noise(3, 70) * 10, floats(0, 0), floats(5, 9), floats(-5, -9), floats(1e30, -1e30)):
        yield "DynamicQuantizeLinear", 20, {}, [row]
    for terms in (258, 259, 2000, 2100):  # the largest sums
        yield "MatMulInteger", 20, {}, [np.full((2, terms), 255, "u1"), np.full((terms, 3), 255, "u1")]
    for a, b in (("u1", "i1"), ("u1", "u1"), ("i1", "i1")):
        for zero_a, zero_b in ((0, 0), (3, 100), (255 if a == "u1" else -128, 127)):
            zeros = [np.array(zero_a, a), np.array(zero_b, b)]
            x, w = numbers(a, 3, 5, 300), weights(a, b, 300, 7)
            yield "MatMulInteger", 20, {}, [x, w] + zeros
            yield "QLinearMatMul", 20, {}, [x, np.float32(.02), zeros[0], w, np.float32(.03), zeros[1],
                                            np.float32(.37), np.array(9, a)]
            scales, (bias,) = np.abs(noise(7)) / 9, noise(1, 7) * 99
            for rest in ([], zeros, [None, None, bias], [zeros[0], np.full(7, zero_b, b), bias]):
                yield "MatMulIntegerToFloat", 20, {}, [x, w, np.float32(.02), np.float32(.03)] + rest
                yield "MatMulIntegerToFloat", 20, {}, [x, w, np.float32(.02), scales] + rest
            x, w = numbers(a, 1, 4, 7, 6), weights(a, b, 6, 4, 3, 2)
            attrs = dict(pads=[1, 2, 3, 0], strides=[2, 1])
            yield "ConvInteger", 20, attrs, [x, w] + zeros
            scales = (np.abs(noise(6)) + 1) / 100
            yield "QLinearConv", 20, attrs, [
                x, np.float32(.02), zeros[0], w, scales, np.full(6, zero_b, b), np.float32(.37),
                np.array(9, a), numbers("i2", 6).astype("i4")]


def qlinear_cases():
    """Cases of quantised operators of com.microsoft."""
    for name, zeros in (("u1", (0, 128, 255)), ("i1", (-128, 0, 7))):
        for place, zero in enumerate(zeros):
            first, second = ([np.float32(scale), np.array(at, name)] for scale, at in ((.031, zero), (.047, zeros[1])))
            wide, unit = ([np.float32(scale), np.array(at, name)] for scale, at in ((.13, zeros[1]), (.0039, zeros[0])))
            x, y, row = numbers(name, 2, 3, 6, 5), numbers(name, 2, 3, 6, 5), numbers(name, 5)
            for op in ("QLinearAdd", "QLinearMul"):
                for other in (y, row, np.array(row[0])):
                    yield op, 20, {}, [x, *first, other, *second, *wide]
            yield "QLinearLeakyRelu", 20, dict(alpha=.3), [x, *first, *second]
            yield "QLinearLeakyRelu", 20, {}, [x, *first, *second]
            yield "QLinearSigmoid", 20, {}, [x, *first, *unit]
            for axis, opset in ((-1, 13), (1, 13), (-1, 11)):
                yield "QLinearSoftmax", 20, dict(axis=axis, opset=opset), [x, *first, *unit]
            for last in (0, 1):
                yield "QLinearGlobalAveragePool", 20, dict(channels_last=last), [x, *first, *second]
                yield "QLinearAveragePool", 20, dict(
                    channels_last=last, kernel_shape=[2, 3], strides=[2, 1], pads=[1, 0, 0, 1],
                    count_include_pad=place % 2), [x, *first, *second]
            yield "QLinearConcat", 20, dict(axis=1), [*wide, x, *first, numbers(name, 2, 4, 6, 5), *second, y, *wide]
            yield "QLinearAdd", 20, {}, [x, first[0], None, y, second[0], None, wide[0], None]
            yield "QLinearSigmoid", 20, {}, [x, first[0], None, unit[0], None]
            yield "QLinearConcat", 20, dict(axis=-1), [*wide, x, *first]
            yield "QLinearWhere", 20, {}, [numbers("u1", 6, 1) > 99, x, *first, row, *second, *wide]
            yield "NhwcMaxPool", 20, dict(kernel_shape=[3, 2], strides=[1, 2], pads=[0, 1, 1, 0]), [x]
            for other in ("u1", "i1"):
                a, w = numbers(name, 4, 9), weights("u1", other, 9, 6)
                bias, scales = numbers("i2", 6).astype("i4"), np.abs(noise(6)) / 50
                at = [np.float32(.02), np.array(3, other)]
                for rest in ([], [bias], [bias, *wide], [None, *wide]):
                    yield "QGemm", 20, {}, [a, *first, w, *at] + rest
                    yield "QGemm", 20, dict(alpha=.7, transA=1, transB=1), [np.ascontiguousarray(a.T), *first, np.ascontiguousarray(w.T), *at] + rest
                yield "QGemm", 20, {}, [a, *first, w, scales, np.full(6, 3, other), bias, *wide]
                for rest in ([], [at[1]], [at[1], noise(6)], [None, noise(6)]):
                    yield "DynamicQuantizeMatMul", 20, {}, [noise(2, 4, 9), w, at[0]] + rest
                yield "DynamicQuantizeMatMul", 20, {}, [noise(4, 9), w, scales, np.full(6, 3, other)]
                for rows in (1, 12):  # a scale and a zero point for each direction, or for each row
                    zero = 3 if rows == 1 or other == "u1" else 0  # onnxruntime has no others for rows of int8
                    scales = [np.abs(noise(2, rows)) / 200 + np.float32(.001), np.full((2, rows), zero, other)]
                    scales = [value[:, 0] if rows == 1 else value for value in scales]
                    layer = [noise(4, 2, 5), weights(other, other, 2, 5, 12), weights(other, other, 2, 3, 12), noise(2, 24)]
                    yield "DynamicQuantizeLSTM", 20, dict(hidden_size=3, direction="bidirectional"), [
                        *layer, *[None] * 4, *scales, *scales]


def attention_cases():
    """Cases of attention, rotary embeddings and embeddings of com.microsoft."""
    def ids(limit, *shape):
        return RANDOM.randint(0, limit, shape).astype("i4")

    cache = [np.cos(noise(12, 4)), np.sin(noise(12, 4))]
    for x, heads in ((noise(2, 5, 24), {}), (noise(2, 3, 5, 8), {}), (noise(2, 5, 24), dict(num_heads=3))):
        for places in (np.array([4], "i8"), ids(12, 2, 5).astype("i8")):
            for interleaved in (0, 1):
                yield "RotaryEmbedding", 20, dict(interleaved=interleaved, **heads), [x, places, *cache]
    yield "RotaryEmbedding", 20, dict(scale=2.0, is_packed_batching=1), [
        noise(2, 5, 8), np.array([1]), noise(9, 4), noise(9, 4)]
    yield "RotaryEmbedding", 20, dict(num_heads=2, rotary_embedding_dim=8), [
        noise(2, 5, 24), np.array([0], "i8"), *cache]
    masks = {keys: [None, ids(2, 2, keys), np.array([keys, 2], "i4")] for keys in (5, 7, 11)}
    for mask in masks[5] + [ids(2, 2, 5, 5)]:
        for attrs in ({}, dict(unidirectional=1), dict(scale=.2), dict(mask_filter_value=-3.0)):
            yield "Attention", 20, dict(num_heads=3, **attrs), [
                noise(2, 5, 6), noise(6, 36), noise(36), mask]
    yield "Attention", 20, dict(num_heads=2, qkv_hidden_sizes=[8, 8, 12]), [noise(2, 5, 6), noise(6, 28), noise(28)]
    yield "Attention", 20, dict(num_heads=3), [
        noise(2, 5, 6), noise(6, 36), noise(36), masks[5][1], None, noise(1, 3, 5, 5)]
    for mask in (None, masks[11][1]):
        for attrs in ({}, dict(unidirectional=1)):
            yield "Attention", 20, dict(num_heads=3, **attrs), [
                noise(2, 5, 6), noise(6, 36), noise(36), mask, noise(2, 2, 3, 6, 4)]
    for keys in (5, 7):
        for mask in masks[keys]:
            for bias in (None, noise(36)):
                for attrs in ({}, dict(unidirectional=keys == 5), dict(scale=.2)):
                    yield "MultiHeadAttention", 20, dict(num_heads=3, **attrs), [
                        noise(2, 5, 12), noise(2, keys, 12), noise(2, keys, 12), bias, mask]
    q, past = noise(2, 5, 12), noise(2, 2, 3, 6, 4)
    for added in (None, noise(1, 3, 5, 11), noise(2, 1, 5, 11)):
        for mask in (None, masks[11][1]):
            yield "MultiHeadAttention", 20, dict(num_heads=3), [
                q, noise(2, 5, 12), noise(2, 5, 12), None, mask, added, *past]
    yield "MultiHeadAttention", 20, dict(num_heads=3, unidirectional=1), [
        q, noise(2, 5, 12), noise(2, 5, 12), None, None, None, *past]
    yield "MultiHeadAttention", 20, dict(num_heads=3), [q, *noise(2, 2, 3, 6, 4)]
    yield from group_query_cases()
    yield from quantized_weight_cases(masks[5])
    for shape in ((2, 5, 8), (3, 8)):
        for attrs in ({}, dict(epsilon=.3), dict(axis=1)):
            yield "LayerNormalization", 11, attrs, [noise(*shape), *noise(2, *shape[attrs.get("axis", -1):])]
            yield "SimplifiedLayerNormalization", 20, attrs, [noise(*shape), noise(*shape[attrs.get("axis", -1):])]
    tables, vectors = [noise(20, 8), noise(9, 8), noise(2, 8)], [noise(8), noise(8)]
    for rest in ([], [ids(2, 2, 5)], [None, ids(9, 2, 5)]):
        yield "EmbedLayerNormalization", 20, {}, [ids(20, 2, 5), ids(2, 2, 5), *tables, *vectors] + rest
        yield "EmbedLayerNormalization", 20, dict(epsilon=.3), [
            ids(20, 2, 5), None, *tables[:2], None, *vectors] + rest
        yield "EmbedLayerNormalization", 20, {}, [ids(20, 2, 5), None, *tables, *vectors] + rest


def quantized_weight_cases(masks):
    """Attention with a quantised product, and rows of quantised tables."""
    for other in ("u1", "i1"):
        for mask, scale in zip(masks * 2, [np.float32(.03)] * len(masks) + [np.abs(noise(36)) / 50] * len(masks)):
            zeros = np.full(scale.shape, 3, other)
            inputs = [numbers("u1", 2, 5, 6), weights("u1", other, 6, 36), noise(36), np.float32(.02), scale, mask]
            yield "QAttention", 20, dict(num_heads=3), inputs
            yield "QAttention", 20, dict(num_heads=3, unidirectional=1), inputs + [np.array(7, "u1"), zeros]
        yield "QAttention", 20, dict(num_heads=3), inputs[:5] + [None, np.array(7, "u1"), zeros, noise(2, 2, 3, 6, 4)]
    scores = floats(1, 2, .5, .2, 3, -1, 0, 2, 1, 5, 4, 3).reshape(3, 4)
    kinds = [dict(activation_type=kind) for kind in ("relu", "gelu", "silu", "identity")] + [
        dict(activation_type="swiglu", swiglu_fusion=1, activation_alpha=1.7, activation_beta=1.0, swiglu_limit=1.5)]
    for kind in kinds:
        inner = 32 * (2 if "swiglu_fusion" in kind else 1)
        for normal in (0, 1):
            attrs = dict(kind, k=2 + normal, normalize_routing_weights=normal)
            yield "MoE", 20, attrs, [noise(3, 16), scores, noise(4, inner, 16), noise(4, inner), noise(4, 16, 32), noise(4, 16)]
            yield "MoE", 20, attrs, [noise(1, 3, 16), scores, noise(4, inner, 16), None, noise(4, 16, 32)]
            yield "MoE", 20, attrs, [noise(1, 16), noise(1, 12), noise(12, inner, 16), noise(12, inner), noise(12, 16, 32), noise(12, 16)]
            for width, block, count in ((4, 0, 4), (4, 16, 4), (8, 16, 4), (8, 0, 4), (2, 16, 4), (4, 0, 12), (4, 16, 12)):
                router = scores if count == 4 else noise(1, count)
                rows = [noise(len(router), 16), router]
                for n, k in ((inner, 16), (16, 32)):
                    blocks = k // block if block else 1
                    rows += [numbers("u1", count, n, k * width // 8), np.abs(noise(*(count, n, blocks)[:3 if block else 2])) / 10,
                             noise(count, n)]
                zeros = [numbers("u1", count, n, -(-k // block * width // 8)) if block else numbers("u1", count, n * width // 8)
                         for n, k in ((inner, 16), (16, 32))]
                some = dict(attrs, expert_weight_bits=width, **(dict(block_size=block) if block else {}))
                yield "QMoE", 20, some, rows
                yield "QMoE", 20, some, rows[:7] + [None] * 4 + zeros + [None, np.abs(router)]
    for kind in (0, 1):
        for shape in ((2, 3, 16), (1, 5), (3, 37)):
            for other in ("f4", "f2"):
                codes = numbers("u1", (shape[-1] * 7 + 1) // 2)
                yield "MatMulBnb4", 20, dict(K=shape[-1], N=7, block_size=16, quant_type=kind), [
                    noise(*shape).astype(other), codes, noise(-(-shape[-1] * 7 // 16)).astype(other)]
    for width, columns in ((4, 16), (8, 48)):
        for places in (np.array([[3, -1], [0, 8]]), np.array(2)):
            blocks = columns * (3 - width // 4) // 16
            table = [numbers("u1", 9, columns), places, noise(9, blocks)]
            attrs = dict(bits=width, block_size=16, gather_axis=0, quantize_axis=1)
            yield "GatherBlockQuantized", 20, attrs, table
            yield "GatherBlockQuantized", 20, attrs, table + [numbers("u1", 9, -(-blocks * width // 8))]


def group_query_cases():
    """4 heads in groups for 2 key heads: first runs, runs of one token, and runs of several tokens, which
    onnxruntime supports for one batch."""
    heads = dict(num_heads=4, kv_num_heads=2)
    angles = np.arange(32)[:, None] * np.arange(1, 9)[None] * .1
    cache = [np.cos(angles).astype("f4"), np.sin(angles).astype("f4")]
    for batch, length, past in ((1, 5, 0), (2, 5, 0), (1, 1, 6), (2, 1, 6), (1, 3, 6)):
        rows = [noise(batch, length, 64), noise(batch, length, 32), noise(batch, length, 32)]
        total = [np.full(batch, past + length - 1, "i4"), np.int32(past + length)]
        before = list(noise(2, batch, 2, past, 16))
        for attrs in ({}, dict(local_window_size=3), dict(local_window_size=0), dict(scale=.3, softcap=2.0)):
            yield "GroupQueryAttention", 20, dict(**heads, **attrs), [*rows, *before, *total]
        yield "GroupQueryAttention", 20, heads, [*rows, *before, *total, None, None, None, noise(1, 4, length, past + length)]
        yield "GroupQueryAttention", 20, dict(**heads, smooth_softmax=1, local_window_size=3), [*rows, *before, *total]
        yield "GroupQueryAttention", 20, dict(**heads, scale=.3, softcap=2.0), [*rows, *before, *total, *[None] * 4, noise(4) * 3]
        for interleaved in (0, 1):
            rotary = dict(do_rotary=1, rotary_interleaved=interleaved)
            yield "GroupQueryAttention", 20, dict(**heads, **rotary), [*rows, *before, *total, *cache]
            yield "GroupQueryAttention", 20, dict(**heads, **rotary), [
                noise(batch, length, 128), None, None, *before, *total, *cache]
            yield "GroupQueryAttention", 20, dict(**heads, **rotary), [
                *rows, *before, *total, *cache, RANDOM.randint(0, 20, (batch, length)).astype("i8")]
        if past == 0:
            yield "GroupQueryAttention", 20, heads, [*rows, None, None, *total]


def promised_cases():
    """Cases that ONNX leaves undefined and that processors compute in different ways, with the results that
    Backplane documents."""
    for name in "i1 i2 i4 i8 u1 u2 u4 u8".split():
        info = np.iinfo(name)
        a = np.array([5, 0, info.max, info.min, info.min, 7] * 3, name)
        b = np.array([0, 0, 0, 0, -1 if info.min else 1, 2] * 3, name)
        yield "Div", 20, {}, [a, b], np.array([0, 0, 0, 0, info.min, 3] * 3, name)
        for fmod in (0, 1):
            yield "Mod", 20, dict(fmod=fmod), [a, b], np.array([0, 0, 0, 0, 0, 1] * 3, name)
        if info.min:
            continue
        counts = np.array([info.bits - 1, info.bits, info.bits + 1, info.max, 0, 1] * 3, name)
        for direction, shifted in (("LEFT", [1 << (info.bits - 1), 0, 0, 0, 3, 6]), ("RIGHT", [0, 0, 0, 0, 3, 1])):
            yield "BitShift", 20, dict(direction=direction), [np.full(18, 3, name), counts], np.array(
                shifted * 3, name)


def check_promises(command, folder, target):
    """Check the documented results twice: computed by the model from inputs, and by the interpreter from constants."""
    wrong = []
    for is_constant in (False, True):
        cases = []
        for number, (op, opset, attrs, inputs, want) in enumerate(promised_cases()):
            case = Case(number, op, opset, attrs, inputs)
            case.constants = set(case.inputs) if is_constant else set()
            cases.append((case, want))
        wrong += check_operators(command, folder, target, cases)
    return wrong


# Shapes, axes and scales must be constant. The other values are inputs, which are not folded.
CONSTANT = {"Slice": 30, "Pad": 10, "Trilu": 2, "Tile": 2, "CumSum": 2, "Resize": 14, "Upsample": 2,
            "Range": 7, "HannWindow": 1, "HammingWindow": 1, "BlackmanWindow": 1,
            "MelWeightMatrix": 31, "DFT": 6, "STFT": 10, "ReduceL1": 2, "ReduceSumSquare": 2, "ReduceSum": 2,
            "Col2Im": 6, "ReduceProd": 2, "ReduceL2": 2, "ReduceMax": 2, "ReduceLogSumExp": 2}


MICROSOFT = {"FusedConv", "FusedGemm", "BiasGelu", "FastGelu", "QuickGelu", "FusedMatMul", "SkipLayerNormalization",
             "SkipSimplifiedLayerNormalization", "MatMulIntegerToFloat", "QLinearAdd", "QLinearMul",
             "QLinearLeakyRelu", "QLinearSigmoid", "QLinearSoftmax", "QLinearGlobalAveragePool",
             "QLinearAveragePool", "QLinearConcat", "QLinearWhere", "QGemm", "DynamicQuantizeMatMul", "DynamicQuantizeLSTM",
             "NhwcMaxPool", "RotaryEmbedding", "Attention", "MultiHeadAttention", "EmbedLayerNormalization",
             "GroupQueryAttention", "QAttention", "GatherBlockQuantized", "MatMulBnb4", "MoE", "QMoE"}


class Case:
    """Return a node with one compared output; `before` and `after` are the names of the other outputs."""

    def __init__(self, number, op, opset, attrs, inputs, before=(), after=()):
        self.opset, self.inputs = opset, {}
        self.place, self.output = len([name for name in before if name]), f"y{number}"
        names = []
        for place, value in enumerate(inputs):
            names.append("" if value is None else f"x{number}_{place}")
            if value is not None:
                self.inputs[names[-1]] = np.asarray(value)
        self.constants = {name for place, name in enumerate(names)
                          if CONSTANT.get(op, 0) >> place & 1 and name}
        domain = "com.microsoft" if op in MICROSOFT else ""
        self.node = helper.make_node(op, names, [*before, self.output, *after], domain=domain, **attrs)
        self.text = f"{op}-{opset} {attrs} of " + ", ".join(
            "nothing" if value is None else f"{np.asarray(value).dtype}{np.shape(value)}"
            for value in inputs)


def refused_cases():
    """Nodes that are refused, with words of the message."""
    x, square = noise(2, 3, 8), noise(2, 4, 4)
    for op in ("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"):
        yield op, {}, [x, x, noise(8)], ("z",), "output 1 is not supported"
        yield op, {}, [x, noise(4, 2, 3, 8), noise(8)], (), "float32 4x2x3x8 does not broadcast"
        yield op, {}, [x, x, noise(3)], (), "input 2, float32 3, is not a vector"
        yield op, {}, [x, x, noise(8), noise(1, 8)], (), "input 3, float32 1x8, is not a vector"
    for op in ("BiasGelu", "FastGelu"):
        yield op, {}, [x, noise(3)], (), "its bias float32 3 is not a vector"
    yield "MatMulIntegerToFloat", {}, [np.ones((3, 4), "u1"), np.ones((4, 5), "u1"), np.float32(1), noise(3)], (), "neither one element nor"
    yield "MatMulIntegerToFloat", {}, [noise(3, 4), noise(4, 5), np.float32(1), np.float32(1)], (), "neither int8 nor uint8"
    bytes_ = np.ones((2, 600), "u1")
    yield "MatMulInteger", {}, [bytes_, np.ones((300, 4), "u1")], (), "as many columns as rows"
    yield "MatMulInteger", {}, [bytes_[:, :20], np.ones((20, 60), "u1"), None, np.ones(2, "u1")], (), "nor a vector of 60"
    yield "MatMulInteger", {}, [bytes_[:, :20], np.ones((20, 60), "i1"), None, np.ones(1, "u1")], (), "does not have its type"
    for rest in ([np.float32(1), None, None, noise(5, 3)], [noise(5, 3)]):
        yield "MatMulIntegerToFloat", {}, [bytes_[:1, :4], np.ones((4, 3), "u1"), np.float32(1), *rest], (), "broadcast to the product"
    whole, scale, zero = np.ones((2, 3, 4), "u1"), np.float32(.1), np.array(3, "u1")
    yield "QLinearAdd", {}, [whole, scale, zero, whole], (), "input 4 is absent"
    yield "QLinearAdd", {}, [whole, scale, zero, whole, scale, zero], (), "input 6 is absent"
    yield "QLinearAdd", {}, [whole, scale, zero, np.ones((2, 5), "u1"), scale, zero, scale], (), "does not broadcast"
    yield "QLinearAdd", {}, [whole, noise(3), zero, whole, scale, zero, scale], (), "is not one element"
    yield "QLinearSigmoid", {}, [whole, scale, np.array(3, "i1"), scale], (), "zero point does not have the type of its input"
    yield "QLinearSoftmax", dict(opset=11, axis=1), [whole, scale, zero, scale, zero], (), "operator set 11 with axis 1"
    yield "QLinearConcat", dict(axis=1), [scale, zero, whole, scale, zero, whole], (), "it has 6 inputs"
    yield "QGemm", {}, [whole, scale, zero, whole, scale, zero], (), "input 0 is not a matrix"
    yield "RotaryEmbedding", {}, [noise(2, 5, 8), np.array([0, 1], "i8"), noise(5, 4), noise(5, 4)], (), "position_ids"
    q, one = noise(2, 5, 12), dict(num_heads=3)
    yield "MultiHeadAttention", one, [noise(2, 5, 3, 3, 4)], (), "in one input"
    yield "MultiHeadAttention", {}, [q, q, q], (), "number of heads, 0"
    yield "MultiHeadAttention", one, [q, q, q, noise(35)], (), "not a vector of 36"
    yield "MultiHeadAttention", one, [q, q, q, None, np.ones((2, 4), "i4")], (), "its mask does not fit"
    yield "MultiHeadAttention", one, [q, q, q, None, np.ones(8, "i4")], (), "its mask does not fit"
    yield "MultiHeadAttention", dict(num_heads=3, unidirectional=1), [q, noise(2, 7, 12), noise(2, 7, 12)], (), "as many keys"
    yield "MultiHeadAttention", dict(num_heads=3, unidirectional=1), [
        q, noise(2, 7, 12), noise(2, 7, 12), None, None, None, *noise(2, 2, 3, 6, 4)], (), "as many keys"
    yield "MultiHeadAttention", one, [q, None, q], (), "only one of key and value"
    q, kv, past = noise(2, 1, 64), noise(2, 1, 32), noise(2, 2, 6, 16)
    heads, lengths, total = dict(num_heads=4, kv_num_heads=2), np.array([6, 6], "i4"), np.int32(7)
    group = "GroupQueryAttention"
    yield group, heads, [q, kv, kv, past, past], (), "no seqlens_k"
    yield group, heads, [q, kv, kv, past, past, lengths, np.int32(6)], (), "is not the number of keys"
    yield group, heads, [q, kv, kv, past, past, np.array([6, 7], "i4"), total], (), "is not the number of keys"
    yield group, heads, [q, kv, kv, past, past, np.array([-1, 6], "i4"), total], (), "is not the number of keys"
    yield group, heads, [q, kv, kv, past, past, np.array([6, 6, 6], "i4"), total], (), "is not one number for each batch"
    yield group, heads, [q, kv, kv, past, past, lengths, np.array([7, 7], "i4")], (), "is not one"
    yield group, dict(**heads, local_window_size=-2), [q, kv, kv, past, past, lengths, total], (), "local_window_size is -2"
    few = [q, kv, kv, past, past, lengths, total, noise(6, 8), noise(7, 8)]
    yield group, dict(**heads, do_rotary=1), few, (), "fewer rows than there are keys"
    yield group, dict(**heads, do_rotary=1), [*few[:7], few[8], few[7]], (), "fewer rows than there are keys"
    yield group, dict(**heads, do_rotary=1), [*few[:7], few[8], few[8], np.zeros((2, 2), "i8")], (), "position_ids"
    yield group, heads, [q[:1], kv[:1], kv[:1], past[:1], past[:1], lengths[:1] + 1, total], (), "is not the number of keys"
    yield group, heads, [q, kv, kv, past, past[:, :, :5], lengths, total], (), "do not fit each other"
    yield group, heads, [q, kv, None, past, past, lengths, total], (), "only one of key and value"
    yield group, heads, [q, kv, kv, past, None, lengths, total], (), "go together"
    yield group, dict(num_heads=4, kv_num_heads=3), [q, kv, kv, past, past, lengths, total], (), "in groups for 3"
    yield group, dict(**heads, do_rotary=1), [q, kv, kv, past, past, lengths, total], (), "cos_cache"
    table = [np.ones((5, 24), "u1"), np.array([1]), noise(5, 3)]
    yield "GatherBlockQuantized", dict(bits=3, block_size=16), table, (), "elements of 3 bits"
    yield "GatherBlockQuantized", dict(block_size=16), [table[0].view("i1"), *table[1:]], (), "its data is int8 5x24"
    yield "GatherBlockQuantized", dict(bits=8, block_size=16), table, (), "blocks of 16 along axis 1 do not fit"
    yield "GatherBlockQuantized", dict(bits=4, block_size=16, gather_axis=1), table, (), "its gather_axis is 1"
    yield "GatherBlockQuantized", dict(bits=4, block_size=16), [*table, np.ones((5, 3), "i1")], (), "type of its data"
    codes, few = [noise(2, 16), np.ones(24, "u1"), noise(3)], dict(K=16, N=3, block_size=16)
    yield "MatMulBnb4", dict(few, quant_type=2), codes, (), "quant_type is 2"
    yield "MatMulBnb4", dict(few, transB=0), codes, (), "transB of 0 is not supported"
    yield "MatMulBnb4", dict(few, block_size=0), codes, (), "block_size 0"
    yield "MatMulBnb4", dict(few, K=15), codes, (), "in rows of K = 15"
    yield "MatMulBnb4", few, [codes[0], codes[1][1:], codes[2]], (), "expected 24 elements"
    yield "MatMulBnb4", few, [*codes[:2], noise(2)], (), "expected 3 elements"
    experts = [noise(3, 8), noise(3, 4), noise(4, 6, 8), None, noise(4, 8, 6)]
    yield "MoE", dict(k=5), experts, (), "k is 5, for 4 experts"
    yield "MoE", dict(use_sparse_mixer=1), experts, (), "use_sparse_mixer is not supported"
    yield "MoE", dict(activation_type="geglu"), experts, (), "'geglu' is not supported"
    yield "MoE", dict(activation_type="swiglu"), experts, (), "swiglu_fusion of 0"
    yield "MoE", {}, [*experts, None, noise(4, 6, 8)], (), "input 6 is not supported"
    yield "MoE", {}, [experts[0], noise(2, 4), *experts[2:]], (), "a number for each row and expert"
    yield "MoE", {}, [*experts[:4], noise(4, 8, 5)], (), "expected 4x8x6"
    bytes_ = [noise(3, 8), noise(3, 4), np.ones((4, 8, 4), "u1"), noise(4, 8), None, np.ones((4, 8, 4), "u1"), noise(4, 8)]
    yield "QMoE", dict(expert_weight_bits=3), bytes_, (), "weights of 3 bits"
    yield "QMoE", dict(quant_type="fp8"), bytes_, (), "quant_types"
    yield "QMoE", dict(block_size=5), bytes_, (), "no whole blocks of 5"
    yield "QMoE", dict(fc2_expert_weight_bits=8), bytes_, (), "fc2_expert_weight_bits"
    for sink in (noise(2), noise(4, 1)):
        yield group, heads, [q, kv, kv, past, past, lengths, total, *[None] * 4, sink], (), "head_sink is not a number"
    q = noise(2, 5, 12)
    yield "QGemm", {}, [whole[0], scale, zero, whole[0].T.copy(), scale, zero, None, scale], (), "go together"
    yield "QLinearAveragePool", dict(kernel_shape=[2], ceil_mode=1, count_include_pad=1), [
        whole, scale, zero, scale], (), "is not supported"
    yield "Attention", dict(num_heads=3), [q, noise(12, 35)], (), "do not have 35 columns"
    yield "Attention", dict(num_heads=3, do_rotary=1), [q, noise(12, 36)], (), "do_rotary"
    yield "Attention", dict(num_heads=3, qkv_hidden_sizes=[12, 36]), [q, noise(12, 36)], (), "three numbers"
    yield "EmbedLayerNormalization", {}, [np.ones((2, 3), "i4"), None, noise(4, 8)], (), "inputs 3, 5 and 6"
    yield "EmbedLayerNormalization", {}, [np.ones((2, 10), "i4"), None, noise(4, 8), noise(9, 8), None, noise(8), noise(8)], (), "more tokens than"
    picture, regions, one = noise(1, 2, 5, 5), floats([0, 0, 3, 3]), ints(0)
    yield "RoiAlign", {}, [picture, regions, ints(0, 0)], (), "a batch index for each of its rois"
    yield "RoiAlign", {}, [picture, floats([0, 0, 3]), one], (), "not rows of 4 numbers"
    yield "RoiAlign", dict(mode="sum"), [picture, regions, one], (), "mode 'sum'"
    yield "MaxRoiPool", dict(pooled_shape=[2]), [picture, floats([0, 0, 0, 3, 3])], (), "not two numbers"
    yield "Det", {}, [noise(2, 3, 4)], (), "square matrices"
    yield "Col2Im", {}, [noise(1, 8, 9), ints(4, 4), ints(2, 3)], (), "lacks a column for each block"
    yield "DeformConv", {}, [picture, noise(3, 2, 2, 2), noise(1, 7, 4, 4)], (), "does not fit its window"
    yield "DeformConv", dict(group=2), [picture, noise(3, 1, 2, 2), noise(1, 8, 4, 4)], (), "in 2 groups"
    yield "FusedMatMul", dict(transBatchA=1), [square, square[0]], (), "one number of dimensions"
    yield "FusedGemm", dict(activation="Sine"), [square[0], square[0]], (), "activation 'Sine'"
    yield "Attention", dict(num_heads=3), [noise(2, 5, 6), noise(6, 36), noise(36), None, noise(2, 3, 4, 4)], (), "its past"
    yield "FusedMatMul", dict(transA=1), [noise(3, 8), noise(8, 3)], (), "do not multiply"


def check_refusals(command, folder, target):
    """Return as lines the nodes that are not refused by name. If the refusal depends on data, the data are
    constants, too."""
    wrong, cases = [], []
    for op, attrs, inputs, before, words in refused_cases():
        cases.append((Case(len(cases), op, 20, attrs, inputs, before), words))
        if op == "MatMulInteger" or (op == "GroupQueryAttention" and "number of keys" in words):
            cases.append((Case(len(cases), op, 20, attrs, inputs, before), words))
            cases[-1][0].constants = set(cases[-1][0].inputs)
    for case, words in cases:
        case.node.name = "the_node"
        try:
            run_together(command, folder, target, [(case, np.float32(0))])
            wrong.append(f"{case.text} is not refused")
        except RuntimeError as error:
            if words not in str(error) or "node 'the_node'" not in str(error):
                wrong.append(f"{case.text}: {error}")
    return wrong


def operator_cases():
    sources = (unary_cases, integer_cases, window_cases, resize_cases, move_cases, picture_cases, empty_cases,
               loss_cases, spectral_cases, reduction_cases, microsoft_cases, quantized_cases, qlinear_cases,
               attention_cases)
    number = 0
    for source in sources:
        for op, opset, attrs, inputs in source():
            count = {"DynamicQuantizeLinear": 3, "LinearAttention": 2, "Attention": 2 if len(inputs) > 4 and inputs[4] is not None else 1, "EmbedLayerNormalization": 3, "GroupQueryAttention": 3,
                     "QAttention": 2 if len(inputs) > 8 else 1, "MultiHeadAttention": 3 if len(inputs) > 6 else 1}.get(op, 1)
            for place in range(count):
                names = [f"z{number}_{i}" for i in range(count)]
                yield Case(number, op, opset, attrs, inputs, names[:place], names[place + 1:])
                number += 1
            if op.startswith("Skip"):  # the sum that is normalised
                yield Case(number, op, opset, attrs, inputs, (f"z{number}", "", ""))
                number += 1


def run_together(command, folder, target, cases):
    """Return the outputs of a model of all cases of one operator set, or an error."""
    opset = cases[0][0].opset
    folder.mkdir(exist_ok=True)
    arguments = [command, "run", str(folder / "model.onnx"), "-t", target, "-o", str(folder), "-d",
                 DEVICES[target.split()[0]]]
    graph = onnx.GraphProto(name="cases", node=[case.node for case, _ in cases])
    for case, want in cases:
        for name, value in case.inputs.items():
            if name in case.constants:
                graph.initializer.append(numpy_helper.from_array(value, name))
                continue
            graph.input.append(helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape))
            np.save(folder / f"{name}.npy", value)
            arguments += ["-i", f"{name}={folder}/{name}.npy"]
            if 0 in value.shape:
                arguments += ["-s", name + "=" + "x".join(str(extent) for extent in value.shape)]
        graph.output.append(helper.make_tensor_value_info(
            case.output, helper.np_dtype_to_tensor_dtype(want.dtype), want.shape))
    onnx.save(helper.make_model(graph, opset_imports=opsets(opset),
                                ir_version=8), folder / "model.onnx")
    done = subprocess.run(arguments, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    return [np.load(folder / f"{case.output}.npy") for case, _ in cases]


def check_operators(command, folder, target, cases):
    """Return the differences as lines. A node that the target refuses by name is left out, and nodes of float64 where the
    target's language has no such type."""
    refused, wrong = [], []
    while cases:
        try:
            outputs = run_together(command, folder, target, cases)
            break
        except RuntimeError as error:
            wide = [any(value.dtype == np.float64 for value in case.inputs.values()) for case, _ in cases]
            if any(wide) and "no type float64" in str(error):
                refused += [case.text for (case, _), is_wide in zip(cases, wide) if is_wide]
                cases = [pair for pair, is_wide in zip(cases, wide) if not is_wide]
                continue
            name = re.search(r"node '(\w+)'", str(error))
            number = int(name.group(1).rsplit("_", 1)[1]) if name else -1
            if not 0 <= number < len(cases) or len(refused) > 40:
                return [str(error)]
            refused.append(cases.pop(number)[0].text)
    for (case, want), got in zip(cases, outputs if cases else []):
        why = difference(got, want, case.inputs.values(), case.node.op_type in EXACT,
                         int(case.node.op_type in ROUNDED))
        if why:
            wrong.append(f"{case.text}: {why}")
    for text in refused:
        print(f"# {target} refuses {text}")
    return wrong


# ---- Nodes of random graphs ----------------------------------------------------------------------


def read_values(path, model):
    """Return the elements of each output and of the constants, by name, without integers that are not exact in the
    file, whose numbers are float64."""
    values = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    numbers, place = np.fromfile(path, "f8"), 0
    for info in model.graph.output:
        dtype = helper.tensor_dtype_to_np_dtype(int(numbers[place]))
        first = place + 2 + int(numbers[place + 1])
        shape = numbers[place + 2:first].astype("i8")
        place = first + int(shape.prod())
        elements = numbers[first:place]
        if dtype.kind not in "iu" or (np.abs(elements) <= 2**53).all():
            values[info.name] = elements.astype(dtype).reshape(shape)
    return values


def check_graph(path, counts):
    model = onnx.load(path)
    newest = model.opset_import[0].version
    values = read_values(path.with_suffix(".values"), model)
    wrong = []
    for node in model.graph.node:
        if not {name for name in [*node.input, *node.output] if name} <= set(values):
            continue  # storage-only types
        inputs = {name: values[name] for name in node.input if name}
        is_open = any(value.dtype.kind == "f" and not np.isfinite(value).all()
                      for value in inputs.values())
        has_moments = node.op_type == "LayerNormalization" and len(node.output) > 1
        if is_open and (node.op_type in OPEN_AT_NAN or has_moments):  # the mean beside infinity is NaN or infinity
            continue
        version = newest if is_by_reference(node) else min(newest, 24)  # the newest that onnxruntime has in full
        is_other = is_saturated(node, inputs) or is_without_terms(node, inputs) or is_misread(node, inputs)
        want = None if is_other else peer(node, inputs, version)
        counts["compared" if want else "not by onnxruntime"] += 1
        for name, value in zip([name for name in node.output if name], want or []):
            terms = [*inputs.values(), *([floats(1)] if node.op_type.endswith("Window") else [])]
            if node.op_type == "Attention" and value.dtype.kind == "f":  # ONNX masks scores with -infinity
                value = np.where(value == np.finfo(value.dtype).min, -np.inf, value).astype(value.dtype)
            why = difference(values[name], value, terms, most=1 if node.op_type in ROUNDED else 0)
            if why and not is_ill_conditioned(node, inputs, version, want) and not is_negative_variance(node, inputs, value):
                wrong.append(f"seed {path.stem}, {node.op_type} that gives {name}: {why}")
    return wrong


# ---- All -----------------------------------------------------------------------------------------


def main():
    command, folder, targets = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]
    number, failed = 0, 0

    def report(name, wrong):
        nonlocal number, failed
        number += 1
        failed += bool(wrong)
        print(f"{'not ok' if wrong else 'ok'} {number} /onnxruntime/{name}")
        for line in wrong:
            print("# " + line.replace("\n", "\n# "))
        sys.stdout.flush()

    cases = {}
    for case in operator_cases():
        want = peer(case.node, case.inputs, case.opset)
        is_open = case.node.op_type in OPEN_AT_NAN and any(
            value.dtype.kind == "f" and np.isnan(value).any() for value in case.inputs.values())
        if want is not None and not is_open:
            cases.setdefault(case.opset, []).append((case, want[case.place]))
    for target in targets:
        for opset, some in sorted(cases.items()):
            report(f"{target.split()[0]}/{len(some)}_operators_of_set_{opset}_agree",
                   check_operators(command, folder / "cases", target, list(some)))
        report(f"{target.split()[0]}/integers_divide_by_zero_and_shift_all_out_as_promised",
               check_promises(command, folder / "cases", target))
    report("uses_of_operators_are_refused_by_name",
           check_refusals(command, folder / "cases", targets[0]))
    counts, wrong = Counter(), []
    for path in sorted(folder.glob("*.onnx"), key=lambda path: int(path.stem)):
        wrong += check_graph(path, counts)
    print(f"# {dict(counts)}")
    report("nodes_of_random_graphs_agree_with_the_interpreter",
           wrong if counts["compared"] else ["no node was compared"])
    print(f"1..{number}")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
