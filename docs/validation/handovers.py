"""Compare handovers of the engine with measured ones: TCP itself is the judge, one day held out at a time.

Usage: python docs/validation/handovers.py [-o DIR] [--draws N]

The recordings are looked for in `m2ho` of the folder that WAVEBED_DATA names. A trial plays the recorded rate of each
second, and an interruption at each recorded handover. Its length is drawn from the other two days. iperf3 runs across
it with CUBIC, in virtual time. The same analysis then judges the recording and the trial. Half an hour; it writes
`recorded/handovers.txt` and `pictures/handovers.svg`.
"""

from __future__ import annotations

import argparse
import gzip
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from experiments import add_output, output_folder
from fit_applications import write
from fit_walks import markdown

from wavebed.channel.propagation.correlated import generator
from wavebed.channel.serving import length_s
from wavebed.fit.handovers import (
    BEFORE,
    KINDS,
    HandoverEvent,
    HandoverRecording,
    TransferBins,
    align,
    calm_events,
    distances,
    effect,
    effects,
    interruption_s,
    kind_rows,
    learn_handovers,
    lengths_of,
    spread_text,
)
from wavebed.fit.judge import ks_distance
from wavebed.page.charts import FAINT, INK, blank, styled
from wavebed.store.load import load_run
from wavebed.workload.parsers import read_end

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from wavebed.channel.placemap import Floats
    from wavebed.fit.handovers import HandoverEffect
    from wavebed.page.charts import Axes
    from wavebed.workload.parsers import RateInterval

HERE: Final = Path(__file__).parent
PAGE: Final = HERE / "recorded" / "handovers.txt"
PICTURE: Final = HERE / "pictures" / "handovers.svg"
SCENARIO: Final = """
[run]
seed = {seed}

[path]
delay = "{delay_us}us"
rate = "50mbit"
down-trace = "{name}.csv"
down-queue = "droptail:{queue}ms"
up-queue = "drophead:1p"
radio = "nr-30khz"
congestion-control = "cubic"
client = {{ sysctl = {{ "net.ipv4.tcp_rmem" = "4096 131072 6291456" }} }}

[[workload]]
kind = "bulk"
duration = "{duration}s"
limit = "{limit}s"
"""
SPLIT: Final = """
[run]
seed = 1

[[path.hop]]
name = "radio"
kind = "radio"
delay = "13ms"
down-trace = "{name}.csv"
up-trace = "{name}.csv"
down-queue = "droptail:100ms"
radio = {{ preset = "nr-30khz", fallback = {{ preset = "lte" }}, {bearer} }}

[[workload]]
kind = "bulk"
duration = "20s"
limit = "40s"
"""
BEARERS: Final = {
    "switched": 'bearer = "switched"',
    'split, `reordering = "100ms"`': 'bearer = "split", reordering = "100ms"',
    "split": 'bearer = "split"',
}
SPACINGS_MS: Final = (0.2, 1.0, 2.5, 5.0, 7.5, 10.0)
GAP_S: Final = 0.129
"""Median interruption of changes of the NR cell."""
WIRE: Final = 1500 / 1448
"""Bytes of IP for each byte of iperf3."""
FULL: Final = 95
"""Percentile of RTT at which the queue is full. It is a time: RTT exceeded the least one by 3 ms at 800 Mbit/s with a
window of 4 MB, and by 40 ms at 100 Mbit/s with one of 1.2 MB."""
START_S: Final = 4.0
"""Until then the window grew, and RTT did not: goodput is less than the link's rate. Played as such it made the first
transfers lose segments."""
RADIO_US: Final = 4500
"""Round trip of the radio itself."""
CONSTANTS: Final = {"scg": (0.05,), "lte": (0.05,), "addition": (0.076,), "release": (0.07,)}
"""Interruptions of scenes by default: handover, and the ways from and to the fallback carrier."""


@dataclass(frozen=True, eq=False)
class PathFigures:
    """Of a recording: least RTT, and by how much RTT exceeds it in 5 % of the time: the limit of the queue."""

    rtt_ms: float
    queue_ms: float


def path_of(recording: HandoverRecording) -> PathFigures | None:
    """Return the figures of the path; None without a sender."""
    sent = recording.sent
    if sent is None:
        return None
    least = float(np.nanmin(sent.rtt_ms))
    return PathFigures(least, float(np.nanpercentile(sent.rtt_ms, FULL)) - least)


def pattern_of(recording: HandoverRecording, lengths: Mapping[str, Sequence[float]], seed: int) -> str:
    """Return a pattern: the mean rate of each second without the bins of handovers, and drawn interruptions.

    The rate changes at events too, because a change of the cell changes it. A part that only has bins of handovers has
    the rate of the part before it. The first parts have the highest of their rates.
    """
    received = recording.received
    end_s = float(np.ceil(received.at_s[-1])) + 2
    own = np.ones(len(received.at_s), bool)
    for event in recording.events:
        own &= (received.at_s + 0.1 <= event.at_s) | (received.at_s >= event.at_s + 0.3)
    events = sorted(event.at_s for event in recording.events if 0 < event.at_s < end_s)
    edges = sorted({*np.arange(0, end_s).tolist(), *events})
    parts: list[tuple[float, float]] = []
    for begin, end in zip(edges, [*edges[1:], end_s], strict=True):
        bins = own & (received.at_s >= begin - 0.05) & (received.at_s < end - 0.05)
        rate = float(received.goodput_bps[bins].mean()) if bins.any() else (parts[-1][1] if parts else 1e7)
        parts.append((begin, rate))
    usable = max(rate for at, rate in parts if at < START_S)
    parts = [(at, max(rate, usable) if at < START_S else rate) for at, rate in parts]
    draws = generator(seed, f"handovers {recording.day}-{recording.name}").random(len(recording.events))
    gaps: list[tuple[float, float]] = []
    for event, draw in zip(recording.events, draws.tolist(), strict=True):
        if 0 < event.at_s < end_s - 1:
            gaps.append((event.at_s, event.at_s + length_s(lengths[event.kind], draw)))
    rows: dict[int, tuple[float, str]] = {round(1e6 * at): (rate, "los") for at, rate in parts}
    for begin, end in gaps:
        within = [at for at in rows if 1e6 * begin <= at < 1e6 * end]
        last = max(at for at in rows if at <= 1e6 * end)
        after = next(rate for at, rate in reversed(parts) if round(1e6 * at) <= last)
        for at in within:
            del rows[at]
        rows[round(1e6 * begin)] = (0.0, "handover")
        rows.setdefault(round(1e6 * end), (after, "los"))
    head = f"# wavebed pattern 1\n# kind = steps\n# duration_s = {end_s:g}\ntime_s,rate_bps,state\n"
    lines = (f"{at / 1e6:.6f},{round(rate * WIRE)},{state}\n" for at, (rate, state) in sorted(rows.items()))
    return head + "".join(lines)


def trial(
    folder: Path, name: str, recording: HandoverRecording, path: PathFigures, pattern: str, seed: int
) -> HandoverRecording:
    """Run iperf3 across a pattern in virtual time, and return the recording with its bins, aligned as a recording is.

    The alignment finds events 25 to 100 ms late, because it looks for the lowest of three bins.
    """
    duration = round(recording.received.at_s[-1] + 0.1)
    text = SCENARIO.format(
        name=name,
        seed=seed,
        delay_us=round((1e3 * path.rtt_ms - RADIO_US) / 2),
        queue=round(path.queue_ms),
        duration=duration,
        limit=duration + 20,
    )
    received, sent = run(folder, name, text, pattern)
    events, shift = align(recording.events, received)
    seen = sent if recording.sent is not None else None
    return replace(recording, events=events, alignment=shift, received=received, sent=seen)


def run(folder: Path, name: str, text: str, pattern: str) -> tuple[TransferBins, TransferBins]:
    """Run a scenario in virtual time, and return what iperf3 received and sent; a complete run is read again."""
    place = folder / name
    if not (place / "run.json").exists() or load_run(place).record.ended is None:
        (folder / f"{name}.csv").write_text(pattern, encoding="utf-8")
        (folder / f"{name}.toml").write_text(text, encoding="utf-8")
        command = [sys.executable, "-m", "wavebed", "run", f"{name}.toml", "--virtual-time", "-o", name]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    loaded = load_run(place)
    (line,) = loaded.record.trials
    if line.verdict != "valid":
        print(f"{name}: {line.verdict}: {line.reasons}", file=sys.stderr)
    samples = loaded.table("samples", trial=line.folder)
    began_s = float(samples[samples["series"].str.contains("goodput")]["time_s"].min())
    raw = place / "trials" / line.folder / "raw" / "bulk"
    server, client = (
        read_end(gzip.decompress((raw / f"{end}.json.gz").read_bytes()).decode()) for end in ("server", "client")
    )
    return bins_of(client.received[0], began_s), bins_of(server.sent[0], began_s)


def bins_of(stream: Sequence[RateInterval], began_s: float) -> TransferBins:
    """Return iperf3's intervals as bins in the time of the pattern."""
    start, end, size, again, window, rtt = np.array(
        [
            [
                np.nan if value is None else value
                for value in (i.start_s, i.end_s, i.bytes, i.retransmits, i.cwnd_bytes, i.rtt_us)
            ]
            for i in stream
        ],
        dtype=np.float64,
    ).T
    return TransferBins(0.0, start + began_s, size * 8 / np.maximum(end - start, 1e-3), again, window, rtt / 1e3)


def main() -> int:
    """Run the trials, and write the tables and the picture; 2 if there are no recordings."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add_output(parser)
    parser.add_argument("--draws", type=int, default=2, metavar="N", help="trials of each recording (default: 2)")
    arguments = parser.parse_args()
    data = Path(os.environ.get("WAVEBED_DATA", HERE.parents[1] / ".." / "shared" / "data")) / "m2ho"
    if not data.is_dir():
        print(f"{data}: no such folder: name the folder above it in WAVEBED_DATA", file=sys.stderr)
        return 2
    learned = learn_handovers([data])
    with output_folder(arguments.output) as folder:
        drawn = [each for seed in range(1, arguments.draws + 1) for each in trials(folder, learned.recordings, seed)]
        constant = trials(folder, learned.recordings, None)
        bearers = list(split_rows(folder))
    measured = list(learned.effects)
    calm = [
        found
        for each in learned.recordings
        for event in calm_events(each)
        if (found := effect(each.day, event, each.received, each.sent)) is not None
    ]
    by_trial = [found for each in drawn for found in effects(each)]
    by_constant = [found for each in constant for found in effects(each)]
    write(
        {
            "clocks": markdown(clock_rows(learned.recordings)),
            "recorded": markdown(kind_rows([*measured, *calm])),
            "by day": markdown(day_rows(measured)),
            "trials": markdown(kind_rows(by_trial)),
            "constants": markdown(kind_rows(by_constant)),
            "distances": markdown(distance_table(measured, by_trial, by_constant)),
            "judge": markdown(judge_rows(measured, by_trial, by_constant)),
            "spacing": markdown(list(spacing_rows(learned.recordings))),
            "bearers": markdown(bearers),
        },
        PAGE,
    )
    draw(PICTURE, learned.recordings, drawn)
    return 0


def trials(folder: Path, recordings: Sequence[HandoverRecording], seed: int | None) -> list[HandoverRecording]:
    """Run a trial of each recording, with lengths from the other days by a seed, or with the scenes' constants."""
    known = [path for path in map(path_of, recordings) if path is not None]
    usual = PathFigures(*(float(np.median([getattr(each, key) for each in known])) for key in ("rtt_ms", "queue_ms")))
    found = []
    for each in recordings:
        others = [one for other in recordings if other.day != each.day for one in effects(other)]
        lengths = CONSTANTS if seed is None else lengths_of(others)
        name = f"{each.day}-{each.name}-{'constants' if seed is None else seed}"
        pattern = pattern_of(each, lengths, seed or 1)
        found.append(trial(folder, name, each, path_of(each) or usual, pattern, seed or 1))
    return found


def clock_rows(recordings: Iterable[HandoverRecording]) -> list[Sequence[str]]:
    """Return the table of the shifts between the phone's clock and iperf3."""
    rows: list[Sequence[str]] = [("day", "number", "handovers", "shift, s", "score", "next best score")]
    for each in recordings:
        shift = each.alignment
        numbers = (f"{shift.shift_s:+.2f}", f"{shift.score:.1f}", f"{shift.rival:.1f}")
        rows.append((each.day, each.name, str(len(each.events)), *numbers))
    return rows


def day_rows(found: Sequence[HandoverEffect]) -> list[Sequence[str]]:
    """Return the figures of each kind on each day."""
    rows: list[Sequence[str]] = []
    for day in sorted({one.day for one in found}):
        head, *lines = kind_rows([one for one in found if one.day == day])
        rows = rows or [("day", *head)]
        rows += [(day, *line) for line in lines]
    return rows


def distance_table(
    measured: Sequence[HandoverEffect], drawn: Sequence[HandoverEffect], constant: Sequence[HandoverEffect]
) -> list[Sequence[str]]:
    """Return the distances of the other days' distribution, and of trials, to the held-out day."""
    head = ("kind", "figure", "events", "between days", "other days' distribution", "trials", "verdict of trials")
    rows: list[Sequence[str]] = [(*head, "trials with constants")]
    models = [distances(measured, each) for each in (None, drawn, constant)]
    for plain, trial_, fixed in zip(*models, strict=True):
        verdict = "too few" if not trial_.is_judged else "holds" if trial_.holds else "missed"
        numbers = (f"{value:.2f}" for value in (plain.between, plain.modelled, trial_.modelled))
        rows.append((KINDS[plain.kind], plain.metric, str(plain.events), *numbers, verdict, f"{fixed.modelled:.2f}"))
    return rows


FIGURES: Final[dict[str, Callable[[HandoverEffect], float]]] = {
    "goodput dip, % of the rate before": lambda one: 100 * (1 - min(one.depth, 1.0)),
    "dip, ms": lambda one: 1e3 * one.dip_s,
    "interruption by missing data, ms": lambda one: 1e3 * one.lost_s,
    "recovery, ms": lambda one: 1e3 * one.recovery_s,
    "RTT spike, ms": lambda one: one.spike_ms,
    "segments sent again": lambda one: one.retransmits,
    "window after / before, %": lambda one: 100 * one.cwnd_ratio,
}


def judge_rows(
    measured: Sequence[HandoverEffect], drawn: Sequence[HandoverEffect], constant: Sequence[HandoverEffect]
) -> list[Sequence[str]]:
    """Return medians of the recordings beside medians of trials."""
    rows: list[Sequence[str]] = [("kind", "figure", "recorded", "trials", "deviation", "trials with constants")]
    for kind, name in {**KINDS, "": "all"}.items():
        for figure, value in FIGURES.items():
            recorded, by_trial, fixed = (
                [value(one) for one in side if not kind or one.event.kind == kind]
                for side in (measured, drawn, constant)
            )
            middle, other = (float(np.nanmedian(each)) for each in (recorded, by_trial))
            off = f"{100 * (other / middle - 1):+.0f} %" if middle else "–"
            rows.append((name, figure, spread_text(recorded), spread_text(by_trial), off, spread_text(fixed)))
    return rows


def spacing_rows(recordings: Sequence[HandoverRecording]) -> Iterable[Sequence[str]]:
    """Yield RTT spikes of changes of the NR cell as the kernel smooths them, by the time between two samples.

    After an interruption the samples of one round trip have its length; those that follow have none of it.
    """
    yield "an RTT sample each, ms", "RTT spike, ms", "distance of a day to recorded spikes"
    random = generator(1, "spacing of samples")
    gaps = [
        (each.day, 1e3 * interruption_s(found), found.spike_ms, _usual_rtt_ms(each.sent, found.event.at_s))
        for each in recordings
        if each.sent is not None
        for found in effects(each)
        if found.event.kind == "scg"
    ]
    for spacing_ms in SPACINGS_MS:
        drawn = [
            (day, smoothed_spike(gap_ms, rtt_ms, spacing_ms, random.random(2)))
            for _ in range(200)
            for day, gap_ms, _, rtt_ms in gaps
        ]
        days = sorted({day for day, *_ in gaps})
        apart = [
            ks_distance(
                np.array([spike for each, spike in drawn if each == day]),
                np.array([spike for each, _, spike, _ in gaps if each == day]),
            )
            for day in days
        ]
        yield f"{spacing_ms:g}", spread_text([spike for _, spike in drawn]), f"{np.mean(apart):.2f}"
    yield "recorded", spread_text([spike for *_, spike, _ in gaps]), "–"


def _usual_rtt_ms(sent: TransferBins, at_s: float) -> float:
    start = int(np.searchsorted(sent.at_s, at_s, side="right")) - 1
    return float(np.median(sent.rtt_ms[start - BEFORE : start]))


def smoothed_spike(gap_ms: float, rtt_ms: float, spacing_ms: float, phases: Floats) -> float:
    """Return the highest of three readings of the smoothed RTT; `phases` of samples and readings are from 0 to 1."""
    at_ms = np.arange(phases[0] * spacing_ms, 300, spacing_ms)
    smooth_ms, value_ms = [0.0], 0.0
    for each in at_ms.tolist():
        value_ms += ((gap_ms if each < rtt_ms else 0.0) - value_ms) / 8
        smooth_ms.append(value_ms)
    read = np.searchsorted(at_ms, 100 * (phases[1] + np.arange(3)), side="right")
    return float(np.array(smooth_ms)[read].max())


def split_rows(folder: Path) -> Iterable[Sequence[str]]:
    """Yield a table of the bearers: interruptions of 129 ms of the NR leg beside LTE with 40 Mbit/s."""
    yield "bearer", "lowest rate", "RTT spike, ms", "segments sent again", "recovery, ms"
    rows = ["0,200000000,los,40000000\n"]
    for second in range(2, 20, 2):
        begin = second + 0.03
        rows.append(f"{begin:.3f},0,handover,40000000\n{begin + GAP_S:.3f},200000000,los,40000000\n")
    pattern = "# wavebed pattern 1\n# kind = steps\n# duration_s = 22\ntime_s,rate_bps,state,fallback_rate_bps\n"
    for number, (name, bearer) in enumerate(BEARERS.items(), 1):
        file = f"bearer-{number}"
        received, sent = run(folder, file, SPLIT.format(name=file, bearer=bearer), pattern + "".join(rows))
        events = [HandoverEvent("scg", second + 0.03, np.nan, np.nan) for second in range(4, 17, 2)]
        found = [each for one in events if (each := effect("", one, received, sent)) is not None]
        columns = ([100 * one.depth for one in found], [one.spike_ms for one in found])
        more = ([one.retransmits for one in found], [1e3 * one.recovery_s for one in found])
        low, *others = (spread_text(each) for each in (*columns, *more))
        yield name, f"{low} %", *others


BEGIN_S, END_S, STEP_S = -0.5, 1.5, 0.1
COURSES: Final[dict[str, Callable[[TransferBins, slice], Floats]]] = {
    "goodput / before": lambda bins, before: bins.goodput_bps / np.median(bins.goodput_bps[before]),
    "RTT − before, ms": lambda bins, before: bins.rtt_ms - np.median(bins.rtt_ms[before]),
    "window / before": lambda bins, before: bins.cwnd_bytes / np.median(bins.cwnd_bytes[before]),
}


def draw(file: Path, recorded: Sequence[HandoverRecording], drawn: Sequence[HandoverRecording]) -> None:
    """Draw the courses around changes and releases of the NR cell: medians, and the middle half as a band."""
    kinds = ("scg", "release")
    with styled():
        figure, _ = blank(9.5, 7.0, 110, is_laid_out=True)
        panels = figure.subplots(len(COURSES), len(kinds), sharex=True, sharey="row")
        for column, kind in enumerate(kinds):
            for row, (name, course) in enumerate(COURSES.items()):
                axes = panels[row][column]
                for side, label, colour in ((recorded, "recorded", INK), (drawn, "trials, day held out", "#0072b2")):
                    _band(axes, courses(side, kind, course, with_sender=row > 0), label, colour)
                axes.axvline(0, color=FAINT, linewidth=0.8)
                if column == 0:
                    axes.set_ylabel(name)
            panels[0][column].set_title(KINDS[kind], loc="left", fontsize=10)
            panels[-1][column].set_xlabel("seconds after the command")
        panels[0][0].legend(fontsize=8, frameon=False, loc="lower right")
        figure.savefig(file, metadata={"Date": None, "Creator": None})


def courses(
    side: Sequence[HandoverRecording],
    kind: str,
    course: Callable[[TransferBins, slice], Floats],
    *,
    with_sender: bool,
) -> Floats:
    """Return the course of a figure around each event of a kind, one row an event."""
    rows = []
    for each in side:
        bins = each.sent if with_sender else each.received
        for found in effects(each) if bins is not None else []:
            if found.event.kind == kind and bins is not None:
                start = int(np.searchsorted(bins.at_s, found.event.at_s, side="right")) - 1
                values = course(bins, slice(start - 10, start))
                rows.append(values[start + round(BEGIN_S / STEP_S) : start + round(END_S / STEP_S) + 1])
    return np.array(rows)


def _band(axes: Axes, rows: Floats, label: str, colour: str) -> None:
    at_s = np.arange(rows.shape[1]) * STEP_S + BEGIN_S
    low, middle, high = np.nanpercentile(rows, (25, 50, 75), axis=0)
    axes.fill_between(at_s, low, high, color=colour, alpha=0.15, linewidth=0)
    axes.plot(at_s, middle, color=colour, label=f"{label} ({len(rows)})", linewidth=1.6)


if __name__ == "__main__":
    sys.exit(main())
