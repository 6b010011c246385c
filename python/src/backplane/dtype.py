# SPDX-License-Identifier: Apache-2.0
"""Element types, in the library's notation and in the notations of other packages."""

from __future__ import annotations

from typing import Any, Union

from . import errors

DType = Union[str, type, Any]
"""The library's text ("float32"), or what numpy or torch call a type (numpy.float32, torch.int8)."""


def dtype_name(dtype: DType) -> str:
    """Return the library's text of an element type."""
    if isinstance(dtype, str):
        return dtype
    text = str(dtype)
    if text.startswith("torch."):
        return text.removeprefix("torch.")
    if isinstance(dtype, type):
        import numpy  # pylint: disable=import-outside-toplevel

        dtype = numpy.dtype(dtype)
    name = getattr(dtype, "name", None)
    if isinstance(name, str):
        return name
    raise errors.InvalidTypeError(
        f'a data type is written as "float32", or is one of numpy\'s or torch\'s; not {text}')
