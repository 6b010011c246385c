# SPDX-License-Identifier: Apache-2.0
"""Tensors, devices and the exchange with numpy."""

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
    with pytest.raises(IndexError):
        tensor.reshape(5, 5)
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
    with pytest.raises(TypeError):
        backplane.from_dlpack(3)
    with pytest.raises(errors.BackplaneError):
        backplane.tensor(np.zeros(3)).copy_to(backplane.empty((4,)))


def test_dlpack_of_both_versions():
    tensor = backplane.tensor(np.arange(3.0))
    assert 'dltensor"' in repr(tensor.__dlpack__())
    assert "dltensor_versioned" in repr(tensor.__dlpack__(max_version=(1, 0)))
    assert tensor.__dlpack_device__() == (1, 0)
    with pytest.raises(BufferError):
        tensor.__dlpack__(copy=True)
    with pytest.raises(BufferError):
        tensor.__dlpack__(dl_device=(2, 0))


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


def test_torch_shares_memory():
    torch = pytest.importorskip("torch")
    ours = backplane.from_dlpack(torch.arange(4))
    torch.from_dlpack(ours)[0] = 42
    assert ours.numpy()[0] == 42
