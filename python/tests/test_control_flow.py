# SPDX-License-Identifier: Apache-2.0
"""If, Loop and Scan with control flow that depends on the data. Each model is compiled once, and each run is
compared with onnxruntime."""

import os

import numpy as np
import pytest

import backplane

from conftest import open_model, places

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
onnxruntime.set_default_logger_severity(4)

FLOAT, INT64, BOOL = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.BOOL
HEADER = '<ir_version: 9, opset_import: ["" : 18, "own" : 1]>\n'
NUMBERS = (np.arange(-12, 12, dtype=np.float32) / 4).reshape(4, 6)

# The text of each model, and the inputs of its runs.
CASES = {
    "nodes_before_those_that_they_read": ("""
      m (float[n] x, bool c) => (float[n] y, float[n] z) {
        z = Neg (b)
        y = If (c) <then_branch = t () => (float[n] t0) { t1 = Mul (a, x)  t0 = Add (t1, b) },
                    else_branch = e () => (float[n] e0) { e0 = Sqrt (d) }>
        b = Add (a, x)
        d = Abs (a)
        a = Mul (x, x)
      }""", [dict(x=NUMBERS[0, :n], c=c) for n, c in [(6, 1), (3, 0)]]),
    "branches_of_different_shapes": ("""
      m (float[4, 6] x, bool c) => (float[a, 6] y) {
        y = If (c) <
          then_branch = t () => (float[a, 6] t0) { t0 = Concat<axis = 0> (x, x) },
          else_branch = e () => (float[a, 6] e0) { s = Constant<value_ints = [2]> ()
                                                  n = Constant<value_ints = [0]> ()
                                                  e1 = Slice (x, n, s)  e0 = Neg (e1) }>
      }""", [dict(x=NUMBERS, c=c) for c in (True, False)]),
    "branches_that_give_what_they_are_given": ("""
      m (float[n, 6] x, float[n, 6] z, bool[1] c) => (float[n, 6] y, float[n, 6] w) {
        y, w = If (c) <
          then_branch = t () => (float[n, 6] t0, float[n, 6] t1) { t0 = Identity (x) t1 = Identity (z) },
          else_branch = e () => (float[n, 6] e0, float[n, 6] e1) { e0 = Identity (z) e1 = Add (x, z) }>
      }""", [dict(x=NUMBERS, z=2 * NUMBERS, c=[c]) for c in (True, False)]),
    "branch_in_a_branch": ("""
      m (float[n] x, bool c, bool d) => (float[k] y) {
        y = If (c) <
          then_branch = t () => (float[k] t0) {
            x2 = Mul (x, x)
            t0 = If (d) <then_branch = u () => (float[n] u0) { u0 = Add (x2, x) },
                         else_branch = v () => (float[k] v0) { v0 = Concat<axis = 0> (x2, x, x2) }>
          },
          else_branch = e () => (float[n] e0) { e0 = Neg (x) }>
      }""", [dict(x=NUMBERS[0, :n], c=c, d=d) for n, c, d in [(6, 1, 1), (6, 1, 0), (3, 0, 1), (1, 1, 0)]]),
    "counted_loop": ("""
      m (float[4, 6] x, int64 n) => (float[4, 6] y, float[k, 4, 6] all) {
        yes = Constant<value = bool {1}> ()
        y, all = Loop (n, yes, x) <body = b (int64 i, bool go, float[4, 6] a) =>
                                          (bool on, float[4, 6] c, float[4, 6] d) {
          on = Identity (go)  f = Cast<to = 1> (i)  e = Add (a, f)  c = Mul (e, x)  d = Neg (c)
        }>
      }""", [dict(x=NUMBERS, n=n) for n in (0, 1, 3, 40, -5)]),
    "loop_of_a_known_count": ("""
      m (float[4, 6] x) => (float[4, 6] y, float[3, 4, 6] all) {
        yes = Constant<value = bool {1}> ()  n = Constant<value_int = 3> ()
        y, all = Loop (n, yes, x) <body = b (int64 i, bool go, float[4, 6] a) =>
                                          (bool on, float[4, 6] c, float[4, 6] d) {
          on = Identity (go)  c = Mul (a, x)  d = Relu (c)
        }>
      }""", [dict(x=NUMBERS)]),
    "loop_that_never_runs": ("""
      m (float[4, 6] x) => (float[4, 6] y, float[k, 4, 6] all) {
        no = Constant<value = bool {0}> ()
        y, all = Loop (, no, x) <body = b (int64 i, bool go, float[4, 6] a) =>
                                        (bool on, float[4, 6] c, float[4, 6] d) {
          on = Identity (go)  c = Mul (a, x)  d = Relu (c)
        }>
      }""", [dict(x=NUMBERS)]),
    "loop_over_rows": ("""
      m (float[n, 6] x) => (float[6] y, float[n, 6] sums) {
        s = Shape<start = 0, end = 1> (x)  n0 = Squeeze (s)
        zero = Constant<value_floats = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0]> ()
        y, sums = Loop (n0, , zero) <body = b (int64 i, bool go, float[6] a) => (bool on, float[6] c, float[6] d) {
          on = Identity (go)  row = Gather (x, i)  c = Add (a, row)  d = Identity (c)
        }>
      }""", [dict(x=NUMBERS[:n]) for n in (4, 1, 0)]),
    "while_loop": ("""
      m (float x, bool c, int64 n) => (float y, int64 steps, float[k] all) {
        zero = Constant<value_int = 0> ()  one = Constant<value_int = 1> ()  top = Constant<value_float = 100.0> ()
        y, steps, all = Loop (n, c, x, zero) <body = b (int64 i, bool go, float a, int64 s) =>
                                                       (bool on, float d, int64 t, float e) {
          d = Add (a, a)  t = Add (s, one)  on = Less (d, top)  e = Sub (d, a)
        }>
      }""", [dict(x=x, c=c, n=n) for x, c, n in [(1, 1, 99), (1, 0, 99), (200, 1, 99), (-1, 1, 20), (1, 1, 0)]]),
    "values_that_change_places": ("""
      m (float[2] a, float[2] b, float[2] c, int64 n) => (float[2] p, float[2] q, float[2] r) {
        p, q, r = Loop (n, , a, b, c) <body = l (int64 i, bool go, float[2] x, float[2] y, float[2] z) =>
                                               (bool on, float[2] u, float[2] v, float[2] w) {
          on = Identity (go)  u = Identity (y)  v = Identity (x)  w = Add (x, z)
        }>
      }""", [dict(a=[1, 2], b=[3, 4], c=[5, 6], n=n) for n in range(4)]),
    "value_that_grows": ("""
      m (float[n, 6] x, int64 k) => (float[a, 6] y, float[a, 6] z) {
        y = Loop (k, , x) <body = b (int64 i, bool go, float[a, 6] v) => (bool on, float[c, 6] w) {
          on = Identity (go)  u = Relu (v)  w = Concat<axis = 0> (u, x)
        }>
        z = Softmax (y)
      }""", [dict(x=NUMBERS[:n], k=k) for n, k in [(2, 3), (4, 1), (3, 0), (1, 7)]]),
    "elements_of_an_open_shape": ("""
      m (float[n] x, float[n] w, int64 k) => (float[a, b] y) {
        zero = Constant<value_ints = [0]> ()
        yes = Constant<value = bool {1}> ()
        y = Loop (k, yes) <body = b (int64 i, bool go) => (bool on, float[c] w0) {
          on = Identity (go)  p = NonZero (w)  q = Squeeze (p, zero)  v = Gather (x, q)  f = Cast<to = 1> (i)  w0 = Mul (v, f)
        }>
      }""", [dict(x=NUMBERS[0], w=w, k=k) for w, k in [([0, 1, 1, 0, 1, 0], 3), ([1, 1, 1, 1, 1, 1], 1)]]),
    "loop_in_a_loop": ("""
      m (float[3] x, int64 n, int64 k) => (float[3] y, float[a, 3] all) {
        y, all = Loop (n, , x) <body = b (int64 i, bool go, float[3] v) => (bool on, float[3] w, float[3] e) {
          on = Identity (go)  many = Add (i, k)  top = Constant<value_float = 50.0> ()
          w, g = Loop (many, go, v) <body = c (int64 j, bool go1, float[3] p) => (bool on1, float[3] q, float[3] h) {
            r = Cast<to = 1> (j)  s = Add (r, x)  q = Add (p, s)  t = ReduceMax<keepdims = 0> (q)
            on1 = Less (t, top)  h = Neg (q)
          }>
          axis = Constant<value_ints = [0]> ()
          e = ReduceSum<keepdims = 0> (g, axis)
        }>
      }""", [dict(x=[1, 2, 3], n=n, k=k) for n, k in [(3, 2), (0, 2), (4, 0), (9, 9)]]),
    "branch_in_a_loop": ("""
      m (float[n] x, int64 k) => (float[a] y) {
        two = Constant<value_int = 2> ()  one = Constant<value_int = 1> ()
        y = Loop (k, , x) <body = b (int64 i, bool go, float[p] v) => (bool on, float[q] w) {
          on = Identity (go)  r = Mod (i, two)  odd = Equal (r, one)
          w = If (odd) <then_branch = t () => (float[q] t0) { t0 = Concat<axis = 0> (v, x) },
                        else_branch = e () => (float[q] e0) { e0 = Neg (v) }>
        }>
      }""", [dict(x=NUMBERS[0, :n], k=k) for n, k in [(4, 5), (1, 0), (6, 1), (2, 2)]]),
    "loop_in_a_branch": ("""
      m (float[2] x, bool c, int64 k) => (float[2] y) {
        y = If (c) <then_branch = t () => (float[2] t0) {
                      t0 = Loop (k, , x) <body = b (int64 i, bool go, float[2] v) => (bool on, float[2] w) {
                        on = Identity (go)  w = Mul (v, x) }> },
                    else_branch = e () => (float[2] e0) { e0 = Neg (x) }>
      }""", [dict(x=[2, 3], c=c, k=k) for c, k in [(1, 3), (0, 3), (1, 0)]]),
    "scan_of_sums": ("""
      m (float[2] s, float[n, 2] x) => (float[2] y, float[n, 2] all) {
        y, all = Scan<num_scan_inputs = 1, body = b (float[2] a, float[2] e) => (float[2] c, float[2] d) {
          c = Add (a, e)  d = Mul (c, e) }> (s, x)
      }""", [dict(s=[1, 2], x=NUMBERS.reshape(-1, 2)[:n]) for n in (12, 1)]),
    "scan_backward_along_other_axes": ("""
      m (float[3] s, float[3, 5] x, float[5, 3, 2] z) => (float[3] y, float[3, 5] p, float[2, 3, 5] q) {
        y, p, q = Scan<num_scan_inputs = 2, scan_input_axes = [1, -3], scan_input_directions = [1, 0],
                       scan_output_axes = [1, -1], scan_output_directions = [0, 1], body = b
          (float[3] a, float[3] e, float[3, 2] f) => (float[3] c, float[3] d, float[2, 3] g) {
          c = Add (a, e)  d = Mul (c, a)  t = Transpose (f)  g = Add (t, e) }> (s, x, z)
      }""", [dict(s=[1, 2, 3], x=NUMBERS.reshape(-1)[:15].reshape(3, 5), z=np.arange(30).reshape(5, 3, 2))]),
    "scan_with_two_states_and_a_captured_value": ("""
      m (float[n, 2] x, float[2] w) => (float[2] p, float[2] q, float[n, 2] r) {
        zero = Constant<value_floats = [0.0, 0.0]> ()
        p, q, r = Scan<num_scan_inputs = 1, body = b (float[2] a, float[2] b0, float[2] e) =>
                                                    (float[2] c, float[2] d, float[2] g) {
          c = Identity (b0)  f = Mul (e, w)  d = Add (a, f)  g = Sub (c, d) }> (w, zero, x)
      }""", [dict(x=NUMBERS.reshape(-1, 2)[:n], w=[3, -1]) for n in (5, 2, 1)]),
    "values_handed_on_before_others_are_computed": ("""
      m (float[n, 6] x, int64 k, bool c) => (float[n, 6] p, float[n, 6] q) {
        axis = Constant<value_int = 0> ()  sums = CumSum (x, axis)
        v = Loop (k, , sums) <body = b (int64 i, bool go, float[n, 6] a) => (bool on, float[n, 6] d) {
          on = Identity (go)  d = Neg (a) }>
        w = If (c) <then_branch = t () => (float[n, 6] t0) { t0 = Identity (sums) },
                    else_branch = e () => (float[n, 6] e0) { e0 = Neg (x) }>
        z = CumSum (x, axis)  z1 = CumSum (z, axis)  z2 = CumSum (z1, axis)
        p = Add (v, z2)  q = Add (w, z2)
      }""", [dict(x=NUMBERS, k=k, c=c) for k, c in [(0, 1), (2, 0)]]),
    "branches_of_different_ranks": ("""
      m (float[n, 1, k] x, float w) => (float[a, b] y, float z) {
        z = Neg (w)
        shape = Shape (x)  last = Constant<value_int = 2> ()  extent = Gather (shape, last)
        one = Constant<value_int = 1> ()  two = Constant<value_int = 2> ()  is_one = Equal (extent, one)
        s = If (is_one) <then_branch = t () => (float[n, 1] t0) { axis = Constant<value_ints = [2]> ()  t0 = Squeeze (x, axis) },
                         else_branch = e () => (float[n, 1, k] e0) { e0 = Identity (x) }>
        rank_shape = Shape (s)  rank = Size (rank_shape)  is_flat = Equal (rank, two)
        f = If (is_flat) <then_branch = u () => (float[n, 1] u0) { u0 = Abs (s) },
                          else_branch = v () => (float[n, k] v0) { at = Constant<value_ints = [1]> ()  v0 = Squeeze (s, at) }>
        y = Add (f, w)
      }""", [dict(x=NUMBERS[:n, None, :k], w=2) for n, k in [(3, 1), (4, 6), (1, 1), (2, 2)]]),
    "branches_of_different_ranks_one_after_the_other": ("""
      m (float[n] x, bool c, bool d) => (float y, float[n] z) {
        zero = Constant<value_ints = [0]> ()
        a = If (c) <then_branch = t () => (float[1, n] t0) { t0 = Unsqueeze (x, zero) },
                    else_branch = e () => (float[n] e0) { e0 = Neg (x) }>
        b = If (d) <then_branch = u () => (float[q, r] u0) { u1 = Unsqueeze (a, zero)  u0 = Cos (u1) },
                    else_branch = v () => (float[s] v0) { v0 = Sin (a) }>
        y = ReduceSum<keepdims = 0> (b)  z = Exp (x)
      }""", [dict(x=NUMBERS[0, :n], c=c, d=d) for n, c, d in [(6, 1, 1), (6, 1, 0), (3, 0, 1), (1, 0, 0)]]),
    "branches_of_different_ranks_in_a_loop": ("""
      m (float[n] x, int64 k) => (float[n] y) {
        zero = Constant<value_ints = [0]> ()
        y = Loop (k, , x) <body = b (int64 i, bool go, float[n] v) => (bool on, float[n] u) {
          on = Identity (go)  two = Constant<value_int = 2> ()  odd = Mod (i, two)  c = Cast<to = 9> (odd)
          a = If (c) <then_branch = t () => (float[1, 1, n] t0) { t1 = Unsqueeze (v, zero)  t0 = Unsqueeze (t1, zero) },
                      else_branch = e () => (float[1, n] e0) { e0 = Unsqueeze (v, zero) }>
          flat = Constant<value_ints = [-1]> ()  w = Neg (a)  r = Reshape (w, flat)  u = Add (r, x)
        }>
      }""", [dict(x=NUMBERS[0, :n], k=k) for n, k in [(6, 3), (3, 0), (1, 4)]]),
    "branches_of_different_ranks_in_a_branch": ("""
      m (float[n] x, bool c, bool d) => (float[k] y) {
        zero = Constant<value_ints = [0]> ()  flat = Constant<value_ints = [-1]> ()
        y = If (c) <
          then_branch = t () => (float[k] t0) {
            a = If (d) <then_branch = u () => (float[1, n] u0) { u0 = Unsqueeze (x, zero) },
                        else_branch = v () => (float[n] v0) { v0 = Neg (x) }>
            b = Concat<axis = 0> (a, a)  t0 = Reshape (b, flat) },
          else_branch = e () => (float[n] e0) { e0 = Identity (x) }>
      }""", [dict(x=NUMBERS[0, :n], c=c, d=d) for n, c, d in [(6, 1, 1), (6, 1, 0), (3, 0, 1), (1, 1, 0)]]),
    "ranks_that_differ_at_the_end_of_a_branch_a_function_and_a_constant_if": ("""
      m (float[n] x, bool c, bool d) => (float[k] y) {
        yes = Constant<value = bool {1}> ()  flat = Constant<value_ints = [-1]> ()
        a = If (c) <
          then_branch = t () => (t0) {
            t0 = If (yes) <then_branch = p () => (p0) { p1 = own.turn (x, d)  p0 = own.turn (p1, d) },
                           else_branch = q () => (q0) { q0 = Abs (x) }> },
          else_branch = e () => (float[1, n] e0) { zero = Constant<value_ints = [0]> ()  e0 = Unsqueeze (x, zero) }>
        b = Exp (a)  w = Add (a, b)  y = Reshape (w, flat)
      }
      <domain: "own", opset_import: ["": 18]> turn (v, is_deep) => (w) {
        first = Constant<value_ints = [0]> ()
        w = If (is_deep) <then_branch = u () => (u0) { u0 = Unsqueeze (v, first) },
                          else_branch = f () => (f0) { f0 = Neg (v) }>
      }""", [dict(x=NUMBERS[0, :n], c=c, d=d) for n, c, d in [(6, 1, 1), (6, 1, 0), (3, 0, 1), (1, 0, 0)]]),
    "branches_whose_unused_outputs_differ_in_rank": ("""
      m (float[n] x, bool c) => (float[n] y) {
        zero = Constant<value_ints = [0]> ()
        y, a = If (c) <then_branch = t () => (float[n] t0, float[1, n] t1) { t0 = Exp (x)  t1 = Unsqueeze (x, zero) },
                       else_branch = e () => (float[n] e0, float[n] e1) { e0 = Neg (x)  e1 = Abs (x) }>
        b = If (c) <then_branch = u () => (float[1, n] u0) { u0 = Unsqueeze (x, zero) },
                    else_branch = v () => (float[n] v0) { v0 = Abs (x) }>
      }""", [dict(x=NUMBERS[0], c=c) for c in (1, 0)]),
    "nodes_that_need_the_rank_of_the_branch": ("""
      m (float[n] x, bool c) => (float[k] y) {
        zero = Constant<value_ints = [0]> ()
        a = If (c) <then_branch = t () => (float[1, n] t0) { t0 = Unsqueeze (x, zero) },
                    else_branch = e () => (float[n] e0) { e0 = Identity (x) }>
        y = If (c) <
          then_branch = u () => (float[k] u0) {
            parts = SplitToSequence<axis = 1> (a)  b = ConcatFromSequence<axis = 1> (parts)
            two = Constant<value_int = 2> ()
            d = Loop (two, , b) <body = l (int64 i, bool go, v) => (bool on, w) {
              on = Identity (go)  w = Transpose<perm = [1, 0]> (v) }>
            f = Scan<num_scan_inputs = 1, scan_input_axes = [1], body = s (float[1] g) => (float[1] h) { h = Neg (g) }> (d)
            flat = Constant<value_ints = [-1]> ()  u0 = Reshape (f, flat) },
          else_branch = o () => (float[n] o0) { o0 = Concat<axis = 0> (a, x) }>
      }""", [dict(x=NUMBERS[0, :n], c=c) for n, c in [(6, 1), (3, 0), (1, 1)]]),
    "carried_value_whose_rank_changes": ("""
      m (float[3] x, int64 n, bool c, float[6] z) => (float y, float[a, 3] all, float[b, d] found) {
        row = Constant<value_ints = [1, 3]> ()  flat = Constant<value_ints = [-1]> ()  most = Constant<value_int = 2> ()
        v, all, found = Loop (n, c, x) <body = l (int64 i, bool go, u) => (bool on, w, float[3] e, float[d] f) {
          on = Less (i, most)  u1 = Reshape (u, row)  w = Add (u1, x)
          number = Cast<to = 1> (i)  e0 = Reshape (w, flat)  e = Add (e0, number)
          places = NonZero (z)  p = Reshape (places, flat)  f0 = Cast<to = 1> (p)  f = Add (f0, number)
        }>
        s = Exp (v)  y = ReduceSum<keepdims = 0> (s)
      }""", [dict(x=[1, 2, -3], n=n, c=1, z=z) for n in (1, 2, 9) for z in ([0, 1, 1, 0, 1, 0], [0] * 6)]),
    "carried_value_whose_rank_grows": ("""
      m (float[n] x) => (float[1, 1, 1, n] y, float[3] sums) {
        zero = Constant<value_ints = [0]> ()  count = Constant<value_int = 3> ()
        y, sums = Loop (count, , x) <body = b (int64 i, bool go, v) => (bool on, w, float e) {
          on = Identity (go)  w = Unsqueeze (v, zero)  e0 = ReduceSum<keepdims = 0> (w)  f = Cast<to = 1> (i)  e = Add (e0, f)
        }>
      }""", [dict(x=NUMBERS[0, :n]) for n in (6, 1)]),
    "carried_value_whose_rank_changes_maybe": ("""
      m (float[n] x, int64 k) => (float[n] y) {
        flat = Constant<value_ints = [-1]> ()  zero = Constant<value_ints = [0]> ()
        v = Loop (k, , x) <body = b (int64 i, bool go, u) => (bool on, float[1, n] w) {
          on = Identity (go)  r = Reshape (u, flat)  s = Add (r, x)  w = Unsqueeze (s, zero)
        }>
        y = Reshape (v, flat)
      }""", [dict(x=NUMBERS[0], k=k) for k in (0, 1, 3)]),
    "conditions_and_counts_of_open_shapes": ("""
      m (float[3] x, bool[p] c, int64[q] n) => (float[3] y) {
        a = If (c) <then_branch = t () => (float[3] t0) { t0 = Abs (x) },
                    else_branch = e () => (float[3] e0) { e0 = Exp (x) }>
        y = Loop (n, c, a) <body = b (int64 i, go, float[3] v) => (on, float[3] w) {
          on = Identity (c)  w = Add (v, x) }>
      }""", [dict(x=[1, 2, -3], c=[c], n=[n]) for c, n in [(1, 3), (0, 1), (1, 0)]]),
    "convolutions_in_a_loop": ("""
      m (float[1, 3, 8, 8] x, float[3, 3, 3, 3] w, int64 k) => (float[1, 3, 8, 8] y) {
        y = Loop (k, , x) <body = b (int64 i, bool go, float[1, 3, 8, 8] v) => (bool on, float[1, 3, 8, 8] u) {
          on = Identity (go)  c = Conv<pads = [1, 1, 1, 1]> (v, w)  d = Tanh (c)  u = Add (d, x)
        }>
      }""", [dict(x=np.sin(np.arange(192)).reshape(1, 3, 8, 8), w=np.cos(np.arange(81)).reshape(3, 3, 3, 3) / 9, k=k)
             for k in (0, 1, 5)]),
}


def arguments(model, run):
    types = {info.name: onnx.helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
             for info in model.graph.input}
    return {name: np.asarray(value, types[name]) for name, value in run.items()}


@pytest.mark.parametrize("target, device, name", list(places(CASES, "c -options=-O0", ["llvm -opt=0"])))
def test_bodies_run_as_often_as_the_data_says(target, device, name, tmp_path):
    text, runs = CASES[name]
    model = onnx.parser.parse_model(HEADER + text)
    onnx.save(model, tmp_path / "model.onnx")
    ours = open_model(tmp_path / "model.onnx", target, device)
    peer = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for run in runs:
        given = arguments(model, run)
        for one, want in zip(ours.run(given).values(), peer.run(None, given), strict=True):
            one = one.numpy()
            assert one.shape == want.shape and one.dtype == want.dtype, run
            np.testing.assert_allclose(one, want, rtol=1e-5, atol=1e-6)


def test_a_loop_without_iterations_gives_no_elements_of_known_extents(tmp_path):
    """onnxruntime gives 0 for the open extents of the elements, also for those that are known before the loop."""
    model = onnx.parser.parse_model(HEADER + """
      m (float[n, 3] x, int64 k) => (float[a, n, 3] all, float[a, b] found) {
        last, all, found = Loop (k, , x) <body = b (int64 i, bool go, float[n, 3] v) =>
                                         (bool on, float[n, 3] w, float[n, 3] e, float[q] f) {
          on = Identity (go)  w = Add (v, x)  e = Neg (v)
          p = NonZero (v)  flat = Constant<value_ints = [-1]> ()  r = Reshape (p, flat)  f = Cast<to = 1> (r)
        }>
      }""")
    onnx.save(model, tmp_path / "model.onnx")
    ours = backplane.Model(backplane.compile(tmp_path / "model.onnx", "llvm -opt=0"), "cpu")
    for count, shapes in [(2, [(2, 4, 3), (2, 24)]), (0, [(0, 4, 3), (0, 0)])]:
        outputs = ours.run(x=np.ones((4, 3), np.float32), k=np.array(count, np.int64))
        assert [outputs["all"].shape, outputs["found"].shape] == shapes


@pytest.mark.parametrize("given, error, words", [
    ({"x": [1, 2], "k": 2}, ValueError, "node 'Loop_0': extent 0 .* is 4, and was 2 before"),
    ({"x": [1, 2], "k": 1 << 58}, MemoryError, "node 'Loop_0'"),
])
def test_iterations_that_do_not_fit_are_errors_that_name_the_node(given, error, words, tmp_path):
    model = onnx.parser.parse_model(HEADER + """
      m (float[n] x, int64 k) => (float[a, b] all) {
        last, all = Loop (k, , x) <body = b (int64 i, bool go, float[p] v) => (bool on, float[q] w, float[p] e) {
          on = Identity (go)  w = Concat<axis = 0> (v, v)  e = Neg (v)
        }>
      }""")
    onnx.save(model, tmp_path / "model.onnx")
    ours = backplane.Model(backplane.compile(tmp_path / "model.onnx", "c"), "cpu")
    ours.run(arguments(model, {"x": [1, 2], "k": 1}))
    with pytest.raises(error, match=words):
        ours.run(arguments(model, given))


@pytest.mark.parametrize("given", [{"c": [1, 0], "n": [1]}, {"c": [], "n": [1]}, {"c": [1], "n": [1, 1]}, {"c": [1], "n": []}])
def test_a_condition_or_count_of_several_elements_is_an_error(given, tmp_path):
    text, _ = CASES["conditions_and_counts_of_open_shapes"]
    onnx.save(model := onnx.parser.parse_model(HEADER + text), tmp_path / "model.onnx")
    ours = backplane.Model(backplane.compile(tmp_path / "model.onnx", "llvm -opt=0"), "cpu")
    with pytest.raises(ValueError, match="node '(If|Loop)_.*of one element"):
        ours.run(arguments(model, {"x": [1, 2, 3], **given}))


def test_a_body_that_cannot_be_computed_fails_in_its_first_iteration(tmp_path):
    model = onnx.parser.parse_model(HEADER + """
      m (float[4, 3] x, float[2] w, int64 k) => (float[4, 3] y, float[a, 4] all) {
        y, all = Loop (k, , x) <body = b (int64 i, bool go, float[4, 3] v) => (bool on, float[4, 3] u, float[4] e) {
          on = Identity (go)  u = Add (v, w)  e = Identity (w) }>
      }""")
    onnx.save(model, tmp_path / "model.onnx")
    ours = backplane.Model(backplane.compile(tmp_path / "model.onnx", "llvm -opt=0"), "cpu")
    outputs = ours.run(arguments(model, {"x": NUMBERS[:, :3], "w": [1, 2], "k": 0}))
    assert np.array_equal(outputs["y"].numpy(), NUMBERS[:, :3]) and outputs["all"].shape == (0, 4)
    with pytest.raises(ValueError, match=r"node 'Loop_0/Add_1' \(Add\): input 1 is float32 2 and does not broadcast"):
        ours.run(arguments(model, {"x": NUMBERS[:, :3], "w": [1, 2], "k": 1}))


def test_a_branch_that_cannot_be_computed_fails_when_a_run_takes_it(tmp_path):
    model = onnx.parser.parse_model(HEADER + """
      m (float[n, 3] x, float[2] w, bool c) => (float[n, 3] y) {
        y = If (c) <then_branch = t () => (float[n, 3] t0) { t0 = Neg (x) },
                    else_branch = e () => (float[n, 3] e0) { e1 = Add (x, w)  e0 = Abs (e1) }>
      }""")
    onnx.save(model, tmp_path / "model.onnx")
    for target, device, _ in places([None], "c -options=-O0", ("llvm -opt=0",)):
        ours = open_model(tmp_path / "model.onnx", target, device)
        given = {"x": NUMBERS[:, :3], "w": [1, 2]}
        for _ in range(2):
            assert np.array_equal(ours.run(arguments(model, {**given, "c": True}))["y"].numpy(), -NUMBERS[:, :3])
            with pytest.raises(ValueError, match=r"node 'If_0/Add_0' \(Add\): input 1 is float32 2 and does not broadcast"):
                ours.run(arguments(model, {**given, "c": False}))


def test_a_branch_that_gives_an_output_another_rank_than_declared_fails(tmp_path):
    """tf2onnx writes such models; onnxruntime gives the other rank."""
    model = onnx.parser.parse_model(HEADER + """
      m (float[n, 3] x, bool c) => (float[n, 3] y) {
        z = If (c) <then_branch = t () => (float[n, 3] t0) { t0 = Neg (x) },
                    else_branch = e () => (float[n] e0) { a = Constant<value_ints = [1]> ()  e0 = ReduceSum<keepdims = 0> (x, a) }>
        y = Abs (z)
      }""")
    onnx.save(model, tmp_path / "model.onnx")
    for target, device, _ in places([None], "c -options=-O0", ("llvm -opt=0",)):
        ours = open_model(tmp_path / "model.onnx", target, device)
        given = {"x": NUMBERS[:, :3]}
        assert np.array_equal(ours.run(arguments(model, {**given, "c": True}))["y"].numpy(), np.abs(NUMBERS[:, :3]))
        with pytest.raises(ValueError, match="'y' another number of dimensions than the model declares"):
            ours.run(arguments(model, {**given, "c": False}))


@pytest.mark.parametrize("text, words", [
    # Both branches fail.
    ("""m (float[3] x, float[2] w, bool c) => (float[3] y) {
          y = If (c) <then_branch = t () => (float[3] t0) { t0 = Add (x, w) },
                      else_branch = e () => (float[3] e0) { e0 = Sub (x, w) }> }""", "both of its branches have to work"),
    # The model's output would have two ranks.
    ("""m (float[3] x, bool c) => (float[] y) {
          y = If (c) <then_branch = t () => (float[3] t0) { t0 = Neg (x) },
                      else_branch = e () => (float e0) { e0 = ReduceSum<keepdims = 0> (x) }> }""", "float32 3 or float32"),
    ("""m (float[3] x, bool c) => (float[] y) {
          z = If (c) <then_branch = t () => (float[3] t0) { t0 = Neg (x) },
                      else_branch = e () => (float e0) { e0 = ReduceSum<keepdims = 0> (x) }>
          y = Abs (z) }""", "float32 3 or float32"),
    # A name of a node's output is that of one value.
    ("""m (float[3] x, bool c) => (float[3] y) {
          a = Neg (x)
          z = If (c) <then_branch = t () => (float[3] a) { a = Abs (x) },
                      else_branch = e () => (float[3] e0) { e0 = Exp (x) }>
          y = Add (z, a) }""", "the name 'a' to two values"),
    # The carried value would have a ninth dimension.
    ("""m (float[3] x, int64 n) => (float y) {
          zero = Constant<value_ints = [0]> ()
          z = Loop (n, , x) <body = b (int64 i, bool go, v) => (bool on, w) { on = Identity (go)  w = Unsqueeze (v, zero) }>
          y = ReduceSum<keepdims = 0> (z) }""", "more than 8 dimensions"),
    # An operator that the importer lacks is named, also in a branch.
    ("""m (float[3] x, bool c) => (float[3] y) {
          y = If (c) <then_branch = t () => (float[3] t0) { t0 = Neg (x) },
                      else_branch = e () => (float[3] e0) { e0 = NoSuchOperator (x) }> }""", "NoSuchOperator"),
])
def test_models_whose_outputs_depend_on_the_branch_are_refused(text, words, tmp_path):
    onnx.save(onnx.parser.parse_model(HEADER + text), tmp_path / "model.onnx")
    with pytest.raises((NotImplementedError, ValueError), match=words):
        backplane.compile(tmp_path / "model.onnx", "llvm -opt=0")


def test_a_scan_over_no_elements_gives_its_initial_values(tmp_path):
    """onnxruntime refuses to run such a scan."""
    model = onnx.parser.parse_model(HEADER + """
      m (float[3] s, float[0, 3] x) => (float[3] y, float[0, 3] all) {
        y, all = Scan<num_scan_inputs = 1, body = b (float[3] a, float[3] e) => (float[3] c, float[3] d) {
          c = Add (a, e)  d = Mul (c, e) }> (s, x)
      }""")
    onnx.save(model, tmp_path / "model.onnx")
    for target, device, _ in places([None], "c -options=-O0", ("llvm -opt=0",)):
        ours = open_model(tmp_path / "model.onnx", target, device)
        outputs = ours.run(arguments(model, {"s": [1, 2, 3], "x": np.zeros((0, 3))}))
        assert outputs["y"].numpy().tolist() == [1, 2, 3] and outputs["all"].shape == (0, 3)


def test_a_run_checks_the_lengths_of_a_scan(tmp_path):
    model = onnx.parser.parse_model(HEADER + """
      m (float[3] s, float[n, 3] x, float[3, k] z) => (float[3] y, float[n, 3] all) {
        y, all = Scan<num_scan_inputs = 2, scan_input_axes = [0, 1], body = b
          (float[3] a, float[3] e, float[3] f) => (float[3] c, float[3] d) { c = Add (a, e)  d = Mul (c, f) }> (s, x, z)
      }""")
    onnx.save(model, tmp_path / "model.onnx")
    for target, device, _ in places([None], "c -options=-O0", ("llvm -opt=0",)):
        ours = open_model(tmp_path / "model.onnx", target, device)
        for n in (3, 1):
            x = NUMBERS.reshape(-1)[:3 * n].reshape(n, 3)
            outputs = ours.run(arguments(model, {"s": [1, 2, 3], "x": x, "z": np.ones((3, n))}))
            assert np.array_equal(outputs["all"].numpy()[-1], outputs["y"].numpy())
        with pytest.raises(ValueError, match="its scan inputs differ in length"):
            ours.run(arguments(model, {"s": [1, 2, 3], "x": np.ones((2, 3)), "z": np.ones((3, 1))}))


# ---- Random bodies -------------------------------------------------------------------------------

# A value is known by its shape. The first extent of the shape may be open. The data decide about the rank of a value
# "r", which has the shape of "s", "v" or "m".
SHAPES = {"s": [], "v": [3], "m": [2, 3], "g": [None, 3], "r": None}
UNARY = ["Abs", "Neg", "Relu", "Sigmoid", "Tanh"]
BINARY = ["Add", "Max", "Min", "Mul", "Sub"]


class Writer:
    """Nodes in random order. The nodes of a scope see the values of the enclosing scopes."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.count = 0
        self.functions = []

    def name(self):
        self.count += 1
        return f"t{self.count}"

    def pick(self, items):
        return items[self.random.integers(len(items))]

    def chance(self, part):
        return self.random.random() < part

    def of(self, pool, kind):
        return self.pick([name for name, have in pool if have == kind])

    def add(self, nodes, op, inputs, **attributes):
        out = self.name()
        nodes.append(onnx.helper.make_node(op, inputs, [out], **attributes))
        return out

    def constant(self, nodes, value):
        return self.add(nodes, "Constant", [], value=onnx.numpy_helper.from_array(np.asarray(value)))

    def holds(self, nodes, pool):
        """A condition that depends on the data."""
        some = self.of(pool, self.pick("svm"))
        total = self.add(nodes, "ReduceSum", [some], keepdims=0)
        return self.add(nodes, "Less", [total, self.constant(nodes, np.float32(self.random.normal()))])

    def plain(self, nodes, pool):
        kind = self.pick("svmgr")
        if kind == "r":
            return self.ranked(nodes, pool)
        if self.chance(0.4):
            return self.add(nodes, self.pick(UNARY), [self.of(pool, kind)]), kind
        other = self.pick({"s": "s", "v": "sv", "m": "svm", "g": "sv"}[kind])
        if kind == "g" and self.chance(0.3):
            one = self.constant(nodes, np.array([0]))
            return self.add(nodes, "ReduceSum", [self.of(pool, "g"), one], keepdims=0), "v"
        return self.add(nodes, self.pick(BINARY), [self.of(pool, kind), self.of(pool, other)]), kind

    def bounded(self, nodes, pool, kind):
        some = self.of(pool, kind)
        if kind == "g" and self.chance(0.4):
            some = self.add(nodes, "Concat", [some, self.of(pool, "m")], axis=0)
        return some if self.chance(0.2) else self.add(nodes, "Tanh", [some])

    def graph(self, nodes, inputs, outputs):
        info = onnx.helper.make_tensor_value_info
        rows = [onnx.ValueInfoProto(name=name, type=kind) if isinstance(kind, onnx.TypeProto) else
                info(name, kind if isinstance(kind, int) else FLOAT,
                     [] if isinstance(kind, int) else SHAPES[kind]) for name, kind in inputs]
        return onnx.helper.make_graph(nodes, "g", rows, [onnx.ValueInfoProto(name=name, type=of) for name, of in outputs])

    def typed(self, name, kind, is_bool=False):
        kind_type = onnx.helper.make_tensor_type_proto(BOOL if is_bool else FLOAT, [] if is_bool else SHAPES[kind])
        return name, kind_type

    def ranked(self, nodes, pool):
        """Append a node that takes a value of any rank, and nodes that make a value of known rank of it."""
        some = self.pick([name for name, kind in pool if kind in "svmr"][-9:])
        if self.chance(0.3):
            return self.add(nodes, self.pick(BINARY), [some, self.of(pool, "m")]), "m"
        if self.chance(0.2):
            rank = self.add(nodes, "Size", [self.add(nodes, "Shape", [some])])
            return self.add(nodes, "Cast", [rank], to=FLOAT), "s"
        if self.chance(0.3):
            return self.add(nodes, self.pick(["ReduceMax", "ReduceMin"]), [some], keepdims=0), "s"
        if self.chance(0.3):
            return self.add(nodes, self.pick(BINARY), [some, self.of(pool, self.pick("sv"))]), "r"
        return self.add(nodes, self.pick(UNARY), [some]), "r"

    def given(self, nodes, pool, seen, kinds):
        """The names of a body's outputs, which are often outputs of its last nodes."""
        names = []
        for kind in kinds:
            kind = self.pick("svm") if kind == "r" and self.chance(0.6) else kind
            own = [name for name, have in seen[len(pool):] if have == kind and name not in names]
            if not own and kind == "r":
                kind = self.pick("svm")
            names.append(own[-1] if own and self.chance(0.7) else
                         self.add(nodes, "Identity", [self.bounded(nodes, seen, kind)]))
        return names

    def branch(self, nodes, pool, depth):
        kinds = [self.pick("svmgrr") for _ in range(self.random.integers(1, 4))]
        graphs = []
        for _ in range(2):
            inner = []
            seen = self.fill(inner, pool, depth + 1)
            names = self.given(inner, pool, seen, kinds)
            graphs.append(self.graph(inner, [], [self.typed(*one) for one in zip(names, kinds)]))
        outs = [self.name() for _ in kinds]
        condition = self.holds(nodes, pool) if self.chance(0.85) else self.constant(nodes, np.array(self.chance(0.5)))
        nodes.append(onnx.helper.make_node("If", [condition], outs, then_branch=graphs[0], else_branch=graphs[1]))
        return list(zip(outs, kinds))

    def twice(self, nodes, pool, depth):
        """Append an If whose branches differ in rank, and one of the same condition whose nodes need the rank."""
        condition = self.holds(nodes, pool)
        graphs = [self.graph(inner, [], [self.typed(self.add(inner, "Identity", [self.of(pool, kind)]), kind)])
                  for inner, kind in [([], "v"), ([], "m")]]
        some = self.add(nodes, "If", [condition], then_branch=graphs[0], else_branch=graphs[1])
        then, otherwise, body = [], [], []
        flat = self.add(then, "Concat", [some, self.of(pool, "v")], axis=0)
        if self.chance(0.5):
            parts = self.add(otherwise, "SplitToSequence", [some], axis=1)
            turned = self.add(otherwise, "ConcatFromSequence", [parts], axis=1)
        else:
            i, go, have = self.name(), self.name(), self.name()
            on, next_one = self.add(body, "Identity", [go]), self.add(body, "Transpose", [have], perm=[1, 0])
            graph = self.graph(body, [(i, INT64), (go, BOOL), (have, "r")],
                               [self.typed(on, "s", True), self.typed(next_one, "r")])
            turned = self.add(otherwise, "Loop", [self.constant(otherwise, np.array(2)), "", some], body=graph)
        flats = [self.add(inner, "Reshape", [name, self.constant(inner, np.array([-1]))])
                 for inner, name in [(then, flat), (otherwise, turned)]]
        graphs = [self.graph(inner, [], [self.typed(name, "r")]) for inner, name in zip([then, otherwise], flats)]
        out = self.add(nodes, "If", [condition], then_branch=graphs[0], else_branch=graphs[1])
        return [(some, "r"), (self.add(nodes, "ReduceSum", [out], keepdims=0), "s")]

    def call(self, nodes, pool, depth):
        """Append a function, in which names have other values, and a call or two."""
        count, self.count = self.count, 0
        inner, kinds = [], [*"svmg", *self.pick(["", "r", "rv"])]
        kinds = [kind for kind in kinds if any(have == kind for _, have in pool)]
        inputs = [(self.name(), kind) for kind in kinds]
        seen = self.fill(inner, inputs, depth + 1)
        outputs = [self.pick("svmrr") for _ in range(self.random.integers(1, 3))]
        names = self.given(inner, inputs, seen, outputs)
        name, results, self.count = f"f{len(self.functions)}", [], count
        self.functions.append(onnx.helper.make_function(
            "own", name, [*(name for name, _ in inputs), "n", "k"], names, inner,
            [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("own", 1)]))
        for _ in range(self.random.integers(1, 3)):
            outs = [self.name() for _ in outputs]
            nodes.append(onnx.helper.make_node(name, [self.of(pool, kind) for kind in kinds] + ["n", "k"], outs, domain="own"))
            results += zip(outs, outputs)
        return results

    def listed(self, nodes, pool, depth):
        """Append a sequence of tensors of any rank, which branches may give, and values read from the sequence."""
        count = self.random.integers(1, 3)

        def construct(inner):
            kinds = [self.pick([kind for _, kind in pool if kind in "svmr"]) for _ in range(count)]
            return self.add(inner, "SequenceConstruct", [self.of(pool, kind) for kind in kinds])

        if self.chance(0.4):
            some = construct(nodes)
        else:
            kind = onnx.helper.make_sequence_type_proto(onnx.helper.make_tensor_type_proto(FLOAT, None))
            graphs = [self.graph(inner, [], [(construct(inner), kind)]) for inner in ([], [])]
            some = self.add(nodes, "If", [self.holds(nodes, pool)], then_branch=graphs[0], else_branch=graphs[1])
        place = self.constant(nodes, np.array(self.random.integers(count)))
        return [(self.add(nodes, "SequenceAt", [some, place]), "r")]

    def stacked(self, nodes, out, kind):
        return self.add(nodes, "ReduceSum", [out, self.constant(nodes, np.array([0]))], keepdims=0), kind

    def loop(self, nodes, pool, depth):
        carried = [self.pick("svmg") for _ in range(self.random.integers(1, 4))]
        first = [kind if kind == "g" or self.chance(0.7) else self.pick("svm") for kind in carried]
        around = [kind if kind == before else "r" for kind, before in zip(carried, first)]
        stacks = [self.pick("svm") for _ in range(self.random.integers(0, 3))]
        inner, i, go = [], self.name(), self.name()
        names = [self.name() for _ in carried]
        number = self.add(inner, "Cast", [i], to=FLOAT)
        seen = self.fill(inner, pool + list(zip(names, around)) + [(number, "s")], depth + 1)
        on = self.add(inner, "Identity", [go]) if self.chance(0.5) else self.holds(inner, seen)
        given = [self.add(inner, "Identity", [self.bounded(inner, seen, kind)]) for kind in carried + stacks]
        body = self.graph(inner, [(i, INT64), (go, BOOL), *zip(names, around)],
                          [self.typed(on, "s", True)] + [self.typed(*one) for one in zip(given, around + stacks)])
        trip = self.pick(["n", "k", self.constant(nodes, np.array(self.random.integers(4)))])
        begins = self.constant(nodes, np.array(True)) if self.chance(0.6) else self.holds(nodes, pool)
        outs = [self.name() for _ in carried + stacks]
        nodes.append(onnx.helper.make_node("Loop", [trip, begins] + [self.of(pool, kind) for kind in first], outs,
                                           body=body))
        return list(zip(outs, around)) + [self.stacked(nodes, *one) for one in zip(outs[len(carried):], stacks)]

    def scan(self, nodes, pool, depth):
        """Append a Scan over the rows of one or two matrices."""
        inner, state, rows = [], self.name(), [self.name() for _ in range(self.random.integers(1, 3))]
        seen = self.fill(inner, pool + [(name, "v") for name in [state, *rows]], depth + 1)
        given = [self.add(inner, "Identity", [self.bounded(inner, seen, "v")]) for _ in range(2)]
        body = self.graph(inner, [(name, "v") for name in [state, *rows]], [self.typed(name, "v") for name in given])
        outs = [self.name(), self.name()]
        nodes.append(onnx.helper.make_node(
            "Scan", [self.of(pool, "v")] + [self.of(pool, "m") for _ in rows], outs, body=body,
            num_scan_inputs=len(rows), scan_input_directions=[int(self.chance(0.5)) for _ in rows],
            scan_output_directions=[int(self.chance(0.5))]))
        return list(zip(outs, "vm"))

    def sequence(self, nodes, pool, depth):
        """Append a sequence that a loop extends at its end or before it, and values read from the sequence."""
        kind = self.pick("svmg")
        of_kind = onnx.helper.make_sequence_type_proto(self.typed("", kind)[1])
        inner, i, go, got = [], self.name(), self.name(), self.name()
        number, taken = self.add(inner, "Cast", [i], to=FLOAT), self.add(inner, "SequenceAt", [got, i])
        seen = self.fill(inner, pool + [(number, "s"), (taken, kind)], depth + 1)
        on = self.add(inner, "Identity", [go]) if self.chance(0.5) else self.holds(inner, seen)
        position = [i] if self.chance(0.5) else []
        if self.chance(0.5):
            longer = self.add(inner, "SequenceInsert", [got, self.bounded(inner, seen, kind), *position])
        else:
            branches = []
            for _ in range(2):
                branch = []
                added = self.add(branch, "SequenceInsert", [got, self.bounded(branch, seen, kind), *position])
                branches.append(self.graph(branch, [], [(added, of_kind)]))
            longer = self.add(inner, "If", [self.holds(inner, seen)], then_branch=branches[0], else_branch=branches[1])
        body = self.graph(inner, [(i, INT64), (go, BOOL), (got, of_kind)],
                          [self.typed(on, "s", True), (longer, of_kind)])
        first = self.add(nodes, "SequenceConstruct", [self.of(pool, kind) for _ in range(self.random.integers(1, 3))])
        out = self.add(nodes, "Loop", [self.pick("nk"), self.constant(nodes, np.array(True)), first], body=body)
        place = self.add(nodes, "Mod", ["k", self.add(nodes, "SequenceLength", [out])])
        one = self.add(nodes, "SequenceAt", [out, place]), kind
        if kind == "g":
            return [one, (self.add(nodes, "ConcatFromSequence", [out], axis=0), kind)]
        return [one, self.stacked(nodes, self.add(nodes, "ConcatFromSequence", [out], axis=0, new_axis=1), kind)]

    def fill(self, nodes, pool, depth):
        """Append nodes; return values of the new nodes and of earlier nodes."""
        pool = list(pool)
        for _ in range(self.random.integers(1, 6)):
            if depth < 3 and self.chance(0.35):
                pool += self.pick([self.branch, self.branch, self.loop, self.loop, self.scan, self.sequence, self.twice,
                                   self.listed, self.call])(nodes, pool, depth)
            else:
                pool.append(self.plain(nodes, pool))
        return pool

    def model(self):
        info, nodes = onnx.helper.make_tensor_value_info, []
        inputs = [("x", "s"), ("y", "v"), ("z", "m"), ("w", "g")]
        pool = self.fill(nodes, inputs, 0)
        pool += self.loop(nodes, pool, 0)
        ends = [(self.add(nodes, "ReduceMax", [name], keepdims=0), "s") if kind == "r" else (name, kind)
                for name, kind in pool[len(inputs):][-8:] if kind != "r" or self.chance(0.7)]
        last, kinds = [self.add(nodes, "Identity", [name]) for name, _ in ends], [kind for _, kind in ends]
        graph = onnx.helper.make_graph(
            nodes, "random", [info(name, FLOAT, SHAPES[kind]) for name, kind in inputs] +
            [info(name, INT64, []) for name in "nk"],
            [onnx.ValueInfoProto(name=name, type=of) for name, of in map(self.typed, last, kinds)])
        return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("own", 1)],
                                      functions=self.functions, ir_version=9)


SEEDS = 300 if os.environ.get("BP_TEST_LONG") else 4


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_bodies_give_what_onnxruntime_gives(seed, tmp_path):
    writer = Writer(seed)
    model = writer.model()
    onnx.save(model, tmp_path / "model.onnx")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    peer = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    compiled = [backplane.compile(tmp_path / "model.onnx", "c -options=-O0", reference=reference) for reference in (False, True)]
    models = [backplane.Model(module, "cpu") for module in compiled]
    for n, k, rows in [(0, 2, 3), (3, 1, 1), (1, 0, 0), (2, 4, 2)]:
        fill = lambda *shape: writer.random.standard_normal(shape).astype(np.float32)
        given = {"x": fill(), "y": fill(3), "z": fill(2, 3), "w": fill(rows, 3), "n": np.array(n), "k": np.array(k)}
        given = {name: np.asarray(value, np.int64 if name in "nk" else np.float32) for name, value in given.items()}
        expected = peer.run(None, given)
        for ours in models:
            for one, want in zip(ours.run(given).values(), expected, strict=True):
                one = one.numpy()
                assert one.shape == want.shape
                np.testing.assert_allclose(one, want, rtol=1e-3, atol=1e-4)
