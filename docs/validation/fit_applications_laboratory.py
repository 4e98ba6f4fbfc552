"""Run downloads and videos over held-out and drawn walks, beside their prediction in virtual time.

Usage: python docs/validation/fit_applications_laboratory.py [-o DIR]

A quarter of an hour. It writes the tables `laboratory` of `recorded/fit-applications.txt`.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from experiments import add_output, output_folder, results_of
from fit_applications import HERE, walks_of, write
from fit_walks import markdown

from wavebed.fit.applications import SHORT_BUFFER, Volumes, download_s, watch
from wavebed.result.model import COUNTED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wavebed.channel.placemap import Floats
    from wavebed.store.load import Run

PATH: Final = """
[path]
down-trace = "{walk}.csv"
queue = "fq_codel"
delay = "20ms"
start-at = "{start}s"
"""
SIZES_MB: Final = (20, 200)
DOWNLOAD: Final = """
[[workload]]
kind = "download"
name = "{name}"
size = "{size}mb"
limit = "60s"
{after}
"""
VIDEO: Final = """
[[workload]]
kind = "video"
ladder = "uhd"
duration = "60s"
segment = "1s"
buffer = "4s"
abr = "throughput"
limit = "120s"
"""
WIRE: Final = 1500 / 1448
"""Bytes of IP for each byte of a file."""
WALKS: Final = 10
"""Of each side, with four downloads each."""
WATCHED_S: Final = {"held out": (670, 140, 655), "drawn": (730, 90, 735)}
"""Starts of videos in the first walks of each side: minutes with outages."""
GOLDEN: Final = 0.618034
"""Spreads the starts over the walks."""


def main() -> None:
    """Run everything, and write the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add_output(parser)
    arguments = parser.parse_args()
    traces = Path(os.environ.get("WAVEBED_TRACES", HERE.parents[1] / ".." / "shared" / "traces"))
    walks = walks_of(traces, "mmwave")
    sides = {"held out": walks.held_out[:WALKS], "drawn": walks.drawn[:WALKS]}
    with output_folder(arguments.output) as folder:
        for side, rates in sides.items():
            for number, each in enumerate(rates):
                write_pattern(folder / f"{_name(side, number)}.csv", each)
        write({"laboratory downloads": markdown([*downloaded(folder, sides)])})
        write({"laboratory videos": markdown([*watched(folder, sides)])})


def _name(side: str, number: int) -> str:
    return f"{side.replace(' ', '-')}-{number + 1}"


def write_pattern(file: Path, rates: Floats) -> None:
    """Write a walk as a pattern."""
    rows = [f"{second},{round(1e6 * rate)}\n" for second, rate in enumerate(rates)]
    head = f"# wavebed pattern 1\n# kind = steps\n# duration_s = {len(rates)}\ntime_s,rate_bps\n"
    file.write_text(head + "".join(rows), encoding="utf-8")


def downloaded(folder: Path, sides: dict[str, Sequence[Floats]]) -> Iterator[Sequence[str]]:
    """Return the table of downloads: each size twice in each walk, one after the other."""
    yield ("download", "walks", "downloads", "measured: median, s", "predicted: median, s", "measured − predicted, s")
    found: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for side, rates in sides.items():
        for number, each in enumerate(rates):
            start = round((number * GOLDEN % 1) * len(each))
            name = _name(side, number)
            text = PATH.format(walk=name, start=start) + _chain()
            run = results_of(folder, f"downloads-{name}", text, 1)
            for size in SIZES_MB:
                found.setdefault((side, size), []).extend(_beside(run, each, start, size))
    for (side, size), pairs in sorted(found.items(), key=lambda each: each[0][1]):
        measured, predicted = np.array(pairs).T
        low, middle, high = np.percentile(measured - predicted, (10, 50, 90))
        yield (
            *(f"{size} MB", side, str(len(pairs)), f"{np.median(measured):.2f}", f"{np.median(predicted):.2f}"),
            f"{middle:.2f} ({low:.2f} to {high:.2f})",
        )


def _chain() -> str:
    """Return downloads that start a second after each other's end."""
    text, before = "", ""
    for turn in (1, 2):
        for size in SIZES_MB:
            after = f'after = "{before}"\nstart = "1s"' if before else ""
            before = f"d{size}-{turn}"
            text += DOWNLOAD.format(name=before, size=size, after=after)
    return text


def _beside(run: Run, rates: Floats, start: int, size: int) -> Iterator[tuple[float, float]]:
    """Return the measured and the predicted time of each download of a size that counts."""
    volumes, walk = Volumes([rates / WIRE]), np.array([0])
    for line in run.record.trials:
        if line.verdict not in COUNTED:
            continue
        events = run.table("events", trial=line.folder)
        for event in events[events["name"] == "request"].itertuples():
            if event.workload.startswith(f"d{size}-"):
                at = np.array([start + event.time_s])
                yield event.end_s - event.time_s, float(download_s(volumes, walk, at, size)[0])


def watched(folder: Path, sides: dict[str, Sequence[Floats]]) -> Iterator[Sequence[str]]:
    """Return the table of videos."""
    yield (
        "walk",
        "from",
        "stalled, s: measured",
        "predicted",
        "stalls",
        "predicted",
        "bitrate, Mbit/s",
        "predicted",
        "",
    )
    for side, rates in sides.items():
        for number, start in enumerate(WATCHED_S[side]):
            predicted = watch(Volumes([rates[number] / WIRE]), np.array([0]), np.array([float(start)]), SHORT_BUFFER)
            text = PATH.format(walk=_name(side, number), start=start) + VIDEO
            run = results_of(folder, f"video-{_name(side, number)}", text, 1)
            metrics = run.metrics[run.metrics["workload"] == "video"].set_index("name")["value"]
            stalled, stalls, bitrate = (f"{metrics[name]:.3g}" for name in ("stalled time", "stalls", "mean bitrate"))
            yield (
                *(f"{side} {number + 1}", f"{start} s", stalled, f"{predicted.stalled_s[0]:.1f}", stalls),
                str(len(predicted.stall_s)),
                *(bitrate, f"{predicted.bitrate_mbps[0]:.1f}"),
                ", ".join(line.verdict for line in run.record.trials),
            )


if __name__ == "__main__":
    main()
