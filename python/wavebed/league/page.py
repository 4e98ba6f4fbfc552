"""The tables of a league, as text and as one page that needs no network."""

from __future__ import annotations

import statistics
from itertools import pairwise
from typing import TYPE_CHECKING

from wavebed.league.cells import APPLICATIONS, GATE_S, CellResult, LeagueCell, LeagueSettings, plan, result_of
from wavebed.league.emulators import EMULATORS, NETEM, VIRTUAL
from wavebed.league.recordings import PACKET_BYTES, SEGMENT_BYTES
from wavebed.page.document import document, joined, section, soft, table
from wavebed.page.plots import Chart, ChartLine, Scale, linear
from wavebed.page.text import MISSING, figure, tick_text, ticks_between

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from markupsafe import Markup

    from wavebed.league.recordings import LeagueRecording

Rows = list[list[str]]
DESIGN = (
    "Each emulator of others runs in network namespaces of its own. wavebed's workloads run as between two real hosts:"
    " the server in the namespace outside the emulator, the client in the one inside. They begin"
    f" {GATE_S:g} s after the recording began, in every emulator. wavebed in real time is measured the same way. In"
    " virtual time the workloads run in the guest: over a link of wavebed, over netem and tbf of its kernel, and"
    " over a recording of light and heavy load. The guest has another kernel than this machine, and so another TCP."
)
CAPTIONS = {
    "download": "Download: Mbit/s delivered by CUBIC; mean difference of each second from the recording, percent",
    "rtt": "RTT under load: median, ms; difference from the live measurement, percent, where there is one,"
    " else from netem in the guest, which is never late (netem: from wavebed there)",
    "page": "Page load: Speed Index, ms; difference from the median of the others, real or virtual, percent",
    "call": "Call, a voice stream of 50 packets a second: one-way delay p95, ms; difference from the same queue"
    " computed packet by packet, ms",
    "video": "Video: mean bitrate, Mbit/s; difference from the median of the others, real or virtual, percent",
    "stalls": "Video: time stalled, percent of the playback; difference from the median of the others, real or virtual,"
    " in points of percent",
    "cost": "Processor time of the emulator for each Gbit of the download, seconds",
}
_FIGURES = {
    "rtt": "latency rtt loaded p50 ms",
    "page": "web speed index ms",
    "video": "video mean bitrate Mbit/s",
    "stalls": "video time stalled %",
}
_OF_VIDEO = "stalls"
"""The second table of a video: all emulators may show the lowest bitrate, and stall for different times."""
_RUNS = {**APPLICATIONS, _OF_VIDEO: APPLICATIONS["video"]}


class League:
    """The results of a league's folder."""

    def __init__(self, folder: Path, settings: LeagueSettings) -> None:
        self.settings = settings
        self.results = {cell: result_of(folder, cell) for cell in plan(settings)}

    def result(self, recording: str, emulator: str, application: str) -> CellResult | None:
        """Return the result of a cell of a table; ``None``: it was not run yet."""
        return self.results.get(LeagueCell(recording, emulator, _RUNS[application]))

    def value(self, recording: str, emulator: str, application: str) -> tuple[float, float | None] | None:
        """Return the figure of a cell of a table, and its error."""
        result = self.result(recording, emulator, application)
        if result is None or result.reason:
            return None
        if application == "download":
            found = result.errors.get("delivered Mbit/s")
            return None if found is None else (found, result.errors.get("each second %"))
        if application == "call":
            found, exact = (result.errors.get(f"{exact}delay p95 ms") for exact in ("", "exact "))
            return None if found is None or exact is None else (found, found - exact)
        found = result.figures.get(_FIGURES[application])
        if found is None:
            return None
        live = result.errors.get("live round trip %")
        return found, live if application == "rtt" and live is not None else self._beside(
            recording, emulator, application, found
        )

    def _beside(self, recording: str, emulator: str, application: str, found: float) -> float | None:
        own = EMULATORS[emulator]
        if application == "rtt":  # never late, and not ours
            names = [VIRTUAL if emulator == NETEM else NETEM]
        else:  # a guest computes in no time: real and virtual pages differ by that
            names = [name for name in self.settings.emulators if EMULATORS[name].is_virtual == own.is_virtual]
        others = [
            result.figures[_FIGURES[application]]
            for name in names
            if name != emulator
            and (result := self.result(recording, name, application)) is not None
            and _FIGURES[application] in result.figures
        ]
        middle = statistics.median(others) if others else 0.0
        if application == _OF_VIDEO:
            return found - middle if others else None
        return 100 * (found / middle - 1) if middle else None

    def cost(self, recording: str, emulator: str) -> float | None:
        """Return the processor time for a Gbit, seconds."""
        result = self.result(recording, emulator, "download")
        if result is None or result.processor_s is None or not result.goodput:
            return None
        gbit = sum(rate for _, rate in result.goodput) / len(result.goodput) * self.settings.seconds / 1e3
        return result.processor_s / gbit if gbit > 0 else None

    def rows(self, application: str) -> Rows:
        """Return a table; the first row is its head."""
        names = self.settings.emulators
        found: Rows = [["recording", *(EMULATORS[name].title for name in names)]]
        for recording in self.settings.recordings:
            found.append([recording, *(self._cell(recording, name, application) for name in names)])
        return found

    def _cell(self, recording: str, emulator: str, application: str) -> str:
        if application == "cost":
            cost = self.cost(recording, emulator)
            return MISSING if cost is None else figure(cost)
        value = self.value(recording, emulator, application)
        if value is None:
            return MISSING
        error = value[1]
        return figure(value[0]) if error is None else f"{figure(value[0])} ({_error(application, error)})"

    def tables(self) -> list[tuple[str, Rows]]:
        """Return every table with its caption."""
        names = list(self.settings.applications)
        names += [name for name, of in ((_OF_VIDEO, "video"), ("cost", "download")) if of in names]
        return [(CAPTIONS[name], self.rows(name)) for name in names]

    def reasons(self) -> Rows:
        """Return the cells that were not measured, and why, in the order of the plan; alike ones together."""
        found: dict[tuple[str, str, str], list[str]] = {}
        for cell, result in self.results.items():
            if result is None or result.reason:
                why = "was not run yet" if result is None else result.reason
                found.setdefault((cell.emulator, cell.run, why), []).append(cell.recording)
        return [["emulator", "run", "recordings", "why"]] + [
            [emulator, run, ", ".join(names), why] for (emulator, run, why), names in found.items()
        ]

    def late(self) -> Rows:
        """Return how many trials of each emulator are suspect, since the machine was late or busy."""
        found: Rows = [["emulator", "measured", "suspect"]]
        for name in self.settings.emulators:
            done = [each for cell, each in self.results.items() if cell.emulator == name and each and not each.reason]
            suspect = sum(each.verdict == "suspect" for each in done)
            found.append([EMULATORS[name].title, str(len(done)), str(suspect)])
        return found


def _error(application: str, error: float) -> str:
    if application == "download":
        return f"{error:.1f} %"
    unit = {"call": " ms", _OF_VIDEO: ""}.get(application, " %")
    return f"{error:+.1f}{unit}".replace("-", "−")


def _courses(league: League, recordings: Sequence[LeagueRecording]) -> list[Markup]:
    """Return a chart of each recording: what it offers each second, and what each emulator delivered."""
    charts = []
    for recording in recordings:
        start, end = GATE_S, GATE_S + league.settings.seconds
        edges = [start + each for each in range(league.settings.seconds + 1)]
        offered = [recording.offered_mbit(a, b) * SEGMENT_BYTES / PACKET_BYTES for a, b in pairwise(edges)]
        lines = [ChartLine("recording", "ink", list(zip(edges[1:], offered, strict=True)), marks=False)]
        for place, name in enumerate(league.settings.emulators):
            result = league.result(recording.name, name, "download")
            if result is None or not result.goodput:
                continue
            points = []
            for a, b in pairwise(edges):
                inside = [rate for at, rate in result.goodput if a < at <= b]
                points += [(b, statistics.fmean(inside))] if inside else []
            lines.append(ChartLine(EMULATORS[name].title, f"t{place}", points, marks=False))
        if len(lines) > 1:
            across = Scale(start, end, [(tick, tick_text(tick)) for tick in ticks_between(start, end)])
            up = linear([0.0, *(y for line in lines for _, y in line.points)], about=4)
            title = f"{recording.name}: delivered in each second"
            charts.append(
                Chart(title, "Mbit/s", "recording, s", across, up, lines, 160, read=False, upright=False).render()
            )
    return charts


def text(league: League) -> str:
    """Return the tables in Markdown."""
    parts = []
    for caption, rows in [
        *league.tables(),
        ("Trials", league.late()),
        ("Cells that were not measured", league.reasons()),
    ]:
        if len(rows) > 1:
            lines = [" | ".join(["", *row, ""]).strip() for row in rows]
            parts.append("\n".join([f"## {caption}", "", lines[0], "|" + "---|" * len(rows[0]), *lines[1:]]))
    return "\n\n".join(parts) + "\n"


def page(league: League, recordings: Sequence[LeagueRecording] = ()) -> str:
    """Return the page; `recordings` are drawn beside what was delivered."""
    settings = league.settings
    title = f"A league of {len(settings.emulators)} emulators over {len(settings.recordings)} recordings"
    parts = [section("design", title, soft(DESIGN))]
    for place, (caption, rows) in enumerate(league.tables()):
        parts.append(
            section(f"table-{place}", caption.split(":", 1)[0], soft(caption), table(caption, rows[0], rows[1:]))
        )
    parts.append(section("courses", "Rates over time", *_courses(league, recordings)))
    parts.append(section("late", "Late machine", table("Trials", league.late()[0], league.late()[1:])))
    if len(reasons := league.reasons()) > 1:
        parts.append(section("reasons", "Not measured", table("Why", reasons[0], reasons[1:], texts=(1, 2, 3))))
    return document(title, joined(parts))
