# SPDX-License-Identifier: Apache-2.0
"""Targets: what code is generated for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from . import _core, errors

if TYPE_CHECKING:
    from . import Device


class Target(_core.Target):
    """A target kind with attributes: "c", "opencl -num_cores=8", or a JSON object. str() gives the
    whole of it, with what was found out or left to defaults."""

    __slots__ = ()

    @classmethod
    def from_device(cls, on: Device | str) -> Target:
        """The target that fits a device that is there."""
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
    """The target kinds of all installed plugins."""
    return _core.target_kinds()


def _split(text: str) -> list[str]:
    """The targets of a text, apart at its commas outside braces and quotes: JSON has commas too."""
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
    """The texts of targets, of which one text may have several."""
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
    """A target of its text."""
    if not isinstance(target, (str, Target)):
        raise _wrong(target)
    return target if isinstance(target, Target) else Target(target)
