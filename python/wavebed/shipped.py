"""Files that are named as on the command line: a file of the user, or a shipped one by its name."""

from __future__ import annotations

from pathlib import Path

from wavebed.errors import UserError
from wavebed.foreign import is_there

TRACES = "patterns"
"""The folder of the shipped traces."""
_SUFFIXES = {TRACES: ".csv"}
_PACKAGE = Path(__file__).parent
_MOST_LISTED = 8
_MOST_FILES = 1000
_ALMOST = 0.85
"""Similarity of two names of files: the first is probably the second, mistyped."""


def names(of: str = "") -> tuple[str, ...]:
    """Return the names of the shipped files in a folder of ``scenarios``: ``""`` for the scenarios themselves."""
    return tuple(sorted(file.stem for file in folder(of).glob(f"*{_suffix(of)}")))


def find(given: str | Path, what: str, of: str = "", *, beside: Path | None = None) -> Path:
    """Return the file of this name.

    Parameters
    ----------
    given : str or pathlib.Path
        A file, or the name of a shipped one, which may be written as in a checkout: ``scenarios/patterns/NAME.csv``.
    what : str
        Its kind, for the message: ``scenario``.
    of : str
        Where the shipped ones are, below ``scenarios``.
    beside : pathlib.Path, optional
        The folder that the name of a file is relative to.

    Raises
    ------
    UserError
        If there is neither. A file with a suffix or a folder in its name, and with no name near to it, is returned:
        who opens it says that it is not there.
    """
    if "\0" in str(given):
        raise UserError(f"{str(given)!r}: is no file: write its name")
    file = Path(given) if beside is None else beside / given
    if is_there(file) and not file.is_dir():
        return file
    inner = _inner(str(given), of)
    if inner is not None and is_there(inner):
        return inner
    if of == TRACES and is_there(file):
        return file  # a folder, which its reader refuses
    if file.suffix or len(Path(given).parts) > 1:
        return _check_near(given, file, of)
    from wavebed.config.suggest import meant  # few names are mistyped

    known = names(of)
    listed = ", ".join(known) if len(known) <= _MOST_LISTED else "those that `wavebed scenarios` lists"
    hint = meant(str(given), known, f"name a file, or one of {listed}")
    raise UserError(f"{given}: is neither a file nor a shipped {what}: {hint}")


def _suffix(of: str) -> str:
    return _SUFFIXES.get(of, ".toml")


def _inner(given: str, of: str) -> Path | None:
    """Return the shipped file that a name stands for, by itself or as a checkout has it."""
    begin = f"{of}/" if of else "scenarios/"
    plain = given.removeprefix("scenarios/") if of else given
    name = plain.removeprefix(begin).removesuffix(_suffix(of)) if plain.startswith(begin) else given
    if not name or name.startswith(".") or "/" in name or len(name) > 100:
        return None
    return folder(of) / f"{name}{_suffix(of)}"


def _check_near(given: str | Path, file: Path, of: str) -> Path:
    """Return the file, which is not there; raise if a shipped one, or one beside it, has almost its name."""
    from contextlib import suppress
    from itertools import islice

    from wavebed.config.suggest import nearest

    shipped = nearest(Path(given).stem, names(of), _ALMOST)
    beside: list[str] = []
    with suppress(OSError, ValueError):
        beside = [each.name for each in islice(file.parent.iterdir(), _MOST_FILES)]
    other = nearest(file.name, [each for each in beside if each.endswith(file.suffix)], _ALMOST)
    if other is not None:
        raise UserError(f"{given}: no such file: did you mean {str(Path(given).with_name(other))!r}?")
    if shipped is not None:
        raise UserError(f"{given}: no such file: did you mean the shipped {shipped!r}?")
    return file


def folder(name: str = "") -> Path:
    """Return the folder of shipped files of this name below ``scenarios``; ``""`` is the folder of the scenarios."""
    return _PACKAGE / "scenarios" / name
