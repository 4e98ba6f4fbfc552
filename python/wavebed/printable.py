"""Foreign text (names, messages, headers from files, programs and other hosts) made safe to print on a terminal."""

from __future__ import annotations

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
