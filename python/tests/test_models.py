# SPDX-License-Identifier: Apache-2.0
"""Modules and models."""

import importlib.util
import json
import struct
import tarfile
import threading
import weakref

import numpy as np
import pytest

import backplane
from backplane import Target, errors
from conftest import SOURCE


def picture(model):
    shape = model.inputs[0].shape
    return np.random.default_rng(3).random(shape).astype(model.inputs[0].dtype)


def test_model_runs(digits_model):
    model = backplane.Model(digits_model, "cpu")
    assert str(model.device) == "cpu:0"
    x = picture(model)
    outputs = model.run({model.inputs[0].name: x})
    assert list(outputs) == [info.name for info in model.outputs]
    first = outputs[model.outputs[0].name]
    assert first.shape == model.outputs[0].shape
    kept = first.numpy().copy()
    model.run({model.inputs[0].name: np.zeros_like(x)})
    assert np.array_equal(first.numpy(), kept), "an output is overwritten by the next run"
    x.flags.writeable = False
    again = model.run({model.inputs[0].name: x})[model.outputs[0].name]
    assert np.array_equal(again.numpy(), kept)


def test_file_is_compiled_for_its_device(digits_model):
    onnx, shapes = SOURCE / "examples/digits/digits.onnx", {"image": (1, 1, 28, 28)}
    expected = backplane.Model(digits_model, "cpu")
    x = picture(expected)
    values = expected.run(image=x)["logits"].numpy()
    for on in ("cpu", "opencl:99,cpu", backplane.device("cpu"), ["opencl:99", backplane.device("cpu")]):
        model = backplane.Model(str(onnx), on, shapes)
        assert model.device == backplane.device("cpu")
        assert np.allclose(model.run(image=x)["logits"].numpy(), values, atol=1e-4)
    assert backplane.Model(onnx, shapes=shapes).outputs == expected.outputs
    several = backplane.Model(onnx, "cpu").run(image=np.concatenate([x, x, x]))["logits"].numpy()
    assert several.shape == (3, 10) and np.allclose(several, values, atol=1e-4)
    with pytest.raises(errors.NotFoundError, match="cpu:99"):
        backplane.Model(onnx, "cpu:99", shapes)
    with pytest.raises(errors.InvalidValueError, match="shapes are those of an ONNX file"):
        backplane.Model(digits_model, "cpu", shapes)


def test_inputs_come_from_every_device(digits_model):
    model = backplane.Model(digits_model, "cpu")
    name, x = model.inputs[0].name, picture(model)
    expected = model.run({name: x})[model.outputs[0].name].numpy()
    frozen = x.copy()
    frozen.flags.writeable = False
    given = [backplane.tensor(x, device) for device in backplane.devices()]
    if int(np.__version__.split(".")[0]) >= 2:  # earlier ones do not export read-only memory
        given.append(backplane.from_dlpack(frozen))
    for value in [*given, frozen]:
        model.run({name: np.zeros_like(x)})
        result = model.run({name: value})[model.outputs[0].name]
        assert np.array_equal(result.numpy(), expected), value


def test_inputs_are_read_in_place_and_held_until_the_next_run(digits_model):
    model = backplane.Model(digits_model, "cpu")
    name, x = model.inputs[0].name, picture(model)
    expected = model.run({name: x})[model.outputs[0].name].numpy()
    for offset, is_copied in (0, False), (4, True), (1, True):  # not all addresses are for wide vectors
        for freeze in False, True:
            held = np.zeros(x.nbytes + 128, np.uint8)
            first = -held.ctypes.data % 64 + offset
            held = held[first:first + x.nbytes].view(x.dtype).reshape(x.shape)
            held[:] = x
            held.flags.writeable = not freeze
            alive = weakref.ref(held)
            result = model.run({name: held})[model.outputs[0].name]
            assert np.array_equal(result.numpy(), expected)
            del held
            assert (alive() is None) == is_copied
            model.run({name: x})
            assert alive() is None


def test_inputs_may_have_strides(digits_model):
    model = backplane.Model(digits_model, "cpu")
    name, x = model.inputs[0].name, picture(model)
    expected = model.run({name: x})[model.outputs[0].name].numpy()
    wide = np.repeat(x, 2, axis=-1)
    backwards = np.ascontiguousarray(x[..., ::-1])
    for value in (wide[..., ::2], np.asfortranarray(x), backwards[..., ::-1],
                  backplane.from_dlpack(wide[..., ::2])):
        model.run({name: np.zeros_like(x)})
        assert np.array_equal(model.run({name: value})[model.outputs[0].name].numpy(), expected)
    flat = np.broadcast_to(np.float32(0.5), x.shape)
    expected = model.run({name: flat.copy()})[model.outputs[0].name].numpy()
    assert np.array_equal(model.run({name: flat})[model.outputs[0].name].numpy(), expected)


def test_targets_are_a_list_or_a_text():
    model = SOURCE / "examples/digits/digits.onnx"
    shapes = {"image": (1, 1, 28, 28)}
    for targets in ("c,opencl", ["c", "opencl"], '{"kind": "c", "num_cores": 1},opencl'):
        module = backplane.compile(model, targets, shapes)
        assert {import_.kind for import_ in module.imports} >= {"c", "opencl"}, targets
    assert backplane.compile(model, [Target("c"), "opencl"], shapes).kind == "backplane.graph"
    for targets in (None, [], backplane.device("cpu"), 3, [None], ["c", 3]):
        with pytest.raises(errors.InvalidTypeError, match='a target is written as "c" or .* not '):
            backplane.compile(model, targets, shapes)
    with pytest.raises(errors.InvalidTypeError, match="shapes are given by the names of inputs"):
        backplane.compile(model, "c", (1, 1, 28, 28))
    with pytest.raises(errors.InvalidValueError, match="--shape image=1x1x28x28"):
        backplane.compile(model, ["c", "opencl"])
    with pytest.raises(TypeError, match="by the name of an input, not by 3"):
        backplane.compile(model, "c", {3: (1,)})
    with pytest.raises(TypeError, match="a shape is"):
        backplane.compile(model, "c", {"image": 3})


def test_graph_compilers_claim_parts(digits_model):
    onnx, shapes = SOURCE / "examples/digits/digits.onnx", {"image": (1, 1, 28, 28)}
    with pytest.raises(errors.BackplaneError, match='no installed plugin has a graph compiler "nothing"'):
        backplane.compile(onnx, "c", shapes, graph_compilers="nothing")
    with pytest.raises(errors.BackplaneError, match="at least one graph compiler"):
        backplane.compile(onnx, "c", shapes, measure=True)
    with pytest.raises(TypeError):
        backplane.compile(onnx, "c", shapes, graph_compilers=[3])
    expected = backplane.Model(digits_model, "cpu")
    x = picture(expected)
    values = expected.run(image=x)["logits"].numpy()
    for measure in (False, True):
        try:
            module = backplane.compile(onnx, "c", shapes, graph_compilers=["dnnl"], measure=measure)
        except errors.BackplaneError as error:
            pytest.skip(str(error))
        got = backplane.Model(module, "cpu").run(image=x)["logits"].numpy()
        assert np.allclose(got, values, rtol=1e-3, atol=1e-3)


def test_graph_compiler_among_the_targets_is_measured(digits_model):
    onnx, shapes = SOURCE / "examples/digits/digits.onnx", {"image": (1, 1, 28, 28)}
    with pytest.raises(errors.BackplaneError, match="nothing"):
        backplane.compile(onnx, "c,nothing", shapes)
    if backplane.get_global_func("graph_compiler.dnnl", allow_missing=True) is None:
        pytest.skip("the plugin dnnl is not here")
    with pytest.raises(errors.BackplaneError, match=r"takes one target.*--require"):
        backplane.compile(onnx, "c,dnnl", shapes, require=0.5)
    with pytest.raises(errors.BackplaneError, match="the share that is required is 1 "):
        backplane.compile(onnx, "c", shapes, graph_compilers="dnnl", require=1)
    expected = backplane.Model(digits_model, "cpu")
    x = picture(expected)
    values = expected.run(image=x)["logits"].numpy()
    for module in (backplane.compile(onnx, "c,dnnl", shapes),
                   backplane.compile(onnx, "c", graph_compilers="dnnl", require=0.5)):
        got = backplane.Model(module, "cpu").run(image=x)["logits"].numpy()
        assert np.allclose(got, values, rtol=1e-3, atol=1e-3)


def test_what_a_target_refuses_is_for_the_fallback(tmp_path):
    onnx = pytest.importorskip("onnx")
    helper, doubles = onnx.helper, onnx.TensorProto.DOUBLE
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "x"], ["y"])], "g",
        [helper.make_tensor_value_info("x", doubles, [3])],
        [helper.make_tensor_value_info("y", doubles, [3])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]),
              tmp_path / "net.onnx")
    target = "opencl -fp64=false"
    with pytest.raises(errors.UnsupportedError, match='another target may run as the fallback'):
        backplane.compile(tmp_path / "net.onnx", target)
    with pytest.raises(errors.InvalidTypeError, match="a target is written as"):
        backplane.compile(tmp_path / "net.onnx", target, fallback=3)
    with pytest.raises(errors.BackplaneError, match="nothing"):
        backplane.compile(tmp_path / "net.onnx", target, fallback="nothing")
    for fallback in ("c", Target("c")):
        module = backplane.compile(tmp_path / "net.onnx", target, fallback=fallback)
        try:
            model = backplane.Model(module, "opencl,cpu")
        except errors.DeviceError:
            pytest.skip("there is no OpenCL device")
        y = model.run({"x": np.array([1.5, -2.0, 3.0])})["y"]
        assert y.numpy().tolist() == [2.25, 4.0, 9.0]


def test_devices_after_the_first_are_fallbacks(tmp_path, monkeypatch):
    onnx = pytest.importorskip("onnx")
    helper, doubles = onnx.helper, onnx.TensorProto.DOUBLE
    try:
        first = backplane.select_device("opencl")
    except errors.BackplaneError:
        pytest.skip("there is no OpenCL device")
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "x"], ["y"])], "g",
        [helper.make_tensor_value_info("x", doubles, [3])],
        [helper.make_tensor_value_info("y", doubles, [3])])
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    own = Target.from_device
    monkeypatch.setattr(Target, "from_device", staticmethod(
        lambda device: Target("opencl -fp64=false") if device == first else own(device)))
    for alone in (first, "opencl", "opencl,!cpu"):
        with pytest.raises(errors.UnsupportedError):
            backplane.Model(path, alone)
    for several in ("opencl,cpu", "opencl, auto,cpu", ["opencl", "cpu"], [first, backplane.device("cpu")]):
        y = backplane.Model(path, several).run({"x": np.array([1.5, -2.0, 3.0])})["y"]
        assert y.numpy().tolist() == [2.25, 4.0, 9.0]
    monkeypatch.setenv("BACKPLANE_DEVICE", "opencl,cpu")
    y = backplane.Model(path).run({"x": np.array([1.5, -2.0, 3.0])})["y"]
    assert y.numpy().tolist() == [2.25, 4.0, 9.0]


def test_what_a_notebook_shows_of_a_model(digits_model):
    model = backplane.Model(digits_model, ["cpu"])
    assert repr(model) == ("Model(image: float32 (1, 1, 28, 28) -> logits: float32 (1, 10); "
                           "on cpu:0)")
    for use in (list, lambda module: "name" in module):
        with pytest.raises(TypeError, match="'Module'"):
            use(backplane.load(digits_model))


def test_runs_as_onnxruntime_does(digits_model):
    model = backplane.Model(digits_model, "cpu")
    name, x = model.inputs[0].name, picture(model)
    expected = model.run({name: x})["logits"].numpy()
    for names in (None, ["logits"], ("logits",)):
        result, = model.run(names, {name: x})
        assert isinstance(result, np.ndarray) and np.array_equal(result, expected)
    assert model.run([], {name: x}) == []
    with pytest.raises(errors.NotFoundError, match="no output 'probabilities'; it has logits"):
        model.run(["probabilities"], {name: x})
    with pytest.raises(TypeError, match="list of outputs, or None for all; got str"):
        model.run("logits", {name: x})
    with pytest.raises(TypeError, match="by name"):
        model.run(None, [x])


def test_wrong_inputs_are_errors(digits_model):
    model = backplane.Model(digits_model, "cpu")
    name, x = model.inputs[0].name, picture(model)
    with pytest.raises(ValueError, match=name):
        model.run()
    with pytest.raises(errors.NotFoundError, match=f"'no_such'; it has {name}"):
        model.run({name: x, "no_such": x})
    with pytest.raises(errors.NotFoundError, match=f"'no_such'; it has {name}"):
        model.run(no_such=x)
    for positional in (x, [x], backplane.tensor(x)):
        with pytest.raises(TypeError, match=rf"by name, as \({name}=...\)"):
            model.run(positional)
    for value in (3, None, "text", x.tolist()):
        with pytest.raises(TypeError, match=f"'{name}' takes an array or a tensor, not a value of"):
            model.run({name: value})
    with pytest.raises(TypeError, match="byte order"):
        model.run({name: x.astype(x.dtype.newbyteorder())})
    with pytest.raises(errors.InvalidValueError):
        model.run({name: np.broadcast_to(x[:1, :1, :1, :1], (10**4, 10**4, 28, 28))})
    with pytest.raises(errors.InvalidValueError):
        model.run({name: x.astype("float64")})
    with pytest.raises(errors.InvalidValueError):
        model.run({name: x[..., ::2]})
    for device in backplane.devices():
        with pytest.raises(errors.InvalidValueError):
            model.run({name: backplane.tensor(x.astype("float64"), device)})
    with pytest.raises(ValueError, match="dtype"):
        model.run({name: np.zeros(x.shape, "datetime64[s]")})


def test_device_without_code_is_an_error(digits_model):
    with pytest.raises(errors.NotFoundError):
        backplane.Model(digits_model, "cpu:99")


def test_preferences_are_a_list_or_a_text(digits_model):
    module = backplane.load(digits_model)
    cpu = backplane.device("cpu")
    for preferred in ("opencl:9,cpu", ["opencl:9", "cpu"], ("opencl", "cpu:0"), ["auto"], ["!opencl"],
                      [backplane.Device(4, 9), "cpu"], cpu, [cpu], ["cpu:*"]):
        assert backplane.Model(module, preferred).device == cpu, preferred
    for preferred in ("opencl:9,cpu", ["opencl:9", "cpu"], cpu, (cpu, "opencl"), ["cpu"]):
        assert backplane.select_device(preferred) == cpu, preferred
    for preferred in (backplane.Device(4, 9), [backplane.Device(4, 9)]):
        with pytest.raises(errors.NotFoundError, match="no code for opencl:9; it was compiled for c"):
            backplane.Model(module, preferred)
    for choose in (backplane.select_device, lambda preferred: backplane.Model(module, preferred)):
        for preferred in (3, [3], ["cpu", None], {"cpu": 1}, (1, 0)):
            with pytest.raises(errors.InvalidTypeError, match='preferred as "cpu" or "opencl:1"'):
                choose(preferred)
        with pytest.raises(errors.InvalidValueError, match='no device is in the list; "auto"'):
            choose([])


def test_threads_take_turns(digits_model):
    model = backplane.Model(digits_model, "cpu")
    name, results = model.inputs[0].name, {}
    inputs = [np.full_like(picture(model), value) for value in (0.0, 0.5, 1.0)]
    expected = [model.run({name: x})[model.outputs[0].name].numpy().copy() for x in inputs]

    def work(index):
        for _ in range(20):
            results[index] = model.run({name: inputs[index]})[model.outputs[0].name].numpy().copy()

    threads = [threading.Thread(target=work, args=(index,)) for index in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for index in range(3):
        assert np.array_equal(results[index], expected[index])


def test_a_run_within_a_run_is_an_error(digits_model):
    model = backplane.Model(digits_model, "cpu")
    name, image = model.inputs[0].name, picture(model)

    class Nested:  # pylint: disable=too-few-public-methods
        """An array whose method runs the model that reads it."""

        def __dlpack__(self, **wishes):
            model.run({name: image})
            return image.__dlpack__(**wishes)

    with pytest.raises(errors.NotReadyError, match="in the middle of a call"):
        model.run({name: Nested()})
    model.run({name: image})


def test_profile(digits_model):
    model = backplane.Model(digits_model, "cpu")
    times = model.profile({model.inputs[0].name: picture(model)})
    assert times and all(time.duration >= 0 and time.function for time in times)


def test_modules(digits_model):
    module = backplane.load(digits_model)
    kinds = [module.kind] + [import_.kind for import_ in module.imports]
    assert "backplane.graph" in kinds and "library" in kinds
    library = next(m for m in [module, *module.imports] if m.kind == "library")
    assert library.list_functions()
    assert library.find_function("no_such") is None
    with pytest.raises(errors.NotFoundError):
        library["no_such"]
    with pytest.raises(errors.BackplaneError):
        library.save_to_bytes()


def test_a_library_is_exported_by_a_name_that_is_loaded(tmp_path):
    module = backplane.compile(SOURCE / "examples/digits/digits.onnx", "c", {"image": (1, 1, 28, 28)})
    for name in ("m.txt", "m", "m.so.bak", "m.tar"):
        with pytest.raises(errors.InvalidValueError, match="does not end in .so"):
            module.export_library(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_damaged_library_is_an_error(digits_model, tmp_path):
    data = digits_model.read_bytes()
    for size in [0, 10, len(data) // 2, len(data) - 100]:
        path = tmp_path / f"cut{size}.so"
        path.write_bytes(data[:size])
        with pytest.raises(errors.BackplaneError):
            backplane.load(path)


def write_params(path, **arrays):
    """Return a parameter file in the form that TVM writes."""
    with open(path, "wb") as file:
        file.write(struct.pack("<QQQ", 0xF7E58D4F05049CB7, 0, len(arrays)))
        for name in arrays:
            file.write(struct.pack("<Q", len(name)) + name.encode())
        file.write(struct.pack("<Q", len(arrays)))
        for array in arrays.values():
            file.write(struct.pack("<QQiiiBBH", 0xDD5E40F096B4A13F, 0, 1, 0, array.ndim,
                                   2, 8 * array.itemsize, 1))
            file.write(struct.pack(f"<{array.ndim}qq", *array.shape, array.nbytes))
            file.write(array.tobytes())


def test_parts_in_different_folders_are_loaded(tmp_path):
    program = backplane.te.Program()
    a, b = program.placeholder("a", (4,)), program.placeholder("b", (4,))
    c = program.compute("c", (4,), lambda i: a[i] - b[i])
    program.build("subtract", [a, b, c], "c").module.export_library(tmp_path / "code.so")
    entries = {"dltype": ["list_str", ["float32"] * 3], "shape": ["list_shape", [[4]] * 3],
               "storage_id": ["list_int", [0, 1, 2]]}
    (tmp_path / "net.json").write_text(json.dumps({
        "nodes": [{"op": "null", "name": "x", "inputs": []}, {"op": "null", "name": "w", "inputs": []},
                  {"op": "tvm_op", "name": "y", "attrs": {"func_name": "subtract"},
                   "inputs": [[0, 0, 0], [1, 0, 0]]}],
        "arg_nodes": [0, 1], "heads": [[2, 0, 0]], "node_row_ptr": [0, 1, 2, 3], "attrs": entries}))
    (tmp_path / "apart").mkdir()
    weights = tmp_path / "apart" / "weights"
    write_params(weights, w=np.full(4, 3, "float32"))
    x = np.arange(4, dtype="float32")
    module = backplane.load_parts(tmp_path / "net.json", tmp_path / "code.so", weights)
    result, = backplane.Model(module, "cpu").run(x=x).values()
    assert np.array_equal(result.numpy(), x - 3)
    module = backplane.load_parts(tmp_path / "net.json", tmp_path / "code.so")
    result, = backplane.Model(module, "cpu").run(x=x, w=x).values()
    assert not result.numpy().any()
    with pytest.raises(OSError, match="absent"):
        backplane.load_parts(tmp_path / "net.json", tmp_path / "code.so", tmp_path / "absent")
    with pytest.raises(TypeError):
        backplane.load_parts(tmp_path / "net.json", None)


def test_an_archive_is_to_be_unpacked(tmp_path):
    (tmp_path / "net.json").write_text("{}")
    with tarfile.open(tmp_path / "net.tar", "w") as archive:
        archive.add(tmp_path / "net.json", "net.json")
    with pytest.raises(ValueError, match="unpack it first"):
        backplane.Model(tmp_path / "net.tar")


def test_tvm_ffi_runs_what_we_export(tmp_path):
    onnx = pytest.importorskip("onnx")
    tvm_ffi = pytest.importorskip("tvm_ffi")
    helper, floats = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node("Mul", ["a", "b"], ["m"]), helper.make_node("Relu", ["m"], ["y"])], "g",
        [helper.make_tensor_value_info(name, floats, [2, 3]) for name in "ab"],
        [helper.make_tensor_value_info("y", floats, [2, 3])])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]),
              tmp_path / "net.onnx")
    (code,) = backplane.compile(tmp_path / "net.onnx", "c").imports
    (name,) = code.list_functions()
    code.export_library(tmp_path / "code.so")
    theirs = tvm_ffi.load_module(str(tmp_path / "code.so"))[name]
    a, b = np.arange(6, dtype="float32").reshape(2, 3) - 3, np.full((2, 3), 2, "float32")
    y = np.zeros((2, 3), "float32")
    theirs(a, b, y)
    assert np.array_equal(y, np.maximum(a * b, 0))
    with pytest.raises(TypeError, match="expected 3 arguments, got 2"):
        theirs(a, b)
    with pytest.raises(TypeError, match="float32, got float64"):
        theirs(a, b, y.astype("float64"))
    with pytest.raises(ValueError, match="extent 3, got 4"):
        theirs(a, b, np.zeros((2, 4), "float32"))
    ours = backplane.load(tmp_path / "code.so")[name]
    ours(a, b, y)
    with pytest.raises(errors.InvalidTypeError, match="expected 3 arguments, got 2"):
        ours(a, b)


def test_what_tvm_compiled(tmp_path):
    tvm = pytest.importorskip("tvm")
    from tvm import relax
    from tvm.relax.frontend import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 3)

        def forward(self, x):
            return nn.op.relu(self.layer(x))

    module, params = Net().export_tvm({"forward": {"x": nn.spec.Tensor(("n", 4), "float32")}})
    weights = {name: np.full([int(s) for s in p.shape], 0.5, "float32") for name, p in params}
    module = relax.get_pipeline("zero")(relax.transform.BindParams("forward", weights)(module))
    path = tmp_path / "net.so"
    tvm.compile(module, target="llvm").export_library(str(path))
    expected = np.full((2, 3), 2.5, "float32")
    model = backplane.Model(path)
    assert model.inputs[0].shape == (-1, 4)
    assert np.array_equal(model.run(x=np.ones((2, 4), "float32"))["output"].numpy(), expected)
    machine = backplane.load(path).machine("cpu")
    tensor = backplane.tensor(np.ones((2, 4), "float32"))
    assert np.array_equal(machine["forward"](tensor).numpy(), expected)
    with pytest.raises(TypeError):
        machine["forward"]()


def test_model_in_memory_with_elements_elsewhere():
    onnx = pytest.importorskip("onnx")
    weights = np.random.default_rng(5).random((4, 3), np.float32)
    elsewhere = onnx.TensorProto(name="weights", data_type=onnx.TensorProto.FLOAT, dims=weights.shape,
                                 data_location=onnx.TensorProto.EXTERNAL)
    elsewhere.external_data.add(key="location", value="memory")
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("MatMul", ["x", "weights"], ["y"])], "product",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 4])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", 3])], [elsewhere])
    encoded = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8
                                     ).SerializeToString()
    x = np.ones((2, 4), np.float32)
    kept = weights.copy()
    weights.flags.writeable = False
    model = backplane.Model(backplane.compile(encoded, "c", tensors={"weights": weights}), "cpu")
    del weights
    assert np.allclose(model.run(x=x)["y"].numpy(), x @ kept)
    for tensors, error, text in (
            ({}, backplane.BackplaneError, "weights"),
            ({"weights": kept[:2].copy()}, backplane.BackplaneError, "weights"),
            ({"weights": kept[:, ::2]}, ValueError, "compact array"),
            ({1: kept}, TypeError, "name of an initializer"),
            ({"weights": 1.5}, ValueError, "compact array")):
        with pytest.raises(error, match=text):
            backplane.compile(encoded, "c", tensors=tensors)
    with pytest.raises(errors.InvalidValueError, match="a file names its own"):
        backplane.compile("x.onnx", "c", tensors={"weights": kept})


def test_from_torch_without_torch_says_what_to_install():
    if importlib.util.find_spec("torch"):
        pytest.skip("PyTorch is installed")
    with pytest.raises(ImportError, match="needs? PyTorch; pip install torch"):
        backplane.from_torch(None, None)
