# SPDX-License-Identifier: Apache-2.0
"""Compute devices, functions and models, through Backplane.

    import backplane, numpy

    model = backplane.Model("net.so")  # or "net.onnx"
    outputs = model.run(x=numpy.zeros((1, 3, 224, 224), "float32"))
    outputs["y"].numpy()

Arrays of numpy, torch and other packages are passed without a copy (buffer protocol, DLPack). The
library releases Python's global interpreter lock while it works. See docs/python.md."""

from __future__ import annotations

import contextlib
import math
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike, fsdecode
from types import ModuleType
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, TypeVar, overload


def _use_libraries_of_wheel() -> None:
    """Let the libraries in a wheel find the plugins and the trial program beside them. Plugins that
    BACKPLANE_PLUGIN_PATH names come first."""
    folder = os.path.join(os.path.dirname(__file__), "lib")
    if os.path.isdir(folder):
        plugins = os.path.join(folder, "plugins")
        named = os.environ.get("BACKPLANE_PLUGIN_PATH", "").split(":")
        if plugins not in named:
            os.environ["BACKPLANE_PLUGIN_PATH"] = ":".join([*filter(None, named), plugins])
        os.environ.setdefault("BACKPLANE_TRIAL_PROGRAM", os.path.join(folder, "backplane-trial"))


_use_libraries_of_wheel()
try:
    from . import _core
except ImportError as error:
    if "libbackplane" not in str(error) and "bp_" not in str(error):
        raise
    raise ImportError(
        f"{error}. The package backplane needs the libraries that it was built against: install them, "
        "or name the folder that they are in by LD_LIBRARY_PATH; after another version of them was "
        "installed, build the package again") from None
from . import errors, te
from .dtype import DType, dtype_name
from .errors import BackplaneError
from .target import Target, target_kinds, target_texts

__version__ = "0.1.0"

if TYPE_CHECKING:
    import numpy as np

Path = str | PathLike[str]
Callback = TypeVar("Callback", bound=Callable[..., Any])


class Device(NamedTuple):
    """A device: DLPack's number of the device's kind, and the device's index among the devices of that
    kind."""

    device_type: int
    device_id: int

    def __str__(self) -> str:
        return _core.format_device(self)

    def __repr__(self) -> str:
        return f"device({str(self)!r})"

    @property
    def exists(self) -> bool:
        """Whether the device is present."""
        return bool(_core.device_attribute(self, "exist"))

    def attribute(self, name: str) -> Any:
        """Return an attribute of the device, for example "device_name", or None if the device lacks it."""
        return _core.device_attribute(self, name)

    def synchronize(self) -> None:
        """Wait for the work on the device's default stream. An error of the awaited work is raised by this method."""
        _core.synchronize(self)


Preferences = Device | str | Sequence[Device | str] | None


class Tensor(_core.Tensor):
    """An array on a device. numpy, torch and other packages import it through DLPack, without a copy."""

    __slots__ = ()

    def to_device(self, target: Device | str) -> Tensor:
        """Return a copy on another device, or the tensor itself if it is on that device."""
        there = device(target)
        if there == self.device:
            return self
        copy: Tensor = self.copy_to(_core.empty(self.shape, self.dtype, there, None))
        return copy

    def reshape(self, *shape: int | Sequence[int]) -> Tensor:
        """Return the same elements with other extents: `reshape(2, 3)`, `reshape((2, -1))`. One extent may
        be -1; it is computed from the others."""
        extents: Any = shape[0] if len(shape) == 1 and hasattr(shape[0], "__iter__") else shape
        wanted, count = list(extents), math.prod(self.shape)
        known = math.prod(extent for extent in wanted if extent != -1)
        if wanted.count(-1) == 1 and known > 0 and count % known == 0:
            wanted[wanted.index(-1)] = count // known
        if math.prod(wanted) != count or min(wanted, default=0) < 0:
            raise errors.InvalidValueError(
                f"a tensor of shape {self.shape} cannot be reshaped into {tuple(extents)}")
        return self.view_as(wanted, self.dtype)

    def view_as(self, shape: Sequence[int], dtype: DType) -> Tensor:
        """Return a tensor of another shape and element type in the same memory."""
        view: Tensor = super().view_as(shape, dtype_name(dtype))
        return view

    def numpy(self) -> np.ndarray[Any, Any]:
        """Return a numpy array. The array shares the tensor's memory if that is host memory; otherwise it
        is a copy."""
        import numpy  # pylint: disable=import-outside-toplevel

        try:
            return numpy.asarray(memoryview(self.to_device(Device(1, 0))))
        except BufferError:
            raise errors.InvalidTypeError(
                f"numpy has no type for elements of {self.dtype}; torch.from_dlpack may") from None

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        array = self.numpy()
        is_copy = self.device != Device(1, 0)
        if dtype is not None and array.dtype != dtype:
            array, is_copy = array.astype(dtype), True
        if is_copy and copy is False:
            raise errors.InvalidValueError(
                f"an array of type {array.dtype} on the host shares no memory with {self!r}")
        return array.copy() if copy and not is_copy else array

    def _bytes(self) -> Tensor:
        """Return the memory of a compact tensor as bytes."""
        return self.view_as((self.nbytes,), "uint8")

    def __reduce__(self) -> tuple[Callable[..., Tensor], tuple[Any, ...]]:
        """Pickle the elements. Unpickling copies them to the device that the tensor was on."""
        host: Tensor = self.copy_to(_core.empty(self.shape, self.dtype, Device(1, 0), None))
        data = bytes(memoryview(host._bytes()))
        return _from_pickle, (self.shape, self.dtype, str(self.device), data)

    def __repr__(self) -> str:
        return f"Tensor({self.shape}, {self.dtype}, {self.device})"


class Module(_core.Module):
    """Loaded code: its functions by name, as in `module["add"]`, and the modules that it imports."""

    __slots__ = ()
    __iter__ = None
    __contains__ = None

    def __getitem__(self, name: str) -> Function:
        function = self.find_function(name)
        if function is None:
            raise errors.NotFoundError(f"the module has no function '{name}'")
        return function

    def machine(self, on: Preferences = None) -> Module:
        """Return the functions of a model on a device: `machine["main"](x)`. The model was compiled by
        TVM, or has open extents. The functions take and return tensors on the device, and copy none of
        them."""
        there = on if isinstance(on, Device) else _core.select_model_devices(self, _preferences(on))[0]
        made: Module = _core.relax_machine(self, there)
        return made

    def __repr__(self) -> str:
        return f"Module({self.kind})"


Function = _core.Function
IrModule = _core.IrModule
_core._setup(Device, Tensor, Module, errors.BY_KIND, BackplaneError)


# ---- Devices and tensors -----------------------------------------------------------------------------


def device(name: Device | str) -> Device:
    """Return the device with a name such as "cpu" or "opencl:1"."""
    if isinstance(name, Device):
        return name
    if not isinstance(name, str):
        raise errors.InvalidTypeError(f'a device is written as "cpu" or "opencl:1"; not {name!r}')
    return _core.parse_device(name)


def _preferences(on: Preferences) -> str | None:
    """Return preferences as one text, in the order of the list."""
    if on is None or isinstance(on, str):
        return on
    each = [on] if isinstance(on, Device) or not isinstance(on, Sequence) else list(on)
    wrong = [item for item in each if not isinstance(item, (Device, str))]
    if wrong:
        raise errors.InvalidTypeError(
            f'a device is preferred as "cpu" or "opencl:1", or a list of such; not {wrong[0]!r}')
    if not each:
        raise errors.InvalidValueError('no device is in the list; "auto" is the best of all')
    return ",".join(map(str, each))


def select_device(preferences: Preferences = None) -> Device:
    """Return the first present device of a list of preferences (["opencl:1", "cpu"] or "opencl:1,cpu").
    Without preferences, BACKPLANE_DEVICE is read."""
    return _core.select_device(_preferences(preferences))


def _other_devices(on: Preferences, chosen: Device) -> list[Device]:
    """Return the devices that preferences name beside the chosen device, in order: the best present device
    for each entry that names a device."""
    text = _preferences(on)
    entries = [entry.strip() for entry in (_core.default_preferences() if text is None else text).split(",")]
    entries = [entry for entry in entries if entry not in ("", "auto")]
    named = [entry for entry in entries if entry[0] not in "!+" and "=" not in entry]
    conditions = [entry for entry in entries if entry not in named]
    found = [chosen]
    for entry in named:
        try:
            other = select_device(",".join([entry, *conditions]))
        except BackplaneError:
            continue  # as in a list of preferences
        if other not in found:
            found.append(other)
    return found[1:]


def devices() -> list[Device]:
    """Return all present devices of all installed plugins."""
    found = []
    for kind in _core.device_kinds():
        first = device(kind)
        try:
            count = _core.device_count(first)
        except BackplaneError:
            continue
        found += [Device(first.device_type, index) for index in range(count)]
    return found


def empty(shape: Sequence[int], dtype: DType = "float32", on: Device | str = "cpu",
          scope: str | None = None) -> Tensor:
    """Return a tensor whose elements are uninitialised. `dtype` may be an element type of the library,
    numpy or torch."""
    tensor_: Tensor = _core.empty(shape, dtype_name(dtype), device(on), scope)
    return tensor_


def _from_pickle(shape: Sequence[int], dtype: str, on: str, data: bytes) -> Tensor:
    host = empty(shape, dtype)
    if len(data) != host.nbytes:
        raise errors.InvalidValueError(
            f"a pickled tensor of {dtype} and shape {tuple(shape)} has {len(data)} bytes; "
            f"expected {host.nbytes}")
    memoryview(host._bytes())[:] = data  # pylint: disable=protected-access
    return host.to_device(on)


def from_dlpack(array: Any) -> Tensor:
    """Return a tensor that shares the memory of an array with `__dlpack__`."""
    tensor_: Tensor = _core.from_dlpack(array)
    return tensor_


def tensor(values: Any, on: Device | str = "cpu", dtype: DType | None = None) -> Tensor:
    """Return a copy of an array on a device. numpy converts other values to an array first. `dtype` is the
    element type of the copy; by default it is the element type of the array."""
    import numpy  # pylint: disable=import-outside-toplevel

    name = None if dtype is None else dtype_name(dtype)
    try:
        array = numpy.asarray(values, name)
    except TypeError as error:
        raise errors.InvalidTypeError(f"numpy makes no such array of the values: {error}") from None
    native = array.dtype.newbyteorder("=")
    if native.kind not in "biufc" or native.itemsize > 16 or native.char == "g":
        raise errors.InvalidTypeError(f"a tensor holds numbers, not elements of {array.dtype}")
    shape = array.shape
    array = numpy.ascontiguousarray(array, native).reshape(shape)
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
    """Register a callable as a global function. Without a callable, return a decorator:
    `@register_func("my.add")`."""
    if not isinstance(name, str):
        raise errors.InvalidTypeError(
            f'a function is registered by a name: register_func("my.add"), not by {name!r}')

    def register(callback: Any) -> Any:
        function = callback if isinstance(callback, Function) else Function(callback)
        _core.register_function(name, function, override)
        return callback

    return register if func is None else register(func)


def get_global_func(name: str, allow_missing: bool = False) -> Function | None:
    """Return a global function. The plugin that provides the function is activated."""
    function = _core.find_function(name)
    if function is None and not allow_missing:
        raise errors.NotFoundError(f"no global function '{name}', and no plugin provides it")
    return function


def list_global_func_names() -> list[str]:
    """Return the names of all global functions, sorted."""
    return _core.list_functions()


def remove_global_func(name: str) -> None:
    """Remove a global function."""
    _core.remove_function(name)


def _init_api(prefix: str, module: ModuleType) -> None:
    """Make each global function "PREFIX.name" an attribute of a module."""
    for name in _core.list_functions():
        if name.startswith(prefix + "."):
            attribute = name[len(prefix) + 1:]
            if attribute.isidentifier():
                setattr(module, attribute, _core.find_function(name))


# ---- Modules and models ------------------------------------------------------------------------------


def load(path: Path) -> Module:
    """Open a module file: a shared library of Backplane or TVM, or a graph (.json) of TVM up to 0.19 with
    the files beside it. The path of the graph's folder is accepted, too."""
    module: Module = _core.load_module(path)
    return module


def load_parts(graph: Path, library: Path, params: Path | None = None) -> Module:
    """Open a graph of TVM up to 0.19 whose files lie in different folders. Without a file of parameters,
    the parameters are inputs of the graph."""
    module: Module = _core.load_parts(graph, library, params)
    return module


def load_from_bytes(kind: str, data: bytes) -> Module:
    """Make a module from the bytes that Module.save_to_bytes returned."""
    module: Module = _core.load_module_from_bytes(kind, data)
    return module


def _split_targets(targets: str | Target | Sequence[str | Target]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the targets, and the graph compilers that the same text names among the targets."""
    names = target_texts(targets)
    kinds = target_kinds()
    compilers = tuple(name for name in names
                      if name not in kinds and _core.find_function("graph_compiler." + name) is not None)
    left = tuple(name for name in names if name not in compilers)
    return (left, compilers) if left else (names, ())


def compile(model: Path | bytes,  # pylint: disable=redefined-builtin
            targets: str | Target | Sequence[str | Target],
            shapes: Mapping[str, Sequence[int]] | None = None,
            fallback: str | Target | Sequence[str | Target] | None = None,
            reference: bool = False,
            graph_compilers: str | Sequence[str] = (),
            measure: bool = False,
            require: float = 0,
            tensors: Mapping[str, Any] | None = None) -> Module:
    """Compile an ONNX file, or the bytes of an ONNX file, for one target or several ("c,opencl", ["c",
    "opencl"]). Return a module for Model or export_library. An operator that the target refuses is
    compiled for the first target of `fallback` that accepts it. Such a model runs on several devices:
    Model(module, "opencl,cpu"). With `reference` each operator is a function of plain loops. Such code
    is slow; it shows whether an optimisation made a result wrong. `graph_compilers` names graph
    compilers of plugins ("dnnl"), which may claim parts of the model. compile fails if they claim a
    smaller share of the nodes than `require`, from 0 to 1. With `measure` the model is run on this
    machine with and without the claimed parts. A claimed part is kept only if it is faster. A graph
    compiler among the targets ("c,dnnl") is measured, too. `tensors` is for a model in bytes: it maps
    the names of the model's external initializers to compact arrays on the CPU. The module copies these
    arrays."""
    names, among_targets = _split_targets(targets)
    if shapes is not None and not isinstance(shapes, Mapping):
        raise errors.InvalidTypeError(
            f'shapes are given by the names of inputs, as {{"x": (1, 3, 224, 224)}}, not as {shapes!r}')
    beside = () if fallback is None else target_texts(fallback)
    compilers = (graph_compilers,) if isinstance(graph_compilers, str) else tuple(graph_compilers)
    if tensors and not isinstance(model, bytes):
        raise errors.InvalidValueError("tensors are those of a model in bytes; a file names its own")
    module: Module = _core.compile_model(model, names, dict(shapes or {}), beside, reference,
                                         compilers + among_targets, measure or bool(among_targets), require,
                                         dict(tensors or {}))
    return module


def from_torch(module: Any, example: Any, on: Preferences = None, dynamic_shapes: Any = None,
               target: str | Target | None = None) -> Model:
    """Make a model of a PyTorch module.

    `example` is the module's argument, a tuple of arguments, or a dict of arguments by name. `on` is a
    list of preferences as for select_device. `dynamic_shapes` names the open extents, as for
    torch.export.export. `target` is the target of the code, by default the device's own target. The
    model has copies of the module's parameters. See docs/pytorch.md."""
    from . import torch  # pylint: disable=import-outside-toplevel

    return torch.from_torch(module, example, on, dynamic_shapes, target)


def _open_model(path: Path, on: Preferences, shapes: Mapping[str, Sequence[int]] | None) -> Module:
    """Open a compiled model, or compile an ONNX file for the chosen device."""
    if fsdecode(path).lower().endswith(".onnx"):
        chosen = select_device(on)
        others = [Target.from_device(other) for other in _other_devices(on, chosen)]
        return compile(path, Target.from_device(chosen), shapes, fallback=others or None)
    if shapes is not None:
        raise errors.InvalidValueError(
            f"shapes are those of an ONNX file that is compiled; {fsdecode(path)} is compiled already")
    return load(path)


class TensorInfo(NamedTuple):
    """An input or an output of a model. An extent of the shape is -1 if it is open, and None if only a run
    determines it. `kind` is "tensor", "sequence", "optional" (of a tensor) or "optional sequence"; type and
    shape of a list are those of each of its tensors."""

    name: str
    dtype: str | None
    shape: tuple[int, ...] | None
    kind: str = "tensor"


class OperatorTime(NamedTuple):
    """One operator of a profiled run. Times are in nanoseconds."""

    node: str
    function: str
    start: int
    duration: int


def _list_input(name: str, kind: str, value: Any) -> tuple[Any, ...] | None:
    """Return the tensors of a sequence or optional; None for an optional without a value."""
    if value is None and kind != "sequence":
        return None
    if kind == "optional":
        return (value,)
    if not isinstance(value, (list, tuple)):
        raise errors.InvalidTypeError(f"input '{name}' is of kind {kind}: it takes a list of arrays"
                                      f"{' or None' if kind != 'sequence' else ''}, not a value of type "
                                      f"{type(value).__name__}")
    return tuple(value)


def _numpy(output: Any) -> Any:
    """Return an output as numpy arrays."""
    if isinstance(output, list):
        return [tensor.numpy() for tensor in output]
    return None if output is None else output.numpy()


class Model:
    """A compiled model on one device or several. Runs from several threads take turns."""

    def __init__(self, source: Path | Module, on: Preferences = None,
                 shapes: Mapping[str, Sequence[int]] | None = None) -> None:
        """Open or compile a model.

        `source` is an ONNX file (.onnx), a library, a graph or folder of TVM, or a module. An ONNX file
        is compiled for the device, with `shapes` as for compile. `on` is a list of preferences as for
        select_device, among the kinds of device that the model was compiled for. A Device, or a list of
        Devices for a graph that runs on several, is used as given. For an ONNX file, the devices that
        `on` names after the chosen device are fallbacks: "a,b,c" compiles for b the operators that a
        refuses, and for c the operators that a and b refuse."""
        module = source if isinstance(source, Module) else _open_model(source, on, shapes)
        given = (on,) if isinstance(on, Device) else on
        if isinstance(given, Sequence) and given and all(isinstance(each, Device) for each in given):
            devices = tuple(each for each in given if isinstance(each, Device))
        else:
            devices = _core.select_model_devices(module, _preferences(on))
        self._model = _core.Model(module, devices)
        self.device = devices[0]
        self._lock = threading.RLock()
        self._is_busy = False
        self._caches: dict[str, int] = {}  # for each input with a cache, the index of its output
        self.inputs = [TensorInfo(*info) for info in self._model.inputs()]
        self.outputs = [TensorInfo(*info) for info in self._model.outputs()]

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """A turn of this thread. An array's method, a signal handler or a finalizer may call the model in the
        middle of a turn: it would wait for its own thread."""
        with self._lock:
            if self._is_busy:
                raise errors.NotReadyError("this thread is in the middle of a call of the model; make another "
                                           "model for calls within it")
            try:
                self._is_busy = True
                yield
            finally:
                self._is_busy = False

    def _set_inputs(self, values: Mapping[str, Any]) -> None:
        known = [info.name for info in self.inputs]
        unknown = [str(name) for name in values if name not in known]
        missing = [name for name in known if name not in values and name not in self._caches]
        if unknown:
            raise errors.NotFoundError(f"the model has no input {', '.join(map(repr, unknown))}; "
                                       f"it has {', '.join(known)}")
        if missing:
            raise errors.InvalidValueError(f"no value for {', '.join(missing)}")
        kinds = {info.name: info.kind for info in self.inputs}
        for name, value in values.items():
            if kinds[name] == "tensor":
                self._model.set_input(name, value)
            else:
                self._model.set_input_list(name, _list_input(name, kinds[name], value))
            self._caches.pop(name, None)

    def specialize(self, path: Path, shapes: Mapping[str, Sequence[int]],
                   target: str | Target | None = None,
                   fallback: str | Target | Sequence[str | Target] | None = None) -> None:
        """Compile the ONNX file of a model with open extents once more, for inputs of these shapes. Runs
        with inputs of these shapes use the new code; all other runs use the general code. `target` is
        by default the target of the model's device; `fallback` is as for compile. Any thread may call
        this method while the model runs."""
        names = () if target is None else target_texts(target)
        beside = () if fallback is None else target_texts(fallback)
        _core.specialize_model(self._model, path, names, dict(shapes), beside)

    def bind_cache(self, input: str, output: str, memory: Tensor, length: int = 0) -> None:
        """Keep a cache, an input that grows from run to run, in `memory`. `memory` is a tensor on the
        model's device with room for more rows than the input has. In the model, `output` must be
        Concat(`input`, new). The first `length` rows of `memory` are the input of the next run. Later
        runs are called without the input, and each run writes its new rows behind the earlier rows. The
        result for `output` is the rows in `memory`, not a copy. A run that is given the input ends the
        binding."""
        with self._turn():
            self._model.bind_cache(input, output, memory, length)
            self._caches[input] = [info.name for info in self.outputs].index(output)

    def cache_length(self, input: str) -> int:
        """Return the number of rows of a cache that are the input of the next run."""
        with self._turn():
            return self._model.cache_length(input)

    def set_cache_length(self, input: str, length: int) -> None:
        """Set the number of rows of a cache that are the input of the next run. A smaller number goes back
        to earlier rows; a larger number requires that the caller wrote the added rows."""
        with self._turn():
            self._model.set_cache_length(input, length)

    def _by_name(self, values: Mapping[str, Any] | None, named: dict[str, Any]) -> dict[str, Any]:
        if values is None:
            return named
        if not isinstance(values, Mapping):
            names = ", ".join(f"{info.name}=..." for info in self.inputs)
            raise errors.InvalidTypeError(
                f"inputs are given by name, as ({names}) or in a dict, not by a value of type "
                f"{type(values).__name__}")
        return {**values, **named}

    def _outputs_of(self, names: Any) -> list[str]:
        """Return the names of the requested outputs; None requests all outputs."""
        known = [info.name for info in self.outputs]
        if names is None:
            return known
        if isinstance(names, str) or not isinstance(names, Sequence):
            raise errors.InvalidTypeError(
                f"the first of two arguments is a list of outputs, or None for all; got "
                f"{type(names).__name__}")
        unknown = [str(name) for name in names if name not in known]
        if unknown:
            raise errors.NotFoundError(f"the model has no output {', '.join(map(repr, unknown))}; "
                                       f"it has {', '.join(known)}")
        return list(names)

    @overload
    def run(self, values: Mapping[str, Any] | None = None, /, **named: Any) -> dict[str, Any]: ...

    @overload
    def run(self, names: Sequence[str] | None, values: Mapping[str, Any], /) -> list[Any]: ...

    def run(self, values: Any = None, feed: Mapping[str, Any] | None = None, /, **named: Any) -> Any:
        """Run with an array for each input, by name. Return the outputs by name, on the device: each a
        Tensor. A sequence is a list of arrays as an input, and a list of Tensors as an output; an
        optional without a value is None.

        `run(None, {"x": x})` and `run(["y"], {"x": x})` behave as in onnxruntime: they return a list of
        numpy arrays, for all outputs or for the named outputs."""
        wanted = self._outputs_of(values) if feed is not None else []
        given = self._by_name(values if feed is None else feed, named)
        with self._turn():
            self._set_inputs(given)
            lent = self._caches.values()
            results = self._model.run(bytes(i in lent for i in range(len(self.outputs))))
        outputs = {info.name: result for info, result in zip(self.outputs, results)}
        return outputs if feed is None else [_numpy(outputs[name]) for name in wanted]

    def profile(self, values: Mapping[str, Any] | None = None, /, **named: Any
                ) -> list[OperatorTime]:
        """Run and measure each operator by itself: wait for the device after each operator."""
        given = self._by_name(values, named)
        with self._turn():
            self._set_inputs(given)
            return [OperatorTime(*record) for record in self._model.profile()]

    def __repr__(self) -> str:
        def texts(infos: list[TensorInfo]) -> str:
            return ", ".join(f"{info.name}: {info.kind + ' of ' if info.kind != 'tensor' else ''}"
                             f"{info.dtype or '?'} {info.shape or ''}".rstrip() for info in infos)

        return f"Model({texts(self.inputs)} -> {texts(self.outputs)}; on {self.device})"


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


__all__ = [
    "BackplaneError", "Device", "Function", "IrModule", "Model", "Module", "OperatorTime", "Target",
    "Tensor", "TensorInfo", "compile", "device", "devices", "empty", "errors", "from_dlpack", "from_torch",
    "get_global_func",
    "list_global_func_names", "load", "load_from_bytes", "load_parts", "register_func", "remove_global_func",
    "select_device", "target_kinds", "te", "tensor",
]
