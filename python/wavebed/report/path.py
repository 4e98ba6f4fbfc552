"""The path, drawn as a row of hosts and segments from the laboratory as it was resolved; and the map of a scene."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, cast

from wavebed.errors import UserError, WavebedError
from wavebed.foreign import read_toml
from wavebed.report.numbers import figure

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from wavebed.report.source import Results
    from wavebed.workload.model import Json

    Table = Mapping[str, Json]

__all__ = ["path_row", "scene_map"]


def path_row(laboratory: Table) -> str:
    """Return hosts and segments as a list that a style sheet makes a row of; empty without them."""
    hosts = [str(host.get("name", "")) for host in _tables(laboratory, "hosts")]
    hops = _tables(laboratory, "hops")
    if len(hosts) < 2 or not hops:
        return ""
    parts = []
    for index, name in enumerate(hosts):
        parts.append(f'<li class="host"><b>{escape(name)}</b></li>')
        if index < len(hops):
            parts += [_segment(segment) for segment in _tables(hops[index], "segments")]
    return f'<ol class="path" aria-label="The path, from server to client">{"".join(parts)}</ol>'


def _segment(segment: Table) -> str:
    down, up = (list(_stages(_tables(segment, side))) for side in ("down", "up"))
    kind = str(segment.get("kind", ""))
    each = [("↓", "downlink", down), ("↑", "uplink", up)]
    sides = [("↓↑", "both directions", down)] if down == up else each
    rows = "".join(
        f'<div><abbr title="{title}">{arrow}</abbr> {escape(", ".join(words) or "nothing")}</div>'
        for arrow, title, words in sides
    )
    name = str(segment.get("name", ""))
    what = f"{name}" if name == kind else f"{name}, {kind}"
    return f'<li class="segment {"air" if kind == "radio" else "wire"}"><b>{escape(what)}</b>{rows}</li>'


def _stages(stages: list[Table]) -> Iterator[str]:
    for stage in stages:
        kind = stage.get("stage")
        if kind in ("bottleneck", "radio", "wifi"):
            yield _rate(_table(stage, "rate"))
            if kind != "bottleneck":
                yield _radio(stage)
            yield _queue(_table(stage, "queue"))
        elif kind == "delay":
            delay = _table(stage, "delay")
            value = delay.get("delay_ns", delay.get("mean_ns"))
            suffix = "" if delay.get("kind") == "constant" else f" on average, {delay.get('kind')}"
            yield f"delay {_ms(value)}{suffix}"
        else:
            yield f"{kind}"


def _rate(rate: Table) -> str:
    if "file" in rate:
        name = str(rate["file"]).rpartition("/")[2]
        if str(rate["file"]).startswith("/proc/"):
            return "rate of the scene"
        return f"rate by {name}"
    value = rate.get("rate_bps")
    return f"{figure(value / 1e6)} Mbit/s" if isinstance(value, int | float) else "no rate limit"


def _radio(stage: Table) -> str:
    slots = _table(stage, "slots")
    words = [] if stage.get("stage") == "radio" else ["802.11ad"]
    if isinstance(slots.get("slot_ns"), int):
        words.append(f"slots of {figure(cast('int', slots['slot_ns']) / 1e3)} µs")
    if slots.get("frame"):
        words.append(f"frame {slots['frame']}")
    if slots.get("harq"):
        words.append("HARQ")
    mode = _table(stage, "rlc").get("mode")
    if mode:
        words.append(f"RLC {str(mode).upper()}")
    return ", ".join(words) or "radio"


def _queue(queue: Table) -> str:
    limit = _table(queue, "limit")
    sizes = [
        f"{figure(value / 1e6) + ' ms' if unit == 'time_ns' else f'{value:,}'.replace(',', chr(0x202F)) + ' ' + unit}"
        for unit, value in limit.items()
        if isinstance(value, int)
    ]
    return " ".join(["queue", str(queue.get("kind", "")), *sizes])


def _ms(value: Json | None) -> str:
    return f"{figure(value / 1e6)} ms" if isinstance(value, int | float) else "as given"


def scene_map(results: Results) -> str:
    """Return the map of the scenario's scene as SVG; empty where it has none, or it cannot be found here."""
    name = _scene_name(results.run.folder / "scenario.toml", results.run.record.overrides)
    if name is None:
        return ""
    try:
        from wavebed.channel import realise
        from wavebed.channel.plot import render_map
        from wavebed.channel.plot_data import Album
        from wavebed.scene import load

        scene = load(name)
        album = Album()
        album.add(realise(scene, mode="3gpp", seed=results.run.record.seed))
        svg = render_map(album.view()).svg
    except (WavebedError, OSError):
        return f'<p class="soft">The scene is {escape(name)}; its file is not here, so it is not drawn.</p>'
    return (
        f'<figure class="map">{svg}<figcaption>The scene {escape(scene.title)}, from above, in true scale.'
        "</figcaption></figure>"
    )


def _scene_name(scenario: Path, overrides: Table) -> str | None:
    """Return the scene that the scenario names; one beside the scenario is found only if it is shipped or in reach."""
    for key, value in overrides.items():
        if key.rpartition(".")[2] == "scene" and isinstance(value, str):
            return value
    try:
        path = read_toml(scenario, "the results are not whole").get("path", {})
    except UserError:
        return None
    tables = [path, *_tables(path, "segment")] if isinstance(path, dict) else []
    named = [table["scene"] for table in tables if isinstance(table.get("scene"), str)]
    return named[0] if named else None


def _table(value: Table, key: str) -> Table:
    found = value.get(key)
    return found if isinstance(found, dict) else {}


def _tables(value: Table, key: str) -> list[Table]:
    found = value.get(key)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
