"""Write the reference page of scenes from the schema: ``python -m wavebed.scene.reference FILE``."""

from __future__ import annotations

import sys
from importlib import resources

from wavebed.config.table import markdown_table
from wavebed.output import write_output
from wavebed.scene.tables import (
    KINDS,
    LEG_FORMS,
    Array,
    BaseStationTable,
    CarrierTable,
    DeviceTable,
    InCar,
    Indoor,
    ObstacleTable,
    ReferenceChain,
    SceneFallbackTable,
    SceneTable,
    ShadowTable,
    Timers,
)


def reference_page() -> str:
    """Return the page: the prose of ``reference.md.in`` with the tables of the schema in it."""
    text = (resources.files("wavebed.scene") / "reference.md.in").read_text(encoding="utf-8")
    parts = {
        "scene keys": markdown_table(SceneTable),
        "shadowing keys": markdown_table(ShadowTable),
        "carrier keys": markdown_table(CarrierTable),
        "base-station keys": markdown_table(BaseStationTable),
        "array keys": markdown_table(Array),
        "ue keys": markdown_table(DeviceTable),
        "indoor keys": markdown_table(Indoor),
        "in-car keys": markdown_table(InCar),
        "legs": _rows(("leg", "meaning"), [(f"`{form}`", meaning) for form, meaning in LEG_FORMS]),
        "obstacle keys": markdown_table(ObstacleTable),
        "kinds": _rows(
            ("kind", "description", "transmission loss"),
            [(f"`{name}`", kind.meaning, kind.loss) for name, kind in KINDS.items()],
        ),
        "fallback keys": markdown_table(SceneFallbackTable),
        "timer keys": markdown_table(Timers),
        "reference keys": markdown_table(ReferenceChain),
    }
    for name, part in parts.items():
        text = text.replace(f"<!-- {name} -->", part)
    return text


def _rows(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    if len(sys.argv) == 2:
        write_output(sys.argv[1], reference_page(), "FILE")
    else:
        print(reference_page(), end="")
