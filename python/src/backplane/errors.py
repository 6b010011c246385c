# SPDX-License-Identifier: Apache-2.0
"""Exceptions. Each exception is a BackplaneError, and also Python's own exception for the same
mistake where Python has one. `kind` is the library's name of the error."""

from __future__ import annotations


class BackplaneError(Exception):
    """The library refused a call, or a call failed."""

    kind: str = "RuntimeError"


class InvalidValueError(BackplaneError, ValueError):
    """A value is outside what the function accepts."""


class InvalidTypeError(BackplaneError, TypeError):
    """A value has another type, or a call has another number of arguments, than the function
    accepts."""


class OutOfRangeError(BackplaneError, IndexError):
    """An index is outside its range."""


class NotFoundError(BackplaneError, LookupError):
    """No function, device or input has the given name."""


class FormatError(BackplaneError, ValueError):
    """Data from outside the program is malformed."""


class SystemCallError(BackplaneError, OSError):
    """The operating system refused a request."""


class OutOfMemoryError(BackplaneError, MemoryError):
    """Host or device memory is exhausted."""


class UnsupportedError(BackplaneError, NotImplementedError):
    """The library knows the operation, but does not support it here or yet."""


class NotReadyError(BackplaneError, RuntimeError):
    """A plugin that provides the name is still initialising, or the model is in the middle of a call of
    this thread."""


class PluginError(BackplaneError, RuntimeError):
    """A plugin cannot be used."""


class CompileError(BackplaneError, RuntimeError):
    """A code generator or a compiler rejected the code."""


class DeviceError(BackplaneError, RuntimeError):
    """A device failed; the work in progress is lost."""


class DeviceLostError(DeviceError):
    """A device is lost and does not come back."""


class InternalError(BackplaneError, RuntimeError):
    """The library has a defect; please report it."""


class FailedError(BackplaneError, RuntimeError):
    """An error at run time that no other exception describes."""


BY_KIND: dict[str, type[BackplaneError]] = {
    "ValueError": InvalidValueError,
    "TypeError": InvalidTypeError,
    "IndexError": OutOfRangeError,
    "KeyError": NotFoundError,
    "FormatError": FormatError,
    "OSError": SystemCallError,
    "MemoryError": OutOfMemoryError,
    "NotImplementedError": UnsupportedError,
    "NotReadyError": NotReadyError,
    "PluginError": PluginError,
    "CompileError": CompileError,
    "DeviceError": DeviceError,
    "DeviceLostError": DeviceLostError,
    "InternalError": InternalError,
    "RuntimeError": FailedError,
}
for _kind, _class in BY_KIND.items():
    _class.kind = _kind
