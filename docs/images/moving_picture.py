"""The moving picture of README: a walk behind a bus, the rate of the radio, a download and ping; SVG, no script.

Usage: python docs/images/moving_picture.py [FOLDER]. Without a folder of results it runs `moving_picture.toml` in
virtual time, so that each machine draws the same picture.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import quoteattr

import msgspec
import numpy as np
import pandas as pd

from wavebed.path import Path as NetworkPath
from wavebed.path.model import Movement, SceneMap, scene_maps

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

HERE = Path(__file__).parent
SCENARIO = HERE / "moving_picture.toml"
PICTURE = HERE / "moving-picture.svg"
LENGTH_S = 15.0
WHOLE_S = 17.0
"""The picture stands still at the end of this time, then begins again."""
STEP_S = 0.1
WIDTH, HEIGHT = 960, 392
LEFT, RIGHT = 572, 936
"""Edges of the charts."""
INK, GREY, RULE = "#e5e7eb", "#9ca3af", "#334155"
RATE, PING = "#38bdf8", "#f472b6"
STATES = {
    "los": ("#34d399", "in sight of the mast"),
    "nlos": ("#fbbf24", "a building hides the mast"),
    "blocked": ("#fb7185", "something hides the mast"),
    "outage": ("#94a3b8", "no service"),
    "handover": ("#a78bfa", "handover"),
    "fallback": ("#60a5fa", "on the other carrier"),
}
LOOKS = {"bus": ("#f59e0b", 11), "person": ("#cbd5e1", 5), "tree": ("#15803d", 14)}
"""Colour and width of what is no building."""
FONT = "system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif"

Points = list[tuple[float, float]]


@dataclass(frozen=True)
class Shown:
    """What a trial has to show, on its own clock."""

    scene: SceneMap
    rate: pd.DataFrame
    delivered: pd.DataFrame
    ping: pd.DataFrame
    states: list[tuple[float, str]]


def main() -> None:
    """Write the picture."""
    if len(sys.argv) > 1:
        shown = read(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "wavebed", "run", str(SCENARIO), "--output", f"{folder}/run"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            shown = read(Path(folder) / "run")
    PICTURE.write_text(drawn(shown), encoding="utf-8")


def read(folder: Path) -> Shown:
    """Read the first trial of a folder of results."""
    trial = next((folder / "trials").iterdir())
    seed = json.loads((trial / "spec.json").read_text(encoding="utf-8"))["seed"]
    scene = msgspec.convert(scene_maps(NetworkPath.load(SCENARIO, seed=seed).model)[0], SceneMap)
    series = {name: pd.read_parquet(trial / f"series/{name}.parquet") for name in ("capacity", "links", "samples")}
    rate = series["capacity"].query("link == 'radio.down' and time_s <= @LENGTH_S")
    links = series["links"].query("link == 'radio.down'")
    bits = links.groupby(links["time_ms"] // round(STEP_S * 1000))["delivered_bytes"].sum() * 8
    mbps = (bits / STEP_S / 1e6).reindex(range(round(LENGTH_S / STEP_S)), fill_value=0)
    delivered = pd.DataFrame({"time_s": (mbps.index + 0.5) * STEP_S, "value": mbps.to_numpy()})
    ping = series["samples"].query("workload == 'latency' and series == 'rtt' and time_s <= @LENGTH_S")
    changes = rate.loc[rate["state"] != rate["state"].shift(), ["time_s", "state"]]
    return Shown(scene, rate, delivered, ping, [(float(at), str(state)) for at, state in changes.to_numpy()])


def drawn(shown: Shown) -> str:
    """Return the picture."""
    idle, most = shown.ping.query("time_s < 1")["value"].median(), shown.ping["value"].max()
    told = (
        "A phone walks along a street; a bus stops between it and the mast."
        f" Ping takes {idle:.0f} ms alone and up to {most:.0f} ms beside a download."
    )
    parts = [
        tag("title", told),
        tag("rect", width=WIDTH, height=HEIGHT, rx=12, fill="#0f172a"),
        text("A phone walks along a street; a bus stops in the way", 24, 38, size=17, weight=600),
        text("28 GHz, 15 s, Linux TCP (CUBIC) and ping", RIGHT, 38, size=13, fill=GREY, anchor="end"),
        *street(shown),
        *rates(shown),
        *pings(shown),
        *numbers(shown),
    ]
    size = {"viewBox": f"0 0 {WIDTH} {HEIGHT}", "role": "img", "font-family": FONT}
    return tag("svg", "\n".join(parts), xmlns="http://www.w3.org/2000/svg", **size) + "\n"


def street(shown: Shown) -> list[str]:
    """Return the map: buildings, the bus, people, the mast, the phone and the ray between them."""
    scale, left, bottom = 3.9, 24.0, 236.0

    def place(x: float, y: float) -> tuple[float, float]:
        return left + scale * x, bottom - scale * y

    ground = {"x": left, "y": 62, "width": 516, "height": 190, "rx": 8}
    parts = [tag("rect", fill="#1e293b", **ground)]
    for each in shown.scene.obstacles:
        corners = [place(*corner) for corner in each.outline_m]
        if each.kind == "building":
            x, y = np.mean(corners, axis=0).tolist()
            parts.append(tag("polygon", points=pairs(corners), fill=RULE))
            parts.append(text(each.name, x, min(y, 246), size=13, fill=GREY, anchor="middle"))
            continue
        moves = [] if each.movement is None else [(scale * x, -scale * y) for x, y in places(shown, each.movement)]
        colour, width = LOOKS.get(each.kind, LOOKS["tree"])
        style = {"stroke-width": width, "stroke-linecap": "butt" if each.kind == "bus" else "round"}
        parts.append(tag("polyline", moved(moves), points=pairs(corners), stroke=colour, **style))
    phone = [place(x, y) for x, y in places(shown, shown.scene.ue)]
    (x, y), (mast_x, mast_y) = phone[-1], place(shown.scene.stations[0].x_m, shown.scene.stations[0].y_m)
    ends = evenly("x2", [at for at, _ in phone]) + evenly("y2", [at for _, at in phone]) + coloured(shown, "stroke")
    dashed = {"stroke-width": 2, "stroke-dasharray": "6 4"}
    parts.append(tag("line", ends, x1=mast_x, y1=mast_y, x2=x, y2=y, stroke=STATES["blocked"][0], **dashed))
    parts.append(tag("path", d=f"M{mast_x:.1f},{mast_y - 9:.1f}l7,14h-14z", fill=INK))
    path_of_phone = moved([(at - x, up - y) for at, up in phone]) + coloured(shown, "fill")
    parts.append(tag("circle", path_of_phone, cx=x, cy=y, r=6, fill=STATES["blocked"][0], stroke="#0f172a"))
    return [
        tag("clipPath", tag("rect", **ground), id="street"),
        tag("g", "".join(parts), **{"clip-path": "url(#street)"}),
    ]


def rates(shown: Shown) -> list[str]:
    """Return the chart of the radio's rate and of the download."""
    top, bottom = 78, 196
    times = np.arange(0, LENGTH_S + 1e-9, 0.04)
    capacity = np.interp(times, shown.rate["time_s"], shown.rate["rate_bps"] / 1e6)
    most = rounded_up(float(capacity.max()))
    line = curve(times.tolist(), capacity.tolist(), top, bottom, most)
    area = [(float(LEFT), float(bottom)), *line, (float(RIGHT), float(bottom))]
    download = curve(shown.delivered["time_s"].tolist(), shown.delivered["value"].tolist(), top, bottom, most)
    inside = tag("polygon", points=pairs(area), fill=RATE, **{"fill-opacity": 0.3})
    inside += tag("polyline", points=pairs(download), stroke=RATE, **{"stroke-width": 2})
    legend = text("area: the radio, line: the download", RIGHT, top - 8, size=13, fill=GREY, anchor="end")
    return [legend, *chart("Mbit/s", inside, top, bottom, most)]


def pings(shown: Shown) -> list[str]:
    """Return the chart of round trips."""
    top, bottom = 240, 358
    most = rounded_up(float(shown.ping["value"].max()))
    line = curve(shown.ping["time_s"].tolist(), shown.ping["value"].tolist(), top, bottom, most)
    ends = [text("0 s", LEFT, bottom + 20, size=13, fill=GREY)]
    ends.append(text("15 s", RIGHT, bottom + 20, size=13, fill=GREY, anchor="end"))
    return [
        *ends,
        *chart("ping, ms", tag("polyline", points=pairs(line), stroke=PING, **{"stroke-width": 2}), top, bottom, most),
    ]


def chart(name: str, inside: str, top: int, bottom: int, most: float) -> list[str]:
    """Return a chart whose lines are uncovered as time goes on."""
    parts = [text(name, LEFT, top - 8, size=15)]
    for share in (0.0, 0.5, 1.0):
        y = bottom - (bottom - top) * share
        parts.append(tag("path", d=f"M{LEFT},{y:.1f}H{RIGHT}", stroke=RULE))
        parts.append(text(f"{share * most:.0f}", LEFT - 8, y + 4, size=13, fill=GREY, anchor="end"))
    cover = tag(
        "rect", evenly("width", [0, RIGHT - LEFT]), x=LEFT, y=top - 4, width=RIGHT - LEFT, height=bottom - top + 8
    )
    parts.append(tag("clipPath", cover, id=f"cover{top}"))
    parts.append(tag("g", inside, fill="none", **{"clip-path": f"url(#cover{top})"}))
    now = evenly("x1", [LEFT, RIGHT]) + evenly("x2", [LEFT, RIGHT])
    parts.append(tag("line", now, x1=RIGHT, x2=RIGHT, y1=top - 4, y2=bottom + 4, stroke=GREY))
    return parts


def curve(times: Sequence[float], values: Sequence[float], top: int, bottom: int, most: float) -> Points:
    """Return the points of values over time in a chart."""
    return [
        (LEFT + (RIGHT - LEFT) * time / LENGTH_S, bottom - (bottom - top) * min(value, most) / most)
        for time, value in zip(times, values, strict=True)
    ]


def numbers(shown: Shown) -> list[str]:
    """Return download and ping as numbers each half second, and the state of the radio in words."""
    half = 0.5

    def between(frame: pd.DataFrame, begin: float) -> pd.Series:
        return frame.loc[(frame["time_s"] >= begin) & (frame["time_s"] < begin + half), "value"]

    parts = [text("download", 24, 286, size=13, fill=GREY), text("ping", 220, 286, size=13, fill=GREY)]
    begins = [index * half for index in range(round(LENGTH_S / half))]
    for begin in begins:
        answers = between(shown.ping, begin)
        ping = f"{answers.median():.0f} ms" if len(answers) else "lost"
        shown_now = text(f"{between(shown.delivered, begin).mean():.0f} Mbit/s", 24, 318, size=26, weight=600)
        shown_now += text(ping, 220, 318, size=26, weight=600)
        parts.append(seen(shown_now, begin, WHOLE_S if begin == begins[-1] else begin + half))
    ends = itertools.pairwise([*shown.states, (LENGTH_S, "")])
    long_enough = [(begin, state) for (begin, state), (end, _) in ends if end - begin >= STEP_S]
    for (begin, state), (end, _) in itertools.pairwise([*long_enough, (WHOLE_S, "")]):
        colour, words = STATES[state]
        parts.append(seen(text(f"radio: {words}", 24, 350, size=15, fill=colour), 0 if begin < STEP_S else begin, end))
    return parts


def places(shown: Shown, movement: Movement) -> Points:
    """Return the places of a movement, four in each second."""
    times = shown.scene.start_s + np.arange(0, LENGTH_S + 0.01, 0.25)
    x = np.interp(times, movement.time_s, movement.x_m)
    y = np.interp(times, movement.time_s, movement.y_m)
    return list(zip(x.tolist(), y.tolist(), strict=True))


def pairs(points: Points, between: str = " ") -> str:
    """Return points as SVG writes them."""
    return between.join(f"{x:.1f},{y:.1f}" for x, y in points)


def rounded_up(value: float) -> float:
    """Return a round number that is not below."""
    size = float(10 ** np.floor(np.log10(value)))
    return next(step * size for step in (1, 2, 3, 4, 5, 6, 8, 10) if step * size >= value)


def evenly(attribute: str, values: Sequence[float]) -> str:
    """Return the change of an attribute through values over the time of the picture."""
    texts = [f"{value:.1f}" for value in values]
    return timed("animate", [*texts, texts[-1]], attributeName=attribute)


def moved(offsets: Points) -> str:
    """Return a movement through offsets; nothing for none."""
    texts = [f"{x:.1f},{y:.1f}" for x, y in offsets]
    return timed("animateTransform", [*texts, texts[-1]], attributeName="transform", type="translate") if texts else ""


def timed(name: str, values: Sequence[str], **attributes: str) -> str:
    """Return an animation through values, evenly until the last but one; the last stays."""
    times = [LENGTH_S * index / (len(values) - 2) / WHOLE_S for index in range(len(values) - 1)]
    key_times = ";".join(f"{time:.4f}" for time in [*times, 1.0])
    return tag(
        name, dur=f"{WHOLE_S:g}s", repeatCount="indefinite", keyTimes=key_times, values=";".join(values), **attributes
    )


def stepped(attribute: str, steps: Sequence[tuple[float, str]]) -> str:
    """Return an animation that jumps at times in seconds; the first is 0."""
    key_times = ";".join(f"{time / WHOLE_S:.4f}" for time, _ in steps)
    values = ";".join(value for _, value in steps)
    return tag(
        "animate", attributeName=attribute, calcMode="discrete", dur=f"{WHOLE_S:g}s", repeatCount="indefinite",
        keyTimes=key_times, values=values,
    )  # fmt: skip


def coloured(shown: Shown, attribute: str) -> str:
    """Return the change of a colour with the state of the radio."""
    return stepped(
        attribute, [(0 if index == 0 else at, STATES[state][0]) for index, (at, state) in enumerate(shown.states)]
    )


def seen(inside: str, begin: float, end: float) -> str:
    """Return parts that show from a time to another; where nothing moves, the last ones show."""
    steps = [*([(0.0, "hidden")] if begin else []), (begin, "visible"), *([(end, "hidden")] if end < WHOLE_S else [])]
    still = {} if end >= WHOLE_S else {"visibility": "hidden"}
    return tag("g", inside + stepped("visibility", steps), **still)


def text(
    words: str, x: float, y: float, *, size: int, fill: str = INK, weight: int = 400, anchor: str = "start"
) -> str:
    """Return words at a place."""
    style = {"font-size": size, "font-weight": weight, "text-anchor": anchor}
    return tag("text", words, x=x, y=y, fill=fill, **style)


def tag(name: str, inside: str = "", /, **attributes: object) -> str:
    """Return an element."""
    written: Callable[[object], str] = lambda value: f"{value:.1f}" if isinstance(value, float) else str(value)  # noqa: E731
    head = "".join(f" {key}={quoteattr(written(value))}" for key, value in attributes.items())
    return f"<{name}{head}>{inside}</{name}>" if inside else f"<{name}{head}/>"


if __name__ == "__main__":
    main()
