"""Values of the forwarding test, as JSON and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import msgspec

from wavebed.errors import UserError
from wavebed.prepared import prepared

if TYPE_CHECKING:
    from wavebed.config.data import Json

__all__ = ["Value", "from_plain", "to_plain"]

_Value = TypeVar("_Value")


class Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A value that does not change and that JSON can hold."""


def to_plain(value: Value) -> dict[str, Json]:
    """Return a value as JSON can write it."""
    plain: dict[str, Json] = msgspec.to_builtins(value, str_keys=True)
    return plain


def from_plain(kind: type[_Value], plain: object) -> _Value:
    """Return the value that `to_plain` wrote; a field that is not there takes its default.

    Raises
    ------
    UserError
        If it is no such value: the place, and the rule.
    """
    try:
        return msgspec.convert(plain, prepared(kind), str_keys=True)
    except msgspec.ValidationError as error:
        rule, _, place = str(error).partition(" - at `$")
        raise UserError(f"{place.strip('.`') or 'the value'}: {rule[:1].lower()}{rule[1:]}") from None
