"""Write the reference page of scenes from the schema: ``python -m wavebed.scene.reference FILE``."""

from __future__ import annotations

import sys
from importlib import resources
from typing import TYPE_CHECKING

from wavebed.output import write_output
from wavebed.scene.kinds import KINDS
from wavebed.scene.schema import (
    ARRAY_KEYS,
    CARRIER_KEYS,
    FALLBACK_KEYS,
    HANDSET_KEYS,
    OBSTACLE_KEYS,
    REFERENCE_KEYS,
    REQUIRED,
    SCENE_KEYS,
    STATION_KEYS,
    TIMER_KEYS,
)
from wavebed.scene.way import LEG_FORMS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wavebed.scene.schema import Key

__all__ = ["reference_page"]


def reference_page() -> str:
    """Return the page: the prose of ``reference.md.in`` with the tables of the schema in it."""
    text = (resources.files("wavebed.scene") / "reference.md.in").read_text(encoding="utf-8")
    parts = {
        "scene keys": _table(SCENE_KEYS),
        "carrier keys": _table(CARRIER_KEYS),
        "station keys": _table(STATION_KEYS),
        "array keys": _table(ARRAY_KEYS),
        "handset keys": _table(HANDSET_KEYS),
        "legs": _rows(("leg", "meaning"), [(f"`{form}`", meaning) for form, meaning in LEG_FORMS]),
        "obstacle keys": _table(OBSTACLE_KEYS),
        "kinds": _rows(
            ("kind", "what it is", "what goes through it loses"),
            [(f"`{name}`", kind.meaning, kind.loss) for name, kind in KINDS.items()],
        ),
        "fallback keys": _table(FALLBACK_KEYS),
        "timer keys": _table(TIMER_KEYS),
        "reference keys": _table(REFERENCE_KEYS),
    }
    for name, part in parts.items():
        text = text.replace(f"<!-- {name} -->", part)
    return text


def _table(keys: Mapping[str, Key]) -> str:
    return _rows(
        ("key", "write", "default", "meaning"),
        [
            (f"`{key.name}`", "`" + key.write.replace("|", "\\|") + "`", _default(key), key.meaning)
            for key in keys.values()
        ],
    )


def _default(key: Key) -> str:
    if key.default is REQUIRED:
        return "required"
    if key.default is None:
        return key.absent
    if key.default in ({}, []):
        return "empty"
    return f"`{key.default}`"


def _rows(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    if len(sys.argv) == 2:
        write_output(sys.argv[1], reference_page(), "FILE")
    else:
        print(reference_page(), end="")
