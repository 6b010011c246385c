# SPDX-License-Identifier: Apache-2.0
"""Exceptions. Each is a BackplaneError, and what Python calls such a mistake too where it has a name
for it; `kind` is the library's name."""

from __future__ import annotations


class BackplaneError(Exception):
    """Something that the library refused or failed to do."""

    kind: str = "RuntimeError"


class InvalidValueError(BackplaneError, ValueError):
    """A value is outside what the function accepts."""


class InvalidTypeError(BackplaneError, TypeError):
    """A value has another type, or a call another number of arguments, than is accepted."""


class OutOfRangeError(BackplaneError, IndexError):
    """An index is outside its range."""


class NotFoundError(BackplaneError, LookupError):
    """A name is not there: a function, a device, an input."""


class FormatError(BackplaneError, ValueError):
    """Data from outside is malformed."""


class SystemCallError(BackplaneError, OSError):
    """The operating system refused."""


class OutOfMemoryError(BackplaneError, MemoryError):
    """Host or device memory is exhausted."""


class UnsupportedError(BackplaneError, NotImplementedError):
    """The thing is known but cannot be done here or yet."""


class NotReadyError(BackplaneError, RuntimeError):
    """A plugin that provides the name is still initialising."""


class PluginError(BackplaneError, RuntimeError):
    """A plugin cannot be used."""


class CompileError(BackplaneError, RuntimeError):
    """A code generator or a compiler rejected the code."""


class DeviceError(BackplaneError, RuntimeError):
    """A device failed; what it was doing is lost."""


class DeviceLostError(DeviceError):
    """A device is gone for good."""


class InternalError(BackplaneError, RuntimeError):
    """A defect of the library, to be reported."""


class FailedError(BackplaneError, RuntimeError):
    """Anything else that happens at run time."""


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
