# SPDX-License-Identifier: Apache-2.0
"""Tensors, devices and the exchange with numpy."""

import ctypes
import inspect
import pickle
import sys

import numpy as np
import pytest

import backplane
from backplane import errors

DTYPES = ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16",
          "uint32", "uint64", "bool", "complex64"]


def devices():
    return [str(device) for device in backplane.devices()]


def test_the_cpu_is_there():
    cpu = backplane.device("cpu")
    assert cpu.exists and cpu in backplane.devices() and str(cpu) == "cpu:0"
    assert backplane.select_device("cpu") == cpu
    assert isinstance(cpu.attribute("device_name"), str)
    with pytest.raises(AttributeError):
        cpu.attribute("no_such_attribute")
    assert not backplane.Device(1, 77).exists


def test_unknown_device_is_an_error():
    with pytest.raises(errors.BackplaneError):
        backplane.device("no_such_kind")
    with pytest.raises(errors.NotFoundError, match="cpu:0"):
        backplane.select_device("cpu:99")


@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy_without_a_copy(dtype):
    array = np.arange(12).reshape(3, 4).astype(dtype)
    tensor = backplane.from_dlpack(array)
    assert (tensor.shape, tensor.dtype, tensor.device) == ((3, 4), dtype, backplane.device("cpu"))
    again = tensor.numpy()
    assert np.shares_memory(array, again) and np.array_equal(array, again)


@pytest.mark.parametrize("name", devices())
def test_data_survive_a_device(name):
    values = np.random.default_rng(1).standard_normal((5, 6)).astype("float32")
    tensor = backplane.tensor(values, name)
    assert str(tensor.device) == name
    assert np.array_equal(np.asarray(tensor), values)
    assert np.array_equal(np.asarray(tensor, dtype="float64"), values.astype("float64"))
    assert tensor.to_device(name) is tensor


def test_views():
    tensor = backplane.tensor(np.arange(12, dtype="int32"))
    view = tensor.reshape(3, 4)
    assert view.shape == (3, 4) and np.shares_memory(view.numpy(), tensor.numpy())
    for shape in [((4, 3),), (2, -1), ([-1],), ((3, 2, 2),)]:
        assert np.array_equal(tensor.reshape(*shape).numpy(), tensor.numpy().reshape(*shape))
    for shape in [(5, 5), (2,), (-1, -1), (5, -1), ((),), (-2, -6), (0, -1)]:
        with pytest.raises(ValueError, match="cannot be reshaped into"):
            tensor.reshape(*shape)
    del tensor
    assert view.numpy().sum() == 66


def test_scalar_and_empty():
    assert backplane.tensor(3.5).numpy() == 3.5
    assert backplane.empty((0, 3)).numpy().shape == (0, 3)


def test_wrong_arguments_are_errors():
    with pytest.raises(errors.BackplaneError):
        backplane.empty((2,), "float12345")
    with pytest.raises(errors.BackplaneError):
        backplane.empty((-1,))
    with pytest.raises(errors.BackplaneError):
        backplane.empty((2**62, 2**62))
    with pytest.raises(TypeError):
        backplane.empty("ab")
    with pytest.raises(ValueError):
        backplane.empty((1,) * 20)
    with pytest.raises(TypeError, match="__dlpack__"):
        backplane.from_dlpack(3)
    for shape in (3, (2.0, 3), "2x3", (None,)):
        with pytest.raises(TypeError, match="a shape is a tuple of integers, not "):
            backplane.empty(shape)
    for on in (None, 1, (1, 0)):
        with pytest.raises(TypeError, match='written as "cpu"'):
            backplane.empty((2,), on=on)
    for dtype in (None, 3, object()):
        with pytest.raises(TypeError, match="data type"):
            backplane.empty((2,), dtype)
    with pytest.raises(ValueError, match="no device of type"):
        str(backplane.Device(2**40, 0))
    for values in ("text", [object()], np.zeros(2, "M8[s]"), np.zeros(2, np.longdouble)):
        with pytest.raises(errors.InvalidTypeError, match="holds numbers"):
            backplane.tensor(values)


@pytest.mark.parametrize("name", devices())
def test_copies_are_between_tensors_alike(name):
    source = backplane.tensor(np.arange(4, dtype="float32"))
    target = backplane.empty((4,), on=name)
    assert source.copy_to(target) is target
    with pytest.raises(errors.InvalidTypeError, match="float32 to one of int32"):
        source.copy_to(backplane.empty((4,), "int32", name))
    with pytest.raises(errors.InvalidValueError, match="dimensions"):
        target.copy_to(backplane.empty((2, 2)))
    with pytest.raises(errors.InvalidValueError, match="extent 4"):
        source.copy_to(backplane.empty((2,), "float32", name))
    with pytest.raises(TypeError, match="expected a Tensor, got array"):
        target.copy_to(np.zeros(4, "float32"))
    assert np.array_equal(np.asarray(target), np.arange(4))


def test_element_types_of_numpy():
    for dtype in (np.float16, np.dtype("int8"), float, bool, np.uint64):
        assert backplane.empty((2,), dtype).numpy().dtype == dtype
    swapped = np.arange(3, dtype="int32").astype(np.dtype("int32").newbyteorder())
    assert backplane.tensor(swapped).numpy().tolist() == [0, 1, 2]
    assert np.array_equal(backplane.tensor(np.arange(6)[::-2]).numpy(), [5, 3, 1])
    with pytest.raises(errors.InvalidTypeError, match="bfloat16"):
        np.asarray(backplane.empty((2,), "bfloat16"))


def test_a_tensor_is_made_of_an_element_type():
    for dtype in ("float32", np.float32, np.dtype("float32")):
        tensor = backplane.tensor([[1, 2], [3, 4]], dtype=dtype)
        assert tensor.dtype == "float32" and tensor.numpy().tolist() == [[1, 2], [3, 4]]
    for values, dtype in (([1], "bfloat16"), (["x"], "datetime64[s]"), ([{}], "float32")):
        with pytest.raises((errors.InvalidTypeError, ValueError)):
            backplane.tensor(values, dtype=dtype)
    with pytest.raises(errors.InvalidTypeError, match="^a data type is written as"):
        backplane.tensor([1], dtype=3)
    view = backplane.tensor([1.0, 2.0]).view_as((2, 2), np.int32)
    assert view.shape == (2, 2) and view.dtype == "int32"


def test_what_help_and_completion_show():
    assert sorted(dir(backplane)) == sorted([*backplane.__all__, "__version__"])
    assert all(hasattr(backplane.te, name) for name in dir(backplane.te))
    assert "Sequence" not in dir(backplane.te) and "sigmoid" in dir(backplane.te)
    for method, text in ((backplane.Module.get_source, "(self, format='', /)"),
                         (backplane.Tensor.copy_to, "(self, target, /)"),
                         (backplane.IrModule.interpret, "(self, function, args, /)"),
                         (backplane.Function, "(callable, /)")):
        assert str(inspect.signature(method)) == text and method.__doc__


def test_what_a_notebook_shows():
    cpu = backplane.device("cpu")
    assert repr(cpu) == "device('cpu:0')"
    assert repr(backplane.Function(len)).startswith("<backplane.Function object")
    assert backplane.__version__.split(".")[0].isdigit()


def test_pickling():
    for value in (backplane.device("cpu"), backplane.Target("c -num_cores=3")):
        assert pickle.loads(pickle.dumps(value)) == value
    failure = pickle.loads(pickle.dumps(errors.NotFoundError("there is none")))
    assert isinstance(failure, errors.NotFoundError) and str(failure) == "there is none"
    with pytest.raises(TypeError, match="cannot pickle"):
        pickle.dumps(backplane.Function(len))


def test_pickled_tensors_keep_elements_type_and_device():
    for value in (np.arange(6, dtype="int16").reshape(2, 3), np.float64(3), np.zeros((0, 4), "float32"),
                  np.array([True, False])):
        tensor = backplane.tensor(value)
        again = pickle.loads(pickle.dumps(tensor))
        assert (again.dtype, again.shape, again.device) == (tensor.dtype, tensor.shape, tensor.device)
        assert np.array_equal(again.numpy(), value)
    narrow = backplane.tensor(np.arange(1, 7, dtype="uint16")).view_as((2, 3), "bfloat16")
    again = pickle.loads(pickle.dumps(narrow))
    assert again.dtype == "bfloat16" and again.shape == (2, 3)
    assert list(again.view_as((6,), "uint16").numpy()) == [1, 2, 3, 4, 5, 6]


def test_pickled_tensors_return_to_their_device():
    for device in backplane.devices():
        tensor = backplane.tensor(np.arange(5.0), device)
        again = pickle.loads(pickle.dumps(tensor))
        assert again.device == device and np.array_equal(again.numpy(), np.arange(5.0))


def test_pickles_of_other_sizes_are_refused():
    rebuild, (shape, dtype, on, data) = backplane.tensor(np.arange(3.0)).__reduce__()
    with pytest.raises(ValueError, match="has 23 bytes; expected 24"):
        rebuild(shape, dtype, on, data[:-1])
    with pytest.raises(errors.NotFoundError, match="nodevice"):
        rebuild(shape, dtype, "nodevice:0", data)


def test_dlpack_of_both_versions():
    tensor = backplane.tensor(np.arange(3.0))
    assert 'dltensor"' in repr(tensor.__dlpack__())
    assert "dltensor_versioned" in repr(tensor.__dlpack__(max_version=(1, 0)))
    assert tensor.__dlpack_device__() == (1, 0)
    for version in (None, (0, 8)):
        assert 'dltensor"' in repr(tensor.__dlpack__(max_version=version))
    for version in (1, (), (1,), ("1", "0")):
        with pytest.raises(TypeError):
            tensor.__dlpack__(max_version=version)
    for device in ("cpu", (1,), 1):
        with pytest.raises(TypeError):
            tensor.__dlpack__(dl_device=device)
    for stream in (None, -1, 7):
        assert 'dltensor"' in repr(tensor.__dlpack__(stream=stream))
    with pytest.raises(TypeError):
        tensor.__dlpack__(stream="default")
    with pytest.raises(BufferError, match="to_device"):
        tensor.__dlpack__(dl_device=(2, 0))


class Wrapped:
    """A tensor that supports only one way of export."""

    def __init__(self, tensor, **wish):
        self.tensor, self.wish = tensor, wish

    def __dlpack__(self, **_):
        return self.tensor.__dlpack__(**self.wish)


@pytest.mark.parametrize("version", [None, (1, 0)])
@pytest.mark.parametrize("name", devices())
def test_dlpack_copies_where_a_copy_is_wanted_or_needed(name, version):
    tensor = backplane.tensor(np.arange(4, dtype="float32"), name)
    copied = Wrapped(tensor, copy=True, dl_device=(1, 0), max_version=version)
    host = backplane.from_dlpack(copied)
    host.numpy()[0] = 42
    assert np.asarray(tensor)[0] == 0 and host.numpy().tolist() == [42, 1, 2, 3]
    wanted = Wrapped(tensor, dl_device=(1, 0), max_version=version)
    assert backplane.from_dlpack(wanted).numpy().tolist() == [0, 1, 2, 3]
    if tensor.device != backplane.device("cpu"):
        with pytest.raises(BufferError, match="another device"):
            tensor.__dlpack__(dl_device=(1, 0), copy=False)
        again = backplane.from_dlpack(Wrapped(tensor, copy=True))
        assert again.device == tensor.device and np.array_equal(np.asarray(again), [0, 1, 2, 3])


class Managed(ctypes.Structure):
    """The first members of DLManagedTensorVersioned."""

    _fields_ = [("version", ctypes.c_uint32 * 2), ("context", ctypes.c_void_p),
                ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p))]


class Plain(ctypes.Structure):
    """DLManagedTensor."""

    _fields_ = [("tensor", ctypes.c_byte * 48), ("context", ctypes.c_void_p),
                ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p))]


@pytest.mark.parametrize("name, kind", [("dltensor", Plain), ("dltensor_versioned", Managed)])
def test_a_consumer_that_fails_may_call_the_deleter(name, kind):
    """torch 2.2 does the same with a device that it does not know, and leaves the capsule's name."""
    get, rename = ctypes.pythonapi.PyCapsule_GetPointer, ctypes.pythonapi.PyCapsule_SetName
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    rename.argtypes = [ctypes.py_object, ctypes.c_char_p]
    used = ctypes.create_string_buffer(b"used")
    array = np.zeros(1000)
    count = sys.getrefcount(array)
    for is_deleted, is_renamed in [(True, False), (True, True), (False, False)]:
        tensor = backplane.from_dlpack(array)
        capsule = tensor.__dlpack__(max_version=(1, 0) if kind is Managed else None)
        del tensor
        assert sys.getrefcount(array) > count
        address = get(capsule, name.encode())
        if is_renamed:
            rename(capsule, used)
            del capsule
            assert sys.getrefcount(array) > count
        if is_deleted:
            kind.from_address(address).deleter(address)
            assert sys.getrefcount(array) == count
        capsule = None
        assert sys.getrefcount(array) == count


def test_torch_raises_an_error_for_a_device_that_torch_does_not_know():
    torch = pytest.importorskip("torch")
    for device in backplane.devices():
        tensor = backplane.tensor(np.arange(4, dtype="float32"), device)
        if device.device_type in (1, 2):
            continue
        with pytest.raises(Exception, match=".") as caught:
            torch.from_dlpack(tensor)
        assert not isinstance(caught.value, SystemError)
        assert torch.from_dlpack(tensor.to_device("cpu")).tolist() == [0, 1, 2, 3]
        assert tensor.numpy().tolist() == [0, 1, 2, 3]


def test_read_only_memory_stays_read_only():
    if int(np.__version__.split(".")[0]) < 2:
        pytest.skip("numpy before 2 exports no read-only memory")
    array = np.arange(3.0)
    array.flags.writeable = False
    tensor = backplane.from_dlpack(array)
    assert not tensor.numpy().flags.writeable
    with pytest.raises(BufferError, match="read-only"):
        tensor.__dlpack__()
    with pytest.raises(ValueError, match="read-only"):
        backplane.tensor(np.zeros(3)).copy_to(tensor)
    copy = backplane.from_dlpack(Wrapped(tensor, copy=True)).numpy()
    copy[0] = 42
    assert array[0] == 0


def test_array_protocol():
    tensor = backplane.tensor(np.arange(3, dtype="float32"))
    assert np.shares_memory(tensor.__array__(), tensor.numpy())
    assert np.shares_memory(tensor.__array__("float32", copy=False), tensor.numpy())
    assert not np.shares_memory(tensor.__array__(copy=True), tensor.numpy())
    assert tensor.__array__("float64").dtype == "float64"
    with pytest.raises(ValueError, match="shares no memory"):
        tensor.__array__("float64", copy=False)


def test_tvm_ffi_shares_memory():
    tvm_ffi = pytest.importorskip("tvm_ffi")
    theirs = tvm_ffi.from_dlpack(np.arange(4, dtype="float32"))
    ours = backplane.from_dlpack(theirs)
    ours.numpy()[0] = 42
    assert np.from_dlpack(theirs)[0] == 42
    assert np.from_dlpack(tvm_ffi.from_dlpack(ours))[0] == 42


def test_packed_elements_share_memory():
    tvm_ffi = pytest.importorskip("tvm_ffi")
    ours = backplane.empty((5,), "float4_e2m1fn")
    theirs = tvm_ffi.from_dlpack(ours)
    assert str(theirs.dtype) == "float4_e2m1fn" and theirs.shape == (5,)
    assert backplane.from_dlpack(theirs).to_device("cpu").dtype == "float4_e2m1fn"


def test_torch_shares_memory():
    torch = pytest.importorskip("torch")
    theirs = torch.arange(4)
    ours = backplane.from_dlpack(theirs)
    assert ours.numpy().ctypes.data == theirs.data_ptr() == torch.from_dlpack(ours).data_ptr()
    torch.from_dlpack(ours)[0] = 42
    assert ours.numpy()[0] == 42
    for dtype in (torch.bfloat16, torch.float16, torch.bool, torch.int8):
        assert torch.from_dlpack(backplane.empty((2,), dtype)).dtype == dtype


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "int64", "uint64", "bool"])
def test_text_is_that_of_numpy(dtype):
    random = np.random.default_rng(7)
    for shape in [(), (0,), (5,), (40,), (3, 4), (2, 3, 20), (2, 2, 2, 3), (1100,), (40, 50), (8, 7, 30)]:
        for scale in [1, 1e-6, 300, 1e7]:
            with np.errstate(over="ignore"):
                array = np.asarray(np.round(random.standard_normal(shape) * scale, 5)).astype(
                    "int64" if dtype.startswith("u") else dtype).astype(dtype)
            assert str(backplane.tensor(array)) == str(array)


def test_text_of_infinities_and_small_types():
    assert str(backplane.tensor(np.array([1, np.nan, -np.inf], "float32"))) == "[  1.  nan -inf]"
    pairs = backplane.tensor(np.array([0x38, 0x7F, 0xC0], "uint8"))
    assert str(pairs.view_as((3,), "float8_e4m3fn")) == "[ 1. nan -2.]"
    assert str(pairs.view_as((6,), "int4")) == "[-8  3 -1  7  0 -4]"
