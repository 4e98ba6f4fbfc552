"""What must not be published: tokens, communities, passwords. They leave this program only where they are used.

Records, reports and messages pass through here: `Secret` shows itself as stars whatever prints it, and `redacted`
takes out of a command line or a text what is a secret by its place.
"""

from __future__ import annotations

import hmac
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["HIDDEN", "Secret", "redacted", "redacted_line", "redacted_table"]

HIDDEN = "***"
_NAME = r"token|passwd|password|passphrase|secret|community|credentials?|api[-_]?key|authorization|cookie"
_KEY = re.compile(rf"(?:.*[-_.])?(?:{_NAME})", re.IGNORECASE)
"""The word is the last part of a name: a token bucket is not a secret."""
_USER_INFO = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(\S*)@")
_PARAMETER = re.compile(rf"((?:[\w.-]*[-_.])?(?:{_NAME})(?:=|:[ \t]*))[^&\s\"'][^&\"'\n]*", re.IGNORECASE)
_PLAIN_USER = ("ssh", "sftp", "scp")


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """A text that is only shown by `reveal`."""

    _text: str

    def reveal(self) -> str:
        """Return the text."""
        return self._text

    def is_same(self, given: str) -> bool:
        """Compare with another text in constant time."""
        return hmac.compare_digest(_bytes(self._text), _bytes(given))

    def __bool__(self) -> bool:
        """Return whether the text is not empty."""
        return bool(self._text)

    def __str__(self) -> str:
        """Return stars."""
        return HIDDEN

    def __repr__(self) -> str:
        """Return stars."""
        return f"Secret({HIDDEN!r})"


def redacted(text: str) -> str:
    """Return a text without passwords in URLs, and without the values of secret parameters.

    Examples
    --------
    >>> redacted("snmp://public@192.0.2.1 http://me:word@host/metrics?token=abc")
    'snmp://***@192.0.2.1 http://***@host/metrics?token=***'
    """
    return _PARAMETER.sub(rf"\g<1>{HIDDEN}", _USER_INFO.sub(_without_user, text))


def redacted_line(words: Sequence[str], known: Iterable[Secret] = ()) -> list[str]:
    """Return a command line without secrets.

    Parameters
    ----------
    known : iterable of Secret
        Secrets that are removed everywhere.
    """
    told: list[str] = []
    hide = False
    for word in words:
        name, equals, _ = word.partition("=")
        if hide:
            told.append(HIDDEN)
        elif equals and _names_secret(name):
            told.append(f"{name}={HIDDEN}")
        else:
            told.append(redacted(word))
        hide = not hide and not equals and word.startswith("-") and _names_secret(word)
    for secret in known:
        if secret:
            told = [word.replace(secret.reveal(), HIDDEN) for word in told]
    return told


def redacted_table(values: Mapping[str, object]) -> dict[str, object]:
    """Return a table without the values of keys that name a secret, and without secrets in its texts."""
    return {key: HIDDEN if _KEY.fullmatch(key) else _redacted_value(value) for key, value in values.items()}


def _redacted_value(value: object) -> object:
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, dict):
        return redacted_table(value)
    if isinstance(value, list | tuple):
        texts = all(isinstance(item, str) for item in value)
        return redacted_line(list(value)) if texts else [_redacted_value(item) for item in value]
    return value


def _names_secret(word: str) -> bool:
    """Tell whether an option or a key takes a secret."""
    return _KEY.fullmatch(word.lstrip("-")) is not None


def _without_user(match: re.Match[str]) -> str:
    scheme, (user, colon, _) = match[1], match[2].partition(":")
    if scheme.lower() in _PLAIN_USER:
        return f"{scheme}://{user}{f':{HIDDEN}' if colon else ''}@"
    return f"{scheme}://{HIDDEN}@"


def _bytes(text: str) -> bytes:
    """Encode any text, lone surrogates (possible in JSON) included."""
    return text.encode("utf-8", "surrogatepass")
