"""The path, drawn as a row of hosts and hops from the specification of a trial; and the map of its scene.

A second radio of the client is a row of its own.
"""

from __future__ import annotations

from base64 import b64encode
from html import escape
from typing import TYPE_CHECKING, cast

from wavebed.config.data import table_in, tables_in
from wavebed.errors import UserError
from wavebed.foreign import read_bytes
from wavebed.report.numbers import figure
from wavebed.result.names import INCOMPLETE, SCENE_FILE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from wavebed.config.data import Json
    from wavebed.report.source import Results, Trial

    Table = Mapping[str, Json]

__all__ = ["IN_VIRTUAL_TIME", "path_row", "scene_map", "second_radio_links"]

IN_VIRTUAL_TIME = (
    "<p>The trials ran in virtual time, in which programs compute in no time. Figures that contain computing are those"
    " of an infinitely fast device.</p>"
)
_MOST_PICTURE_BYTES = 16 << 20


def path_row(resolved: Table) -> str:
    """Return hosts and hops of a trial's specification as a list, shown as a row; empty without them."""
    network, patterns = table_in(resolved, "network"), table_in(resolved, "patterns")
    hosts = [str(host.get("name", "")) for host in tables_in(network, "hosts")]
    legs = tables_in(network, "legs")
    if len(hosts) < 2 or not legs:
        return ""
    lab = table_in(resolved, "lab")
    if lab.get("kind") == "hosts":
        return _real_hosts(lab)
    row = len(hosts) - 1
    rows = _row(hosts, legs[:row], patterns, "The path, from server to client")
    rows += _row(hosts[-2:], legs[row:], patterns, "The second radio of the client") if legs[row:] else ""
    return rows + (IN_VIRTUAL_TIME if lab.get("time") == "virtual" else "")


def _real_hosts(lab: Table) -> str:
    """Return the two real hosts, and that nothing is emulated between them."""
    ends = [
        f'<li class="host"><b>{name}</b><div>{escape(str(lab.get(name, "")))}</div></li>'
        for name in ("server", "client")
    ]
    between = '<li class="hop wire"><b>network</b><div>as it is: nothing is emulated</div></li>'
    return f'<ol class="path" aria-label="The hosts, server first">{between.join(ends)}</ol>'


def second_radio_links(resolved: Table, direction: str) -> list[str]:
    """Return the names of the links of the client's second radio in a direction; none without one."""
    network = table_in(resolved, "network")
    row = max(len(tables_in(network, "hosts")) - 1, 0)
    legs = tables_in(network, "legs")[row:]
    return [f"{hop.get('name', '')}.{direction}" for leg in legs for hop in tables_in(leg, "hops")]


def _row(hosts: Sequence[str], legs: Sequence[Table], patterns: Table, label: str) -> str:
    parts = []
    for index, name in enumerate(hosts):
        parts.append(f'<li class="host"><b>{escape(name)}</b></li>')
        if index < len(legs):
            parts += [_hop(hop, patterns) for hop in tables_in(legs[index], "hops")]
    return f'<ol class="path" aria-label="{label}">{"".join(parts)}</ol>'


def _hop(hop: Table, patterns: Table) -> str:
    down, up = (list(_stages(tables_in(hop, side), patterns)) for side in ("down", "up"))
    kind = str(hop.get("kind", ""))
    each = [("↓", "downlink", down), ("↑", "uplink", up)]
    sides = [("↓↑", "both directions", down)] if down == up else each
    rows = "".join(
        f'<div><abbr title="{title}">{arrow}</abbr> {escape(", ".join(words) or "nothing")}</div>'
        for arrow, title, words in sides
    )
    name = str(hop.get("name", ""))
    what = f"{name}" if name == kind else f"{name}, {kind}"
    return f'<li class="hop {"air" if kind == "radio" else "wire"}"><b>{escape(what)}</b>{rows}</li>'


def _stages(stages: Sequence[Table], patterns: Table) -> Iterator[str]:
    for stage in stages:
        kind = stage.get("stage")
        if kind in ("bottleneck", "radio", "wifi"):
            yield _rate(table_in(stage, "rate"), patterns)
            if kind != "bottleneck":
                yield _radio(stage)
            yield _queue(table_in(stage, "queue"))
        elif kind == "delay":
            delay = table_in(stage, "delay")
            value = delay.get("delay_ns", delay.get("mean_ns"))
            suffix = "" if delay.get("kind") == "constant" else f" on average, {delay.get('kind')}"
            yield f"delay {_ms(value)}{suffix}"
        else:
            yield f"{kind}"


def _rate(rate: Table, patterns: Table) -> str:
    if rate.get("file") is not None:
        file = str(rate["file"])
        origin = table_in(patterns, file)
        if origin:
            name = str(origin.get("name", "")).rpartition("/")[2]
            return f"rate of the scene {name}" if origin.get("source") == "scene" else f"rate by {name}"
        # Results of before specifications were kept name the file, which a converted trace and a scene do not have.
        return "rate by a pattern" if file.startswith("/proc/") else f"rate by {file.rpartition('/')[2]}"
    value = rate.get("rate_bps")
    return f"{figure(value / 1e6)} Mbit/s" if isinstance(value, int | float) else "no rate limit"


def _radio(stage: Table) -> str:
    slots = table_in(stage, "slots")
    words = [] if stage.get("stage") == "radio" else ["802.11ad"]
    if isinstance(slots.get("slot_ns"), int):
        words.append(f"slots of {figure(cast('int', slots['slot_ns']) / 1e3)} µs")
    if slots.get("frame"):
        words.append(f"frame {slots['frame']}")
    if slots.get("harq"):
        words.append("HARQ")
    mode = table_in(stage, "rlc").get("mode")
    if mode:
        words.append(f"RLC {str(mode).upper()}")
    return ", ".join(words) or "radio"


def _queue(queue: Table) -> str:
    limit = table_in(queue, "limit")
    sizes = [
        f"{figure(value / 1e6) + ' ms' if unit == 'time_ns' else f'{value:,}'.replace(',', chr(0x202F)) + ' ' + unit}"
        for unit, value in limit.items()
        if isinstance(value, int)
    ]
    return " ".join(["queue", str(queue.get("kind", "")), *sizes])


def _ms(value: Json | None) -> str:
    return f"{figure(value / 1e6)} ms" if isinstance(value, int | float) else "as given"


def scene_map(results: Results) -> str:
    """Return the map of the scene, drawn by the run, as a figure; empty without one."""
    file = results.run.folder / SCENE_FILE
    if not file.is_file():
        return ""
    try:
        # As an image, so that the content of a results file never becomes part of the page.
        drawn = b64encode(read_bytes(file, INCOMPLETE, most=_MOST_PICTURE_BYTES)).decode("ascii")
    except UserError:
        return ""
    title = next(filter(None, map(_scene_title, results.trials)), "")
    caption = f"The scene {title}, from above, in true scale."
    return (
        f'<figure class="map"><img alt="{escape(caption, quote=True)}" src="data:image/svg+xml;base64,{drawn}">'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def _scene_title(trial: Trial) -> str:
    patterns = table_in(trial.record.resolved, "patterns")
    origins = [table_in(patterns, name) for name in patterns]
    return next((str(origin["title"]) for origin in origins if origin.get("title")), "")
