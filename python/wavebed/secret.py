"""What must not be published: tokens, communities, passwords. They leave this program only where they are used.

Everything that is stored or shown passes through here: records, journals, copies of scenarios, command lines, pages.
`Secret` shows itself as stars whatever prints it. The functions ``redacted…`` take out of a text, a command line, a
table or a file what is a secret by its place. `restored` takes it back from the environment for a repetition.
Every pattern here takes linear time, as others may have written the texts.
"""

from __future__ import annotations

import hmac
import os
import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wavebed.errors import UserError
from wavebed.foreign import parse_toml

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

HIDDEN = "***"
VARIABLE = "WAVEBED_SECRET"
"""Begins the names of the variables that give a repetition the secrets that its records do not have."""
_NAME = (
    r"token|passwd|password|passphrase|passcode|secret|community|credentials?|authorization|cookie|signature|jwt"
    r"|(?:api|access|secret|private|account)[-_]?key|session[-_]?id|[-_](?:pass|pwd|auth|sig)"
)
_KEY = re.compile(rf"(?:.*[-_.])?(?:{_NAME})|(?:[A-Z0-9]+)?(?:PASSWORD|TOKEN|SECRET)", re.IGNORECASE | re.DOTALL)
"""The word is the last part of a name: a token bucket is not a secret."""
_QUOTED = r"\"[^\"\n]*\"|'[^'\n]*'"
_PARAMETER = re.compile(
    rf"((?:{_NAME})(?:\\*[\"'])?(?:\s*=\s*|\s*(?P<header>:)[ \t]*))(\\*)"
    rf"(?:{_QUOTED}|(?(header)[^\s\"'][^\"'\n]*|[^&\s\"']+))",
    re.IGNORECASE,
)
"""The value of a header goes to the end of its line or quotes, another one to the next blank."""
_HEADER = re.compile(rf"([\w-]*(?:{_NAME})\s*:\s*)(?=\S)[^\n]*", re.IGNORECASE)
"""A text that is a header and no more, whose value may have quotes."""
_OPTION = re.compile(
    rf"((?<![^\s\"'(=;|&])--?(?:[\w.-]*[-_.])?(?:{_NAME})\s+)(?:\"[^\"]*\"|'[^']*'|\S+)", re.IGNORECASE
)
_BEARER = re.compile(r"(\bbearer\s+)[\w.~+/=-]{8,}", re.IGNORECASE)
_PRIVATE_KEY = re.compile(r"(-----BEGIN [A-Za-z ]{0,40}(?:PRIVATE KEY|Static key V1)-----)[^-]+")
_USER = re.compile(r"((?<!\S)[\"']?(?:-u|-U|--user|--proxy-user)(?:\s*|=)[\"']?[^\s:=\"']+:)[^\s\"']+")
"""The option of curl: ``NAME:PASSWORD``."""
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*\Z")
_WORD = re.compile(r"\S+")
_PLAIN_NAME = re.compile(r"[\w.+%-]+")
_PLAIN_USER = ("ssh", "sftp", "scp")
_MARKS = (
    *("token", "passw", "passphrase", "passcode", "secret", "communit", "credential", "authorization", "cookie"),
    *("signature", "jwt", "bearer", "private key", "static key", "@", "-u", "--proxy-u"),
    *(f"{one}{joint}key" for one in ("api", "access", "private", "account") for joint in ("", "-", "_")),
    *(f"session{joint}id" for joint in ("", "-", "_")),
    *(f"{joint}{one}" for one in ("pass", "pwd", "auth", "sig") for joint in "-_"),
)
"""A text without all of these, in small letters, has no secret that is known here: most have none."""
_STARS = re.escape(HIDDEN)
_LEFT_OUT = re.compile(rf"\A{_STARS}\Z|[:/]{_STARS}@|[=:\s][\"']?{_STARS}(?![*\w])|-----{_STARS}|-u\S*:{_STARS}")


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
    """Return a text without passwords in URLs, and without the values of secret parameters, headers and options.

    Examples
    --------
    >>> redacted("snmp://public@192.0.2.1 http://me:word@host/metrics?token=abc")
    'snmp://***@192.0.2.1 http://***@host/metrics?token=***'
    >>> redacted('curl -H "Authorization: Bearer abc" -u me:word --password abc host')
    'curl -H "Authorization: ***" -u me:*** --password *** host'
    """
    if not _is_suspect(text):
        return text
    if header := _HEADER.fullmatch(text):
        return f"{header[1]}{HIDDEN}"
    if "@" in text:
        text = _WORD.sub(lambda match: _without_user(match[0]) if "@" in match[0] else match[0], text)
    if "curl" in text or "--user" in text or "--proxy-user" in text:
        text = _USER.sub(rf"\g<1>{HIDDEN}", text)
    text = _OPTION.sub(rf"\g<1>{HIDDEN}", _PARAMETER.sub(_without_value, text))
    return _PRIVATE_KEY.sub(rf"\g<1>{HIDDEN}", _BEARER.sub(rf"\g<1>{HIDDEN}", text))


def redacted_line(words: Sequence[str], known: Iterable[Secret] = ()) -> list[str]:
    """Return a command line without secrets.

    Parameters
    ----------
    known : iterable of Secret
        Secrets that are removed everywhere.
    """
    told: list[str] = []
    hide = False
    of_curl = any("curl" in word for word in words)
    before = ""
    for word in words:
        name, equals, _ = word.partition("=")
        if hide:
            told.append(HIDDEN)
        elif equals and _names_secret(name):
            told.append(f"{name}={HIDDEN}")
        elif before in ("--user", "--proxy-user") or (of_curl and before in ("-u", "-U")):
            user, colon, _ = word.partition(":")
            told.append(f"{user}:{HIDDEN}" if colon else word)
        elif of_curl and word.startswith(("-u", "-U")) and ":" in word:
            told.append(f"{word.partition(':')[0]}:{HIDDEN}")
        else:
            told.append(redacted(word))
        hide = not hide and not equals and word.startswith("-") and _names_secret(word)
        before = word
    for secret in known:
        if secret:
            told = [word.replace(secret.reveal(), HIDDEN) for word in told]
    return told


def command_line() -> list[str]:
    """Return the command line of this process without secrets, as records have it."""
    return redacted_line(["wavebed", *sys.argv[1:]])


def redacted_table(values: Mapping[str, object]) -> dict[str, object]:
    """Return a table without the values of keys that name a secret, and without secrets in its texts."""
    return {key: _hidden(value) if _KEY.fullmatch(key) else redacted_value(value) for key, value in values.items()}


def redacted_value(value: object) -> object:
    """Return a value of JSON or TOML without secrets."""
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, dict):
        return redacted_table(value)
    if isinstance(value, list | tuple):
        texts = all(isinstance(item, str) for item in value)
        return redacted_line(list(value)) if texts else [redacted_value(item) for item in value]
    return value


def redacted_json(data: bytes) -> bytes:
    """Return a JSON text without secrets; one that has none is returned as it is."""
    if not _is_suspect(data.decode()):
        return data
    import msgspec

    found = msgspec.json.decode(data)
    told = redacted_value(found)
    return data if told == found else msgspec.json.encode(told)


def redacted_toml(text: str) -> str:
    """Return a TOML text without secrets. A text with secrets loses its comments too."""
    if not _is_suspect(text):
        return text
    try:
        document = parse_toml(text, "TOML")
    except UserError:  # only a page of a damaged folder shows it
        return redacted(text)
    told = redacted_table(document)
    if told == document and redacted(text) == text:
        return text
    from wavebed.output import toml_text  # few texts have secrets

    return f"# Secrets are left out: {HIDDEN}\n{toml_text(told)}"


def restored(value: object, place: str) -> object:
    """Return a value of a record with the secrets that were left out of it, from the environment.

    Parameters
    ----------
    place : str
        Its place in the record, such as ``workload.fetch``. The name of the variable is made from it.

    Raises
    ------
    UserError
        If a variable is missing, or differs from the record in more than the secret.
    """
    found: dict[object, object]
    if isinstance(value, str):
        return _given(value, place) if _LEFT_OUT.search(value) else value
    if isinstance(value, dict):
        places = {key: f"{place}.{key}" if place else str(key) for key in value}
        found = {key: restored(each, places[key]) for key, each in value.items()}
        again: object = redacted_table(found)  # type: ignore[arg-type]
    elif isinstance(value, list | tuple):
        value = dict(enumerate(value))
        places = {key: f"{place}.{_place(each, key)}" for key, each in value.items()}
        found = {key: restored(each, places[key]) for key, each in value.items()}
        again = dict(enumerate(redacted_value(list(found.values()))))  # type: ignore[arg-type]
        for key in value:
            _check(found[key], value[key], again[key], places[key])
        return list(found.values())
    else:
        return value
    for key in value:
        _check(found[key], value[key], again[key], places[key])  # type: ignore[index]
    return found


def _is_suspect(text: str) -> bool:
    """Return whether a text may have a secret; the patterns take a hundred times as long."""
    small = text.lower()
    for mark in _MARKS:  # noqa: SIM110 - a generator takes twice as long
        if mark in small:
            return True
    return False


def _place(value: object, index: int) -> str:
    """Return what a value in a list is called: by its name or kind, or by its number from 1."""
    name = value.get("name", value.get("kind")) if isinstance(value, dict) else None
    return name if isinstance(name, str) else str(index + 1)


def _variable(place: str) -> str:
    return "_".join((VARIABLE, *re.findall("[A-Z0-9]+", place.upper())))


def _given(value: str, place: str) -> str:
    name = _variable(place)
    try:
        return os.environ[name]
    except KeyError:
        raise UserError(
            f"{place}: a secret was left out of the results: give the whole text that stands there as {value!r} by the"
            f" environment variable {name}"
        ) from None


def _check(found: object, value: object, again: object, place: str) -> None:
    if found != value and isinstance(value, str) and again != value:
        raise UserError(f"{place}: {_variable(place)} differs in more than the secret: write all else as in {value!r}")


def _hidden(value: object) -> object:
    """Return stars for each text and number in a value."""
    if isinstance(value, dict):
        return {key: _hidden(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_hidden(each) for each in value]
    return value if value is None or isinstance(value, bool) or value == "" else HIDDEN


def _names_secret(word: str) -> bool:
    """Tell whether an option or a key takes a secret."""
    return _KEY.fullmatch(word.lstrip("-")) is not None


def _without_value(match: re.Match[str]) -> str:
    value = match[0][len(match[1]) + len(match[3]) :]
    quote = value[0] if value[0] in "\"'" and value[-1] == value[0] and len(value) > 1 else ""
    return f"{match[1]}{quote}{HIDDEN}{quote}"


def _without_user(word: str) -> str:
    """Return a word with ``@`` without the user and the password before it; of ssh, the user stays."""
    before, _, after = word.rpartition("@")
    lead, marks, user_info = before.partition("://")
    user, colon, password = (user_info if marks else before).partition(":")
    if not marks:
        name = user.lstrip("\"'")
        plain = colon and password and "/" not in password and _PLAIN_NAME.fullmatch(name)
        return f"{user}:{HIDDEN}@{after}" if plain else word
    scheme = _SCHEME.search(lead)
    if scheme is not None and scheme[0].lower() in _PLAIN_USER:
        return f"{lead}://{user}{f':{HIDDEN}' if colon else ''}@{after}"
    return f"{lead}://{HIDDEN}@{after}"


def _bytes(text: str) -> bytes:
    """Encode any text, lone surrogates (possible in JSON) included."""
    return text.encode("utf-8", "surrogatepass")
