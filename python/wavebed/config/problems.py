"""Mistakes in a scenario or an option: the place, the rule and the remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from wavebed.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_Given = TypeVar("_Given")
_Value = TypeVar("_Value")


class Problem(UserError):  # noqa: N818 - it is what it says
    """A broken rule, and the key below the place that the caller knows.

    Parameters
    ----------
    rule : str
        The rule and the remedy.
    key : str
        Where, relative to what was read; empty for the value itself.
    """

    def __init__(self, rule: str, key: str = "") -> None:
        super().__init__(f"{key}: {rule}" if key else rule)
        self.rule = rule
        self.key = key

    def below(self, prefix: str) -> Problem:
        """Return the same problem seen from further out."""
        joint = "." if self.key and not self.key.startswith("[") else ""
        return Problem(self.rule, f"{prefix}{joint}{self.key}")


def at(prefix: str, parse: Callable[[_Given], _Value], value: _Given) -> _Value:
    """Parse `value`; a mistake in it is said to be at `prefix`.

    Raises
    ------
    Problem
        If `parse` refuses the value.
    """
    try:
        return parse(value)
    except Problem as problem:
        raise problem.below(prefix) from None
    except UserError as error:
        raise Problem(str(error), prefix) from None


def unknown_key(key: str, known: Iterable[str], rarer: Iterable[str] = ()) -> Problem:
    """Say that a key is unknown, with the nearest known one; those in `rarer` are not listed."""
    known = sorted(known)
    from wavebed.config.suggest import nearest  # few commands are mistyped

    near = nearest(key, [*known, *rarer])
    if near is not None:
        return Problem(f"unknown key: did you mean {near!r}?", key)
    return Problem(f"unknown key: the keys here are {', '.join(known)}", key)


def choose(value: object, choices: Iterable[str]) -> str:
    """Return `value` if it is one of the words in `choices`.

    Raises
    ------
    Problem
        If it is not.
    """
    choices = list(choices)
    if isinstance(value, str) and value in choices:
        return value
    raise Problem(f"{described(value)} is not a choice: {one_of(value, choices)}")


def one_of(value: object, known: Iterable[str], beside: str = "") -> str:
    """Return the end of a message about a word that is none of those known: the nearest one, or `beside` and all."""
    from wavebed.config.suggest import meant  # few commands are mistyped

    known = list(known)
    otherwise = f"write {beside}one of {', '.join(known)}"
    return meant(value, known, otherwise) if isinstance(value, str) else otherwise


def described(value: object) -> str:
    """Write a value as its author did, or name its kind if it is long."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "an array"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…'"
