# SPDX-License-Identifier: Apache-2.0
"""Shapes that only a run determines. Some shapes depend on the data. Other shapes belong to inputs whose extents have
different names, so that only a run can tell whether they are compatible. Each model is compiled once and compared with
onnxruntime. Backplane must refuse the runs that onnxruntime refuses."""

import os
import pickle

import numpy as np
import pytest

import backplane

from conftest import open_model, places

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
onnxruntime.set_default_logger_severity(4)

FLOAT, INT64, BOOL = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.BOOL
INT32 = onnx.TensorProto.INT32
NUMPY = {FLOAT: np.float32, INT64: np.int64, INT32: np.int32, BOOL: np.bool_}
RANDOM = np.random.default_rng(1)
FIRST, LAST = -2**63, 2**63 - 1


class Shape(tuple):
    """The elements of an input that is filled at random; about half of them are zeros."""


def node(op, inputs, outputs, **attributes):
    return onnx.helper.make_node(op, inputs.split(" ") if inputs else [], outputs.split(" "), **attributes)


def body(nodes, inputs, outputs):
    info = onnx.helper.make_tensor_value_info
    return onnx.helper.make_graph(nodes, "body", [info(name, *rest) for name, rest in inputs.items()],
                                  [onnx.ValueInfoProto(name=name) for name in outputs.split()])


def weights(*shape):
    return (RANDOM.random(shape, np.float32) - np.float32(.5)) / np.float32(np.sqrt(np.prod(shape[1:], initial=1)))


def of_many(op, number, lengths, **attributes):
    """Return a node of many inputs whose first extents have different names, followed by a node on one input's rows."""
    names = [f"x{i}" for i in range(number)]
    return ([node(op, " ".join(names), "y", **attributes), node("Relu", "y", "z")],
            {name: (FLOAT, [f"n{i}", 3]) for i, name in enumerate(names)}, "z", {},
            [{name: Shape((length(i), 3)) for i, name in enumerate(names)} for length in lengths])


def split_of_many(number):
    """Return a Split by lengths that are data. Three of its parts are read."""
    names = [f"p{i}" for i in range(number)]
    return ([node("Split", "x s", " ".join(names), axis=0)],
            {"x": (FLOAT, ["n", 2]), "s": (INT64, [number])}, f"p0 p{number // 2} p{number - 1}", {},
            [{"x": Shape((2 * number, 2)), "s": s} for s in [
                np.full(number, 2), np.r_[np.zeros(number - 1), 2 * number], np.full(number, 3)]])


# Lengths of the inputs, by number. All inputs broadcast, except the last ones.
BROADCASTING = [lambda i: 1 + 4 * (i % 3 == 1), lambda i: 5, lambda i: 1, lambda i: int(i != 2), lambda i: 2 + (i == 6)]

# Each entry: the nodes; the inputs, with their types and shapes; the outputs; constants; the inputs of each run.
CASES = {
    "concat_of_13": of_many("Concat", 13, [lambda i: i % 4, lambda i: 2], axis=0),
    "concat_of_40": of_many("Concat", 40, [lambda i: i % 4, lambda i: 0, lambda i: 30 * (i == 39)], axis=0),
    "max_of_13": of_many("Max", 13, BROADCASTING),
    "sum_of_40": of_many("Sum", 40, BROADCASTING),
    "mean_of_13": of_many("Mean", 13, BROADCASTING),
    "split_into_70": split_of_many(70),
    "nonzero": (
        [node("NonZero", "x", "y")],
        {"x": (FLOAT, ["a", "b"])}, "y", {},
        [{"x": Shape(shape)} for shape in [(3, 4), (0, 5), (5, 0), (1, 1), (70, 33)]]),
    "nonzero_of_fixed_shape": (
        [node("NonZero", "x", "y"), node("Shape", "y", "z")],
        {"x": (FLOAT, [2, 3, 5])}, "y z", {}, [{"x": Shape((2, 3, 5))} for _ in range(3)]),
    "max_of_inputs_whose_extents_may_all_differ": (
        [node("Max", " ".join(f"x{i}" for i in range(8)), "y")],
        {f"x{i}": (FLOAT, [f"n{i}", 3]) for i in range(8)}, "y", {},
        [{f"x{i}": Shape((n if i in many else 1, 3)) for i in range(8)}
         for n, many in [(4, {0, 3, 7}), (5, {7}), (1, {}), (2, range(8))]] +
        [{f"x{i}": Shape((2 + (i == 6), 3)) for i in range(8)}]),
    "compress_then_product": (
        [node("Compress", "x c", "y", axis=0), node("MatMul", "y w", "z"), node("Softmax", "z", "p")],
        {"x": (FLOAT, ["n", 8]), "c": (BOOL, ["n"])}, "y p", {"w": RANDOM.random((8, 5), np.float32)},
        [{"x": Shape((n, 8)), "c": RANDOM.random(n) < part} for n, part in [(4, 1), (33, 0.5), (100, 0.1), (4, 0)]]),
    "compress_by_a_condition_of_another_length": (
        [node("Compress", "x c", "y", axis=0)],
        {"x": (FLOAT, ["n", 2]), "c": (BOOL, ["m"])}, "y", {},
        [{"x": Shape((n, 2)), "c": [True, False, True]} for n in [3, 9]]),
    "compress_of_all": (
        [node("Compress", "x c", "y")],
        {"x": (FLOAT, [3, 4]), "c": (BOOL, [7])}, "y", {},
        [{"x": Shape((3, 4)), "c": RANDOM.random(7) < 0.5} for _ in range(3)]),
    "reshape": (
        [node("Reshape", "x s", "y"), node("Relu", "y", "z")],
        {"x": (FLOAT, ["n", 6]), "s": (INT64, [3])}, "z", {},
        [{"x": Shape((4, 6)), "s": s} for s in [
            (2, 3, 4), (-1, 2, 6), (0, 0, -1), (4, 0, 1), (24, 1, 1), (4, -1, -1), (5, 5, 1), (2, -2, -6), (4, 6, 0),
            (0, 6, 0), (1 << 62, 4, 6), (1 << 32, 1 << 32, -1)]] + [{"x": Shape((0, 6)), "s": (0, 6, 1)}]),
    "expand": (
        [node("Expand", "x s", "y")],
        {"x": (FLOAT, ["n", "m"]), "s": (INT64, [3])}, "y", {},
        [{"x": Shape(x), "s": s} for x, s in [
            ((2, 3), (4, 2, 3)), ((1, 3), (4, 7, 3)), ((2, 1), (1, 2, 9)), ((1, 1), (1, 1, 1)), ((1, 1), (2, 0, 3)),
            ((2, 3), (4, 3, 3)), ((2, 3), (1, -1, 3))]]),
    "slice": (
        [node("Slice", "x s e a t", "y")],
        {"x": (FLOAT, ["n", 7]), **{name: (INT64, [2]) for name in "seat"}}, "y", {},
        [{"x": Shape((9, 7)), "s": s, "e": e, "a": a, "t": t} for s, e, a, t in [
            ((0, 0), (5, 5), (0, 1), (1, 1)), ((8, 6), (0, 0), (0, 1), (-2, -1)), ((-1, 1), (-100, 6), (1, 0), (-1, 3)),
            ((3, 3), (1, 9), (-1, -2), (1, 2)), ((FIRST, 0), (LAST, 5), (0, 1), (1, 1 << 62)),
            ((LAST, 0), (FIRST, 5), (0, 1), (-1, 1)), ((LAST, 0), (FIRST, 5), (0, 1), (FIRST, 1)),
            ((0, 0), (5, 5), (0, 0), (1, 1)), ((0, 0), (5, 5), (0, 5), (1, 1)), ((0, 0), (5, 5), (0, 1), (0, 1))]]),
    "slice_by_bounds_of_an_open_length": (
        [node("Slice", "x s e a t", "y")],
        {"x": (FLOAT, ["n", 7]), "s": (INT64, ["i"]), "e": (INT64, ["j"]), "t": (INT64, ["k"])}, "y", {"a": [1]},
        [{"x": Shape((9, 7)), "s": s, "e": e, "t": t} for s, e, t in [
            ([1], [5], [2]), ([6], [0], [-1]), ([1, 2], [5, 6], [1, 1]), ([], [], []), ([1], [5, 6], [1])]]),
    "slice_by_bounds_cut_from_others": (  # as tf2onnx writes CropAndResize
        [node("Add", "i one", "j"), node("Slice", "p i j", "s"), node("Add", "s one", "e"), node("Slice", "x s e a", "y"),
         node("Reshape", "y four", "r"), node("Slice", "r zero two", "h"), node("Concat", "h one_and", "c", axis=0)],
        {"x": (FLOAT, ["n", 4]), "p": (INT64, ["m"]), "i": (INT64, [1])}, "c",
        {"one": [1], "zero": [0], "two": [2], "four": [4], "a": [0], "one_and": np.float32([1])},
        [{"x": Shape((5, 4)), "p": [2, 0, 4], "i": [i]} for i in range(4)]),
    "pad_by_pads_of_an_open_length": (
        [node("Pad", "x p", "y")], {"x": (FLOAT, ["n", 3]), "p": (INT64, ["m"])}, "y", {},
        [{"x": Shape((2, 3)), "p": p} for p in [(1, 0, 2, 3), (0, 0, 0, 0), (1, 1)]]),
    "scatter_of_rows_of_an_open_depth": (
        [node("ScatterND", "x i u", "y")],
        {"x": (FLOAT, ["n", 4, 3]), "i": (INT64, ["k", "d"]), "u": (FLOAT, ["k", 3])}, "y", {},
        [{"x": Shape((5, 4, 3)), "i": i, "u": Shape((len(i), 3))} for i in [[(0, 1), (4, 3)], [(2, 2)], [(2, 2, 1)]]]),
    "slices_of_open_axes_by_steps_and_from_both_ends": (
        [node("Slice", "x b e a t", "y"), node("Shape", "x", "s"), node("Gather", "s zero", "n"), node("Sub", "n three", "m"),
         node("Unsqueeze", "m z", "v"), node("Slice", "x z v z", "w"), node("Concat", "w y", "c", axis=0)],
        {"x": (FLOAT, ["n", "m", 3])}, "y w c",
        {"b": [1, -1], "e": [-1, FIRST], "a": [0, 1], "t": [2, -1], "zero": 0, "three": 3, "z": [0]},
        [{"x": Shape((n, m, 3))} for n, m in [(9, 4), (1, 1), (2, 5), (3, 2), (4, 1), (70, 33), (0, 3)]]),
    "slice_by_a_constant_step": (
        [node("Slice", "x s e a t", "y"), node("Abs", "y", "z")],
        {"x": (FLOAT, ["n", 7]), "s": (INT64, [1]), "e": (INT64, [1])}, "z", {"a": [0], "t": [-2]},
        [{"x": Shape((9, 7)), "s": [s], "e": [e]} for s, e in [
            (8, 0), (-1, -100), (3, 5), (0, -9), (-20, -99), (-10, FIRST)]]),
    "slice_backwards_that_begins_before_the_first_element": (
        [node("Slice", "x s e a t", "y")],
        {"x": (FLOAT, ["n", 7])}, "y", {"s": [-3], "e": [-9], "a": [0], "t": [-1]},
        [{"x": Shape((n, 7))} for n in [0, 1, 2, 3, 4, 9, 20]]),
    "slice_with_bounds_far_outside_of_the_data": (
        [node("Slice", "x s e a", "y"), node("Neg", "y", "z")],
        {"x": (FLOAT, ["n", "m", 3])}, "y z", {"s": [4, FIRST, FIRST], "e": [FIRST, LAST, -1], "a": [0, 1, 2]},
        [{"x": Shape((n, m, 3))} for n, m in [(6, 4), (1, 1), (0, 3), (9, 0)]]),
    "pools_whose_only_window_reaches_beyond_the_input": (
        [node("MaxPool", "x", "m", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
         node("AveragePool", "x", "a", kernel_shape=[2, 3], strides=[2, 3], ceil_mode=1),
         node("MaxPool", "f", "g", kernel_shape=[2, 3], strides=[2, 3], ceil_mode=1)],
        {"x": (FLOAT, [1, 3, "h", "w"]), "f": (FLOAT, [1, 2, 1, 1])}, "m a g", {},
        [{"x": Shape((1, 3, h, w)), "f": Shape((1, 2, 1, 1))} for h, w in [(1, 1), (1, 4), (2, 5), (3, 1), (7, 9)]]),
    "split": (
        [node("Split", "x s", "a b c", axis=1), node("Concat", "c a b", "y", axis=1)],
        {"x": (FLOAT, ["n", "m"]), "s": (INT64, [3])}, "a y", {},
        [{"x": Shape((2, 9)), "s": s} for s in [(3, 3, 3), (0, 9, 0), (1, 2, 6), (1, 2, 3), (5, 5, -1)]]),
    "split_of_an_open_axis": (
        [node("Split", "x s", "a b", axis=0), node("Split", "x", "c d", axis=1, num_outputs=2)],
        {"x": (FLOAT, ["n", "m"])}, "a b c d", {"s": [3, 4]},
        [{"x": Shape(x)} for x in [(7, 4), (7, 5), (7, 1), (6, 4)]]),
    "topk": (
        [node("TopK", "x k", "v i", axis=1)],
        {"x": (FLOAT, ["n", "m"]), "k": (INT64, [1])}, "v i", {},
        [{"x": Shape(x), "k": [k]} for x, k in [
            ((2, 5), 3), ((1, 1), 1), ((3, 5), 0), ((7, 100), 100), ((0, 5), 2), ((2, 5), 6), ((2, 5), -1)]]),
    "range_of_integers": (
        [node("Range", "a b c", "y")],
        {name: (INT64, []) for name in "abc"}, "y", {},
        [dict(zip("abc", bounds)) for bounds in [
            (0, 10, 3), (10, 0, -3), (0, 10, -1), (5, 5, 1), (0, 9, 3), (0, -7, -2), (0, 10, 0)]]),
    "range_of_numbers": (
        [node("Range", "a b c", "y"), node("Mul", "y y", "z")],
        {name: (FLOAT, []) for name in "abc"}, "y z", {},
        [dict(zip("abc", bounds)) for bounds in [
            (0, 1, 0.25), (1, 0, -0.3), (0, 1, -1), (0, 1, 0), (0, np.nan, 1), (0, np.inf, 1)]]),
    "tile": (
        [node("Tile", "x r", "y")],
        {"x": (FLOAT, ["n", 3]), "r": (INT64, [2])}, "y", {},
        [{"x": Shape((2, 3)), "r": r} for r in [(2, 2), (1, 1), (0, 2), (-1, 2)]]),
    "constant_of_shape": (
        [node("ConstantOfShape", "s", "y", value=onnx.helper.make_tensor("v", FLOAT, [1], [7])),
         node("Add", "y y", "z")],
        {"s": (INT64, [2])}, "z", {}, [{"s": s} for s in [(2, 3), (0, 4), (-1, 3), (1 << 40, 1 << 30)]]),
    "running_sums": (
        [node("CumSum", "x a", "y"), node("CumSum", "x b", "z", reverse=1, exclusive=1)],
        {"x": (FLOAT, ["n", "m"])}, "y z", {"a": 0, "b": 1},
        [{"x": Shape(x)} for x in [(1, 1), (5, 7), (40, 65), (0, 3), (3, 0)]]),
    "several_in_a_row": (
        [node("NonZero", "x", "p"), node("Squeeze", "p a", "i"), node("Gather", "x i", "v"),
         node("Greater", "v zero", "c"), node("Compress", "v c", "w", axis=0), node("TopK", "w k", "t ti"),
         node("Concat", "w t v", "y", axis=0)],
        {"x": (FLOAT, ["n"]), "k": (INT64, [1])}, "y ti", {"a": [0], "zero": np.float32(0)},
        [{"x": Shape((n,)), "k": [k]} for n, k in [(20, 2), (50, 5), (4, 0), (1, 0)]]),
    "non_max_suppression": (
        [node("NonMaxSuppression", "b s m i t", "y")],
        {"b": (FLOAT, ["n", "boxes", 4]), "s": (FLOAT, ["n", "c", "boxes"]), "m": (INT64, [1]), "i": (FLOAT, [1]),
         "t": (FLOAT, [1])}, "y", {},
        [{"b": RANDOM.random((n, boxes, 4)), "s": np.round(RANDOM.random((n, c, boxes)), 1), "m": [m], "i": [i], "t": [t]}
         for n, boxes, c, m, i, t in [
             (1, 6, 1, 3, 0.5, 0), (2, 40, 3, 10, 0.3, 0.2), (1, 100, 2, 1000, 0.1, 0.05), (1, 20, 2, 0, 0.1, 0),
             (1, 30, 1, 30, 0, 0.95), (1, 30, 1, -3, 0.5, 0.5), (3, 0, 2, 5, 0.5, 0.5)]]),
    "non_max_suppression_of_boxes_and_scores_in_other_numbers": (
        [node("NonMaxSuppression", "b s m", "y")],
        {"b": (FLOAT, ["n", "boxes", "four"]), "s": (FLOAT, ["k", "c", "scores"])}, "y", {"m": [2]},
        [{"b": RANDOM.random(b), "s": RANDOM.random(s)} for b, s in [
            ((1, 6, 4), (1, 2, 6)), ((2, 1, 4), (2, 1, 1)), ((1, 6, 4), (1, 2, 5)), ((1, 6, 4), (2, 2, 6)),
            ((1, 6, 3), (1, 2, 6))]]),
    "broadcast": (
        [node("Add", "x y", "z")],
        {"x": (FLOAT, ["a", "b"]), "y": (FLOAT, ["c", "d"])}, "z", {},
        [{"x": Shape(x), "y": Shape(y)} for x, y in [
            ((3, 4), (3, 4)), ((1, 4), (3, 4)), ((3, 4), (3, 1)), ((1, 1), (5, 70)), ((0, 4), (1, 4)), ((0, 4), (0, 1)),
            ((2, 4), (3, 4)), ((0, 4), (2, 4))]]),
    "broadcast_in_branches_and_behind_them": (
        [node("If", "c", "z", then_branch=body([node("Add", "x y", "t")], {}, "t"),
              else_branch=body([node("Mul", "x y", "e")], {}, "e")), node("Sub", "x y", "w")],
        {"x": (FLOAT, ["a"]), "y": (FLOAT, ["b"]), "c": (BOOL, [])}, "z w", {},
        [{"x": Shape((a,)), "y": Shape((b,)), "c": c}
         for a, b in [(4, 4), (1, 5), (3, 1), (2, 3)] for c in [True, False]]),
    "broadcast_in_a_loop_and_behind_it": (
        [node("Loop", "n  x", "z", body=body(
            [node("Add", "v y", "u"), node("Identity", "c", "d")],
            {"i": (INT64, []), "c": (BOOL, []), "v": (FLOAT, None)}, "d u")), node("Sub", "x y", "w")],
        {"x": (FLOAT, ["a"]), "y": (FLOAT, ["b"]), "n": (INT64, [])}, "z w", {},
        [{"x": Shape((a,)), "y": Shape((b,)), "n": n} for a, b in [(4, 4), (1, 5), (3, 1)] for n in [0, 1, 3]]),
    "broadcast_to_fixed_extents": (
        [node("Greater", "x y", "c"), node("Where", "c x w", "z")],
        {"x": (FLOAT, ["a", 4]), "y": (FLOAT, [3, "b"]), "w": (FLOAT, ["c", "d"])}, "z", {},
        [{"x": Shape(x), "y": Shape(y), "w": Shape(w)} for x, y, w in [
            ((3, 4), (3, 4), (3, 4)), ((1, 4), (3, 1), (1, 1)), ((3, 4), (3, 4), (5, 4)), ((2, 4), (3, 4), (1, 1)),
            ((3, 4), (3, 2), (1, 1))]]),
    "product": (
        [node("MatMul", "x y", "z"), node("Relu", "z", "r")],
        {"x": (FLOAT, ["a", "b", "c"]), "y": (FLOAT, ["d", "e", "f"])}, "r", {},
        [{"x": Shape(x), "y": Shape(y)} for x, y in [
            ((2, 3, 4), (2, 4, 5)), ((1, 3, 4), (2, 4, 5)), ((2, 3, 4), (1, 4, 5)), ((1, 1, 1), (1, 1, 1)),
            ((2, 0, 4), (2, 4, 5)), ((1, 70, 33), (3, 33, 65)), ((2, 3, 4), (2, 3, 5)), ((2, 3, 4), (3, 4, 5))]]),
    "concat": (
        [node("Concat", "x y", "z", axis=1)],
        {"x": (FLOAT, ["a", "b"]), "y": (FLOAT, ["c", "d"])}, "z", {},
        [{"x": Shape(x), "y": Shape(y)} for x, y in [
            ((2, 3), (2, 4)), ((1, 1), (1, 9)), ((0, 3), (0, 1)), ((2, 3), (1, 3))]]),
    "sum_of_nothing": (
        [node("Abs", "x", "a"), node("ReduceSum", "a s", "y")],
        {"x": (FLOAT, [2, 0, 4]), "s": (INT64, [1])}, "y", {},
        [{"x": Shape((2, 0, 4)), "s": [s]} for s in [0, 1, -1, 3]]),
    "what_no_run_needs_to_compute": (
        [node("Size", "x", "s"), node("Sub", "s s", "y"), node("Shape", "x", "t"), node("Equal", "t t", "z")],
        {"x": (FLOAT, ["a", "b"])}, "y z", {}, [{"x": Shape((8, 8))}]),
    "least_integers_beside_extents": (
        [node("Shape", "x", "s"), node("Concat", "s f", "c", axis=0), node("Add", "s f", "a"), node("Max", "s f", "m"),
         node("Equal", "s f", "q"), node("Less", "s f", "l"), node("Where", "l s f", "w"), node("Slice", "s t f z t", "r")],
        {"x": (FLOAT, ["a", "b"])}, "c a m q w r", {"f": [FIRST], "t": [-1], "z": [0]},
        [{"x": Shape(x)} for x in [(2, 3), (0, 7)]]),
    "squeeze": (
        [node("Squeeze", "x s", "y"), node("Neg", "y", "z")],
        {"x": (FLOAT, ["a", "b"])}, "z", {"s": [0]}, [{"x": Shape(x)} for x in [(1, 5), (1, 1), (2, 5), (1, 0)]]),
    "reflected": (
        [node("Pad", "x p", "y", mode="reflect"), node("Pad", "x q", "z", mode="edge")],
        {"x": (FLOAT, ["a", "b"])}, "y z", {"p": [0, 2, 0, 1], "q": [1, -1, 0, 3]},
        [{"x": Shape(x)} for x in [(1, 5), (3, 3), (70, 40)]]),
    "reshape_to_the_shape_of_another": (
        [node("Shape", "y", "s"), node("Reshape", "x s", "z"), node("Neg", "z", "n")],
        {"x": (FLOAT, ["a", "b"]), "y": (FLOAT, ["c", "d", "e"])}, "n", {},
        [{"x": Shape(x), "y": Shape(y)} for x, y in [
            ((6, 4), (2, 3, 4)), ((1, 1), (1, 1, 1)), ((6, 4), (2, 3, 5))]]),
    "slice_of_no_rows": (
        [node("Slice", "x zero zero", "y"), node("Neg", "x", "z")],
        {"x": (FLOAT, ["n", 2])}, "y z", {"zero": [0]}, [{"x": Shape((n, 2))} for n in [3, 0]]),
    "reductions_of_no_elements": (
        [node("ReduceSum", "x one", "y"), node("ReduceMax", "x one", "z", keepdims=0)],
        {"x": (FLOAT, ["n", 0, "m"])}, "y z", {"one": [1]}, [{"x": Shape((n, 0, 3))} for n in [3, 0]]),
    "reshape_to_as_many_rows_as_another_has": (
        [node("Shape", "y", "l"), node("Concat", "l rest", "s", axis=0), node("Reshape", "x s", "z"), node("Neg", "z", "n")],
        {"x": (FLOAT, ["a", "b"]), "y": (FLOAT, ["c"])}, "n", {"rest": [-1]},
        [{"x": Shape(x), "y": Shape(y)} for x, y in [((2, 3), (0,)), ((2, 3), (3,)), ((0, 3), (2,)), ((2, 3), (4,))]]),
    "reshape_to_rows": (
        [node("Reshape", "x s", "z"), node("Neg", "z", "n")],
        {"x": (FLOAT, ["a", "b"])}, "n", {"s": [-1, 6]},
        [{"x": Shape(x)} for x in [(6, 4), (1, 6), (3, 2), (0, 5), (3, 5)]]),
    "one_hot_of_a_depth_that_is_an_input": (
        [node("OneHot", "i d v", "y", axis=1)],
        {"i": (INT64, ["n", 3]), "d": (INT64, [1])}, "y", {"v": np.float32([-1, 2])},
        [{"i": RANDOM.integers(-5, 5, (n, 3)), "d": [d]} for n, d in [(2, 4), (5, 1), (0, 3), (1, 9), (2, 0), (2, -3)]]),
    "center_of_a_shape_that_is_an_input": (
        [node("CenterCropPad", "x s", "y", axes=[0, -1]), node("Neg", "y", "z")],
        {"x": (FLOAT, ["a", 3, "b"]), "s": (INT64, [2])}, "z", {},
        [{"x": Shape((a, 3, b)), "s": s} for a, b, s in [(4, 5, (7, 2)), (5, 4, (2, 7)), (3, 3, (3, 3)), (2, 9, (1, 4))]]),
    "grid_of_a_size_that_is_an_input": (
        [node("AffineGrid", "t s", "g"), node("Neg", "g", "y")],
        {"t": (FLOAT, ["n", 2, 3]), "s": (INT64, [4])}, "y", {},
        [{"t": Shape((n, 2, 3)), "s": (n, 1, h, w)} for n, h, w in [(2, 3, 5), (1, 1, 1), (3, 7, 2)]]),
    "window_of_a_length_that_is_an_input": (
        [node("HannWindow", "n", "w"), node("BlackmanWindow", "n", "v", periodic=0), node("Mul", "w v", "y")],
        {"n": (INT64, [])}, "y", {}, [{"n": n} for n in [8, 1, 0, 33]]),
    "resize_by_sizes_that_are_an_input": (
        [node("Resize", "x   s", "y", mode="cubic", axes=[2, 3]), node("Relu", "y", "z")],
        {"x": (FLOAT, ["n", 2, "h", "w"]), "s": (INT64, [2])}, "z", {},
        [{"x": Shape((n, 2, h, w)), "s": s} for n, h, w, s in [
            (1, 5, 7, (9, 3)), (2, 5, 7, (5, 7)), (1, 1, 1, (4, 4)), (3, 8, 6, (1, 1))]]),
    "resize_to_equally_near_elements": (
        [node("Resize", "x   s", "y", mode="nearest", nearest_mode="round_prefer_ceil", axes=[1]),
         node("Resize", "x   s", "z", mode="nearest", coordinate_transformation_mode="half_pixel_symmetric", axes=[1])],
        {"x": (FLOAT, ["n", "w"]), "s": (INT64, [1])}, "y z", {},
        [{"x": Shape((2, w)), "s": [s]} for w, s in [(20, 6), (14, 1), (7, 10), (13, 13), (25, 30)]]),
    "resize_to_nearest_elements_as_tensorflow_does": (
        [node("Resize", "x   s", "y", mode="nearest", coordinate_transformation_mode="tf_half_pixel_for_nn",
              nearest_mode="floor", axes=[1])],
        {"x": (FLOAT, ["n", "w"]), "s": (INT64, [1])}, "y", {},
        [{"x": Shape((2, w)), "s": [s]} for w, s in [(7, 10), (13, 13), (25, 30), (9, 4)]]),
    "resize_by_sizes_within_a_ratio": (
        [node("Resize", "x   s", "y", mode="linear", axes=[2, 3], keep_aspect_ratio_policy="not_larger")],
        {"x": (FLOAT, [1, 2, "h", "w"]), "s": (INT64, [2])}, "y", {},
        [{"x": Shape((1, 2, h, w)), "s": s} for h, w, s in [(5, 7, (9, 9)), (8, 6, (3, 20))]]),
    "resize_by_scales_that_are_an_input": (
        [node("Resize", "x  s", "y", mode="linear", coordinate_transformation_mode="pytorch_half_pixel")],
        {"x": (FLOAT, ["n", 2, "h", "w"]), "s": (FLOAT, [4])}, "y", {},
        [{"x": Shape((n, 2, 5, 7)), "s": (1, 1, *s)} for n, s in [(1, (2, 2)), (2, (0.6, 1.5)), (1, (1, 0.5))]]),
    "resize_to_the_shape_of_another": (
        [node("Shape", "t", "a"), node("Slice", "a two four", "s"), node("Shape", "x", "b"),
         node("Slice", "b zero two", "u"), node("Concat", "u s", "r", axis=0), node("Resize", "x   r", "y", mode="linear"),
         node("Add", "y t", "z")],
        {"x": (FLOAT, ["n", 3, "h", "w"]), "t": (FLOAT, ["n", 3, "i", "j"])}, "z",
        {"zero": [0], "two": [2], "four": [4]},
        [{"x": Shape((n, 3, *x)), "t": Shape((n, 3, *t))} for n, x, t in [
            (1, (4, 5), (8, 10)), (2, (6, 5), (6, 5)), (1, (9, 2), (3, 7))]]),
    "resize_to_no_elements": (
        [node("Resize", "x  s", "y", mode="linear"), node("Resize", "x  half", "z", mode="nearest"),
         node("Resize", "c  tenth", "v", mode="cubic"), node("Resize", "e  twice", "w", mode="linear")],
        {"x": (FLOAT, [1, 2, "h", "w"]), "s": (FLOAT, [4]), "c": (FLOAT, [1, 2, 4, 5]), "e": (FLOAT, [1, 2, 0, 5])}, "y z v w",
        {"half": np.float32([1, 1, 0.5, 0.5]), "tenth": np.float32([1, 1, 0.1, 3]), "twice": np.float32([1, 1, 2, 2])},
        [{"x": Shape((1, 2, *x)), "s": (1, 1, *s), "c": Shape((1, 2, 4, 5)), "e": Shape((1, 2, 0, 5))} for x, s in [
            ((1, 6), (0.1, 1.5)), ((4, 5), (2, 2)), ((3, 1), (1, 0.5))]]),
    "upsample_of_open_pictures": (
        [node("Resize", "x  s", "y", mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
         node("Resize", "y  d", "z", mode="linear")],
        {"x": (FLOAT, [1, 2, "h", "w"])}, "z", {"s": np.float32([1, 1, 2, 3]), "d": np.float32([1, 1, 0.5, 1.25])},
        [{"x": Shape((1, 2, *x))} for x in [(4, 5), (1, 1), (7, 33)]]),
    "neighbours_of_infinity": (  # all that a sum reads count, those beyond it do not
        [node("Resize", "x  s", "y", mode="linear", coordinate_transformation_mode="asymmetric"),
         node("Resize", "x  d", "z", mode="linear", antialias=1)],
        {"x": (FLOAT, [1, 1, "h", "w"])}, "y z", {"s": np.float32([1, 1, 2, 2]), "d": np.float32([1, 1, 0.9, 0.9])},
        [{"x": np.where(np.arange(80).reshape(1, 1, 8, 10) == i, np.inf, 1)} for i in (0, 33)]),
    "attention_by_a_mask": (
        [node("MatMul", "q k", "s"), node("Add", "s m", "t"), node("Softmax", "t", "p"),
         node("Transpose", "k", "v", perm=[0, 1, 3, 2]), node("MatMul", "p v", "o")],
        {"q": (FLOAT, ["b", 2, "s", 8]), "k": (FLOAT, ["c", 2, 8, "t"]), "m": (FLOAT, ["d", 1, "u", "w"])}, "o", {},
        [{"q": Shape((b, 2, s, 8)), "k": Shape((b, 2, 8, t)), "m": Shape((d, 1, u, t))} for b, s, t, d, u in [
            (1, 3, 5, 1, 3), (2, 7, 33, 1, 1), (2, 1, 16, 2, 1), (2, 3, 5, 3, 3)]]),
    "biases_that_broadcast_to_the_product": (  # and no product that broadcasts to its bias
        [node("Gemm", "x w b", "y")], {"x": (FLOAT, ["n", 3]), "w": (FLOAT, [3, "m"]), "b": (FLOAT, ["k", "l"])}, "y", {},
        [{"x": Shape((n, 3)), "w": Shape((3, m)), "b": Shape(b)} for n, m, b in [
            (4, 2, (4, 2)), (4, 2, (1, 2)), (1, 2, (4, 2)), (4, 1, (4, 1)), (4, 1, (1, 5)), (1, 1, (1, 1)), (0, 2, (1, 2))]]),
    "scales_that_broadcast_to_the_input": (
        [node("LayerNormalization", "x s b", "y")],
        {"x": (FLOAT, ["n", "m"]), "s": (FLOAT, ["k"]), "b": (FLOAT, ["i", "j"])}, "y", {},
        [{"x": Shape((n, m)), "s": Shape((s,)), "b": Shape(b)} for n, m, s, b in [
            (4, 6, 6, (4, 6)), (4, 6, 1, (1, 6)), (4, 1, 6, (4, 1)), (1, 6, 6, (4, 6)), (1, 6, 6, (1, 1))]]),
    "masks_that_broadcast_to_the_scores": (
        [node("Attention", "q k k m", "y")],
        {"q": (FLOAT, ["b", 2, "s", 8]), "k": (FLOAT, ["b", 2, "t", 8]), "m": (FLOAT, ["c", 1, "r", "u"])}, "y", {},
        [{"q": Shape((b, 2, s, 8)), "k": Shape((b, 2, 5, 8)), "m": Shape(m)} for b, s, m in [
            (2, 3, (2, 1, 3, 5)), (2, 3, (1, 1, 3, 5)), (1, 3, (2, 1, 3, 5)), (1, 1, (1, 1, 3, 5)), (1, 1, (1, 1, 1, 5))]]),
    "attention_with_a_past": (
        [node("RotaryEmbedding", "q c s i", "r", num_heads=4), node("RotaryEmbedding", "k c s i", "l", num_heads=2),
         node("Attention", "r l v m pk pv", "o nk nv", q_num_heads=4, kv_num_heads=2)],
        {"q": (FLOAT, ["b", "s", 32]), "k": (FLOAT, ["b", "s", 16]), "v": (FLOAT, ["b", "s", 16]),
         "i": (INT64, ["b", "s"]), "m": (FLOAT, ["b", 1, "s", "t"]),
         "pk": (FLOAT, ["b", 2, "p", 8]), "pv": (FLOAT, ["b", 2, "p", 8])}, "o nk nv",
        {"c": np.cos(RANDOM.random((64, 4), np.float32)), "s": np.sin(RANDOM.random((64, 4), np.float32))},
        [{"q": Shape((b, s, 32)), "k": Shape((b, s, 16)), "v": Shape((b, s, 16)),
          "i": np.tile(np.arange(p, p + s), (b, 1)), "m": Shape((b, 1, s, s + p)),
          "pk": Shape((b, 2, p, 8)), "pv": Shape((b, 2, p, 8))}
         for b, s, p in [(1, 7, 0), (1, 1, 7), (1, 1, 8), (3, 5, 2), (2, 33, 17)]]),
    "causal_attention_of_open_lengths": (
        [node("Attention", "q k v", "o", q_num_heads=2, kv_num_heads=2, is_causal=1)],
        {"q": (FLOAT, ["b", "s", 16]), "k": (FLOAT, ["c", "t", 16]), "v": (FLOAT, ["d", "u", 16])}, "o", {},
        [{"q": Shape((b, s, 16)), "k": Shape((b, t, 16)), "v": Shape((b, u, 16))}
         for b, s, t, u in [(1, 5, 5, 5), (2, 33, 33, 33), (1, 4, 9, 9)]]),
    "causal_attention_with_a_past": (
        [node("Attention", "q k v  pk pv", "o nk nv", q_num_heads=2, kv_num_heads=2, is_causal=1)],
        {**{name: (FLOAT, ["b", "s", 16]) for name in "qkv"},
         **{name: (FLOAT, ["b", 2, "p", 8]) for name in ("pk", "pv")}}, "o nk nv", {},
        [{**{name: Shape((b, s, 16)) for name in "qkv"}, "pk": Shape((b, 2, p, 8)), "pv": Shape((b, 2, p, 8))}
         for b, s, p in [(1, 7, 0), (1, 1, 7), (3, 5, 2)]]),
    "attention_of_extents_that_no_name_joins": (
        [node("Attention", "q k v m", "o", q_num_heads=4, kv_num_heads=2)],
        {"q": (FLOAT, ["a", "b", 16]), "k": (FLOAT, ["c", "d", 8]), "v": (FLOAT, ["e", "f", 8]),
         "m": (FLOAT, ["g", "h", "i", "j"])}, "o", {},
        [{"q": Shape((b, s, 16)), "k": Shape((b, t, 8)), "v": Shape((b, t, 8)), "m": Shape((b, 4, s, t))}
         for b, s, t in [(2, 3, 5), (1, 1, 9)]]),
    "multi_head_attention_by_a_padding": (
        [node("MultiHeadAttention", "q k v  m", "o", num_heads=3, domain="com.microsoft")],
        {"q": (FLOAT, ["b", "s", 12]), "k": (FLOAT, ["b", "t", 12]), "v": (FLOAT, ["b", "t", 12]),
         "m": (INT32, ["b", "t"])}, "o", {},
        [{"q": Shape((b, s, 12)), "k": Shape((b, t, 12)), "v": Shape((b, t, 12)),
          "m": np.arange(t) < RANDOM.integers(1, t + 1, (b, 1))} for b, s, t in [(1, 3, 5), (2, 7, 33), (3, 1, 1)]]),
    "layer_of_a_language_model": (
        [node("SimplifiedLayerNormalization", "x g", "n", epsilon=1e-6),
         node("MatMul", "n w", "a"),
         node("GroupQueryAttention", "a   pk pv l t c s", "y nk nv", num_heads=4, kv_num_heads=2, do_rotary=1,
              domain="com.microsoft"),
         node("SkipSimplifiedLayerNormalization", "y x g", "o   r", domain="com.microsoft")],
        {"x": (FLOAT, ["b", "s", 64]), "pk": (FLOAT, ["b", 2, "p", 16]), "pv": (FLOAT, ["b", 2, "p", 16]),
         "l": (INT32, ["b"]), "t": (INT32, [])}, "o r nk nv",
        {"g": RANDOM.random(64, np.float32), "w": RANDOM.random((64, 128), np.float32) - np.float32(.5),
         "c": np.cos(RANDOM.random((64, 8), np.float32)), "s": np.sin(RANDOM.random((64, 8), np.float32))},
        [{"x": Shape((b, s, 64)), "pk": Shape((b, 2, p, 16)), "pv": Shape((b, 2, p, 16)),
          "l": np.full(b, s + p - 1), "t": s + p + wrong}
         for b, s, p, wrong in [(1, 7, 0, 0), (1, 1, 7, 0), (1, 1, 8, 0), (3, 5, 0, 0), (2, 1, 17, 0), (1, 3, 9, 0), (2, 1, 17, 1)]]),
    "group_queries_of_several_lengths": (
        [node("GroupQueryAttention", "q k v pk pv l t", "y nk nv", num_heads=4, kv_num_heads=2, domain="com.microsoft")],
        {"q": (FLOAT, ["b", 1, 64]), "k": (FLOAT, ["b", 1, 32]), "v": (FLOAT, ["b", 1, 32]),
         "pk": (FLOAT, ["b", 2, "p", 16]), "pv": (FLOAT, ["b", 2, "p", 16]), "l": (INT32, ["b"]), "t": (INT32, [])}, "y", {},
        [{"q": Shape((len(l), 1, 64)), "k": Shape((len(l), 1, 32)), "v": Shape((len(l), 1, 32)),
          "pk": Shape((len(l), 2, p, 16)), "pv": Shape((len(l), 2, p, 16)), "l": l, "t": p + 1}
         for p, l in [(6, [6, 3]), (6, [0, 6, 5]), (33, [33, 1])]]),
    "group_queries_of_a_past_with_spare_space": (
        [node("GroupQueryAttention", "q k v pk pv l t    m", "y nk nv", num_heads=4, kv_num_heads=2, domain="com.microsoft"),
         node("Shape", "nk", "n"), node("Shape", "nv", "o")],
        {"q": (FLOAT, ["b", "s", 64]), "k": (FLOAT, ["b", "s", 32]), "v": (FLOAT, ["b", "s", 32]), "pk": (FLOAT, ["b", 2, "p", 16]),
         "pv": (FLOAT, ["b", 2, "p", 16]), "l": (INT32, ["b"]), "t": (INT32, []), "m": (FLOAT, [1, 1, "s", "t"])}, "y n o", {},
        [{"q": Shape((len(l), s, 64)), "k": Shape((len(l), s, 32)), "v": Shape((len(l), s, 32)), "t": t, "l": l,
          "pk": Shape((len(l), 2, p, 16)), "pv": Shape((len(l), 2, p, 16)), "m": Shape((1, 1, s, t))}
         for p, s, t, l in [(16, 1, 7, [6, 3]), (16, 5, 5, [4]), (16, 3, 7, [6]), (6, 1, 7, [6, 6]), (7, 1, 7, [6])]]),
    "group_queries_of_a_batch_whose_past_has_spare_space": (
        [node("GroupQueryAttention", "a   pk pv l t c s", "y nk nv", num_heads=4, kv_num_heads=2, do_rotary=1, domain="com.microsoft"),
         node("Slice", "nk zero t two", "k"), node("Slice", "nv zero t two", "v")],
        {"a": (FLOAT, [1, "s", 128]), "pk": (FLOAT, [1, 2, 16, 16]), "pv": (FLOAT, [1, 2, 16, 16]), "l": (INT32, [1]),
         "t": (INT32, [1])}, "y k v",
        {"c": np.cos(RANDOM.random((64, 8), np.float32)), "s": np.sin(RANDOM.random((64, 8), np.float32)),
         "zero": np.zeros(1, "i4"), "two": np.full(1, 2, "i4")},
        [{"a": Shape((1, s, 128)), "pk": Shape((1, 2, 16, 16)), "pv": Shape((1, 2, 16, 16)), "l": [t - 1], "t": [t]}
         for s, t in [(5, 5), (1, 6), (3, 12), (1, 16), (1, 17)]]),
    "group_queries_of_extents_that_no_name_joins": (
        [node("GroupQueryAttention", "q k v pk pv l t c s i", "y nk nv", num_heads=4, kv_num_heads=2, do_rotary=1,
              domain="com.microsoft")],
        {"q": (FLOAT, ["a", "b", 64]), "k": (FLOAT, ["c", "d", 32]), "v": (FLOAT, ["e", "f", 32]),
         "pk": (FLOAT, ["g", 2, "h", 16]), "pv": (FLOAT, ["i", 2, "j", 16]), "l": (INT32, ["k"]), "t": (INT32, ["m"]),
         "c": (FLOAT, ["n", 8]), "s": (FLOAT, ["o", 8]), "i": (INT64, ["p", "q"])}, "y nk nv", {},
        [{"q": Shape((b, s, 64)), "k": Shape((b, s, 32)), "v": Shape((b, s, 32)), "pk": Shape((b, 2, p, 16)),
          "pv": Shape((b, 2, p, 16)), "l": np.full(b, s + p - 1), "t": [s + p], "c": Shape((rows, 8)),
          "s": Shape((rows, 8)), "i": RANDOM.integers(0, 9, (b, s))}
         for b, s, p, rows in [(1, 7, 0, 20), (2, 4, 0, 20), (1, 3, 6, 20), (2, 1, 8, 9), (2, 1, 8, 8)]]),
    "skips_of_extents_that_no_name_joins": (
        [node("SkipLayerNormalization", "x s g g", "y", domain="com.microsoft"),
         node("SkipSimplifiedLayerNormalization", "x s g", "z   w", domain="com.microsoft")],
        {"x": (FLOAT, ["a", "b", 8]), "s": (FLOAT, ["c", "d", 8])}, "y z w", {"g": RANDOM.random(8, np.float32)},
        [{"x": Shape((a, b, 8)), "s": Shape((c, b, 8))} for a, b, c in [(2, 5, 2), (3, 1, 1), (2, 33, 1)]]),
    "encoder_of_an_optimiser": (
        [node("EmbedLayerNormalization", "i g w p s a z m", "x n", domain="com.microsoft"),
         node("Attention", "x aw ab n", "y", num_heads=2, domain="com.microsoft"),
         node("SkipLayerNormalization", "y x a z", "o", domain="com.microsoft")],
        {"i": (INT32, ["b", "l"]), "g": (INT32, ["b", "l"]), "m": (INT32, ["b", "l"])}, "n o",
        {"w": RANDOM.random((20, 8), np.float32), "p": RANDOM.random((50, 8), np.float32),
         "s": RANDOM.random((2, 8), np.float32), "a": RANDOM.random(8, np.float32),
         "z": RANDOM.random(8, np.float32), "aw": RANDOM.random((8, 24), np.float32), "ab": RANDOM.random(24, np.float32)},
        [{"i": RANDOM.integers(0, 20, (b, t)), "g": RANDOM.integers(0, 2, (b, t)),
          "m": np.arange(t) < RANDOM.integers(1, t + 1, (b, 1))} for b, t in [(1, 7), (3, 12), (2, 1), (1, 50), (1, 51)]]),
    # PaddlePaddle's exporter gives this name to every unknown dimension.
    "question_marks_are_no_names": (
        [node("Relu", "x", "y")], {"x": (FLOAT, ["?", 2, "?", "?"])}, "y", {},
        [{"x": Shape((n, 2, h, w))} for n, h, w in [(1, 3, 5), (4, 1, 2)]]),
    "sequences_of_a_known_length": (
        [node("SplitToSequence", "x", "s", axis=1), node("SequenceAt", "s two", "a"), node("SequenceErase", "s one", "t"),
         node("SequenceInsert", "t a zero", "u"), node("SequenceInsert", "u a", "v"), node("SequenceLength", "v", "n"),
         node("ConcatFromSequence", "v", "y", axis=1), node("ConcatFromSequence", "v", "z", axis=-1, new_axis=1)],
        {"x": (FLOAT, ["n", 4, "m"])}, "y z n", {"zero": np.array(0), "one": np.array(-1), "two": np.array(2)},
        [{"x": Shape((n, 4, m))} for n, m in [(1, 1), (3, 7)]]),
    "sequences_of_parts": (
        [node("SplitToSequence", "x size", "s", axis=0), node("SplitToSequence", "x sizes", "t"),
         node("SplitToSequence", "x ", "r", keepdims=0), node("SequenceAt", "r zero", "c"),
         node("SequenceConstruct", "x c", "q"), node("SequenceAt", "q last", "d"), node("SequenceLength", "s", "l"),
         node("SequenceAt", "s last", "a"), node("SequenceAt", "t zero", "b")],
        {"x": (FLOAT, [7, "m"])}, "a b c d l", {"zero": np.array(0), "last": np.array(-1), "size": np.array(3), "sizes": np.array([2, 4, 1])},
        [{"x": Shape((7, m))} for m in [1, 9]]),
    "sequence_from_an_empty_one_and_a_map": (
        [node("SequenceEmpty", "", "e", dtype=FLOAT), node("SequenceInsert", "e x", "s"), node("SequenceInsert", "s y", "t"),
         node("SequenceMap", "t x", "p q", body=onnx.helper.make_graph(
             [node("Mul", "a b", "c"), node("Add", "a x", "d")], "body",
             [onnx.helper.make_tensor_value_info(one, FLOAT, None) for one in "ab"],
             [onnx.helper.make_tensor_value_info(one, FLOAT, None) for one in "cd"])),
         node("ConcatFromSequence", "p", "f", axis=0), node("ConcatFromSequence", "q", "g", axis=0),
         node("If", "yes", "h", then_branch=body([node("SequenceAt", "p zero", "i")], {}, "i"),
              else_branch=body([node("Neg", "x", "i")], {}, "i"))],
        {"x": (FLOAT, ["n", 2]), "y": (FLOAT, ["n", 2]), "yes": (BOOL, [1])}, "f g h", {"zero": np.array(0)},
        [{"x": Shape((n, 2)), "y": Shape((n, 2)), "yes": [n > 1]} for n in [1, 5]]),
    "optionals_that_are_known": (
        [node("Optional", "x", "o"), node("OptionalHasElement", "o", "has"), node("OptionalGetElement", "o", "y"),
         node("If", "has", "z", then_branch=body([node("Neg", "y", "i")], {}, "i"), else_branch=body([node("Abs", "x", "i")], {}, "i"))],
        {"x": (FLOAT, ["n"])}, "has y z", {}, [{"x": Shape((4,))}]),
    "microsoft_attention_with_a_past": (
        [node("Attention", "x w b m past", "y present", num_heads=2, unidirectional=1, domain="com.microsoft")],
        {"x": (FLOAT, ["b", "t", 6]), "m": (INT32, ["b", "all"]), "past": (FLOAT, [2, "b", 2, "p", 4])}, "y present",
        {"w": RANDOM.random((6, 24), np.float32), "b": RANDOM.random(24, np.float32)},
        [{"x": Shape((b, t, 6)), "m": np.ones((b, p + t)), "past": Shape((2, b, 2, p, 4))} for b, t, p in [(1, 1, 3), (2, 4, 2)]]),
    "fused_layers": (
        [node("FusedConv", "x w b z", "y", activation="Relu", domain="com.microsoft"), node("Flatten", "y", "f"),
         node("FusedGemm", "f g", "r", activation="LeakyRelu", activation_alpha=.1, domain="com.microsoft"),
         node("FusedMatMul", "q u", "s", transBatchA=1, domain="com.microsoft")],
        {"x": (FLOAT, ["n", 2, 4, 4]), "z": (FLOAT, ["k", 3, 3, 3]), "q": (FLOAT, ["l", "m", "n"]), "u": (FLOAT, ["m", "n", 2])}, "r s",
        {"w": RANDOM.random((3, 2, 2, 2), np.float32), "b": RANDOM.random(3, np.float32), "g": RANDOM.random((27, 5), np.float32)},
        [{"x": Shape((n, 2, 4, 4)), "z": Shape((n, 3, 3, 3)), "q": Shape((m, 2, n)), "u": Shape((2, n, 2))} for n, m in [(1, 2), (3, 1)]]),
    "elements_by_open_indices": (
        [node("GatherElements", "x i", "y", axis=1), node("ScatterElements", "x i u", "z", axis=1, reduction="add"),
         node("Hardmax", "x", "h", axis=1), node("EyeLike", "x", "e", k=1), node("ReverseSequence", "x l", "r", batch_axis=0, time_axis=1)],
        {"x": (FLOAT, ["n", "m"]), "i": (INT64, ["k", "j"]), "u": (FLOAT, ["k", "p"]), "l": (INT64, ["q"])}, "y z h e r", {},
        [{"x": Shape((n, m)), "i": RANDOM.integers(-m, m, (k, j)), "u": Shape((k, j)), "l": RANDOM.integers(1, m + 1, n)}
         for n, m, k, j in [(1, 1, 1, 1), (4, 9, 3, 5), (2, 3, 2, 40)]]),
    "elements_by_indices_that_do_not_fit": (
        [node("GatherElements", "x i", "y", axis=1)], {"x": (FLOAT, ["n", "m"]), "i": (INT64, ["k", "j"])}, "y", {},
        [{"x": Shape((2, 3)), "i": np.zeros((k, 2))} for k in [2, 3]]),
    "updates_that_do_not_fit": (
        [node("ScatterElements", "x i u", "y", axis=0)], {"x": (FLOAT, ["n", 2]), "i": (INT64, ["k", 2]), "u": (FLOAT, ["j", 2])}, "y", {},
        [{"x": Shape((3, 2)), "i": np.tile(np.arange(k)[:, None], 2) % 3, "u": Shape((j, 2))} for k, j in [(2, 2), (3, 2)]]),
    "parts_by_open_indices": (
        [node("GatherND", "x i", "y"), node("ScatterND", "x i u", "z"), node("GatherND", "x b", "t", batch_dims=1)],
        {"x": (FLOAT, ["n", "m", 3]), "i": (INT64, ["k", 2]), "u": (FLOAT, ["j", 3]), "b": (INT64, ["l", "h", 1])}, "y z t", {},
        [{"x": Shape((n, m, 3)), "i": np.stack([np.arange(k) % n, np.arange(k)], 1),
          "u": Shape((k, 3)), "b": RANDOM.integers(-m, m, (n, h, 1))} for n, m, k, h in [(1, 1, 1, 1), (3, 50, 7, 2), (2, 4, 1, 9)]]),
    "parts_that_do_not_fit": (
        [node("ScatterND", "x i u", "y")], {"x": (FLOAT, ["n", 3]), "i": (INT64, ["k", 1]), "u": (FLOAT, ["j", 3])}, "y", {},
        [{"x": Shape((5, 3)), "i": np.arange(2)[:, None], "u": Shape((j, 3))} for j in [2, 3]]),
    "sums_of_products": (
        [node("Einsum", "q k", "s", equation="bthd,bshd->bhts"), node("Einsum", "s v", "o", equation="bhts,bshe->bthe"),
         node("Einsum", "q", "m", equation="bthd->bd"), node("Einsum", "q w", "p", equation="...d,de->...e"),
         node("Einsum", "m w", "r", equation="bd,de->b")],
        {"q": (FLOAT, ["b", "t", 2, 4]), "k": (FLOAT, ["c", "s", 2, 4]), "v": (FLOAT, ["b", "u", 2, 3])}, "o m p r",
        {"w": RANDOM.random((4, 5), np.float32)},
        [{"q": Shape((b, t, 2, 4)), "k": Shape((b, s, 2, 4)), "v": Shape((b, s, 2, 3))} for b, t, s in [(2, 3, 5), (3, 7, 2), (2, 1, 9)]]),
    "sums_of_products_that_do_not_fit": (
        [node("Einsum", "x y", "z", equation="ij,kj->ik")], {"x": (FLOAT, ["n", "m"]), "y": (FLOAT, ["k", "l"])}, "z", {},
        [{"x": Shape((2, 3)), "y": Shape((4, m))} for m in [3, 5]]),
    "samples_of_pictures_of_any_size": (
        [node("GridSample", "x g", "a"), node("GridSample", "x g", "b", mode="cubic", padding_mode="reflection"),
         node("GridSample", "x g", "c", mode="nearest", padding_mode="border", align_corners=1),
         node("GridSample", "x g", "d", padding_mode="reflection", align_corners=1)],
        {"x": (FLOAT, ["n", 2, "h", "w"]), "g": (FLOAT, ["k", "i", "j", 2])}, "a b c d", {},
        [{"x": Shape((n, 2, h, w)), "g": RANDOM.uniform(-1.5, 1.5, (n, i, j, 2))}
         for n, h, w, i, j in [(1, 1, 1, 1, 2), (2, 5, 7, 3, 4), (3, 9, 2, 6, 1)]]),
    "unique_elements": (
        [node("Unique", "x", "y i j c"), node("Unique", "x", "ys is js cs", sorted=0), node("Gather", "y j", "z", axis=0)],
        {"x": (FLOAT, ["n", "m"])}, "y i j c ys is js cs z", {},
        [{"x": RANDOM.integers(-5, 5, shape)} for shape in [(1, 1), (3, 7), (40, 13), (1, 2)]]),
    "unique_rows": (
        [node("Unique", "x", "y i j c", axis=-2), node("Unique", "x", "ys is js cs", sorted=0, axis=1)],
        {"x": (INT64, ["n", "m", 3])}, "y i j c ys is js cs", {},
        [{"x": RANDOM.integers(0, 2, shape)} for shape in [(1, 1, 3), (1, 17, 3), (2, 9, 3)]]),
    "unique_of_fixed_shape": (
        [node("Unique", "x", "y", axis=0), node("MatMul", "y w", "z")],
        {"x": (FLOAT, [6, 2])}, "z", {"w": RANDOM.random((2, 3), np.float32)},
        [{"x": RANDOM.integers(0, 2, (6, 2))} for _ in range(3)]),
    "regions_of_pictures_that_are_kept": (
        [node("Compress", "rois keep", "r", axis=0), node("Compress", "places keep", "p", axis=0),
         node("RoiAlign", "x r p", "y", output_height=2, output_width=3), node("Cast", "p", "f", to=FLOAT),
         node("Unsqueeze", "f one", "u"), node("Concat", "u r", "rows", axis=1),
         node("MaxRoiPool", "x rows", "z", pooled_shape=[3, 2])],
        {"x": (FLOAT, ["n", 3, "h", "w"]), "rois": (FLOAT, ["r", 4]), "places": (INT64, ["r"]), "keep": (BOOL, ["r"])}, "y z",
        {"one": np.array([1])},
        [{"x": Shape((n, 3, h, w)), "rois": np.array([[0, 1, 4, 3], [2, 2, 5, 6], [-1, -2, 3, 9]] * 2)[:r],
          "places": np.arange(r) % n, "keep": np.arange(r) % 2 == 0} for n, h, w, r in [(1, 5, 6, 3), (2, 8, 7, 6), (2, 3, 3, 1)]]),
    "determinants_of_any_size": (
        [node("Det", "x", "y")], {"x": (FLOAT, ["n", "m", "m"])}, "y", {},
        [{"x": Shape((n, m, m))} for n, m in [(3, 1), (2, 4), (1, 7)]]),
    "columns_of_an_open_batch": (
        [node("DeformConv", "x w offset bias", "y"), node("Reshape", "y shape", "c"), node("Col2Im", "c image block", "z")],
        {"x": (FLOAT, ["n", 2, 5, 5]), "offset": (FLOAT, ["k", 8, 4, 4])}, "y z",
        {"w": RANDOM.random((4, 2, 2, 2), np.float32), "bias": RANDOM.random(4, np.float32), "shape": np.array([0, 4, 16]),
         "image": np.array([5, 5]), "block": np.array([2, 2])},
        [{"x": Shape((n, 2, 5, 5)), "offset": Shape((k, 8, 4, 4))} for n, k in [(1, 1), (3, 3), (2, 3)]]),
    "split_into_equal_parts": (
        [node("Split", "x", "a b c", axis=0, num_outputs=3), node("Split", "x", "d e f g", axis=1, num_outputs=4)],
        {"x": (FLOAT, ["n", "m"])}, "a b c d e f g", {}, [{"x": Shape((n, m))} for n, m in [(3, 4), (6, 8), (9, 4)]]),
    "counting_from_an_extent": (
        [node("Shape", "x", "s"), node("Squeeze", "s", "n"), node("Add", "n four", "m"), node("Range", "n m one", "r"),
         node("Neg", "r", "y")], {"x": (FLOAT, ["n"])}, "y", {"four": np.int64(4), "one": np.int64(1)},
        [{"x": Shape((n,))} for n in (1, 7)]),
    "encoder_and_decoder_with_skips": (
        [node("Conv", "x w0 b0", "c0", pads=[1, 1, 1, 1]), node("Relu", "c0", "a"),
         node("MaxPool", "a", "p", kernel_shape=[2, 2], strides=[2, 2]),
         node("Conv", "p w1", "c1", pads=[1, 1, 1, 1], strides=[2, 2]), node("HardSwish", "c1", "q"),
         node("Conv", "q w2", "c2", pads=[2, 2, 2, 2], group=24), node("GlobalAveragePool", "c2", "m"),
         node("Mul", "c2 m", "s"), node("ConvTranspose", "s w3", "u", strides=[2, 2]),
         node("Concat", "u p", "k", axis=1), node("Conv", "k w4", "l"),
         node("Resize", "l  twice", "r", mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
         node("Add", "r a", "t"), node("Conv", "t w5", "v", auto_pad="SAME_UPPER"), node("Sigmoid", "v", "y")],
        {"x": (FLOAT, ["n", 3, "h", "w"])}, "y m",
        {"w0": weights(16, 3, 3, 3), "b0": weights(16), "w1": weights(24, 16, 3, 3), "w2": weights(24, 1, 5, 5),
         "w3": weights(24, 16, 2, 2), "w4": weights(16, 32, 1, 1), "w5": weights(1, 16, 3, 3),
         "twice": np.float32([1, 1, 2, 2])},
        [{"x": Shape((n, 3, h, w))} for n, h, w in [
            (1, 32, 32), (2, 4, 8), (1, 100, 64), (1, 32, 32), (3, 44, 20), (1, 6, 8), (1, 7, 8), (1, 1, 1)]]),
    "fully_convolutional_with_odd_sizes": (
        [node("Conv", "x w0", "a", auto_pad="SAME_UPPER", strides=[2, 3]), node("LRN", "a", "b", size=5),
         node("AveragePool", "b", "c", kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1], ceil_mode=1),
         node("Conv", "c w1", "d", auto_pad="SAME_LOWER", strides=[2, 1], group=2),
         node("InstanceNormalization", "d g h", "e"), node("LpPool", "e", "f", kernel_shape=[2, 3], auto_pad="SAME_UPPER"),
         node("ConvTranspose", "f w2", "y", strides=[3, 2], output_padding=[1, 1], pads=[1, 0, 2, 1])],
        {"x": (FLOAT, ["n", "c", "h", "w"])}, "y",
        {"w0": weights(12, 5, 3, 5), "w1": weights(18, 6, 2, 3), "w2": weights(18, 4, 4, 3), "g": weights(18), "h": weights(18)},
        [{"x": Shape((n, 5, h, w))} for n, h, w in [
            (1, 1, 1), (2, 7, 5), (1, 64, 33), (1, 3, 100), (1, 40, 41), (1, 2, 3)]]),
    "convolution_over_an_open_length": (
        [node("Conv", "x w0 b", "a", pads=[3, 3], strides=[2]), node("MaxPool", "a", "p i", kernel_shape=[3], strides=[2]),
         node("Conv", "p w1", "c", dilations=[2], pads=[2, 2]), node("ConvTranspose", "c w2", "y", strides=[4], pads=[2, 2])],
        {"x": (FLOAT, ["n", 2, "l"])}, "y i",
        {"w0": weights(16, 2, 7), "b": weights(16), "w1": weights(8, 16, 3), "w2": weights(8, 3, 8)},
        [{"x": Shape((n, 2, l))} for n, l in [(1, 5), (2, 64), (1, 1000), (1, 6)]]),
    "groups_of_channels_and_places": (
        [node("SpaceToDepth", "x", "a", blocksize=2), node("GroupNormalization", "a g h", "b", num_groups=3),
         node("DepthToSpace", "b", "c", blocksize=2), node("Pad", "c p", "d"), node("GlobalMaxPool", "d", "y")],
        {"x": (FLOAT, ["n", 6, "h", "w"])}, "c y",
        {"g": weights(24), "h": weights(24), "p": np.int64([0, 0, 1, 0, 0, 0, 0, 2])},
        [{"x": Shape((n, 6, h, w))} for n, h, w in [(1, 2, 2), (2, 16, 6), (1, 50, 70), (1, 3, 4)]]),
    "dropout_with_a_mask": (
        [node("Dropout", "x", "y unread"), node("Dropout", "y", "z mask")],
        {"x": (FLOAT, ["n", "m"])}, "z mask", {}, [{"x": Shape(shape)} for shape in [(3, 5), (1, 1), (0, 3)]]),
    "places_that_are_quotients": (
        [node("Div", "g ten", "places"), node("GridSample", "x places", "y", mode="nearest", align_corners=1),
         node("Div", "r seven", "regions"), node("RoiAlign", "x regions b", "z", output_height=2, output_width=2,
                                                 coordinate_transformation_mode="output_half_pixel"),
         node("Concat", "b4 regions", "rows", axis=1), node("MaxRoiPool", "x rows", "w", pooled_shape=[2, 2])],
        {"x": (FLOAT, [1, 2, "h", "w"]), "g": (FLOAT, [1, "n", 21, 2]), "r": (FLOAT, [59, 4])}, "y z w",
        {"ten": np.float32(10), "seven": np.float32(7), "b": np.zeros(59, "i8"), "b4": np.zeros((59, 1), "f")},
        [{"x": RANDOM.standard_normal((1, 2, h, 60 if h == 60 else 11)), "g": np.stack(np.broadcast_arrays(np.arange(-10, 11.), 0), -1)[None, None],
          "r": [(0, 0, 2 * k, 2 * k) for k in range(1, 60)]} for h in (60, 3)]),
    "trilu_by_extents": (
        [node("Shape", "x", "s"), node("Gather", "s one", "columns"), node("Gather", "s zero", "rows"), node("Sub", "columns rows", "past"),
         node("Add", "past one", "k"), node("Trilu", "x k", "y", upper=1), node("Trilu", "x past", "z", upper=0)],
        {"x": (FLOAT, ["n", "m"])}, "y z", {"zero": np.int64(0), "one": np.int64(1)},
        [{"x": Shape(shape)} for shape in [(3, 5), (1, 7), (4, 4), (5, 2), (0, 3), (3, 0)]]),
    "numbers_far_above_all_extents": (
        [node("Slice", "x zero last zero two", "y"), node("Slice", "x zero far zero two", "z"), node("Shape", "x", "s"),
         node("Min", "s far", "m"), node("Expand", "two m", "u"), node("Sub", "s far", "a"), node("Add", "s last", "b"),
         node("Max", "s above", "c"), node("Mul", "s above", "d")],
        {"x": (FLOAT, ["n"])}, "y z u a b c d",
        {"zero": np.int64([0]), "two": np.int64([2]), "last": np.int64([2**63 - 1]), "far": np.int64([2**62]), "above": np.int64([2**31])},
        [{"x": Shape((n,))} for n in (6, 1, 0, 7)]),
    "stft_of_signals_without_an_axis_of_parts": (
        [node("STFT", "x step window", "y"), node("STFT", "x step window", "z", onesided=0)],
        {"x": (FLOAT, ["n", "m"])}, "y z", {"step": np.int64(4), "window": np.hanning(16).astype("f")},
        [{"x": Shape(shape)} for shape in [(2, 16), (1, 37), (3, 19)]]),
    "quantised_layers": (
        [node("QuantizeLinear", "xf a z", "x"), node("QuantizeLinear", "yf a z", "y"),
         node("QLinearAdd", "x a z y a z c z", "s", domain="com.microsoft"),
         node("QLinearSigmoid", "s c z d z", "t", domain="com.microsoft"),
         node("QLinearConcat", "c z s c z t d z", "r", axis=1, domain="com.microsoft"),
         node("DequantizeLinear", "r c z", "f"),
         node("DynamicQuantizeMatMul", "xf w d wz", "o", domain="com.microsoft")],
        {"xf": (FLOAT, ["n", "m", 4]), "yf": (FLOAT, ["m", 4])}, "f o",
        {"a": np.float32(1 / 32), "c": np.float32(.0471), "d": np.float32(1 / 256), "z": np.uint8(9), "wz": np.uint8(120),
         "w": RANDOM.integers(0, 256, (4, 6)).astype("u1")},
        [{"xf": Shape((n, m, 4)), "yf": Shape((m, 4))} for n, m in [(1, 1), (3, 7), (2, 33)]]),
    "convolved_channels_beside_an_open_number_of_channels": (
        [node("Conv", "x w", "a", pads=[1, 1, 1, 1]), node("Concat", "a x2", "b", axis=1), node("Concat", "x2 a", "c", axis=1),
         node("MaxPool", "b", "y", kernel_shape=[2, 2]), node("Neg", "c", "z")],
        {"x": (FLOAT, ["n", 8, "h", 6]), "x2": (FLOAT, ["n", "c", "h", 6])}, "y z", {"w": weights(32, 8, 3, 3)},
        [{"x": Shape((n, 8, h, 6)), "x2": Shape((n, c, h, 6))} for n, h, c in [(1, 6, 32), (2, 5, 3), (1, 4, 1), (1, 4, 0)]]),
}


def model_of(nodes, inputs, outputs, constants):
    info = onnx.helper.make_tensor_value_info
    tensors = [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    graph = onnx.helper.make_graph(nodes, "graph", [info(name, *rest) for name, rest in inputs.items()],
                                   [onnx.ValueInfoProto(name=name) for name in outputs.split()], tensors)
    is_new = any(one.op_type in ("Attention", "RotaryEmbedding", "GroupNormalization") and not one.domain for one in nodes)
    opsets = [onnx.helper.make_opsetid("", 23 if is_new else 20), onnx.helper.make_opsetid("com.microsoft", 1)]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=9)


def fill(value, dtype):
    if isinstance(value, Shape):
        return (RANDOM.standard_normal(value) * (RANDOM.random(value) < 0.5)).astype(dtype)
    return np.asarray(value, dtype)


@pytest.mark.parametrize("target, device, name", list(places(CASES, "llvm -opt=0", [])))
def test_outputs_have_the_shape_that_a_run_finds(target, device, name, tmp_path):
    nodes, inputs, outputs, constants, runs = CASES[name]
    model = model_of(nodes, inputs, outputs, constants)
    onnx.save(model, tmp_path / "model.onnx")
    ours = open_model(tmp_path / "model.onnx", target, device)
    peer = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for run in runs:
        given = {key: fill(value, NUMPY[inputs[key][0]]) for key, value in run.items()}
        try:
            expected = peer.run(None, given)
        except Exception:  # its errors have classes of its own
            with pytest.raises((ValueError, MemoryError)):
                ours.run(given)
            continue
        for one, want in zip(ours.run(given).values(), expected, strict=True):
            one = one.numpy()
            assert one.shape == want.shape and one.dtype == want.dtype, run
            np.testing.assert_allclose(one, want, rtol=1e-5, atol=5e-6)


def test_a_place_of_a_scalar_has_no_index(tmp_path):
    """NonZero of a scalar gives positions without indices, as in ONNX; onnxruntime gives one index, as numpy did."""
    model = model_of([node("NonZero", "x", "y"), node("NonZero", "one", "z")], {"x": (FLOAT, [])}, "y z", {"one": 1})
    onnx.save(model, tmp_path / "model.onnx")
    for target, device, _ in places([None], "llvm -opt=0", ("c -options=-O0",)):
        ours = open_model(tmp_path / "model.onnx", target, device)
        for x in 0, 3:
            outputs = ours.run(x=np.array(x, np.float32))
            assert outputs["y"].shape == (0, int(x != 0)) and outputs["z"].shape == (0, 1)


@pytest.mark.parametrize("rows", ["n", 0])
@pytest.mark.parametrize("is_known", [False, True])
def test_the_rest_of_an_empty_tensor_is_determined_or_refused(is_known, rows, tmp_path):
    """An extent that a 0 of a Reshape copies may be 0. Beside another 0 any extent would do for the -1."""
    empty = np.zeros((0, 4), np.float32)
    for shape, allowzero, expected in [([0, -1], 0, (0, 4)), ([0, 2, -1], 0, (0, 2, 2)), ([-1, 4], 1, (0, 4)),
                                       ([0, -1], 1, None), ([-1, 0], 1, None)]:
        inputs = {"x": (FLOAT, [rows, 4])} | ({} if is_known else {"s": (INT64, [len(shape)])})
        model = model_of([node("Reshape", "x s", "y", allowzero=allowzero)], inputs, "y", {"s": shape} if is_known else {})
        onnx.save(model, tmp_path / "model.onnx")
        given = {"x": empty} | ({} if is_known else {"s": np.array(shape, np.int64)})

        def run():
            return open_model(tmp_path / "model.onnx", "llvm -opt=0", "cpu").run(given)["y"]  # pylint: disable=cell-var-from-loop

        if expected:
            assert run().shape == expected
        else:
            with pytest.raises(ValueError, match="do not have the shape|any extent would do"):
                run()


# Sequences that cannot be compiled. Each entry: nodes, with the inputs x, 2x3 floats, and p, an integer, and the output y; words
# of the error.
WRONG_SEQUENCES = {
    "position outside": ([node("SequenceConstruct", "x", "s"), node("SequenceLength", "s", "l"), node("SequenceAt", "s l", "y")],
                         "its position is 1, in a sequence of 1 tensors"),
    "types": ([node("SequenceConstruct", "x p", "s"), node("SequenceLength", "s", "y")], "differ in type"),
    "none": ([node("SequenceEmpty", "", "s"), node("ConcatFromSequence", "s", "y", axis=0)], "its sequence is empty"),
    "no value": ([node("Optional", "", "o"), node("OptionalGetElement", "o", "y")], "its optional has no value"),
    "tensor": ([node("SequenceAt", "x p", "y")], "input 0 is no sequence"),
    "node": ([node("SequenceConstruct", "x", "s"), node("Neg", "s", "y")], "its input 's' is a sequence"),
    "operator": ([node("StringSplit", "x", "y"), node("SequenceConstruct", "x", "s")], "1 operator that"),
}


@pytest.mark.parametrize("name", WRONG_SEQUENCES)
def test_sequences_that_cannot_be_compiled_are_refused_by_name(name, tmp_path):
    nodes, words = WRONG_SEQUENCES[name]
    info = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(nodes, "graph", [info("x", FLOAT, [2, 3]), info("p", INT64, [])],
                                   [onnx.ValueInfoProto(name="y")])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)]), tmp_path / "model.onnx")
    with pytest.raises(Exception, match=words):
        backplane.compile(tmp_path / "model.onnx", "llvm")


def test_inputs_that_grow_stay_in_memory_of_the_caller(tmp_path):
    path = tmp_path / "grow.onnx"
    rows = [node("Concat", "past x", "present", axis=1), node("ReduceSum", "present axes", "y", keepdims=0)]
    graph = onnx.helper.make_graph(
        rows, "grow", [onnx.helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in
                       [("past", [2, "past", 3]), ("x", [2, "length", 3])]],
        [onnx.helper.make_tensor_value_info("y", FLOAT, None), onnx.helper.make_tensor_value_info("present", FLOAT, None)],
        [onnx.numpy_helper.from_array(np.array([1]), "axes")])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=10), path)
    for target, device, _ in places([None], "llvm -opt=0", ("c -options=-O0",)):
        model = backplane.Model(backplane.compile(path, target), device)
        memory, all_rows = backplane.empty((2, 9, 3), "float32", model.device), np.zeros((2, 0, 3), np.float32)
        model.bind_cache("past", "present", memory)
        for count in 3, 1, 0, 4:
            x = RANDOM.random((2, count, 3), np.float32)
            all_rows = np.concatenate([all_rows, x], 1)
            outputs = model.run(x=x)
            assert outputs["present"].shape == all_rows.shape and model.cache_length("past") == all_rows.shape[1]
            assert np.allclose(outputs["y"].numpy(), all_rows.sum(1), atol=1e-5)
            assert np.array_equal(memory.numpy()[:, :all_rows.shape[1]], all_rows)
            assert np.array_equal(outputs["present"].numpy(), all_rows)
            assert np.array_equal(pickle.loads(pickle.dumps(outputs["present"])).numpy(), all_rows)
            assert str(outputs["present"]).startswith("[[")
        with pytest.raises(backplane.errors.InvalidValueError, match="room for 9"):
            model.run(x=np.ones((2, 2, 3), np.float32))
        model.set_cache_length("past", 2)
        assert np.allclose(model.run(x=np.ones((2, 1, 3), np.float32))["y"].numpy(), all_rows[:, :2].sum(1) + 1, atol=1e-5)
        with pytest.raises(backplane.errors.InvalidValueError, match="is not input 'x' with rows"):
            model.bind_cache("x", "y", memory)
        outputs = model.run(past=all_rows, x=all_rows)
        assert np.array_equal(outputs["present"].numpy(), np.concatenate([all_rows, all_rows], 1))
        with pytest.raises(backplane.errors.InvalidValueError, match="no cache is bound"):
            model.cache_length("past")


def test_runs_use_specialised_code_for_its_shapes(tmp_path):
    path = tmp_path / "sum.onnx"
    info = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph([node("Add", "x x", "y")], "sum", [info("x", FLOAT, ["n", 2])], [info("y", FLOAT, ["n", 2])])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=10), path)
    for target, device, _ in places([None], "llvm -opt=0", ("c -options=-O0",)):
        model = backplane.Model(backplane.compile(path, target), device)
        model.specialize(path, {"x": (3, 2)}, target)
        for rows in 3, 4, 3:
            x = RANDOM.random((rows, 2), np.float32)
            assert np.array_equal(model.run(x=x)["y"].numpy(), x + x)
        with pytest.raises(backplane.errors.InvalidValueError, match="cannot be 5"):
            model.specialize(path, {"x": (3, 5)}, target)


def test_specialised_code_has_the_fallback_that_is_given(tmp_path):
    path, target = tmp_path / "square.onnx", "opencl -fp64=false"
    info = onnx.helper.make_tensor_value_info
    nodes = [node("Cast", "x", "d", to=onnx.TensorProto.DOUBLE), node("Mul", "d d", "s"), node("Cast", "s", "y", to=FLOAT)]
    graph = onnx.helper.make_graph(nodes, "square", [info("x", FLOAT, ["n", 2])], [info("y", FLOAT, ["n", 2])])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=10), path)
    module = backplane.compile(path, target, fallback="c")
    try:
        model = backplane.Model(module, "opencl,cpu")
    except backplane.errors.DeviceError:
        pytest.skip("there is no OpenCL device")
    with pytest.raises(backplane.BackplaneError, match="refuses a part"):
        model.specialize(path, {"x": (3, 2)}, target)
    model.specialize(path, {"x": (3, 2)}, target, fallback="c")
    for rows in 3, 4:
        x = RANDOM.random((rows, 2), np.float32)
        assert np.allclose(model.run(x=x)["y"].numpy(), x * x, rtol=1e-6)


@pytest.mark.parametrize("target", ["c -options=-O0", "llvm"])
def test_float64_is_computed_in_float64(target, tmp_path):
    """The exponent of a norm, and a window whose length is an input, have all digits of float64."""
    info, x = onnx.helper.make_tensor_value_info, RANDOM.random((2, 3, 5))
    graph = onnx.helper.make_graph(
        [node("GlobalLpPool", "x", "norm", p=3), node("HannWindow", "n", "window", output_datatype=11)], "float64",
        [info("x", 11, x.shape), info("n", INT64, [])], [info("norm", 11, [2, 3, 1]), info("window", 11, ["n"])])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10), tmp_path / "m.onnx")
    results = backplane.Model(backplane.compile(tmp_path / "m.onnx", target), "cpu").run({"x": x, "n": np.int64(9)})
    np.testing.assert_allclose(results["norm"].numpy()[..., 0], (x**3).sum(2)**(1 / 3), 1e-14)
    np.testing.assert_allclose(results["window"].numpy(), .5 - .5 * np.cos(2 * np.pi * np.arange(9) / 9), 1e-13, 1e-16)


@pytest.mark.parametrize("type_name, least", [("INT4", -8), ("UINT4", 0)])
def test_tables_of_4_bits_take_open_indices(type_name, least, tmp_path):
    make, kind = onnx.helper.make_tensor, getattr(onnx.TensorProto, type_name)
    data, scales, zeros = (RANDOM.integers(least, least + 16, shape) for shape in ((9, 35), (9, 3), (9, 3)))
    rows = [make("data", kind, data.shape, data.ravel()), make("scales", FLOAT, scales.shape, scales.ravel()),
            make("zeros", kind, zeros.shape, zeros.ravel())]
    gather = node("GatherBlockQuantized", "data places scales zeros", "y", block_size=16, domain="com.microsoft")
    graph = onnx.helper.make_graph([gather], "table", [onnx.helper.make_tensor_value_info("places", INT64, ["batch", "length"])],
                                   [onnx.helper.make_tensor_value_info("y", FLOAT, None)], rows)
    domains = [onnx.helper.make_opsetid("", 21), onnx.helper.make_opsetid("com.microsoft", 1)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=domains, ir_version=10), tmp_path / "table.onnx")
    model = backplane.Model(backplane.compile(tmp_path / "table.onnx", "c -options=-O0"), "cpu")
    table = (data - zeros.repeat(16, 1)[:, :35]) * scales.repeat(16, 1)[:, :35]
    for shape in (2, 3), (1, 7), (0, 2):
        places = RANDOM.integers(-9, 9, shape)
        assert np.array_equal(model.run(places=places)["y"].numpy(), table[places].astype(np.float32))
