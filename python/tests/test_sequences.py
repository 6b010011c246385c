# SPDX-License-Identifier: Apache-2.0
"""Sequences and optionals whose tensors depend on the run. Each model is compiled once, and each run is compared
with onnxruntime."""

import numpy as np
import pytest

import backplane

from conftest import open_model, places

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
onnxruntime.set_default_logger_severity(4)

HEADER = '<ir_version: 9, opset_import: ["" : 18]>\n'
NUMBERS = (np.arange(-12, 12, dtype=np.float32) / 4).reshape(4, 6)

# The text of each model, and the inputs of its runs.
CASES = {
    "inserted_in_a_loop": ("""
      m (float[n, 6] x, int64 k) => (float[m, 6] y, int64 many) {
        none = SequenceEmpty ()
        all = Loop (k, , none) <body = b (int64 i, bool go, seq(float[a, 6]) s) => (bool on, seq(float[c, 6]) t) {
          on = Identity (go)  f = Cast<to = 1> (i)  e = Mul (x, f)  t = SequenceInsert (s, e) }>
        one = SequenceInsert (all, x)  y = ConcatFromSequence<axis = 0> (one)  many = SequenceLength (all)
      }""", [dict(x=NUMBERS[:n], k=k) for n, k in [(2, 3), (4, 0), (0, 2), (1, 40)]]),
    "inserted_where_the_data_say": ("""
      m (float[n] x, float[n] w, int64 k) => (float[m] y, float[2, n] z) {
        none = SequenceEmpty ()  zero = Constant<value_int = 0> ()  axes = Constant<value_ints = [0]> ()
        all = Loop (k, , none) <body = b (int64 i, bool go, seq(float[a]) s) => (bool on, seq(float[c]) t) {
          on = Identity (go)  p = NonZero (w)  q = Squeeze (p, axes)  v = Gather (x, q)
          f = Cast<to = 1> (i)  e = Add (v, f)  two = Constant<value_int = 2> ()  at = Div (i, two)
          t = SequenceInsert (s, e, at) }>
        y = ConcatFromSequence<axis = -1> (all)
        pair = SequenceConstruct (x, w)  z = ConcatFromSequence<axis = 0, new_axis = 1> (pair)
      }""", [dict(x=NUMBERS[0], w=w, k=k) for w, k in [([0, 1, 1, 0, 1, 0], 5), ([1] * 6, 2), ([0] * 6, 3)]]),
    "known_by_its_shape_alone": ("""
      m (float[n, 6] x, int64[k] sizes, int64 i) => (int64[2] y, int64 total, int64[2] z) {
        s = SplitToSequence<axis = 0> (x, sizes)  e = SequenceAt (s, i)  y = Shape (e)  zero = Constant<value_int = 0> ()
        many = SequenceLength (s)
        total = Loop (many, , zero) <body = b (int64 j, bool go, int64 sum) => (bool on, int64 next) {
          on = Identity (go)  f = SequenceAt (s, j)  g = Size (f)  next = Add (sum, g) }>
        c = Greater (i, zero)
        h = If (c) <then_branch = t () => (float[a, 6] t0) { t0 = Concat<axis = 0> (x, x) },
                    else_branch = u () => (float[b, 6] u0) { u0 = Identity (x) }>
        z = Shape (h)
      }""", [dict(x=NUMBERS[:n], sizes=sizes, i=i) for n, sizes, i in [(4, [1, 3], 1), (3, [1, 1, 1], 0), (4, [4], 0)]]),
    "taken_where_the_data_say": ("""
      m (float[n, 6] x, float[6] w, int64 i, int64 j) => (float[m, 6] y, float[a, 6] z, int64 many) {
        d = Add (x, w)  e = Concat<axis = 0> (x, d)
        s = SequenceConstruct (x, d, e)
        y = SequenceAt (s, i)  less = SequenceErase (s, j)  z = ConcatFromSequence<axis = 0> (less)
        more = SequenceInsert (less, e, j)  many = SequenceLength (more)
      }""", [dict(x=NUMBERS[:n], w=NUMBERS[1], i=i, j=j)
             for n, i, j in [(2, 0, 0), (4, 1, 2), (1, 2, 1), (3, -1, -2), (0, -3, 1)]]),
    "stacked_along_a_new_axis": ("""
      m (float[2, n] x, int64 k) => (float[2, a, n] y) {
        first = SequenceConstruct (x)
        all = Loop (k, , first) <body = b (int64 i, bool go, seq(float[2, n]) s) => (bool on, seq(float[2, n]) t) {
          on = Identity (go)  last = Constant<value_int = -1> ()  e = SequenceAt (s, last)  f = Add (e, x)
          t = SequenceInsert (s, f) }>
        y = ConcatFromSequence<axis = 1, new_axis = 1> (all)
      }""", [dict(x=NUMBERS[:2, :n], k=k) for n, k in [(6, 3), (1, 0), (3, 1)]]),
    "of_a_branch": ("""
      m (float[n, 6] x, float[6] w, bool c, int64 i) => (float[m, 6] y, int64 many) {
        s = If (c) <then_branch = t () => (seq(float[a, 6]) t0) {
                      d = Add (x, w)  e = Concat<axis = 0> (d, x)  t0 = SequenceConstruct (x, d, e) },
                    else_branch = e () => (seq(float[b, 6]) e0) { f = Mul (x, w)  e0 = SequenceConstruct (f) }>
        y = SequenceAt (s, i)  many = SequenceLength (s)
      }""", [dict(x=NUMBERS[:n], w=NUMBERS[2], c=c, i=i) for n, c, i in [(2, 1, 2), (2, 0, 0), (4, 1, -2), (4, 0, -1)]]),
    "split_by_the_data": ("""
      m (float[n, 6] x, int64[k] sizes, int64 i) => (float[a, 6] y, int64 many, float[n, b] z) {
        s = SplitToSequence<axis = 0> (x, sizes)  y = SequenceAt (s, i)  many = SequenceLength (s)
        two = Constant<value_int = 2> ()  size = Add (i, two)
        cut = SplitToSequence<axis = 1> (x, size)  z = SequenceAt (cut, i)
      }""", [dict(x=NUMBERS[:n], sizes=sizes, i=i) for n, sizes, i in [(4, [1, 3], 1), (3, [1, 1, 1], 0), (4, [4], 0)]]),
    "split_of_an_open_extent": ("""
      m (float[n, 6] x) => (float[a, 3] y, float[6] z, int64 many) {
        s = SplitToSequence<axis = 0, keepdims = 0> (x)  last = Constant<value_int = -1> ()  z = SequenceAt (s, last)
        three = Constant<value_int = 3> ()  h = Identity (x)
        t = SplitToSequence<axis = 0> (h, three)  many = SequenceLength (t)
        u = SequenceAt (t, last)  v = SplitToSequence<axis = 1> (u, three)  y = SequenceAt (v, last)
      }""", [dict(x=NUMBERS[:n]) for n in (4, 3, 1)]),
    "mapped": ("""
      m (float[n, 6] x, float[6] w) => (float[n, 6] y, float[k] z) {
        s = SplitToSequence<axis = 0> (x)
        p, q = SequenceMap (s, w) <body = b (float[1, 6] a, float[6] b0) => (float[1, 6] c, float[d] e) {
          c = Mul (a, b0)  axes = Constant<value_ints = [0]> ()  f = Squeeze (c, axes)  g = NonZero (f)
          h = Squeeze (g, axes)  e = Cast<to = 1> (h) }>
        y = ConcatFromSequence<axis = 0> (p)  z = ConcatFromSequence<axis = 0> (q)
      }""", [dict(x=NUMBERS[:n], w=w) for n, w in [(4, [0, 1, 1, 0, 1, 0]), (1, [1] * 6)]]),
    "two_mapped_together": ("""
      m (float[n, 6] x, float[n, 2] w) => (float[n, 8] y) {
        s = SplitToSequence<axis = 0> (x)  t = SplitToSequence<axis = 0> (w)
        p = SequenceMap (s, t) <body = b (float[1, 6] a, float[1, 2] b0) => (float[1, 8] c) {
          c = Concat<axis = 1> (b0, a) }>
        y = ConcatFromSequence<axis = 0> (p)
      }""", [dict(x=NUMBERS[:n], w=NUMBERS[:n, :2]) for n in (4, 1)]),
    "optional_of_a_branch": ("""
      m (float[n] x, bool c) => (bool has, float[m] y) {
        o = If (c) <then_branch = t () => (optional(float[n]) t0) { d = Neg (x)  t0 = Optional (d) },
                    else_branch = e () => (optional(float[n]) e0) { e0 = Optional<type = float[n]> () }>
        has = OptionalHasElement (o)
        y = If (has) <then_branch = u () => (float[m] u0) { u0 = OptionalGetElement (o) },
                      else_branch = v () => (float[m] v0) { v0 = Concat<axis = 0> (x, x) }>
      }""", [dict(x=NUMBERS[0, :n], c=c) for n, c in [(6, 1), (6, 0), (2, 0), (2, 1)]]),
    "optional_without_a_value": ("""
      m (float[2] x, bool c) => (float[2] y, float[2] z) {
        o = Optional<type = float[2]> ()  h = OptionalHasElement (o)  has = And (h, c)
        y = If (has) <then_branch = u () => (float[2] u0) { d = OptionalGetElement (o)  u0 = Neg (d) },
                      else_branch = v () => (float[2] v0) { v0 = Exp (x) }>
        p = If (c) <then_branch = t () => (optional(float[2]) t0) { t0 = Optional<type = float[2]> () },
                    else_branch = e () => (optional(float[2]) e0) { e0 = Optional<type = float[2]> () }>
        never = OptionalHasElement (p)  always = Not (never)
        z = If (always) <then_branch = f () => (float[2] f0) { f0 = Neg (y) },
                         else_branch = g () => (float[2] g0) { g0 = OptionalGetElement (p) }>
      }""", [dict(x=NUMBERS[0, :2], c=c) for c in (0, 1)]),
    "optional_and_sequence_that_get_values_in_a_loop": ("""
      m (float[2] x, int64 k) => (float[2] y, float[2] z) {
        o = Optional<type = float[2]> ()  s = SequenceEmpty ()  last = Constant<value_int = -1> ()
        p, q = Loop (k, , o, s) <body = b (int64 i, bool go, optional(float[2]) a, seq(float[2]) r)
                                     => (bool on, optional(float[2]) a1, seq(float[2]) r1) {
          on = Identity (go)  has = OptionalHasElement (a)
          w = If (has) <then_branch = u () => (float[2] u0) { e = OptionalGetElement (a)  u0 = Add (e, x) },
                        else_branch = v () => (float[2] v0) { v0 = Neg (x) }>
          a1 = Optional (w)
          n = SequenceLength (r)  zero = Constant<value_int = 0> ()  some = Greater (n, zero)
          l = If (some) <then_branch = f () => (float[2] f0) { e1 = SequenceAt (r, last)  f0 = Mul (e1, x) },
                         else_branch = g () => (float[2] g0) { g0 = Exp (x) }>
          r1 = SequenceInsert (r, l) }>
        h = OptionalHasElement (p)
        y = If (h) <then_branch = t () => (float[2] t0) { t0 = OptionalGetElement (p) },
                    else_branch = d () => (float[2] d0) { d0 = Identity (x) }>
        z = SequenceAt (q, last)
      }""", [dict(x=NUMBERS[0, :2], k=k) for k in (1, 2, 3)]),
    "branch_without_a_value_gives_a_sequence": ("""
      m (float[n] x, bool c) => (float[m] y) {
        o = Optional<type = float[n]> ()  h = OptionalHasElement (o)  has = And (h, c)
        s = If (has) <then_branch = u () => (seq(float[n]) u0) { d = OptionalGetElement (o)  u0 = SequenceConstruct (d) },
                      else_branch = v () => (seq(float[n]) v0) { v0 = SequenceConstruct (x, x) }>
        y = ConcatFromSequence<axis = 0> (s)
      }""", [dict(x=NUMBERS[0, :n], c=c) for n, c in [(3, 0), (2, 1)]]),
    "queue_of_rows": ("""
      m (float[n, 6] x, int64 k) => (float[m, 6] y) {
        first = SplitToSequence<axis = 0> (x)
        all = Loop (k, , first) <body = b (int64 i, bool go, seq(float[a, 6]) s) => (bool on, seq(float[c, 6]) t) {
          on = Identity (go)  zero = Constant<value_int = 0> ()  e = SequenceAt (s, zero)
          rest = SequenceErase (s, zero)  f = Concat<axis = 0> (e, e)  u = SequenceInsert (rest, f)  t = Identity (u) }>
        y = ConcatFromSequence<axis = 0> (all)
      }""", [dict(x=NUMBERS[:n], k=k) for n, k in [(3, 4), (1, 3), (4, 0)]]),
    "in_a_loop_in_a_loop": ("""
      m (float[6] x, int64 k) => (float[m, 6] y, float[a, 6] z) {
        none = SequenceEmpty ()
        all = Loop (k, , none) <body = b (int64 i, bool go, seq(float[6]) s) => (bool on, seq(float[6]) t) {
          on = Identity (go)
          t = Loop (i, , s) <body = c (int64 j, bool go1, seq(float[6]) u) => (bool on1, seq(float[6]) v) {
            on1 = Identity (go1)  f = Cast<to = 1> (j)  e = Add (x, f)
            odd = Cast<to = 9> (j)
            v = If (odd) <then_branch = p () => (seq(float[6]) p0) { p0 = SequenceInsert (u, e) },
                          else_branch = q () => (seq(float[6]) q0) { q0 = SequenceInsert (u, x) }> }> }>
        y = ConcatFromSequence<axis = 0, new_axis = 1> (all)
        yes = Constant<value = bool {1}> ()
        z = Loop (k, yes) <body = d (int64 i, bool go) => (bool on, float[6] e0) {
          on = Identity (go)  zero = Constant<value_int = 0> ()  e0 = SequenceAt (all, zero) }>
      }""", [dict(x=NUMBERS[0], k=k) for k in (2, 4)]),
    "given_and_returned": ("""
      m (seq(float[n, 6]) s, float[k, 6] x, int64 i, float[6] w)
          => (seq(float[a, 6]) t, seq(float[b, 6]) same, int64 many, float[c, 6] y, seq(float[d, 6]) u) {
        t = SequenceInsert (s, x, i)  same = Identity (s)  many = SequenceLength (s)  y = ConcatFromSequence<axis = 0> (t)
        u = SequenceMap (t, w) <body = f (float[e, 6] f0, float[6] f1) => (float[e, 6] f2) { f2 = Mul (f0, f1) }>
      }""", [dict(s=[NUMBERS[:n] for n in rows], x=NUMBERS[1:k], i=i, w=NUMBERS[2])
             for rows, k, i in [([1, 3], 2, 1), ([], 4, 0), ([4, 0, 2], 1, -1), ([2], 3, 0)]]),
    "returned_with_known_lengths": ("""
      m (float[n, 6] x, float[3] w, int64 i) => (seq(float[a, 6]) t, seq(float[3]) u, seq(int64) none, seq(float[2]) v, seq(float[b]) q) {
        r = Reshape (x, const_shape)  t = SequenceConstruct (x, r, x)  u = SequenceConstruct (const_row, w)  none = SequenceEmpty<dtype = 7> ()
        p = Concat<axis = 0> (w, const_row)  v = SplitToSequence<axis = 0> (p, const_two)  h = SequenceConstruct (w)
        q = SequenceInsert (h, const_row, i)
      }""", [dict(x=NUMBERS[:n], w=[1, 2, 3], i=i) for n, i in [(4, 0), (1, 1)]]),
    "read_in_bodies": ("""
      m (seq(float[n]) s, bool c) => (float[a] y, seq(float[b]) t, seq(float[d]) u) {
        many = SequenceLength (s)  zero = Constant<value_floats = [0.0]> ()  none = SequenceEmpty ()
        y, t = Loop (many, , zero, none) <body = f (int64 i, bool go, float[g] sum, seq(float[h]) r)
                                                => (bool on, float[j] next, seq(float[k]) r1) {
          on = Identity (go)  e = SequenceAt (s, i)  next = Concat<axis = 0> (e, sum)  r1 = SequenceInsert (r, next) }>
        u = If (c) <then_branch = v () => (seq(float[l]) v0) { v0 = Identity (s) },
                    else_branch = w () => (seq(float[o]) w0) { w0 = SequenceErase (s) }>
      }""", [dict(s=[NUMBERS[0, :n] for n in sizes], c=c) for sizes, c in [([2, 5, 1], 1), ([3], 0), ([4, 4], 0)]]),
    "of_other_types": ("""
      m (seq(bool[n]) s, seq(float16[2]) h, seq(int64) k, int64 i) => (seq(bool[n]) s1, seq(float16[2]) h1, seq(int64) k1, int8 z) {
        s1 = SequenceErase (s, i)  a = SequenceAt (h, i)  h1 = SequenceInsert (h, a)  b = SequenceAt (k, i)
        d = Neg (b)  k1 = SequenceInsert (k, d, i)  z = Cast<to = 3> (d)
      }""", [dict(s=[[0, 1], [1], []], h=[[1, 2], [3, 4], [5, 6]], k=[7, 8, 9], i=i) for i in (0, 2)]),
    "optional": ("""
      m (optional(float[n]) o, float[2] x, bool c) => (bool has, float[a] y, optional(float[b]) p, optional(float[d]) q) {
        has = OptionalHasElement (o)
        y = If (has) <then_branch = u () => (float[e] u0) { u0 = OptionalGetElement (o) },
                      else_branch = v () => (float[f] v0) { v0 = Neg (x) }>
        p = If (c) <then_branch = t () => (optional(float[g]) t0) { t1 = Exp (x)  t0 = Optional (t1) },
                    else_branch = w () => (optional(float[h]) w0) { w0 = Optional<type = float[h]> () }>
        q = Identity (o)
      }""", [dict(o=o, x=[1, 2], c=c) for o, c in [(NUMBERS[0, :3], 1), (None, 0), ([], 0), (None, 1)]]),
    "optional_sequence": ("""
      m (optional(seq(float[n])) o, seq(float[a]) s, bool c) => (bool has, int64 many, optional(seq(float[b])) p, seq(float[d]) q) {
        has = OptionalHasElement (o)
        t = If (has) <then_branch = u () => (seq(float[e]) u0) { u0 = OptionalGetElement (o) },
                      else_branch = v () => (seq(float[f]) v0) { v0 = Identity (s) }>
        many = SequenceLength (t)
        p = If (c) <then_branch = g () => (optional(seq(float[h])) g0) { g0 = Optional (t) },
                    else_branch = w () => (optional(seq(float[i])) w0) { w0 = Optional<type = seq(float[i])> () }>
        last = Constant<value_int = -1> ()  l = SequenceAt (t, last)  q = SequenceConstruct (l, l)
      }""", [dict(o=o, s=[[1, 2], [3]], c=c) for o, c in [(None, 1), ([[4, 5, 6]], 0), (None, 0), ([[7], [], [8, 9]], 1)]]),
}
CONSTANTS = {"const_row": np.float32([7, 8, 9]), "const_shape": np.int64([-1, 6]), "const_two": np.int64(2)}


def array_of(value, kind):
    """The value of an input as numpy arrays."""
    if value is None or kind.HasField("tensor_type"):
        return None if value is None else np.asarray(value, onnx.helper.tensor_dtype_to_np_dtype(kind.tensor_type.elem_type))
    if kind.HasField("optional_type"):
        return array_of(value, kind.optional_type.elem_type)
    return [array_of(item, kind.sequence_type.elem_type) for item in value]


def arguments(model, run):
    types = {info.name: info.type for info in model.graph.input}
    return {name: array_of(value, types[name]) for name, value in run.items()}


def parse(text):
    model = onnx.parser.parse_model(HEADER + text)
    read = {name for node in model.graph.node for name in node.input}
    model.graph.initializer.extend(onnx.numpy_helper.from_array(value, name) for name, value in CONSTANTS.items()
                                   if name in read)
    return model


def assert_same(one, want):
    if want is None or isinstance(want, list):
        assert (one is None) == (want is None) and len(one or []) == len(want or [])
        for item, other in zip(one or [], want or []):
            assert_same(item, other)
        return
    one = one.numpy()
    assert one.shape == want.shape and one.dtype == want.dtype
    np.testing.assert_allclose(one, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("target, device, name", places(CASES, "c -options=-O0", ["llvm -opt=0"]))
def test_a_run_decides_about_sequences(target, device, name, tmp_path):
    text, runs = CASES[name]
    model = parse(text)
    onnx.save(model, tmp_path / "model.onnx")
    peer = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    ours = open_model(tmp_path / "model.onnx", target, device)
    for run in runs:
        given = arguments(model, run)
        for one, want in zip(ours.run(given).values(), peer.run(None, given), strict=True):
            assert_same(one, want)


# Errors that only a run detects. Each entry: the text of a model, its inputs, and the error's text.
ERRORS = {
    "position_behind_the_end": ("""
      m (float[2] x, int64 i) => (float[2] y) {
        s = SequenceConstruct (x, x)  d = SequenceAt (s, i)  y = Neg (d) }""",
      dict(x=[1, 2], i=2), r"node 'SequenceAt_1': its position is 2, in a sequence of 2 tensors"),
    "erased_before_the_first": ("""
      m (float[2] x, int64 i) => (int64 y) {
        s = SequenceConstruct (x, x)  t = SequenceErase (s, i)  y = SequenceLength (t) }""",
      dict(x=[1, 2], i=-3), r"node 'SequenceErase_1': its position is -3, in a sequence of 2 tensors"),
    "nothing_to_join": ("""
      m (float[2] x, int64 k) => (float[n] y) {
        none = SequenceEmpty ()
        s = Loop (k, , none) <body = b (int64 i, bool go, seq(float[2]) t) => (bool on, seq(float[2]) u) {
          on = Identity (go)  u = SequenceInsert (t, x) }>
        y = ConcatFromSequence<axis = 0> (s) }""",
      dict(x=[1, 2], k=0), r"node 'ConcatFromSequence_2': its sequence is empty"),
    "tensors_that_do_not_join": ("""
      m (float[n] x, float[m] w, int64 i) => (float[a, b] y) {
        s = SequenceConstruct (x)  t = SequenceInsert (s, w, i)
        y = ConcatFromSequence<axis = 0, new_axis = 1> (t) }""",
      dict(x=[1, 2], w=[3], i=1), r"extent 1 of tensor 1 of its sequence is 1, and that of the first one 2"),
    "split_that_does_not_add_up": ("""
      m (float[4] x, int64[k] sizes) => (int64 y) {
        s = SplitToSequence<axis = 0> (x, sizes)  y = SequenceLength (s) }""",
      dict(x=[1, 2, 3, 4], sizes=[1, 2]), r"node 'SplitToSequence_0': its split does not add up to 4"),
    "mapped_together_with_a_longer_one": ("""
      m (float[n] x, float[m] w) => (float[k] y) {
        s = SplitToSequence<axis = 0> (x)  t = SplitToSequence<axis = 0> (w)
        p = SequenceMap (s, t) <body = b (float[1] a, float[1] b0) => (float[1] c) { c = Add (a, b0) }>
        y = ConcatFromSequence<axis = 0> (p) }""",
      dict(x=[1, 2], w=[1, 2, 3]), r"node 'SequenceMap_2' \(SequenceMap\): its sequences differ in length"),
    "mapped_together_with_a_shorter_one": ("""
      m (float[n] x, float w, bool c) => (float[k] y) {
        s = SplitToSequence<axis = 0, keepdims = 0> (x)
        p = If (c) <then_branch = t () => (seq(float) t0) {
                      one = SequenceConstruct (w)
                      t0 = SequenceMap (s, one) <body = b (float a, float b0) => (float d) { d = Add (a, b0) }> },
                    else_branch = e () => (seq(float) e0) { e0 = Identity (s) }>
        y = ConcatFromSequence<axis = 0, new_axis = 1> (p) }""",
      dict(x=[1, 2], w=3, c=True), r"\(SequenceMap\): its sequences differ in length"),
    "optional_without_a_value": ("""
      m (float[2] x, bool c) => (float[2] y) {
        o = If (c) <then_branch = t () => (optional(float[2]) t0) { t0 = Optional (x) },
                    else_branch = e () => (optional(float[2]) e0) { e0 = Optional<type = float[2]> () }>
        d = OptionalGetElement (o)  y = Neg (d) }""",
      dict(x=[1, 2], c=False), r"node 'OptionalGetElement_1': its optional has no value"),
    "branch_that_takes_the_value_of_none": ("""
      m (float[2] x, bool c) => (float[2] y) {
        o = Optional<type = float[2]> ()
        y = If (c) <then_branch = t () => (float[2] t0) { t0 = OptionalGetElement (o) },
                    else_branch = e () => (float[2] e0) { e0 = Neg (x) }> }""",
      dict(x=[1, 2], c=True), r"node 'If_1/OptionalGetElement_0' \(OptionalGetElement\): its optional has no value"),
    "branch_that_takes_a_tensor_of_none": ("""
      m (float[2] x, bool c) => (float[2] y) {
        s = SequenceEmpty ()  first = Constant<value_int = 0> ()
        y = If (c) <then_branch = t () => (float[2] t0) { t0 = SequenceAt (s, first) },
                    else_branch = e () => (float[2] e0) { e0 = Neg (x) }> }""",
      dict(x=[1, 2], c=True), r"node 'If_2/SequenceAt_0' \(SequenceAt\): its position is 0, in a sequence of 0 tensors"),
}

# Errors of every run, reported when the model is compiled.
REFUSED = {
    "tensors_of_two_types": ("""
      m (float[2] x, int64 i) => (float[2] y) {
        s = SequenceConstruct (x)  t = SequenceInsert (s, i, i)  y = SequenceAt (t, i) }""",
      r"node 'SequenceInsert_1' \(SequenceInsert\): the tensors of its sequence differ in type: float32 and int64"),
    "tensors_of_two_ranks": ("""
      m (float[2] x, float[2, 2] w, int64 i) => (float[2] y) {
        s = SequenceConstruct (x, w)  y = SequenceAt (s, i) }""",
      r"node 'SequenceAt_1' \(SequenceAt\): the tensors of its sequence may differ in their number of dimensions"),
    "branches_with_a_tensor_and_a_sequence": ("""
      m (float[2] x, bool c) => (float[2] y) {
        y = If (c) <then_branch = t () => (float[2] t0) { t0 = Neg (x) },
                    else_branch = e () => (seq(float[2]) e0) { e0 = SequenceConstruct (x) }> }""",
      r"node 'If_0' \(If\): it gives a tensor in one case and a sequence in another"),
    "map_as_input": ("m (map(int64, float) x) => (map(int64, float) y) { y = Identity (x) }", r"input 'x' is a map"),
    "sequence_of_sequences": ("m (seq(seq(float)) x) => (seq(seq(float)) y) { y = Identity (x) }", r"input 'x' is a list of lists"),
    "sequence_of_texts": ("m (seq(string) x) => (seq(string) y) { y = Identity (x) }", r"input 'x' is not a list of tensors"),
}


@pytest.mark.parametrize("device", [device for _, device, _ in places([0, 1], "c", ["llvm"])][1::2])
@pytest.mark.parametrize("name", ERRORS)
def test_what_a_run_cannot_do_is_an_error_that_names_the_node(name, device, tmp_path):
    text, run, words = ERRORS[name]
    model = parse(text)
    onnx.save(model, tmp_path / "model.onnx")
    ours = open_model(tmp_path / "model.onnx", "c" if device == "cpu" else device, device)
    with pytest.raises((IndexError, ValueError), match=words):
        ours.run(arguments(model, run))


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_run_can_do_is_refused(name, tmp_path):
    text, words = REFUSED[name]
    onnx.save(parse(text), tmp_path / "model.onnx")
    with pytest.raises((NotImplementedError, ValueError), match=words):
        backplane.compile(tmp_path / "model.onnx", "c")


LISTS = """
  m (seq(float[n, 2]) s, optional(float[3]) o, float[2] x) => (seq(float[n, 2]) t, optional(float[3]) p, float[2] y) {
    t = Identity (s)  p = Identity (o)  y = Neg (x) }"""
ROWS = np.arange(6, dtype=np.float32).reshape(3, 2)


@pytest.fixture(name="lists")
def lists_fixture(tmp_path):
    onnx.save(parse(LISTS), tmp_path / "model.onnx")
    return open_model(tmp_path / "model.onnx", "c", "cpu")


def test_lists_are_described(lists):
    assert [info.kind for info in lists.inputs] == ["sequence", "optional", "tensor"]
    assert lists.inputs[0] == backplane.TensorInfo("s", "float32", (-1, 2), "sequence")
    assert lists.outputs[1] == backplane.TensorInfo("p", "float32", (3,), "optional")
    assert "s: sequence of float32 (-1, 2)" in repr(lists)


@pytest.mark.parametrize("given, error, words", [
    (dict(s=ROWS, o=None), TypeError, "'s' is of kind sequence: it takes a list of arrays, not a value of type ndarray"),
    (dict(s=None, o=None), TypeError, "'s' is of kind sequence"),
    (dict(s=[ROWS, "text"], o=None), TypeError, "'s' takes an array or a tensor, not a value of type str"),
    (dict(s=[ROWS, ROWS[0]], o=None), ValueError, "tensor 1: input 's' is float32 of 2 dimensions, and the value given is float32 of 1"),
    (dict(s=[ROWS.astype(np.int8)], o=None), ValueError, "tensor 0: input 's' is float32.*convert it to float32"),
    (dict(s=[ROWS.T], o=None), ValueError, "dimension 1 of input 's' is 2, and that of the value given 3"),
    (dict(s=[], o=[ROWS]), TypeError, "'o' takes an array or a tensor, not a value of type list"),
    (dict(s=[], o=ROWS[0]), ValueError, "dimension 0 of input 'o' is 3"),
    (dict(s=[], o=None, x=None), TypeError, "'x' takes an array or a tensor"),
])
def test_a_wrong_list_is_an_error(lists, given, error, words):
    with pytest.raises(error, match=words):
        lists.run({"x": ROWS[0], **given})
    assert lists.run(s=[ROWS], o=ROWS[:, 0], x=ROWS[0])["t"][0].shape == (3, 2)  # the model still works


def test_outputs_are_lists_of_their_own(lists):
    first = lists.run(s=(ROWS[::2], ROWS[:0]), o=ROWS[:, 1], x=ROWS[0])
    second = lists.run(s=[], o=None, x=ROWS[1])
    assert [tensor.shape for tensor in first["t"]] == [(2, 2), (0, 2)] and second["t"] == [] and second["p"] is None
    np.testing.assert_array_equal(first["t"][0].numpy(), ROWS[::2])
    np.testing.assert_array_equal(first["p"].numpy(), ROWS[:, 1])
    t, p = lists.run(["t", "p"], {"s": first["t"], "o": first["p"], "x": ROWS[0]})
    np.testing.assert_array_equal(t[0], ROWS[::2])
    np.testing.assert_array_equal(p, ROWS[:, 1])


def test_lists_survive_a_library(lists, tmp_path):
    module = backplane.compile(tmp_path / "model.onnx", "c")
    module.export_library(tmp_path / "model.so")
    stored = backplane.Model(tmp_path / "model.so", "cpu")
    assert stored.inputs == lists.inputs and stored.outputs == lists.outputs
    assert len(stored.run(s=[ROWS] * 3, o=None, x=ROWS[0])["t"]) == 3


def test_lists_need_one_target(lists, tmp_path):
    assert lists
    with pytest.raises(NotImplementedError, match="input 's' is a sequence or an optional, which needs one --target"):
        backplane.compile(tmp_path / "model.onnx", ["c", "opencl"])


def test_a_shape_gives_the_tensors_of_an_input_their_rank(tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(parse("m (seq(float[]) s, int64 i) => (float[n] y) { y = SequenceAt (s, i) }"), path)
    with pytest.raises(NotImplementedError, match="may differ in their number of dimensions.*--shape gives"):
        backplane.Model(path, "cpu")
    with pytest.raises(ValueError, match="dimension 0 of input 's' is 2"):
        backplane.Model(path, "cpu", shapes={"s": (2,)}).run(s=[ROWS[:, 0]], i=np.int64(0))
    model = backplane.Model(path, "cpu", shapes={"s": (2,)})
    np.testing.assert_array_equal(model.run(s=list(ROWS), i=np.int64(-1))["y"].numpy(), ROWS[-1])


def test_code_specialised_for_a_tensor_gives_lists(tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(parse("""m (float[n, 2] x) => (seq(float[1, 2]) s, seq(float[n, 2]) t) {
      y = Neg (x)  s = SplitToSequence<axis = 0> (y)  t = SequenceConstruct (x, y) }"""), path)
    model = backplane.Model(path, "cpu")
    model.specialize(path, {"x": (3, 2)})
    for rows in (3, 2, 3):
        outputs = model.run(x=ROWS[:rows])
        assert len(outputs["s"]) == rows
        np.testing.assert_array_equal(outputs["t"][1].numpy(), -ROWS[:rows])


def test_lists_are_not_specialised(lists, tmp_path):
    with pytest.raises(NotImplementedError, match="input 's' is a sequence or an optional; a model is specialised for tensors"):
        lists.specialize(tmp_path / "model.onnx", {"x": (2,)})
