# SPDX-License-Identifier: Apache-2.0
"""Tensor expressions: definitions of computations, and schedules, which order them.

    from backplane import te

    program = te.Program()
    a = program.placeholder("a", (m, k))
    b = program.placeholder("b", (k, n))
    axis = program.reduce_axis("k", k)
    c = program.compute("c", (m, n), lambda i, j: te.sum(a[i, axis] * b[axis, j], [axis]))
    program.schedule(c, "c")             # or by hand, through c.stage
    matmul = program.build("matmul", [a, b, c], "c")
    matmul(x, y, z)

The approach follows Halide and TVM; see docs/lowering.md. A program belongs to one thread."""

from __future__ import annotations

from typing import Any, Callable, Sequence, Union

from . import _core, errors
from .dtype import DType, dtype_name
from .target import Target, as_target

_KINDS = _core.IR_KINDS
_TAILS = {"guard": 0, "overlap": 1, "peel": 2, "balance": 3}
_SCOPES = {"global": 0, "shared": 1, "local": 2}
_REDUCTIONS = {"sum": 0, "prod": 1, "min": 2, "max": 3}

Number = Union["Expr", int, float, bool]


def _chosen(table: dict[str, int], name: str, what: str) -> int:
    if name not in table:
        raise errors.InvalidValueError(f"{what} is one of {', '.join(table)}, not {name!r}")
    return table[name]


def _handle(value: Expr | Axis | Tensor | Stage, kind: type) -> _core.TeHandle:
    """Return the handle of an object that the caller passed."""
    if isinstance(value, kind):
        return value._handle
    hint = "; an expression reads an element of it, as x[i]" if isinstance(value, Tensor) else ""
    raise errors.InvalidTypeError(
        f"expected a value of type te.{kind.__name__}, got {value!r}{hint}")


def _handles(values: Sequence[Expr] | Sequence[Axis] | Sequence[Tensor], kind: type
             ) -> list[_core.TeHandle]:
    if isinstance(values, (Expr, Axis, Tensor)):
        raise errors.InvalidTypeError(f"expected a list of values of type te.{kind.__name__}, got one")
    return [_handle(value, kind) for value in values]


class Expr:
    """The value of an element, or a part of that value. Operators combine expressions to further expressions."""

    __slots__ = ("_program", "_handle")
    __array_ufunc__ = None  # with a NumPy number on the left, NumPy leaves the operator to this class

    def __init__(self, program: Program, handle: _core.TeHandle) -> None:
        self._program = program
        self._handle = handle

    @property
    def dtype(self) -> str:
        """The element type of the expression."""
        return self._program._core.get_dtype(self._handle)

    def astype(self, dtype: DType) -> Expr:
        """Convert the value to another element type. A float becomes an integer by truncation."""
        return Expr(self._program, self._program._core.cast(dtype_name(dtype), self._handle))

    def _operand(self, value: Number) -> Expr:
        if isinstance(value, Expr):
            if value.dtype == self.dtype:
                return value
            raise errors.InvalidTypeError(
                f"operands of types {self.dtype} and {value.dtype}: convert one by astype")
        if not isinstance(value, (int, float)) and not hasattr(value, "item"):
            _handle(value, Expr)
        return self._program.constant(value, self.dtype)

    def _binary(self, kind: str, left: Number, right: Number) -> Expr:
        a, b = self._operand(left), self._operand(right)
        return Expr(self._program,
                    self._program._core.binary(_KINDS[kind], a._handle, b._handle))

    def __add__(self, other: Number) -> Expr:
        return self._binary("add", self, other)

    def __radd__(self, other: Number) -> Expr:
        return self._binary("add", other, self)

    def __sub__(self, other: Number) -> Expr:
        return self._binary("sub", self, other)

    def __rsub__(self, other: Number) -> Expr:
        return self._binary("sub", other, self)

    def __mul__(self, other: Number) -> Expr:
        return self._binary("mul", self, other)

    def __rmul__(self, other: Number) -> Expr:
        return self._binary("mul", other, self)

    def _divide(self, left: Number, right: Number) -> Expr:
        if "float" not in self.dtype:
            raise errors.InvalidTypeError(f"/ is for floats; // divides {self.dtype}")
        return self._binary("div", left, right)

    def __truediv__(self, other: Number) -> Expr:
        return self._divide(self, other)

    def __rtruediv__(self, other: Number) -> Expr:
        return self._divide(other, self)

    def __floordiv__(self, other: Number) -> Expr:
        return self._binary("floordiv", self, other)

    def __rfloordiv__(self, other: Number) -> Expr:
        return self._binary("floordiv", other, self)

    def __mod__(self, other: Number) -> Expr:
        return self._binary("floormod", self, other)

    def __rmod__(self, other: Number) -> Expr:
        return self._binary("floormod", other, self)

    def __pow__(self, other: Number) -> Expr:
        return intrinsic("pow", self, other)

    def __rpow__(self, other: Number) -> Expr:
        return intrinsic("pow", self._operand(other), self)

    def __and__(self, other: Number) -> Expr:
        return self._binary("and" if self.dtype == "bool" else "bit_and", self, other)

    __rand__ = __and__

    def __or__(self, other: Number) -> Expr:
        return self._binary("or" if self.dtype == "bool" else "bit_or", self, other)

    __ror__ = __or__

    def __xor__(self, other: Number) -> Expr:
        return self._binary("ne" if self.dtype == "bool" else "bit_xor", self, other)

    __rxor__ = __xor__

    def __lshift__(self, other: Number) -> Expr:
        return self._binary("shl", self, other)

    def __rlshift__(self, other: Number) -> Expr:
        return self._binary("shl", other, self)

    def __rshift__(self, other: Number) -> Expr:
        return self._binary("shr", self, other)

    def __rrshift__(self, other: Number) -> Expr:
        return self._binary("shr", other, self)

    def __invert__(self) -> Expr:
        if self.dtype == "bool":
            return Expr(self._program, self._program._core.logical_not(self._handle))
        if "float" in self.dtype:
            raise errors.InvalidTypeError(f"~ is for integers and bools, not {self.dtype}")
        ones = -1 if self.dtype.startswith("int") else 2 ** int(self.dtype[4:].split("x")[0]) - 1
        return self._binary("bit_xor", self, ones)

    def __neg__(self) -> Expr:
        return self._binary("sub", 0, self)

    def __pos__(self) -> Expr:
        return self

    def __abs__(self) -> Expr:
        return intrinsic("abs", self)

    def __lt__(self, other: Number) -> Expr:
        return self._binary("lt", self, other)

    def __le__(self, other: Number) -> Expr:
        return self._binary("le", self, other)

    def __gt__(self, other: Number) -> Expr:
        return self._binary("gt", self, other)

    def __ge__(self, other: Number) -> Expr:
        return self._binary("ge", self, other)

    def __eq__(self, other: Number) -> Expr:  # type: ignore[override]
        return self._binary("eq", self, other)

    def __ne__(self, other: Number) -> Expr:  # type: ignore[override]
        return self._binary("ne", self, other)

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise errors.InvalidTypeError(
            "what an expression gives is not known yet; use te.select, & and |")

    def __str__(self) -> str:
        return self._program._core.print_expression(self._handle)

    def __repr__(self) -> str:
        return f"Expr({self})"


class Axis:
    """An iteration axis of a stage."""

    __slots__ = ("_program", "_handle")

    def __init__(self, program: Program, handle: _core.TeHandle) -> None:
        self._program = program
        self._handle = handle

    @property
    def extent(self) -> int:
        """The number of iterations of the axis."""
        return self._program._core.get_extent(self._handle)

    def __repr__(self) -> str:
        return f"te.Axis({self.extent})"


class Tensor:
    """A placeholder or a computed tensor of a program."""

    __slots__ = ("_program", "_handle", "shape", "dtype")
    __iter__ = None  # not iterable: an index may be an expression, so the extents do not end an iteration

    def __init__(self, program: Program, handle: _core.TeHandle) -> None:
        self._program = program
        self._handle = handle
        self.shape, self.dtype = program._core.describe(handle)

    def __getitem__(self, indices: Number | tuple[Number, ...]) -> Expr:
        """Return an element. The index may be out of bounds in the branch of a select that is not chosen."""
        return self._program._read(self, indices, None)

    def read_if(self, condition: Expr, *indices: Number) -> Expr:
        """Return an element where the condition holds, and zero elsewhere. The element is read only where the
        condition holds."""
        return self._program._read(self, indices, condition)

    @property
    def stage(self) -> Stage:
        """The schedule of a computed tensor."""
        return Stage(self)

    def __repr__(self) -> str:
        return f"te.Tensor({self.shape}, {self.dtype})"


class Stage:
    """The schedule of one computed tensor. By default its axes are serial loops: first the tensor's dimensions in
    order, then the reduction axes."""

    __slots__ = ("_program", "_core", "_handle", "axes", "reduce_axes")

    def __init__(self, tensor: Tensor) -> None:
        self._program = tensor._program
        self._core = self._program._core
        self._handle = self._core.get_stage(tensor._handle)
        data, reduction = self._core.get_axes(tensor._handle)
        self.axes = [Axis(self._program, handle) for handle in data]
        self.reduce_axes = [Axis(self._program, handle) for handle in reduction]

    def __repr__(self) -> str:
        return f"te.Stage({self.axes}, {self.reduce_axes})"

    def split(self, axis: Axis, factor: int, tail: str = "guard") -> tuple[Axis, Axis]:
        """Split an axis into ceil(extent / factor) outer and `factor` inner iterations. `tail` handles an extent
        that the factor does not divide: "guard" skips the iterations beyond the extent, "overlap" moves the last
        tile back, "peel" makes a loop for the remaining iterations, "balance" uses tiles of two sizes that differ
        by one."""
        outer, inner = self._core.split(self._handle, _handle(axis, Axis), factor,
                                        _chosen(_TAILS, tail, "tail"))
        return Axis(self._program, outer), Axis(self._program, inner)

    def fuse(self, outer: Axis, inner: Axis) -> Axis:
        """Fuse two neighbouring axes into one axis."""
        return Axis(self._program,
                    self._core.fuse(self._handle, _handle(outer, Axis), _handle(inner, Axis)))

    def reorder(self, *axes: Axis) -> None:
        """Put the axes into the given order, in the positions that these axes have now."""
        self._core.reorder(self._handle, _handles(axes, Axis))

    def parallel(self, axis: Axis) -> None:
        """Make the iterations of an axis the tasks of one parallel launch."""
        self._core.parallel(self._handle, _handle(axis, Axis))

    def vectorize(self, axis: Axis) -> None:
        """Make the iterations of an axis the lanes of vectors."""
        self._core.vectorize(self._handle, _handle(axis, Axis))

    def unroll(self, axis: Axis) -> None:
        """Unroll an axis."""
        self._core.unroll(self._handle, _handle(axis, Axis))

    def bind(self, axis: Axis, thread_axis: str) -> None:
        """Bind an axis to "blockIdx.x", "threadIdx.y" or another index of a kernel."""
        self._core.bind(self._handle, _handle(axis, Axis), thread_axis)

    def compute_at(self, consumer: Stage, axis: Axis) -> None:
        """Compute the tensor inside the loop `axis` of `consumer`, and there only the needed part."""
        self._core.compute_at(self._handle, _handle(consumer, Stage), _handle(axis, Axis))

    def compute_inline(self) -> None:
        """Substitute the tensor's expression in its readers."""
        self._core.compute_inline(self._handle)

    def set_scope(self, scope: str) -> None:
        """Set the memory of the tensor: "global", "shared" or "local"."""
        self._core.set_scope(self._handle, _chosen(_SCOPES, scope, "scope"))

    def store_first(self) -> None:
        """Let the first iteration of a reduction store its value, instead of a loop that stores the identity."""
        self._core.store_first(self._handle)

    def stream(self) -> None:
        """State that the tensor is not read soon: non-temporal stores may bypass the caches."""
        self._core.stream(self._handle)

    def prefetch(self, tensor: Tensor, axis: Axis, distance: int) -> None:
        """Prefetch the data that the axis reads `distance` iterations later."""
        self._core.prefetch(self._handle, _handle(tensor, Tensor), _handle(axis, Axis), distance)


class Program:
    """A program: tensor expressions and their schedules."""

    __slots__ = ("_core",)

    def __init__(self) -> None:
        self._core = _core.TeProgram()

    def placeholder(self, name: str, shape: Sequence[int], dtype: DType = "float32") -> Tensor:
        """Return a tensor that is an input of the program."""
        return Tensor(self, self._core.placeholder(name, dtype_name(dtype), shape))

    def compute(self, name: str, shape: Sequence[int], body: Callable[..., Expr]) -> Tensor:
        """Return a tensor whose elements `body` defines. `body` is called once, with an int64 expression for each
        dimension. A reduction must be the outermost operation of the result."""
        def element(handles: list[_core.TeHandle]) -> _core.TeHandle:
            value = body(*(Expr(self, handle) for handle in handles))
            if not isinstance(value, Expr):
                raise errors.InvalidTypeError(f"the body of {name!r} gave no expression but {value!r}")
            return value._handle

        return Tensor(self, self._core.compute(name, shape, element))

    def constant(self, value: int | float | bool, dtype: DType) -> Expr:
        """Return a constant of an element type."""
        name = dtype_name(dtype)
        try:
            return Expr(self, self._core.constant(name, value))
        except errors.BackplaneError:
            raise
        except TypeError:
            raise errors.InvalidTypeError(
                f"{value!r} is no value of {name}; astype converts an expression") from None

    def reduce_axis(self, name: str, extent: int) -> Expr:
        """Return an axis from 0 to extent - 1 for te.sum and the other reductions."""
        return Expr(self, self._core.reduce_axis(name, extent))

    def _index(self, index: Number) -> _core.TeHandle:
        if isinstance(index, Expr):
            return index._handle
        if not hasattr(index, "__index__"):
            raise errors.InvalidTypeError(f"an index is an integer or an expression, not {index!r}")
        return self._core.constant("int64", index)

    def _read(self, tensor: Tensor, indices: Number | tuple[Number, ...],
              condition: Expr | None) -> Expr:
        each = indices if isinstance(indices, tuple) else (indices,)
        return Expr(self, self._core.read(tensor._handle, [self._index(index) for index in each],
                                          None if condition is None else _handle(condition, Expr)))

    def cache_read(self, tensor: Tensor, scope: str, readers: Sequence[Tensor]) -> Tensor:
        """Copy a tensor into a scope. The given readers read the copy instead."""
        return Tensor(self, self._core.cache_read(_handle(tensor, Tensor),
                                                  _chosen(_SCOPES, scope, "scope"),
                                                  _handles(readers, Tensor)))

    def cache_write(self, tensor: Tensor, scope: str) -> Tensor:
        """Return a new tensor in a scope, which is computed first; `tensor` becomes a copy of it."""
        return Tensor(self, self._core.cache_write(_handle(tensor, Tensor),
                                                   _chosen(_SCOPES, scope, "scope")))

    def rfactor(self, tensor: Tensor, axis: Axis) -> Tensor:
        """Split a reduction into accumulators, one for each iteration of a reduction axis."""
        return Tensor(self, self._core.rfactor(_handle(tensor, Tensor), _handle(axis, Axis)))

    def schedule(self, output: Tensor, target: Target | str) -> None:
        """Schedule all tensors that an output depends on, by the target's attributes. Stages that have a schedule
        keep it."""
        self._core.schedule(_handle(output, Tensor), as_target(target))

    def lower(self, name: str, args: Sequence[Tensor], target: Target | str | None = None
              ) -> _core.IrModule:
        """Return a function of the given inputs and outputs as IR. str() of the function returns its text."""
        return self._core.lower(name, _handles(args, Tensor),
                                None if target is None else as_target(target))

    def build(self, name: str, args: Sequence[Tensor], target: Target | str) -> Compiled:
        """Return code for a target. A call takes a tensor for each of `args`, and writes to the outputs among them."""
        wanted = as_target(target)
        return Compiled(name, self.lower(name, args, wanted), wanted)


def _has_buffer(value: Any) -> bool:
    try:
        memoryview(value)
    except (TypeError, BufferError):
        return False
    return True


class Compiled:
    """A compiled function.

    The function runs on the device of its tensors, which must all be on one device of the target's kind. If that
    device is the CPU, numpy arrays are accepted, too. Number, element types and shapes of the tensors must be those
    of the function's arguments; other tensors are rejected. A call does not wait for a device with a queue."""

    __slots__ = ("name", "target", "module", "_params", "_kernels", "_buffers")

    def __init__(self, name: str, lowered: _core.IrModule, target: Target) -> None:
        self.name = name
        self.target = target
        self._params = [(param, dtype, shape or ()) for param, dtype, shape in lowered.params(name)]
        self._kernels: list[tuple[str, tuple[int, ...], tuple[int, ...]]] = []
        self._buffers: list[tuple[str, int]] = []
        if target.has_thread_axes:
            lowered, (self._kernels, self._buffers) = lowered.split_kernels(name)
        self.module: _core.Module = lowered.build(target)

    def __repr__(self) -> str:
        params = ", ".join(f"{name}: {dtype} {shape}" for name, dtype, shape in self._params)
        return f"te.Compiled({self.name}({params}) for {self.target.kind})"

    def _function(self, name: str) -> _core.Function:
        function = self.module.find_function(name)
        if function is None:
            raise errors.NotFoundError(f"the code has no function '{name}'")
        return function

    def _is_for(self, device: Sequence[int]) -> bool:
        """Return whether the code runs on a device. The kind number of a device on another machine has the machine's
        number above its lower 16 bits."""
        return device[0] & 0xFFFF == self.target.device_type

    def _mismatch(self, number: int, tensor: Any) -> errors.BackplaneError:
        """Return the defect of an argument, or None."""
        name, dtype, shape = self._params[number]
        where = f"{self.name}: argument {number} ({name})"
        if not isinstance(tensor, _core.Tensor):
            return errors.InvalidTypeError(
                f"{where}: expected a tensor, got a value of type {type(tensor).__name__}")
        if not self._is_for(tensor.device):
            return errors.InvalidValueError(
                f"{where}: expected a tensor on a device for {self.target.kind}, got one on "
                f"{tensor.device}; use to_device")
        if tensor.dtype != dtype:
            return errors.InvalidTypeError(f"{where}: expected a tensor of {dtype}, got {tensor.dtype}")
        if len(tensor.shape) != len(shape):
            return errors.InvalidValueError(
                f"{where}: expected {len(shape)} dimensions, got {len(tensor.shape)}")
        k = next(k for k, extent in enumerate(shape) if extent != tensor.shape[k])
        return errors.InvalidValueError(
            f"{where}: dimension {k}: expected extent {shape[k]}, got {tensor.shape[k]}")

    def _check(self, number: int, value: Any) -> _core.Tensor:
        """Return an argument as a Backplane tensor. Host functions check the extents of their arguments. Kernels do
        not check extents, and would access memory beyond a tensor that is too small."""
        _, dtype, shape = self._params[number]
        tensor = value if isinstance(value, _core.Tensor) or not hasattr(value, "__dlpack__") \
            else _core.from_dlpack(value)
        if (not isinstance(tensor, _core.Tensor) or tensor.shape != shape or tensor.dtype != dtype
                or not self._is_for(tensor.device)):
            raise self._mismatch(number, tensor)
        return tensor

    def _call_on_host(self, arguments: Sequence[Any]) -> None:
        try:
            self._function(self.name)(*arguments)
        except (errors.InvalidTypeError, errors.InvalidValueError):
            for number, value in enumerate(arguments[:len(self._params)]):
                if not _has_buffer(value):  # raises an error that names the Python value
                    self._check(number, value)
            raise

    def __call__(self, *arguments: Any) -> None:
        if not self.target.has_thread_axes:
            self._call_on_host(arguments)
            return
        if len(arguments) != len(self._params):
            raise errors.InvalidTypeError(
                f"{self.name}: expected {len(self._params)} arguments, got {len(arguments)}")
        tensors = [self._check(number, value) for number, value in enumerate(arguments)]
        buffers = [_core.empty((count,), dtype, tensors[0].device, None)
                   for dtype, count in self._buffers]
        for name, args, launch in self._kernels:
            given = [tensors[arg] if arg >= 0 else buffers[-1 - arg] for arg in args]
            _core.call_on_device_of(tensors[0], self._function(name), (*given, *launch))


# ---- Functions of expressions ------------------------------------------------------------------------


def _reduce(operation: str, value: Expr, axes: Sequence[Expr]) -> Expr:
    handle = _handle(value, Expr)
    program = value._program
    return Expr(program, program._core.reduce(_REDUCTIONS[operation], handle,
                                              _handles(axes, Expr)))


def sum(value: Expr, axes: Sequence[Expr]) -> Expr:  # pylint: disable=redefined-builtin
    """Return the sum over reduction axes."""
    return _reduce("sum", value, axes)


def prod(value: Expr, axes: Sequence[Expr]) -> Expr:
    """Return the product over reduction axes."""
    return _reduce("prod", value, axes)


def min(value: Expr, axes: Sequence[Expr]) -> Expr:  # pylint: disable=redefined-builtin
    """Return the least value over reduction axes."""
    return _reduce("min", value, axes)


def max(value: Expr, axes: Sequence[Expr]) -> Expr:  # pylint: disable=redefined-builtin
    """Return the greatest value over reduction axes."""
    return _reduce("max", value, axes)


def minimum(a: Expr, b: Number) -> Expr:
    """Return the lesser of two values; NaN if either value is NaN."""
    _handle(a, Expr)
    return a._binary("min", a, b)


def maximum(a: Expr, b: Number) -> Expr:
    """Return the greater of two values; NaN if either value is NaN."""
    _handle(a, Expr)
    return a._binary("max", a, b)


def select(condition: Expr, a: Expr, b: Number) -> Expr:
    """Return `a` where the condition holds, and `b` elsewhere."""
    chosen, handle = _handle(condition, Expr), _handle(a, Expr)
    return Expr(a._program, a._program._core.select(chosen, handle, a._operand(b)._handle))


def intrinsic(name: str, first: Expr, *others: Number) -> Expr:
    """Call a function that docs/ir.md lists, for example "pow". The result has the element type of the first
    operand."""
    _handle(first, Expr)
    operands = [first, *(first._operand(other) for other in others)]
    return Expr(first._program,
                first._program._core.intrinsic(name, [operand._handle for operand in operands]))


def exp(value: Expr) -> Expr:
    """Return e to the power of a value."""
    return intrinsic("exp", value)


def log(value: Expr) -> Expr:
    """Return the natural logarithm."""
    return intrinsic("log", value)


def sqrt(value: Expr) -> Expr:
    """Return the square root."""
    return intrinsic("sqrt", value)


def tanh(value: Expr) -> Expr:
    """Return the hyperbolic tangent."""
    return intrinsic("tanh", value)


def sigmoid(value: Expr) -> Expr:
    """Return 1 / (1 + exp(-value))."""
    return intrinsic("sigmoid", value)


def erf(value: Expr) -> Expr:
    """Return the error function of a value."""
    return intrinsic("erf", value)


def abs(value: Expr) -> Expr:  # pylint: disable=redefined-builtin
    """Return the absolute value."""
    return intrinsic("abs", value)


def floor(value: Expr) -> Expr:
    """Round a value towards minus infinity."""
    return intrinsic("floor", value)


def ceil(value: Expr) -> Expr:
    """Round a value towards plus infinity."""
    return intrinsic("ceil", value)


__all__ = [
    "Axis", "Compiled", "Expr", "Program", "Stage", "Tensor", "abs", "ceil", "erf", "exp", "floor", "intrinsic",
    "log", "max", "maximum", "min", "minimum", "prod", "select", "sigmoid", "sqrt", "sum", "tanh",
]


def __dir__() -> list[str]:
    return __all__
