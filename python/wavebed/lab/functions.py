"""Functions that another process of Python calls: named by their module and its file."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from typing import TYPE_CHECKING, TypeAlias

from wavebed.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

__all__ = ["Place", "function_at", "place_of_function"]

Place: TypeAlias = tuple[str, str, str]
"""The module, its file, and the name of the function in it."""
_MAIN = "__main__"


def place_of_function(function: Callable[..., object]) -> Place:
    """Return where another process finds a function.

    Raises
    ------
    UserError
        If it finds it nowhere: a lambda, or a function in another function.
    """
    name = getattr(function, "__qualname__", "")
    module = sys.modules.get(getattr(function, "__module__", ""))
    if not name or "<" in name or module is None:
        raise UserError(f"{name or function!r}: cannot be imported by another process: define it in a module")
    try:
        file = inspect.getsourcefile(module) or ""
    except TypeError:  # a built-in module, or a session in a terminal
        file = ""
    if module.__name__ == _MAIN and not file:
        raise UserError(f"{name}: cannot be imported by another process: define it in a file")
    return module.__name__, file, name


def function_at(place: Place) -> Callable[..., object]:
    """Return the function at a place; the module of a script is imported by another name, so its main part is not run.

    Raises
    ------
    ImportError, AttributeError
        If it is not there.
    """
    module, file, name = place
    found: object = _module(module, file)
    for part in name.split("."):
        found = getattr(found, part)
    return found  # type: ignore[return-value] # the other process took it from there


def _module(name: str, file: str) -> ModuleType:
    """Import a module by its name or, as pytest does with test files, by its file."""
    if name == _MAIN:
        name = "__script__"
    try:
        if importlib.util.find_spec(name) is not None:
            return importlib.import_module(name)
    except ModuleNotFoundError:
        pass  # a folder above it is no package
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None, "a module of Python"
    assert spec.loader is not None, "a module of Python"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
