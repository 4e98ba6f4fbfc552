"""Packages that are functions too: ``wavebed.run("demo")`` calls the package ``wavebed.run``.

Python sets the attribute ``wavebed.run`` to the package whenever a module of it is imported. A function of the same
name would be lost then, so the package itself can be called.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Callable
    from inspect import Signature


class CalledPackage(ModuleType):
    """A package that is called as the function of its last name in `_FUNCTIONS`, with its signature."""

    @property
    def __call__(self) -> Callable[..., object]:
        """The function, with its docstring."""
        from importlib import import_module

        name = self.__name__.rpartition(".")[2]
        return cast("Callable[..., object]", getattr(import_module(_FUNCTIONS[name]), name))

    @property
    def __signature__(self) -> Signature:
        from inspect import signature

        return signature(self.__call__)

    __doc__ = property(lambda self: self.__call__.__doc__)  # of the function, for `help`


_FUNCTIONS = {"run": "wavebed.interface.running", "compare": "wavebed.interface.comparing"}
"""The module of the function of each such package."""


def make_callable(package: str) -> None:
    """Let a package of `_FUNCTIONS` be called."""
    sys.modules[package].__class__ = CalledPackage
