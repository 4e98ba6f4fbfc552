"""Old names of keys, which are read for one release.

`wavebed.config.table.Key.was` declares the old name of a key. Every document, table of options and change by key goes
through here before it is read: nothing else knows old names.
"""

from __future__ import annotations

import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from wavebed.config.problems import Problem
from wavebed.config.values import table_of
from wavebed.errors import RenamedWarning

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wavebed.config.reader import Reader
    from wavebed.config.table import Field

__all__ = ["both_given", "warn_old_name", "with_new_names"]


def with_new_names(
    given: Mapping[str, object], keys: Mapping[str, Field], source: str, prefix: str = ""
) -> dict[str, object]:
    """Return a table with every old name of a key, at any depth, replaced by the new one.

    Parameters
    ----------
    given : mapping
        The table.
    keys : mapping
        The keys that it may have; others are left for the reader to refuse.
    source : str
        The start of a note: the file and the keys above, such as ``"file.toml: path."``.
    prefix : str
        The prefix of a key of this table: ``"--"`` for options.

    Raises
    ------
    Problem
        If both names of a key are given.
    """
    new_names = {field.key.was: name for name, field in keys.items() if field.key.was}
    found = {}
    for key, value in given.items():
        name = new_names.get(key, key)
        if name != key:
            if name in given:
                raise both_given(prefix + key, prefix + name)
            warn_old_name(f"{source}{prefix}{key}", prefix + name)
        try:
            found[name] = _within(value, keys[name].key.reader, f"{source}{prefix}{key}.") if name in keys else value
        except Problem as problem:
            raise Problem(problem.rule, f"{prefix}{key}{problem.key}") from None
    return found


def warn_old_name(place: str, name: str) -> None:
    """Warn that the old name at `place` is now `name`."""
    rule = "write the new name, since the next release refuses the old one"
    warnings.warn(f"{place}: is now called {name}: {rule}", RenamedWarning, stacklevel=3)


def both_given(old: str, new: str) -> Problem:
    """Say that both names of a key are given."""
    return Problem(f"is the old name of {new!r}, which is given too: remove the old one", old)


def _within(value: object, reader: Reader[Any], source: str) -> object:
    """Return the value of a key, with new names in the tables that it has."""
    if reader.each is None:
        return value if reader.keys is None else _table(value, reader.keys(), source, ".")
    keys = reader.each()
    if isinstance(value, list):
        return [_table(part, keys, source, f"[{number}].") for number, part in enumerate(value, 1)]
    if isinstance(value, dict):  # a change by key names one of the tables
        return {name: _table(part, keys, source, f".{name}.") for name, part in value.items()}
    return value


def _table(value: object, keys: Mapping[str, Field], source: str, place: str) -> object:
    if isinstance(value, str) and value.lstrip().startswith("{"):
        with suppress(Problem):
            value = table_of(value)
    if not isinstance(value, dict):
        return value
    try:
        return with_new_names(value, keys, source)
    except Problem as problem:
        raise Problem(problem.rule, place + problem.key) from None
