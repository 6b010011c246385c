# SPDX-License-Identifier: Apache-2.0
"""Targets, tensor expressions and schedules."""

import array
import gc
import operator
import os
import subprocess
import sys

import numpy as np
import pytest

import backplane
from backplane import Target, errors, te

M, N, K = 24, 40, 16


def matmul():
    program = te.Program()
    a = program.placeholder("a", (M, K))
    b = program.placeholder("b", (K, N))
    k = program.reduce_axis("k", K)
    c = program.compute("c", (M, N), lambda i, j: te.sum(a[i, k] * b[k, j], [k]))
    return program, a, b, c


def operands():
    random = np.random.default_rng(5)
    x = random.random((M, K), "float32")
    y = random.random((K, N), "float32")
    return x, y, np.zeros((M, N), "float32")


def one_of_each_kind():
    found = {}
    for device in backplane.devices():
        found.setdefault(device.device_type, device)
    return list(found.values())


def run_on(device, compiled, *arrays):
    tensors = [backplane.tensor(array, device) for array in arrays]
    compiled(*tensors)
    device.synchronize()
    return [tensor.numpy() for tensor in tensors]


def test_target_has_its_attributes():
    target = Target("c -mcpu=x86-64-v2 -num_cores=3")
    assert target.kind == "c"
    assert target.device_type == backplane.device("cpu").device_type
    assert target.attribute("num_cores") == 3
    assert Target(str(target)) == target and hash(Target(str(target))) == hash(target)
    assert Target(target.to_json()) == target
    assert not target.has_thread_axes
    with pytest.raises(errors.NotFoundError, match="quantum"):
        Target("quantum")
    with pytest.raises(errors.BackplaneError, match="num_cores"):
        target.attribute("num_coers")


def test_target_fits_the_device():
    for device in one_of_each_kind():
        target = Target.from_device(device)
        assert target.device_type == device.device_type
        assert target.kind in backplane.target_kinds()


def test_interpreter_defines_the_result():
    program, a, b, c = matmul()
    lowered = program.lower("matmul", [a, b, c])
    lowered.verify()
    x, y, z = operands()
    for arguments in ((x, y, z), [x, y, z]):
        z[:] = 0
        lowered.interpret("matmul", arguments)
        assert np.allclose(z, x @ y, rtol=1e-5)
    again = backplane.IrModule(str(lowered))
    assert str(again) == str(lowered)
    for target in ("c", Target("c")):
        again.build(target)["matmul"](x, y, z)
        assert np.allclose(z, x @ y, rtol=1e-5)
        z[:] = 0
    with pytest.raises(errors.FormatError):
        backplane.IrModule("func (")


def test_every_device_computes_a_product():
    for device in one_of_each_kind():
        program, a, b, c = matmul()
        target = Target.from_device(device)
        program.schedule(c, target)
        x, y, z = operands()
        result = run_on(device, program.build("matmul", [a, b, c], target), x, y, z)[2]
        assert np.allclose(result, x @ y, rtol=1e-5), device


def test_several_kernels_with_a_buffer_between():
    for device in one_of_each_kind():
        program = te.Program()
        x = program.placeholder("x", (M, K))
        k = program.reduce_axis("k", K)
        total = program.compute("total", (M,), lambda i: te.sum(x[i, k], [k]))
        share = program.compute("share", (M, K), lambda i, j: x[i, j] / total[i])
        target = Target.from_device(device)
        program.schedule(share, target)
        values = operands()[0]
        result = run_on(device, program.build("share", [x, share], target), values,
                        np.zeros_like(values))[1]
        assert np.allclose(result, values / values.sum(axis=1, keepdims=True), rtol=1e-5), device


def test_code_runs_on_the_device_of_its_tensors():
    values = operands()[0]
    expected = values / values.sum(axis=1, keepdims=True)
    for first in one_of_each_kind():
        program = te.Program()
        x = program.placeholder("x", (M, K))
        k = program.reduce_axis("k", K)
        total = program.compute("total", (M,), lambda i: te.sum(x[i, k], [k]))
        share = program.compute("share", (M, K), lambda i, j: x[i, j] / total[i])
        target = Target.from_device(first)
        program.schedule(share, target)
        compiled = program.build("share", [x, share], target)
        same_kind = [each for each in backplane.devices() if each.device_type == first.device_type]
        for device in [*same_kind, first]:
            result = run_on(device, compiled, values, np.zeros_like(values))[1]
            assert np.allclose(result, expected, rtol=1e-5), device


def compute_on_another_machine():
    program, a, b, c = matmul()
    target = Target.from_device(backplane.device("opencl:0"))
    program.schedule(c, target)
    x, y, z = operands()
    compiled = program.build("matmul", [a, b, c], target)
    result = run_on(backplane.device("remote:me@there/opencl:0"), compiled, x, y, z)[2]
    assert np.allclose(result, x @ y, rtol=1e-5)


def test_code_runs_on_devices_of_another_machine():
    if "BACKPLANE_WORKER_PROGRAM" not in os.environ or "opencl:0" not in map(str, backplane.devices()):
        pytest.skip("no program backplane-worker, which stands in for another machine, or no device of OpenCL")
    environment = {**os.environ, "BACKPLANE_REMOTE_SHELL": "sh -c 'eval \"$1\"'",
                   "BACKPLANE_REMOTE_PROGRAM": os.environ["BACKPLANE_WORKER_PROGRAM"]}
    # Run in a separate process: a remote machine stays among the devices once it was contacted.
    subprocess.run([sys.executable, __file__], env=environment, check=True)


def test_another_device_is_current_only_while_its_code_runs():
    seconds = [device for device in backplane.devices()
               if device.device_id == 1 and Target.from_device(device).has_thread_axes]
    if not seconds:
        pytest.skip("no kind has two devices")
    for second in seconds:
        program = te.Program()
        x = program.placeholder("x", (64,))
        y = program.compute("y", (64,), lambda i: x[i] + 1)
        target = Target.from_device(second)
        program.schedule(y, target)
        compiled = program.build("inc", [x, y], target)
        first = backplane.Device(second.device_type, 0)
        here = [backplane.tensor(np.zeros(64, "float32"), first) for _ in range(2)]
        there = [backplane.tensor(np.zeros(64, "float32"), second) for _ in range(2)]
        compiled(*there)
        with pytest.raises(ValueError, match="expected a tensor on"):
            compiled(there[0], here[1])
        _, ([(name, _, launch)], _) = program.lower("inc", [x, y], target).split_kernels("inc")
        compiled.module[name](*here, *launch)
        for device, tensors in ((first, here), (second, there)):
            device.synchronize()
            assert np.array_equal(tensors[1].numpy(), np.ones(64)), device


@pytest.mark.parametrize("tail", ["guard", "overlap", "peel", "balance"])
def test_schedule_by_hand_does_not_change_the_result(tail):
    program, a, b, c = matmul()
    bias = program.compute("bias", (M, N), lambda i, j: c[i, j] + 1)
    stage, product = bias.stage, c.stage
    outer, inner = stage.split(stage.axes[0], 5, tail)
    assert (outer.extent, inner.extent) == (5, 5)
    columns, lanes = stage.split(stage.axes[1], 8)
    stage.reorder(outer, columns, inner, lanes)
    stage.parallel(outer)
    stage.vectorize(lanes)
    product.compute_at(stage, columns)
    product.unroll(product.axes[0])
    x, y, z = operands()
    program.build("biased", [a, b, bias], "c")(x, y, z)
    assert np.allclose(z, x @ y + 1, rtol=1e-5)


def test_caches_and_accumulators():
    program, a, b, c = matmul()
    panel = program.cache_read(b, "global", [c])
    outer, _ = c.stage.split(c.stage.reduce_axes[0], 4)
    partial = program.rfactor(c, outer)
    partial.stage.set_scope("global")
    assert panel.shape == (K, N) and partial.shape == (M, N, 4)
    x, y, z = operands()
    program.build("matmul", [a, b, c], "c")(x, y, z)
    assert np.allclose(z, x @ y, rtol=1e-5)


def test_operators_mean_what_numpys_do():
    program = te.Program()
    x = program.placeholder("x", (8,))
    n = program.placeholder("n", (8,), "int32")
    bodies = {
        "float32": lambda i: te.maximum(te.exp(-x[i]) / 2 + 1 - x[i] * x[i], 0.25),
        "int32": lambda i: (n[i] // 3) * (n[i] % 3) + ((n[i] & 5) | (n[i] ^ 2)) - (n[i] >> 1),
    }
    floats = np.linspace(-2, 2, 8, dtype="float32")
    integers = np.arange(-4, 4, dtype="int32")
    expected = {
        "float32": np.maximum(np.exp(-floats) / 2 + 1 - floats * floats, 0.25),
        "int32": (integers // 3) * (integers % 3) + ((integers & 5) | (integers ^ 2)) - (integers >> 1),
    }
    for dtype, body in bodies.items():
        y = program.compute("y", (8,), body)
        result = np.zeros(8, dtype)
        program.lower("f", [x, n, y]).interpret("f", (floats, integers, result))
        assert np.allclose(result, expected[dtype])


def test_padding_is_a_select():
    program = te.Program()
    x = program.placeholder("x", (4,))
    zero = program.constant(0, "float32")
    padded = program.compute(
        "padded", (6,), lambda i: te.select((i >= 1) & (i < 5), x[i - 1], zero))
    same = program.compute("same", (6,), lambda i: x.read_if((i >= 1) & ~(i >= 5), i - 1))
    values, first, second = np.arange(1, 5, dtype="float32"), np.ones(6, "f4"), np.ones(6, "f4")
    program.build("pad", [x, padded, same], "c")(values, first, second)
    assert first.tolist() == second.tolist() == [0, 1, 2, 3, 4, 0]


def test_mistakes_are_errors():
    program, a, b, c = matmul()
    i = program.reduce_axis("i", 3)
    with pytest.raises(TypeError, match="float32 and int64"):
        _ = a[0, 0] + i
    with pytest.raises(TypeError, match="//"):
        _ = i / 2
    with pytest.raises(TypeError, match="select"):
        _ = 1 if i < 2 else 0
    with pytest.raises(IndexError, match="1 indices"):
        _ = a[0]
    with pytest.raises(ValueError, match="another program"):
        te.Program().lower("f", [a])
    with pytest.raises(ValueError, match="guard"):
        c.stage.split(c.stage.axes[0], 4, "cut")
    with pytest.raises(errors.BackplaneError):
        c.stage.split(c.stage.axes[0], 0)
    with pytest.raises(errors.BackplaneError):
        _ = a.stage
    for target in ("c", "opencl"):
        with pytest.raises(errors.InvalidValueError, match="tensor a is a placeholder and has no schedule"):
            program.schedule(a, target)
    with pytest.raises(TypeError, match="no expression"):
        program.compute("d", (2,), lambda i: 1.0)


def test_every_device_refuses_arguments_of_another_form():
    x, y, z = operands()
    mistakes = [
        ((x, y), TypeError, r"matmul: expected 3 arguments, got 2$"),
        ((x, y, z, z), TypeError, r"matmul: expected 3 arguments, got 4$"),
        ((x, y, z.astype("float64")), TypeError,
         r"matmul: argument 2 \(c\): expected a tensor of float32, got float64$"),
        ((x, y[0], z), ValueError, r"matmul: argument 1 \(b\): expected 2 dimensions, got 1$"),
        ((x, y, z[:, : N // 2]), ValueError,
         rf"matmul: argument 2 \(c\): dimension 1: expected extent {N}, got {N // 2}$"),
        ((x[:1], y, z), ValueError,
         rf"matmul: argument 0 \(a\): dimension 0: expected extent {M}, got 1$"),
    ]
    for device in one_of_each_kind():
        program, a, b, c = matmul()
        target = Target.from_device(device)
        program.schedule(c, target)
        compiled = program.build("matmul", [a, b, c], target)
        for arrays, kind, message in mistakes:
            with pytest.raises(kind, match=message) as caught:
                run_on(device, compiled, *arrays)
            assert isinstance(caught.value, errors.BackplaneError), device
        tensors = [backplane.tensor(array, device) for array in (x, y)]
        with pytest.raises(errors.InvalidTypeError, match=r"\(c\): expected a tensor, got"):
            compiled(*tensors, 3)


def test_messages_show_names_with_percent_signs():
    targets = [(device, Target.from_device(device)) for device in one_of_each_kind()]
    targets += [(backplane.device("cpu"), Target(kind)) for kind in ("c", "llvm") if kind in backplane.target_kinds()]
    for device, target in targets:
        program = te.Program()
        a = program.placeholder("5%s%n%", (4,))
        b = program.compute("b", (4,), lambda i, a=a: a[i] * 2)
        program.schedule(b, target)
        double = program.build("double", [a, b], target)
        for wrong, message in ((np.zeros(5, "float32"), "dimension 0: expected extent 4, got 5"),
                               (np.zeros(4), "expected a tensor of float32, got float64")):
            with pytest.raises(errors.BackplaneError, match=rf"double: argument 0 \(5%s%n%\): {message}"):
                run_on(device, double, wrong, np.zeros(4, "float32"))


def test_the_wrong_argument_is_told_beside_another_that_is_a_buffer():
    program = te.Program()
    a = program.placeholder("a", (4,))
    double = program.build("double", [a, program.compute("b", (4,), lambda i: a[i] * 2)], "c")
    given, result = array.array("f", [1, 2, 3, 4]), np.zeros(4, "float32")
    double(given, result)
    assert result.tolist() == [2, 4, 6, 8]
    for wrong, message in ((np.zeros(4), " of float32, got float64"), (None, ", got a value of type NoneType")):
        with pytest.raises(errors.InvalidTypeError, match=rf"argument 1 \(b\): expected a tensor{message}$"):
            double(given, wrong)


def test_every_device_refuses_tensors_of_other_devices():
    x, y, z = operands()
    for device in one_of_each_kind():
        program, a, b, c = matmul()
        target = Target.from_device(device)
        program.schedule(c, target)
        compiled = program.build("matmul", [a, b, c], target)
        there = [backplane.tensor(array, device) for array in (x, y)]
        for value, name in ((None, "NoneType"), ([1.0], "list"), (3, "int")):
            with pytest.raises(errors.InvalidTypeError, match=rf"\(c\): expected a tensor, got a value of "
                                                              f"type {name}$"):
                compiled(*there, value)
        for other in one_of_each_kind():
            if other.device_type != device.device_type:
                with pytest.raises(errors.InvalidValueError, match=rf"argument 2 \(c\): expected a tensor "
                                   f"on a device for {target.kind}, got one on {other}; use to_device"):
                    compiled(*there, backplane.tensor(z, other))


def read_in(extent, index, size=8):
    program = te.Program()
    b = program.placeholder("b", (size,))
    c = program.compute("c", (extent,), lambda i: index(b, i))
    return program.lower("f", [b, c])


@pytest.mark.parametrize("extent, index, range_", [
    (8, lambda b, i: b[i + 1], "from 1 to 8"),
    (16, lambda b, i: b[i], "from 0 to 15"),
    (8, lambda b, i: b[-1], "from -1 to -1"),
    (8, lambda b, i: b[i * 2 - i * 2 + 8], "from 8 to 8"),
    (9, lambda b, i: b[7 - i], "from -1 to 7"),
    (17, lambda b, i: b[i // 2], "from 0 to 8"),
    (18, lambda b, i: b[1 + i // 3 + 2], "from 3 to 8"),
    (8, lambda b, i: b[i % 4 + 8], "from 8 to 11"),
    (8, lambda b, i: te.select(b[i + 1] > 0, b[i], b[0]), "from 1 to 8"),
])
def test_reads_out_of_bounds_are_errors(extent, index, range_):
    with pytest.raises(IndexError, match=f"tensor c reads b out of bounds: index 0 goes {range_},"):
        read_in(extent, index)


def test_reads_over_a_reduction_out_of_bounds_are_errors():
    program = te.Program()
    a = program.placeholder("a", (4, 8))
    k = program.reduce_axis("k", 3)
    c = program.compute("c", (4, 7), lambda i, j: te.sum(a[i, j + k], [k]))
    with pytest.raises(IndexError, match="index 1 goes from 0 to 8, and the extent is 8"):
        program.lower("f", [a, c])


@pytest.mark.parametrize("extent, index", [
    (8, lambda b, i: b[7 - i]),
    (16, lambda b, i: b[i // 2]),
    (16, lambda b, i: b[i % 8]),
    (100, lambda b, i: b[i - i // 8 * 8]),
    (16, lambda b, i: te.select(i < 8, b[i], b[0])),
    (16, lambda b, i: b.read_if(i < 8, i)),
    (8, lambda b, i: b[b[i].astype("int64")]),
    (0, lambda b, i: b[i + 100]),
])
def test_reads_that_may_be_inside_are_compiled(extent, index):
    read_in(extent, index).verify()


def test_values_of_another_sort_are_errors():
    program, a, _, c = matmul()
    stage = c.stage
    calls = [lambda: stage.split(0, 4), lambda: stage.split(stage.axes, 4), lambda: stage.fuse(0, 1),
             lambda: stage.reorder(0, 1), lambda: stage.vectorize("i"), lambda: stage.bind(0, "x"),
             lambda: stage.compute_at(c, stage.axes[0]), lambda: te.exp(a), lambda: te.exp(3),
             lambda: te.sum(a, []), lambda: te.sum(a[0, 0], program.reduce_axis("q", 8)),
             lambda: te.select(True, a[0, 0], 0), lambda: te.minimum(3, a[0, 0]),
             lambda: program.lower("f", [3]), lambda: program.schedule(3, "c"),
             lambda: program.cache_write("c", "local"), lambda: a[0, 1.5], lambda: a[0, 1:2]]
    for call in calls:
        with pytest.raises(errors.InvalidTypeError, match="expected a|an index is"):
            call()
    for dtype in ("float32", "bfloat16"):
        with pytest.raises(errors.InvalidTypeError, match=f"~ is for integers and bools, not {dtype}"):
            operator.invert(program.constant(1, dtype))
    with pytest.raises(TypeError, match="not iterable"):
        list(a)
    for dtype, number in (("int8", 300), ("int8", -129), ("uint8", -1), ("uint64", 2**64),
                          ("int64", 2**63), ("bool", 2)):
        with pytest.raises(OverflowError):
            program.constant(number, dtype)
    for dtype, number in (("int8", -128), ("uint8", 255), ("uint64", 2**64 - 1), ("bool", True)):
        assert program.constant(number, dtype).dtype == dtype


def test_mistakes_are_errors_where_they_are_written():
    program, a, b, _ = matmul()
    n, k = program.placeholder("n", (8,), "int32"), program.reduce_axis("k", K)
    mistakes = [
        (lambda: te.exp(n[0]), "exp takes floats, not int32"),
        (lambda: n[0] + 1.5, "1.5 is no value of int32; astype"),
        (lambda: a[0, 0] + 1j, "expected a value of type te.Expr"),
        (lambda: a[0, 0] + b, "reads an element of it, as"),
        (lambda: np.zeros(3) + a[0, 0], r"array\(.*no value of float32"),
        (lambda: program.constant(float("inf"), "int8"), "inf is no value of int8"),
        (lambda: a[0, 0] // 2, "floordiv takes an integer, not float32"),
        (lambda: a[0, 0] & 1, "bit_and takes an integer, not float32"),
        (lambda: -(n[0] > 1), "sub takes a number, not bool"),
        (lambda: te.select(n[0], a[0, 0], 0), "select takes a condition of bool, not int32"),
        (lambda: a[a[0, 0], 0], "index 0 of tensor a is of float32"),
        (lambda: a[0, 0].astype("complex64"), "numbers, not complex64"),
        (lambda: te.intrinsic("pow", a[0, 0]), "pow takes 2 arguments, not 1"),
        (lambda: te.intrinsic("exponent", a[0, 0]), "no intrinsic 'exponent'"),
        (lambda: te.sum(a[0, k] > 0, [k]), "a reduction by sum takes a number, not bool"),
        (lambda: program.placeholder("x", (2,), "float31"), "tensor x has elements of float31"),
        (lambda: program.placeholder("x", (2,), "float32x4"), "tensor x has elements of float32x4"),
    ]
    for mistake, message in mistakes:
        with pytest.raises(errors.InvalidTypeError, match=message):
            mistake()
    given = []
    program.compute("first", (M,), lambda i: given.append(i) or a[i, 0])
    for body, message in [
            (lambda i: a[i, k], "tensor c uses reduction axis k outside of a reduction over it"),
            (lambda i: te.sum(a[i, k], []), "uses reduction axis k outside"),
            (lambda i: 1 + te.sum(a[i, k], [k]), "a reduction inside an expression"),
            (lambda i: te.sum(a[i, 0], [i]), "axis 0 of a reduction is no reduction axis"),
            (lambda i: a[given[0], 0], "uses axis i0 of another tensor")]:
        with pytest.raises(errors.InvalidValueError, match=message):
            program.compute("c", (M,), body)


def test_operators_with_the_number_on_either_side():
    program = te.Program()
    x, n = program.placeholder("x", (4,)), program.placeholder("n", (4,), "int32")
    floats, integers = np.array([-2, -1, 1, 2], "float32"), np.array([0, 1, 2, 3], "int32")
    for value, given, body in [
            (abs(floats) ** 2 + 2 ** +floats, floats, lambda i: abs(x[i]) ** 2 + 2 ** +x[i]),
            ((1 << integers) + (64 >> integers), integers, lambda i: (1 << n[i]) + (64 >> n[i])),
            ((6 & integers) + (8 | integers) + (5 ^ integers), integers,
             lambda i: (6 & n[i]) + (8 | n[i]) + (5 ^ n[i]))]:
        y = program.compute("y", (4,), body)
        result = np.zeros_like(given)
        program.lower("f", [x if given is floats else n, y]).interpret("f", (given, result))
        assert np.allclose(result, value)


def test_types_and_numbers_of_numpy():
    program = te.Program()
    x = program.placeholder("x", (4,), np.uint8)
    y = program.compute("y", (4,), lambda i: (~x[i]).astype(np.float32) * 2)
    z = program.compute("z", (4,), lambda i: np.float32(3) + y[i] - np.float64(1))
    result = np.zeros(4, "float32")
    given = np.array([0, 1, 254, 255], "uint8")
    program.lower("f", [x, z]).interpret("f", (given, result))
    assert result.tolist() == [512, 510, 4, 2]


def test_what_a_notebook_shows_of_a_program():
    program, a, b, c = matmul()
    assert repr(a) == f"te.Tensor(({M}, {K}), float32)" and repr(c.stage.axes[0]) == f"te.Axis({M})"
    assert repr(c.stage) == f"te.Stage([te.Axis({M}), te.Axis({N})], [te.Axis({K})])"
    assert repr(program.build("matmul", [a, b, c], "c")).startswith("te.Compiled(matmul(a: float32")


def test_exception_of_a_body_comes_out_unchanged():
    program = te.Program()
    failure = KeyError("mine")

    def fail(_):
        raise failure

    with pytest.raises(KeyError) as caught:
        program.compute("y", (2,), fail)
    assert caught.value is failure


def test_handles_keep_their_program():
    c = matmul()[3]
    gc.collect()
    assert c.shape == (M, N) and c.stage.axes[0].extent == M


if __name__ == "__main__":
    compute_on_another_machine()
