"""Plug-ins: the class of each kind, imported when it is needed."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from wavebed.config.problems import choose

if TYPE_CHECKING:
    from collections.abc import Mapping


def class_of(name: object, kinds: Mapping[str, str]) -> object:
    """Return the class of a kind.

    Parameters
    ----------
    name : object
        The kind, as a file gives it.
    kinds : mapping
        ``MODULE:CLASS`` of each kind.

    Raises
    ------
    Problem
        If there is no such kind.
    """
    module, _, attribute = kinds[choose(name, kinds)].partition(":")
    found: object = getattr(import_module(module), attribute)
    return found
