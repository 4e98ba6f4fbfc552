"""Files that are named as on the command line: a file of the user, or a shipped one by its name."""

from __future__ import annotations

from pathlib import Path

from wavebed.errors import UserError
from wavebed.foreign import is_there


def names(of: str = "") -> tuple[str, ...]:
    """Return the names of the shipped files in a folder of ``scenarios``: ``""`` for the scenarios themselves."""
    return tuple(sorted(file.stem for file in folder(of).glob("*.toml")))


def find(given: str | Path, what: str, of: str = "", *, beside: Path | None = None) -> Path:
    """Return the file of this name.

    Parameters
    ----------
    given : str or pathlib.Path
        A file, or the name of a shipped one.
    what : str
        Its kind, for the message: ``scenario``.
    of : str
        Where the shipped ones are, below ``scenarios``.
    beside : pathlib.Path, optional
        The folder that the name of a file is relative to.

    Raises
    ------
    UserError
        If there is neither.
    """
    if "\0" in str(given):
        raise UserError(f"{str(given)!r}: is no file: write its name")
    file = Path(given) if beside is None else beside / given
    if (is_there(file) and not file.is_dir()) or file.suffix or len(Path(given).parts) > 1:
        return file
    inner = folder(of) / f"{given}.toml"
    if not is_there(inner):
        known = ", ".join(names(of))
        raise UserError(f"{given}: is neither a file nor a shipped {what}: name a file, or one of {known}")
    return inner


def folder(name: str = "") -> Path:
    """Return the folder of shipped files of this name below ``scenarios``; ``""`` is the folder of the scenarios."""
    from importlib import resources  # takes 25 ms, and few commands name a shipped file

    return Path(str(resources.files("wavebed"))) / "scenarios" / name
