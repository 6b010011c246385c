# SPDX-License-Identifier: Apache-2.0
"""Compute devices, functions and models, through Backplane.

    import backplane, numpy

    model = backplane.Model("net.so")
    outputs = model.run(x=numpy.zeros((1, 3, 224, 224), "float32"))
    outputs["y"].numpy()

Arrays of numpy, torch and others are passed without a copy (the buffer protocol, DLPack). Python's
lock is let go while the library works. docs/python.md has more."""

from __future__ import annotations

import threading
from os import PathLike
from types import ModuleType
from typing import TYPE_CHECKING, Any, Callable, Mapping, NamedTuple, Sequence, TypeVar, overload

from . import _core, errors, te
from .errors import BackplaneError
from .target import Target, target_kinds

if TYPE_CHECKING:
    import numpy as np

Path = str | PathLike[str]
Callback = TypeVar("Callback", bound=Callable[..., Any])


class Device(NamedTuple):
    """A device: DLPack's number of its kind, and its index."""

    device_type: int
    device_id: int

    def __str__(self) -> str:
        return _core.format_device(self)

    @property
    def exists(self) -> bool:
        """Whether it is there."""
        return bool(_core.device_attribute(self, "exist"))

    def attribute(self, name: str) -> Any:
        """An attribute, "device_name"; None for one that the device does not have."""
        return _core.device_attribute(self, name)

    def synchronize(self) -> None:
        """Waits for what is queued on its default stream; an error of it is raised here."""
        _core.synchronize(self)


class Tensor(_core.Tensor):
    """An array on a device. numpy, torch and others take it by DLPack, without a copy."""

    __slots__ = ()

    def to_device(self, target: Device | str) -> Tensor:
        """A copy on another device; itself if it is there already."""
        there = device(target)
        if there == self.device:
            return self
        copy: Tensor = self.copy_to(_core.empty(self.shape, self.dtype, there, None))
        return copy

    def reshape(self, *shape: int) -> Tensor:
        """The same memory with other extents."""
        view: Tensor = self.view_as(shape, self.dtype)
        return view

    def numpy(self) -> np.ndarray[Any, Any]:
        """An array that shares the memory if it is the host's, and a copy of it otherwise."""
        import numpy  # pylint: disable=import-outside-toplevel

        return numpy.asarray(memoryview(self.to_device(Device(1, 0))))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        array = self.numpy()
        is_copy = self.device != Device(1, 0)
        if dtype is not None and array.dtype != dtype:
            array, is_copy = array.astype(dtype), True
        if is_copy and copy is False:
            raise errors.InvalidValueError(
                f"an array of type {array.dtype} on the host shares no memory with {self!r}")
        return array.copy() if copy and not is_copy else array

    def __repr__(self) -> str:
        return f"Tensor({self.shape}, {self.dtype}, {self.device})"


class Module(_core.Module):
    """Loaded code: functions by name, `module["add"]`, and imports."""

    __slots__ = ()

    def __getitem__(self, name: str) -> Function:
        function = self.find_function(name)
        if function is None:
            raise errors.NotFoundError(f"the module has no function '{name}'")
        return function

    def machine(self, on: Device | str | None = None) -> Module:
        """The functions of a model that TVM compiled, on a device: `machine["forward"](x)`."""
        if isinstance(on, Device):
            there = on
        else:
            there = _core.select_model_devices(self, on)[0]
        made: Module = _core.relax_machine(self, there)
        return made

    def __repr__(self) -> str:
        return f"Module({self.kind})"


Function = _core.Function
IrModule = _core.IrModule
_core._setup(Device, Tensor, Module, errors.BY_KIND, BackplaneError)


# ---- Devices and tensors -----------------------------------------------------------------------------


def device(name: Device | str) -> Device:
    """A device by name: "cpu", "opencl:1"."""
    return name if isinstance(name, Device) else _core.parse_device(name)


def select_device(preferences: str | None = None) -> Device:
    """The first of a list of preferences that is there, by BACKPLANE_DEVICE if there is none."""
    return _core.select_device(preferences)


def devices() -> list[Device]:
    """All devices that are there, of all installed plugins."""
    found = []
    for kind in _core.device_kinds():
        first = device(kind)
        try:
            count = _core.device_count(first)
        except BackplaneError:
            continue
        found += [Device(first.device_type, index) for index in range(count)]
    return found


def empty(shape: Sequence[int], dtype: str = "float32", on: Device | str = "cpu",
          scope: str | None = None) -> Tensor:
    """A tensor whose elements have no values yet."""
    tensor_: Tensor = _core.empty(shape, dtype, device(on), scope)
    return tensor_


def from_dlpack(array: Any) -> Tensor:
    """A tensor that shares the memory of an array with `__dlpack__`."""
    tensor_: Tensor = _core.from_dlpack(array)
    return tensor_


def tensor(values: Any, on: Device | str = "cpu") -> Tensor:
    """A copy of an array, or of what numpy makes an array of, on a device."""
    import numpy  # pylint: disable=import-outside-toplevel

    array = numpy.ascontiguousarray(values).reshape(numpy.shape(values))
    if not array.flags.writeable:
        array = array.copy()
    source = from_dlpack(array)
    copy: Tensor = source.copy_to(_core.empty(source.shape, source.dtype, device(on), None))
    return copy


# ---- Functions ---------------------------------------------------------------------------------------


@overload
def register_func(name: str, func: None = None, override: bool = False
                  ) -> Callable[[Callback], Callback]: ...
@overload
def register_func(name: str, func: Callback, override: bool = False) -> Callback: ...
def register_func(name: str, func: Any = None, override: bool = False) -> Any:
    """Registers a callable as a global function; without one, a decorator."""

    def register(callback: Any) -> Any:
        function = callback if isinstance(callback, Function) else Function(callback)
        _core.register_function(name, function, override)
        return callback

    return register if func is None else register(func)


def get_global_func(name: str, allow_missing: bool = False) -> Function | None:
    """A global function; the plugin that provides it is activated."""
    function = _core.find_function(name)
    if function is None and not allow_missing:
        raise errors.NotFoundError(f"no global function '{name}', and no plugin provides it")
    return function


def list_global_func_names() -> list[str]:
    """The names of all global functions, sorted."""
    return _core.list_functions()


def remove_global_func(name: str) -> None:
    """Removes a global function."""
    _core.remove_function(name)


def _init_api(prefix: str, module: ModuleType) -> None:
    """Makes each global function "PREFIX.name" an attribute of a module."""
    for name in _core.list_functions():
        if name.startswith(prefix + "."):
            attribute = name[len(prefix) + 1:]
            if attribute.isidentifier():
                setattr(module, attribute, _core.find_function(name))


# ---- Modules and models ------------------------------------------------------------------------------


def load(path: Path) -> Module:
    """Opens a module file, a shared library of ours or of TVM's; or the graph (.json) of TVM up to
    0.19 with what lies beside it, or the folder that it is in."""
    module: Module = _core.load_module(path)
    return module


def load_parts(graph: Path, library: Path, params: Path | None = None) -> Module:
    """Opens a graph of TVM up to 0.19 whose files lie apart; without parameters they are inputs."""
    module: Module = _core.load_parts(graph, library, params)
    return module


def load_from_bytes(kind: str, data: bytes) -> Module:
    """Makes a module of what Module.save_to_bytes gave."""
    module: Module = _core.load_module_from_bytes(kind, data)
    return module


def compile(path: Path,  # pylint: disable=redefined-builtin
            targets: str | Target | Sequence[str | Target],
            shapes: Mapping[str, Sequence[int]] | None = None) -> Module:
    """Compiles an ONNX file for one target or several: a module for Model or export_library."""
    each = (targets,) if isinstance(targets, (str, Target)) else targets
    names = tuple(str(target) for target in each)
    module: Module = _core.compile_model(path, names, dict(shapes or {}))
    return module


class TensorInfo(NamedTuple):
    """An input or an output: -1 for an extent, None for what only a run knows."""

    name: str
    dtype: str | None
    shape: tuple[int, ...] | None


class OperatorTime(NamedTuple):
    """One operator of a profiled run; times in nanoseconds."""

    node: str
    function: str
    start: int
    duration: int


class Model:
    """A compiled model on a device, or two. Runs from several threads take turns."""

    def __init__(
        self, source: Path | Module, on: Device | Sequence[Device] | str | None = None
    ) -> None:
        """`source`: a library, a graph or folder of TVM's, or a module. `on`: a device, the devices
        of a graph that runs on two, or preferences as for select_device, among what the model was
        compiled for."""
        module = source if isinstance(source, Module) else load(source)
        if isinstance(on, Device):
            devices: tuple[Device, ...] = (on,)
        elif on is None or isinstance(on, str):
            devices = _core.select_model_devices(module, on)
        else:
            devices = tuple(on)
        self._model = _core.Model(module, devices)
        self.device = devices[0]
        self._lock = threading.Lock()
        self.inputs = [TensorInfo(*info) for info in self._model.inputs()]
        self.outputs = [TensorInfo(*info) for info in self._model.outputs()]

    def _set_inputs(self, values: Mapping[str, Any]) -> None:
        missing = [info.name for info in self.inputs if info.name not in values]
        if missing:
            raise errors.InvalidValueError(f"no value for {', '.join(missing)}")
        for name, value in values.items():
            self._model.set_input(name, value)

    def run(self, values: Mapping[str, Any] | None = None, **named: Any) -> dict[str, Tensor]:
        """Runs with an array for each input, by name; the outputs, by name, on the device."""
        with self._lock:
            self._set_inputs({**(values or {}), **named})
            results = self._model.run()
        return {info.name: result for info, result in zip(self.outputs, results)}

    def profile(self, values: Mapping[str, Any] | None = None, **named: Any) -> list[OperatorTime]:
        """Runs and times each operator, waiting after each."""
        with self._lock:
            self._set_inputs({**(values or {}), **named})
            return [OperatorTime(*record) for record in self._model.profile()]


__all__ = [
    "BackplaneError", "Device", "Function", "IrModule", "Model", "Module", "OperatorTime", "Target",
    "Tensor", "TensorInfo", "compile", "device", "devices", "empty", "errors", "from_dlpack", "get_global_func",
    "list_global_func_names", "load", "load_from_bytes", "load_parts", "register_func", "remove_global_func",
    "select_device", "target_kinds", "te", "tensor",
]
