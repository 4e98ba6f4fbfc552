"""Traces that are JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from wavebed.pattern.formats.base import AS_TABLE

if TYPE_CHECKING:
    from collections.abc import Callable

    from wavebed.pattern.source import Source

__all__ = ["begins_with_keys", "is_json", "load"]


def is_json(source: Source) -> bool:
    """Tell whether the file begins as JSON."""
    return next((line.lstrip()[:1] for line in source.head if line.strip()), "") in {"{", "["}


def begins_with_keys(source: Source, *keys: str) -> bool:
    """Tell whether the beginning of a JSON file has all these keys."""
    if not is_json(source):
        return False
    text = "\n".join(source.head)
    return all(f'"{key}"' in text for key in keys)


def load(source: Source, hook: Callable[[dict[str, object]], object] | None = None) -> object:
    """Return the content of a JSON file.

    Parameters
    ----------
    hook : callable, optional
        Replaces each object while it is read.

    Raises
    ------
    UserError
        With the line, if it is not JSON.
    """
    try:
        document: object = json.loads(source.text, object_hook=hook)
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":
            raise source.error(f"has several JSON values, one after another; {AS_TABLE}", error.lineno) from None
        raise source.error(f"is not JSON: {error.msg.lower()} (column {error.colno}); mend it", error.lineno) from None
    except (RecursionError, ValueError):
        raise source.error("is not JSON that can be read: it is nested too deep or has a number too long") from None
    return document
