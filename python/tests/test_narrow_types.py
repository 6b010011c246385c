# SPDX-License-Identifier: Apache-2.0
"""ONNX's own node cases with element types that numpy lacks: bfloat16, floats of 8 and 4 bits, integers of 4 and 2
bits; and casts of numbers that are hard to round. The test fills and reads tensors through DLPack. By default a
third of ONNX's cases runs, on the CPU with target c; with BP_TEST_LONG all cases run on every device."""

import ctypes
import os
import re
import sys
import zlib

import numpy as np
import pytest

import backplane

from conftest import SOURCE

onnx = pytest.importorskip("onnx")
pytest.importorskip("ml_dtypes")
sys.path.append(str(SOURCE / "tests/graph"))
from onnx_node_cases import all_cases  # pylint: disable=wrong-import-position

C = "c -options=-O0"  # optimizing takes most of the time
DEVICES = {C: "cpu", "llvm": "cpu", "opencl": "opencl", "vulkan": "vulkan"}
TARGETS = [target for target, kind in DEVICES.items()
           if target == C or os.environ.get("BP_TEST_LONG")
           and kind in {str(device).split(":")[0] for device in backplane.devices()}]
OPERATORS = ("Cast CastLike QuantizeLinear DequantizeLinear Celu Compress Einsum OneHot Range ReverseSequence "
             "Attention").split()
FLOAT64 = 11  # Vulkan's target has none
NAMES = {16: "bfloat16", 17: "float8_e4m3fn", 18: "float8_e4m3fnuz", 19: "float8_e5m2",
         20: "float8_e5m2fnuz", 21: "uint4", 22: "int4", 23: "float4_e2m1fn", 25: "uint2", 26: "int2"}


def node_cases():
    for case in all_cases():
        graph = case.model.graph
        types = {info.type.tensor_type.elem_type for info in [*graph.input, *graph.output]}
        is_run = os.environ.get("BP_TEST_LONG") or zlib.crc32(case.name.encode()) % 3 == 0
        if (len(graph.node) == 1 and graph.node[0].op_type in OPERATORS and types & set(NAMES) and is_run
                and not case.name.endswith("_expanded")):
            yield case


def proto(value):
    """Return a value of a case in ONNX's storage form."""
    return value if isinstance(value, onnx.TensorProto) else onnx.numpy_helper.from_array(np.asarray(value))


def memory(tensor):
    """Return the capsule that owns the memory, and the memory's address."""
    capsule = tensor.__dlpack__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return capsule, ctypes.c_void_p.from_address(pointer(capsule, b"dltensor")).value


def given(value):
    """Return a TensorProto's value: a numpy array, or a Backplane tensor if numpy lacks the type."""
    if value.data_type not in NAMES:
        return onnx.numpy_helper.to_array(value)
    tensor = backplane.empty(tuple(value.dims), NAMES[value.data_type])
    array = onnx.numpy_helper.to_array(value)
    data = value.raw_data if value.HasField("raw_data") else onnx.numpy_helper.from_array(array).raw_data
    _capsule, address = memory(tensor)
    ctypes.memmove(address, data, len(data))
    return tensor


def as_array(tensor, like):
    """Return the value of a tensor. The result has the type of `like`."""
    if like.data_type not in NAMES:
        return tensor.numpy()
    assert tensor.dtype == NAMES[like.data_type]
    tensor = tensor.to_device("cpu")
    bits = np.prod(tensor.shape, dtype=int) * int(re.search(r"\d+", tensor.dtype).group())
    _capsule, address = memory(tensor)
    copy = onnx.TensorProto(data_type=like.data_type, dims=tensor.shape,
                            raw_data=ctypes.string_at(address, (int(bits) + 7) // 8))
    return onnx.numpy_helper.to_array(copy)


def constants(model, values):
    """Return the model with its small inputs of integers and booleans as initializers."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    del result.graph.input[:]
    for info, value in zip(model.graph.input, values):
        if value.data_type in (6, 7, 9) or info.name == "depth" or model.graph.node[0].op_type == "Range":
            value.name = info.name
            result.graph.initializer.append(value)
        else:
            result.graph.input.append(info)
    return result


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in node_cases()])
def test_node_case(case, target, tmp_path):
    inputs, outputs = ([proto(value) for value in part] for part in case.data_sets[0])
    graph = case.model.graph
    model = case.model
    if graph.node[0].op_type in ("Range", "Compress", "OneHot"):
        model = constants(model, inputs)
    onnx.save(model, tmp_path / "case.onnx")
    names = {info.name for info in model.graph.input}
    shapes = {info.name: tuple(value.dims) for info, value in zip(graph.input, inputs) if info.name in names}
    module = backplane.compile(tmp_path / "case.onnx", target, shapes)
    results = backplane.Model(module, DEVICES[target]).run(
        {info.name: given(value) for info, value in zip(graph.input, inputs) if info.name in names})
    for info, want in zip(graph.output, outputs):
        got, expected = (array.astype("f4") for array in (as_array(results[info.name], want),
                                                          onnx.numpy_helper.to_array(want)))
        # The reference rounds each of its steps to bfloat16.
        exact = graph.node[0].op_type not in ("Attention", "Einsum", "Celu")
        assert got.shape == expected.shape
        assert (np.array_equal(got, expected, equal_nan=True) if exact
                else np.allclose(got, expected, 2**-6, 1e-3)), (got, expected)


MOVERS = [("Transpose", {"perm": [1, 0]}, []), ("Concat", {"axis": 1}, ["x"]), ("Identity", {}, []),
          ("Reshape", {}, [np.int64([-1])]), ("Slice", {}, [np.int64([1]), np.int64([5]), np.int64([1])]),
          ("Gather", {"axis": 1}, [np.int64([4, 0, 2])]), ("Expand", {}, [np.int64([2, 3, 5])]),
          ("Tile", {}, [np.int64([1, 3])]), ("Pad", {}, [np.int64([0, 1, 0, 2])]), ("Unsqueeze", {}, [np.int64([0])]),
          ("Where", {}, None), ("Shape", {}, []), ("Trilu", {}, [])]


@pytest.mark.parametrize("number", [17, 22, 25])
@pytest.mark.parametrize("target", TARGETS)
def test_elements_are_moved(target, number, tmp_path):
    make = onnx.helper
    rng = np.random.default_rng(number)
    x = rng.integers(0, 2, (3, 5)).astype("f4").astype(dtype_of(number))
    nodes, outputs, constants, types = [], [], {"condition": rng.integers(0, 2, 5).astype(bool)}, {}
    for name, attrs, others in MOVERS:
        inputs = ["x"]
        for index, other in enumerate(others or []):
            inputs.append(other if isinstance(other, str) else f"{name}_{index}")
            if not isinstance(other, str):
                constants[inputs[-1]] = other
        if name == "Where":
            inputs = ["condition", "x", "zero"]
        nodes.append(make.make_node(name, inputs, [f"y_{name}"], **attrs))
        types[f"y_{name}"] = 7 if name == "Shape" else number
    constants["zero"] = np.zeros(5, dtype_of(number))
    outputs = [make.make_tensor_value_info(name, kind, None) for name, kind in types.items()]
    graph = make.make_graph(nodes, "moves", [make.make_tensor_value_info("x", number, x.shape)], outputs,
                            [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()])
    model = make.make_model(graph, opset_imports=[make.make_opsetid("", 25)], ir_version=11)
    onnx.save(model, tmp_path / "moves.onnx")
    module = backplane.compile(tmp_path / "moves.onnx", target, {"x": x.shape})
    results = backplane.Model(module, DEVICES[target]).run({"x": given(onnx.numpy_helper.from_array(x))})
    expected = onnx.reference.ReferenceEvaluator(model).run(None, {"x": x})
    for name, want in zip(types, expected):
        want = want.astype(dtype_of(types[name]))
        got = as_array(results[name], onnx.numpy_helper.from_array(want))
        assert np.array_equal(got.astype("f4"), want.astype("f4")), (name, got, want)


@pytest.mark.parametrize("number", [17, 22, 25])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [[3, 5], []])
def test_constant_of_shape_repeats_its_value(shape, target, number, tmp_path):
    make = onnx.helper
    value = onnx.numpy_helper.from_array(np.ones(1, dtype_of(number)))
    graph = make.make_graph([make.make_node("ConstantOfShape", ["shape"], ["y"], value=value)], "constant", [],
                            [make.make_tensor_value_info("y", number, shape)],
                            [onnx.numpy_helper.from_array(np.array(shape, "i8"), "shape")])
    onnx.save(make.make_model(graph, opset_imports=[make.make_opsetid("", 25)], ir_version=11), tmp_path / "constant.onnx")
    module = backplane.compile(tmp_path / "constant.onnx", target)
    got = as_array(backplane.Model(module, DEVICES[target]).run({})["y"], value)
    assert got.shape == tuple(shape) and (got.astype("f4") == 1).all()


def dtype_of(number):
    return onnx.helper.tensor_dtype_to_np_dtype(number)


def hard_values():
    """Return the numbers of each type, the means of neighbours (ties), the numbers next to these, and numbers that
    no type represents."""
    with np.errstate(all="ignore"):
        values = [np.array([np.nan, np.inf, -np.inf, 0, -0.0, 1e30, -1e30, 1e-30, 3e38], "f8")]
        for number in NAMES:
            dtype = dtype_of(number)
            codes = np.arange(65536, dtype="u2") if number == 16 else np.arange(256, dtype="u1")
            if number > 20:
                exact = np.arange(-9, 17)
            else:
                exact = np.unique(codes.view(dtype).astype("f8"))
            exact = exact[np.isfinite(exact)]
            means = (exact[1:] + exact[:-1]) / 2
            near = np.nextafter(means.astype("f4"), np.float32([[-np.inf], [np.inf]]))
            close = np.nextafter(means, np.array([[-np.inf], [np.inf]]))
            values += [exact, means, near.ravel(), close.ravel()]
    return np.concatenate(values)


def check_casts(tmp_path, target, source, array, targets, saturate):
    """Cast the array, of the type `source`, to each of `targets`, with the results of ONNX's reference."""
    make = onnx.helper
    if target == "vulkan":
        targets = [number for number in targets if number != FLOAT64]
    nodes = [make.make_node("Cast", ["x"], [f"y{number}"], to=number,
                            **({"saturate": saturate} if number in (17, 18, 19, 20) else {})) for number in targets]
    graph = make.make_graph(nodes, "casts", [make.make_tensor_value_info("x", source, array.shape)],
                            [make.make_tensor_value_info(f"y{number}", number, array.shape) for number in targets])
    model = make.make_model(graph, opset_imports=[make.make_opsetid("", 25)], ir_version=11)
    onnx.save(model, tmp_path / "casts.onnx")
    module = backplane.compile(tmp_path / "casts.onnx", target, {"x": array.shape})
    results = backplane.Model(module, DEVICES[target]).run({"x": given(onnx.numpy_helper.from_array(array))})
    with np.errstate(all="ignore"):
        expected = onnx.reference.ReferenceEvaluator(model).run(None, {"x": array})
    # A device may treat a subnormal float32 as 0.
    is_open = np.abs(array.astype("f8")) < 2**-126
    for number, want in zip(targets, expected):
        got = as_array(results[f"y{number}"], onnx.numpy_helper.from_array(want))
        got, want = got.astype("f8"), want.astype("f8")
        wrong = ~((got == want) & (np.signbit(got) == np.signbit(want)) | np.isnan(got) & np.isnan(want)
                  | (got == 0) & is_open)
        assert not wrong.any(), (number, [*zip(array[wrong], got[wrong], want[wrong])][:8], wrong.sum())


@pytest.mark.parametrize("saturate", [0, 1])
@pytest.mark.parametrize("source", [1, 10, FLOAT64, 16])
@pytest.mark.parametrize("target", TARGETS)
def test_cast_rounds_and_saturates_as_the_reference(target, source, saturate, tmp_path):
    if target == "vulkan" and source == FLOAT64:
        pytest.skip("Vulkan's target has no float64")
    with np.errstate(all="ignore"):
        array = hard_values().astype(dtype_of(source))
    check_casts(tmp_path, target, source, array, [16, 17, 18, 19, 20, 23], saturate)
    small = np.abs(array.astype("f8")) < 2**30
    check_casts(tmp_path, target, source, array[small], [21, 22, 25, 26], saturate)


@pytest.mark.parametrize("source", NAMES)
@pytest.mark.parametrize("target", TARGETS)
def test_cast_reads_each_number_of_the_type(target, source, tmp_path):
    bits = int(re.search(r"\d+", NAMES[source]).group())
    array = np.arange(1 << bits, dtype="u2" if bits == 16 else "u1").view(dtype_of(source))
    check_casts(tmp_path, target, source, array, [1, 10, FLOAT64, 16], 1)
    finite = array[np.isfinite(array.astype("f4")) & (np.abs(array.astype("f4")) < 2**30)]
    check_casts(tmp_path, target, source, finite, [6, 7, 9], 1)


@pytest.mark.parametrize("number, text, places", [
    (21, b"\x20\x00\x03", [1, 4]), (22, b"\x0f\x00\x00", [0]), (23, b"\x80\x01\x00", [2]), (25, b"\x84\x00", [1, 3]),
    (26, b"\x00\x03", [4]), (17, b"\x80\x00\x01\x00\x00", [2]), (16, b"\x00\x80\x00\x00\x80\x3f\x00\x00\x00\x00", [2])])
def test_places_in_a_constant_of_few_bits(number, text, places, tmp_path):
    constant = onnx.TensorProto(name="x", data_type=number, dims=[5], raw_data=text)
    graph = onnx.helper.make_graph([onnx.helper.make_node("NonZero", ["x"], ["y"])], "places", [],
                                   [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.INT64, [1, None])], [constant])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 23)], ir_version=12)
    onnx.save(model, tmp_path / "places.onnx")
    results = backplane.Model(backplane.compile(tmp_path / "places.onnx", C), "cpu").run()
    assert results["y"].numpy().tolist() == [places]


@pytest.mark.parametrize("number", [n for n, name in NAMES.items() if not name.startswith(("bfloat", "float8"))])
def test_elements_of_few_bits_are_read_from_a_file(number, tmp_path):
    """Three elements of 4 or 2 bits take two bytes or one."""
    numbers = np.array([1, 0, 1], dtype_of(number))
    weight = onnx.numpy_helper.from_array(numbers, "w")
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Cast", ["w"], ["wide"], to=1), onnx.helper.make_node("Add", ["x", "wide"], ["y"])], "file",
        [onnx.helper.make_tensor_value_info("x", 1, [3])], [onnx.helper.make_tensor_value_info("y", 1, [3])], [weight])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 25)], ir_version=13)
    path = tmp_path / "m.onnx"
    onnx.save_model(model, path, save_as_external_data=True, location="m.bin", size_threshold=0)
    given = np.array([1, 2, 3], "float32")
    result = backplane.Model(backplane.compile(path, C), "cpu").run(x=given)["y"].numpy()
    np.testing.assert_array_equal(result, given + [1, 0, 1])
