"""Foreign text (names, messages, headers from files, programs and other hosts) made safe to print on a terminal."""

from __future__ import annotations

import os
import re
import unicodedata

# Control characters, invisible format characters (such as right-to-left overrides), lone surrogates.
_UNSAFE = frozenset({"Cc", "Cf", "Cs"})


def printable(text: str, *, keep: str = "") -> str:
    r"""Return `text` with every control, format and surrogate character as its Python escape.

    Parameters
    ----------
    text : str
        The foreign text.
    keep : str
        Characters that stay as they are, such as ``"\n"`` where several lines are printed.

    Examples
    --------
    >>> printable("lab\x1b[2J")
    'lab\\x1b[2J'
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character.encode("unicode_escape").decode("ascii")
        if unicodedata.category(character) in _UNSAFE and character not in keep
        else character
        for character in text
    )


_PACKAGE = os.path.dirname(__file__)  # noqa: PTH120 - a Path takes longer, and every command starts with this module
_SHIPPED = r"/(?:scenarios/(?:[a-z]+/)?([A-Za-z0-9._-]+?)\.(?:toml|csv|json)\b)?"
_DESCRIPTOR = r"/(?:dev|proc/(?:self|[0-9]+))/fd/[0-9]+"


def message_text(message: str) -> str:
    """Return a message to print: shipped files by their names, and a pipe of the shell as such, not by a descriptor."""
    if _PACKAGE in message:
        message = re.sub(re.escape(_PACKAGE) + _SHIPPED, lambda match: match[1] or "wavebed/", message)
    if "/fd/" in message:
        message = re.sub(_DESCRIPTOR, "the pipe", message)
    return printable(message)
