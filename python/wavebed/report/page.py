"""The page of the demonstration: one HTML file with its style, script and data inside."""

from __future__ import annotations

import json
import os
from html import escape
from importlib import resources
from typing import TYPE_CHECKING

from wavebed.demo.figures import HEADINGS, cells
from wavebed.demo.series import binned
from wavebed.report.chart import Band, Line, Panel, render

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from wavebed.demo.figures import Figures, Verdict
    from wavebed.demo.phases import Phase
    from wavebed.demo.run import Outcome
    from wavebed.demo.series import Capacity

__all__ = ["page", "write_page"]

STEP_MS = 100
STEP_S = STEP_MS / 1000
STUDY_MBPS = 245
_NAMES = {"cubic": "cubic", "bbr": "bbr", "download": "curl"}


def write_page(outcome: Outcome, file: Path) -> None:
    """Write the page; it appears whole or not at all."""
    temporary = file.with_name(file.name + ".partial")
    temporary.write_text(page(outcome), encoding="utf-8")
    os.replace(temporary, file)  # noqa: PTH105 - both are the same here


def page(outcome: Outcome) -> str:
    """Return the page's HTML."""
    flows = [_Flow(phase, outcome.capacity.duration_s) for phase in outcome.phases]
    end_s = outcome.capacity.duration_s
    data = {
        "step_s": STEP_S,
        "capacity_mbps": [round(value, 1) for value in _capacity_mbps(outcome.capacity)],
        "flows": [flow.data() for flow in flows],
    }
    assets = resources.files("wavebed.report") / "assets"
    style = (assets / "page.css").read_text(encoding="utf-8")
    script = (assets / "page.js").read_text(encoding="utf-8")
    body = "\n".join(
        (
            _head(outcome),
            _results(outcome.rows),
            _chart(outcome, flows, end_s),
            _study(outcome.rows[0]),
            _validity(outcome.verdicts),
            _repeat(outcome),
        )
    )
    # "</" would end the script element; JSON may write "<\/" for it.
    inline = json.dumps(data, separators=(",", ":")).replace("</", "<\\/")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>wavebed demo: a 5G mmWave path</title>
<style>
{style}</style>
</head>
<body>
<main>
{body}
</main>
<script type="application/json" id="data">{inline}</script>
<script>
{script}</script>
</body>
</html>
"""


class _Flow:
    """One phase in steps of the chart."""

    def __init__(self, phase: Phase, end_s: float) -> None:
        self.key = phase.name
        self.label = _NAMES[phase.name]
        steps = round(end_s / STEP_S)
        first, last = int(phase.bulk.start_s / STEP_S), int(phase.bulk.end_s / STEP_S)
        sent = binned(phase.series.delivered_bytes, STEP_MS, "sum")
        queue = binned(phase.series.queue_peak_bytes, STEP_MS, "max")
        pings: list[list[float]] = [[] for _ in range(steps)]
        for ping in phase.pings:
            if 0 <= ping.sent_s < end_s:
                pings[min(int(ping.sent_s / STEP_S), steps - 1)].append(ping.rtt_ms)
        self.mbps = _during(sent, first, last, steps, 8 / STEP_S / 1e6)
        self.queue_kb = _during(queue, first, last, steps, 1e-3)
        self.rtt_ms = [round(max(rtts), 2) if rtts else None for rtts in pings]

    def data(self) -> dict[str, object]:
        return {
            "key": self.key,
            "label": self.label,
            "mbps": self.mbps,
            "queue_kb": self.queue_kb,
            "rtt_ms": self.rtt_ms,
        }

    def points(self, values: Sequence[float | None]) -> list[tuple[float, float | None]]:
        return [((index + 0.5) * STEP_S, value) for index, value in enumerate(values)]


def _during(values: Sequence[float | None], first: int, last: int, steps: int, scale: float) -> list[float | None]:
    padded = [*values, *[None] * steps][:steps]
    return [
        round(value * scale, 2) if value is not None and first <= index < last else None
        for index, value in enumerate(padded)
    ]


def _capacity_mbps(capacity: Capacity) -> list[float]:
    steps = round(capacity.duration_s / STEP_S)
    return [capacity.bits(index * STEP_S, (index + 1) * STEP_S) / STEP_S / 1e6 for index in range(steps)]


def _head(outcome: Outcome) -> str:
    chips = "".join(
        f'<li class="{"ok" if verdict.holds else "bad"}" title="{escape(verdict.evidence)}">'
        f"{'✓' if verdict.holds else '✗'} {escape(verdict.title)}</li>"
        for verdict in outcome.verdicts
    )
    return f"""<header>
<h1>A 5G mmWave path under a download, cubic and bbr</h1>
<p class="soft">wavebed demo, {escape(outcome.about["date"])}, seed {escape(outcome.about["seed"])},
{escape(outcome.about["machine"])}, {escape(outcome.about["kernel"])}</p>
<ul class="chips">{chips}</ul>
</header>
<p class="lead">{escape(_finding(outcome.rows))}</p>
<p>The path is that of the study <em>kau-e5g</em>: a server, 11 ms of internet in each direction, and a radio whose
rate follows the published pattern of scenario 1 both ways, with a queue of 1000 packets. The handset sees the base
station, walks behind a long building at 2.1 s, and comes out at 22.1 s. Real programs ran across it: curl and nginx,
iperf3, and ping beside each.</p>"""


def _finding(rows: list[Figures]) -> str:
    by_label = {row.label.rpartition(" ")[2]: row for row in rows[1:]}
    cubic, bbr = by_label["cubic"], by_label["bbr"]
    parts = [
        f"{name} carried {row.goodput_mbps:.0f} Mbit/s"
        + (f", {row.capacity_share:.0%} of the radio's capacity" if row.capacity_share is not None else "")
        for name, row in (("cubic", cubic), ("bbr", bbr))
    ]
    text = f"Through the whole pattern, {parts[0]}; {parts[1]}."
    if cubic.loaded_p50_ms is not None and bbr.loaded_p50_ms is not None:
        text += f" Beside them, ping took {cubic.loaded_p50_ms:.0f} ms and {bbr.loaded_p50_ms:.0f} ms in the median"
        idle = rows[0].idle_p50_ms
        text += f", against {idle:.0f} ms on the idle path." if idle is not None else "."
    return text


def _results(rows: list[Figures]) -> str:
    headings = "".join(f"<th>{_heading(text)}</th>" for text in HEADINGS)
    lines = []
    for row, key in zip(rows, ("download", "cubic", "bbr"), strict=True):
        first, *rest = (escape(cell) for cell in cells(row))
        others = "".join(f"<td>{cell}</td>" for cell in rest)
        lines.append(f'<tr><td><span class="key {key}"></span>{first}</td>{others}</tr>')
    return f"""<section><h2>Results</h2>
<div class="scroll"><table><thead><tr>{headings}</tr></thead><tbody>{"".join(lines)}</tbody></table></div>
<p class="soft">Goodput is what the programs report: without headers, which take 4.8 % of the capacity (IPv6 and TCP).
RTT is by ping every 50 ms; idle is after the download. Retransmitted counts segments that the server sent again. The
queue is the radio's, downlink: the most bytes in each millisecond, and the time that packets spent in it.</p>
</section>"""


def _heading(text: str) -> str:
    for unit in ("Mbit/s", "p50 / p95 ms", "p95 kB / ms", "%"):
        if text.endswith(unit):
            return f'{escape(text.removesuffix(unit).strip())}<span class="unit">{escape(unit)}</span>'
    return escape(text) + ('<span class="unit">segments</span>' if text == "retransmitted" else "")


def _chart(outcome: Outcome, flows: list[_Flow], end_s: float) -> str:
    capacity = outcome.capacity
    steps: list[tuple[float, float | None]] = [
        (time_s, rate_bps / 1e6) for time_s, rate_bps in zip(capacity.time_s, capacity.rate_bps, strict=True)
    ]
    steps.append((end_s, steps[-1][1]))
    throughput = [Line("capacity", steps, stepped=True, filled=True)]
    throughput += [Line(flow.key, flow.points(flow.mbps)) for flow in flows]
    panels = [
        Panel("Capacity of the radio and what each flow got, Mbit/s of IP packets", throughput, 220),
        Panel("Queue at the radio, kB", [Line(flow.key, flow.points(flow.queue_kb)) for flow in flows], 140),
        Panel("Round-trip time, ms", [Line(flow.key, flow.points(flow.rtt_ms)) for flow in flows], 140),
    ]
    svg = render(panels, _shadows(capacity), end_s, "Capacity, throughput, queue and round-trip time over time")
    legend = "".join(
        f'<span><span class="key {key}"></span>{text}</span>'
        for key, text in (
            ("cubic", "iperf3, cubic"),
            ("bbr", "iperf3, bbr"),
            ("download", "curl, 200 MB, cubic"),
            ("capacity", "capacity"),
            ("band", "behind the building (NLOS)"),
        )
    )
    return f"""<section><h2>Over time</h2>
<figure><div class="legend">{legend}</div>
{svg}
<div id="readout" class="soft" aria-live="polite">Move over the chart, or focus it and use the arrow keys, to read the
values. Steps of 0.1 s: mean throughput, largest queue, longest RTT.</div></figure>
<p class="soft">Each flow had a laboratory of its own, so that the pattern starts at 0 for each. bbr gives way
about every 10 s of its own accord: it lets the queue run empty to measure the round trip.</p></section>"""


def _shadows(capacity: Capacity) -> list[Band]:
    """Return the stretches without line of sight: where less than half of the highest rate is left."""
    half = max(capacity.rate_bps) / 2
    ends = [*capacity.time_s[1:], capacity.duration_s]
    return [
        Band(start, end, "no line of sight")
        for start, end, rate_bps in zip(capacity.time_s, ends, capacity.rate_bps, strict=True)
        if rate_bps < half
    ]


def _study(download: Figures) -> str:
    ours = download.goodput_mbps
    return f"""<section><h2>Beside the published figure</h2>
<div class="scroll"><table><thead><tr><th>download of 200 MB, from 0 s</th>
<th>goodput<span class="unit">Mbit/s</span></th>
<th>time<span class="unit">s</span></th></tr></thead><tbody>
<tr><td>kau-e5g, figure 6, median of 30 (read off, ±5)</td><td>{STUDY_MBPS}</td><td>{200 * 8 / STUDY_MBPS:.1f}</td></tr>
<tr><td>this run</td><td>{ours:.0f}</td><td>{200 * 8 / ours:.1f}</td></tr></tbody></table></div>
<p>The two are not the same experiment. Known differences:</p>
<ul>
<li>The study ran Linux 4.19. Its socket buffers and its slow start (HyStart leaves it early) differ from those of this
kernel: its 2 MB downloads came to 52 Mbit/s, though the radio offered 945. Ours start with buffers that do not limit
the flow.</li>
<li>Its emulator sampled the rate when a packet was queued and never revised it, and counted its limit of 1000 in
super-packets of up to 64 kB, which holds more than 1000 wire packets. Here the rate acts at once and the queue holds
1000 wire packets. <code>--rate-mode sampled --queue-unit superpacket</code> brings the emulator's way back.</li>
<li>The pattern is read off a figure, and is rate only: no loss, no HARQ, no bursts.</li>
</ul></section>"""


def _validity(verdicts: list[Verdict]) -> str:
    rows = "".join(
        f"<tr><td>{'✓' if verdict.holds else '✗'} {escape(verdict.title)}</td><td>{escape(verdict.evidence)}</td></tr>"
        for verdict in verdicts
    )
    return f"""<section><h2>Can these figures be trusted?</h2>
<table class="facts">{rows}</table></section>"""


def _repeat(outcome: Outcome) -> str:
    facts = "".join(f"<tr><td>{escape(key)}</td><td>{escape(value)}</td></tr>" for key, value in outcome.about.items())
    commands = f"""wavebed demo --seed {outcome.about["seed"]}

# one part by hand, from this folder's scenario:
wavebed shell --scenario scenarios/kau-e5g-1.toml --congestion-control bbr \\
    --server 'iperf3 -s' --log series -- sh -c 'sleep 0.2; iperf3 -c server -R -t 39'"""
    return f"""<section><h2>How to repeat it</h2>
<pre>{escape(commands)}</pre>
<table class="facts">{facts}</table>
<details><summary>Scenario</summary><pre>{escape(outcome.scenario)}</pre></details>
<details><summary>The path as resolved, every value explicit</summary><pre>{escape(outcome.laboratory)}</pre></details>
<p class="soft">Beside this page: <code>run.json</code> (figures, verdicts, the engine's books), <code>table.txt</code>,
and a folder for each part with the tools' own output and each link's series by the millisecond.</p></section>"""
