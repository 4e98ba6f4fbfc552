"""What all types of a specification share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, json

if TYPE_CHECKING:
    from wavebed.config.data import Json


class SpecPart(Struct, frozen=True, forbid_unknown_fields=True):
    """A part of a specification: immutable, and strict when it is read."""


def plain(part: SpecPart) -> dict[str, Json]:
    """Return a part of a specification as its JSON has it: objects, arrays, texts and numbers."""
    known: dict[str, Json] = json.decode(json.encode(part))
    return known
