# SPDX-License-Identifier: Apache-2.0
"""Targets: what code is generated for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _core

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


def split_targets(text: str) -> list[str]:
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


def as_target(target: Target | str) -> Target:
    """A target of its text."""
    return target if isinstance(target, Target) else Target(target)
