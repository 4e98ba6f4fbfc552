"""Write the reference page of scenes from the schema: ``python -m wavebed.scene.reference FILE``."""

from __future__ import annotations

import sys
from importlib import resources
from typing import TYPE_CHECKING

from wavebed.config.table import fields
from wavebed.output import write_output
from wavebed.scene.kinds import KINDS
from wavebed.scene.tables import (
    LEG_FORMS,
    Array,
    CarrierTable,
    FallbackTable,
    HandsetTable,
    ObstacleTable,
    ReferenceChain,
    SceneTable,
    StationTable,
    Timers,
)

if TYPE_CHECKING:
    from msgspec import Struct

__all__ = ["reference_page"]


def reference_page() -> str:
    """Return the page: the prose of ``reference.md.in`` with the tables of the schema in it."""
    text = (resources.files("wavebed.scene") / "reference.md.in").read_text(encoding="utf-8")
    parts = {
        "scene keys": _table(SceneTable),
        "carrier keys": _table(CarrierTable),
        "station keys": _table(StationTable),
        "array keys": _table(Array),
        "handset keys": _table(HandsetTable),
        "legs": _rows(("leg", "meaning"), [(f"`{form}`", meaning) for form, meaning in LEG_FORMS]),
        "obstacle keys": _table(ObstacleTable),
        "kinds": _rows(
            ("kind", "what it is", "what goes through it loses"),
            [(f"`{name}`", kind.meaning, kind.loss) for name, kind in KINDS.items()],
        ),
        "fallback keys": _table(FallbackTable),
        "timer keys": _table(Timers),
        "reference keys": _table(ReferenceChain),
    }
    for name, part in parts.items():
        text = text.replace(f"<!-- {name} -->", part)
    return text


def _table(model: type[Struct]) -> str:
    return _rows(
        ("key", "write", "default", "meaning"),
        [
            (f"`{field.name}`", "`" + field.write.replace("|", "\\|") + "`", field.default_text, field.key.meaning)
            for field in fields(model).values()
        ],
    )


def _rows(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    if len(sys.argv) == 2:
        write_output(sys.argv[1], reference_page(), "FILE")
    else:
        print(reference_page(), end="")
