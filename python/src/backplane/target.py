# SPDX-License-Identifier: Apache-2.0
"""Targets: the processors and languages that code is generated for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from . import _core, errors

if TYPE_CHECKING:
    from . import Device


class Target(_core.Target):
    """A target kind with attributes: A target is written as "c", "opencl -num_cores=8", or a JSON object. str() returns
    the complete target, with detected attributes and defaults."""

    __slots__ = ()

    @classmethod
    def from_device(cls, on: Device | str) -> Target:
        """Return the target that fits a present device."""
        return cls(_core.target_of_device(_core.parse_device(on) if isinstance(on, str) else on))

    def __reduce__(self) -> tuple[type[Target], tuple[str]]:
        return type(self), (str(self),)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Target) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __repr__(self) -> str:
        return f"Target({str(self)!r})"


def target_kinds() -> list[str]:
    """Return the target kinds of all installed plugins."""
    return _core.target_kinds()


def _split(text: str) -> list[str]:
    """Split a text at its commas into targets. Commas inside braces and quotes do not separate
    targets: JSON contains commas, too."""
    parts, depth, is_quoted = [""], 0, False
    for char in text:
        is_quoted ^= char == '"'
        depth += 0 if is_quoted else (char == "{") - (char == "}")
        if char == "," and depth == 0 and not is_quoted:
            parts.append("")
        else:
            parts[-1] += char
    return parts


def _wrong(target: object) -> errors.BackplaneError:
    return errors.InvalidTypeError(
        f'a target is written as "c" or "opencl -num_cores=8", or is a Target, as '
        f"Target.from_device(device) makes it; not {target!r}")


def target_texts(targets: Target | str | Sequence[Target | str]) -> tuple[str, ...]:
    """Return the texts of targets. One given text may contain several targets."""
    texts: list[str] = []
    each = [targets] if isinstance(targets, str) or not isinstance(targets, Sequence) else targets
    for target in each:
        if not isinstance(target, (str, Target)):
            raise _wrong(targets)
        texts += _split(target) if isinstance(target, str) else [str(target)]
    if not texts:
        raise _wrong(targets)
    return tuple(texts)


def as_target(target: Target | str) -> Target:
    """Return the target that a text describes."""
    if not isinstance(target, (str, Target)):
        raise _wrong(target)
    return target if isinstance(target, Target) else Target(target)
