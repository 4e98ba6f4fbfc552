"""Record an emulated radio under light and heavy load, and predict short downloads from the recordings.

Usage: python docs/validation/fit_replay.py [-o DIR]

It writes the table in `recorded/fit-replay.txt`; six minutes.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

import numpy as np
from experiments import add_output, output_folder, results_of
from fit_applications import HERE, write
from fit_walks import markdown

from wavebed.fit.applications import combine
from wavebed.fit.judge import ks_distance
from wavebed.pattern.formats import write_trace
from wavebed.pattern.model import steps

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from wavebed.channel.placemap import Floats
    from wavebed.pattern.model import Pattern
    from wavebed.store.load import Run

PAGE: Final = HERE / "recorded" / "fit-replay.txt"
RADIOS: Final = {
    "others use 60 % of the slots": '{preset = "nr-30khz", bler = "10%", load = {mean = "60%", burst = "20ms"}}',
    "DRX": '{preset = "nr-30khz", bler = "10%", drx = "on"}',
}
RADIO: Final = '[path]\nrate = "60mbit"\ndelay = "10ms"\nradio = {radio}\n'
SECONDS: Final = 30
LIGHT: Final = '[[workload]]\nkind = "latency"\ninterval = "100ms"\nduration = "{seconds}s"\nlimit = "60s"\n'
HEAVY: Final = (
    '[[workload]]\nkind = "bulk"\nprotocol = "udp"\nrate = "80mbit"\nduration = "{seconds}s"\nlimit = "60s"\n'
)
FLOW: Final = '[[workload]]\nkind = "download"\nname = "d{second}"\nsize = "{size}"\nstart = "{second}s"\n'
SIZES: Final = ("20kb", "200kb", "2mb")
"""Each in turn, one a second."""
WINDOW_NS: Final = 100_000_000


def main() -> None:
    """Record, replay, and write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add_output(parser)
    with output_folder(parser.parse_args().output) as folder:
        write({"replay": markdown([*rows(folder)])}, PAGE)


def rows(folder: Path) -> Iterator[Sequence[str]]:
    """Return the table: short downloads over the radio itself, and over its replays."""
    yield ("radio", "download", "median, ms", "from the heavy recording", "KS", "from both", "KS")
    flows = "".join(FLOW.format(second=at + 1, size=SIZES[at % len(SIZES)]) for at in range(SECONDS - 6))
    for number, (name, radio) in enumerate(RADIOS.items()):
        own = RADIO.format(radio=radio)
        light_run = results_of(folder, f"light-{number}", own + LIGHT.format(seconds=SECONDS), 1)
        heavy_run = results_of(folder, f"heavy-{number}", own + HEAVY.format(seconds=SECONDS), 1)
        light, heavy = one_way(light_run), rates(heavy_run)
        write_trace(heavy, folder / f"heavy-{number}.csv")
        write_trace(combine(heavy, light), folder / f"both-{number}.csv")
        least_us = round(int(light.delay_ns.min()) / 1000)
        scenarios = (
            own,
            f'[path]\ntrace = "heavy-{number}.csv"\ndelay = "{least_us}us"\n',
            f'[path]\ntrace = "both-{number}.csv"\n',
        )
        kinds = ("radio", "from-heavy", "from-both")
        runs = [results_of(folder, f"{k}-{number}", text + flows, 1) for k, text in zip(kinds, scenarios, strict=True)]
        for turn, size in enumerate(SIZES):
            true, *replayed = (times_ms(run, turn) for run in runs)
            cells = [
                cell
                for found in replayed
                for cell in (
                    _beside(float(np.median(found)), float(np.median(true))),
                    f"{ks_distance(found, true):.2f}",
                )
            ]
            yield (name, size, f"{np.median(true):.0f}", *cells)


def _beside(found: float, true: float) -> str:
    return f"{found:.0f} ({100 * (found / true - 1):+.0f} %)".replace("-", "−")


def one_way(run: Run) -> Pattern:
    """Return half of the round trips of probes as a delay over time."""
    samples = run.table("samples", trial=run.record.trials[0].folder)
    rtts = samples[(samples["workload"] == "latency") & (samples["series"] == "rtt")].dropna().sort_values("time_s")
    times = np.rint(rtts["time_s"].to_numpy() * 1e9).astype(np.int64)
    times[0] = 0
    return steps(times, SECONDS * 10**9, delay_ns=np.rint(rtts["value"].to_numpy() * 1e6 / 2).astype(np.int64))


def rates(run: Run) -> Pattern:
    """Return what the saturated downlink delivered, in windows of 0.1 s."""
    links = run.table("links", trial=run.record.trials[0].folder)
    down = links[links["link"].str.contains("down")]
    window = (down["time_ms"].to_numpy() * 1_000_000) // WINDOW_NS
    count = SECONDS * 10**9 // WINDOW_NS
    sums = np.bincount(window, down["delivered_bytes"].to_numpy(), minlength=count)[:count]
    begin = next(place for place, each in enumerate(sums) if each)
    sums[:begin] = sums[begin]
    bps = np.rint(sums * 8 * 1e9 / WINDOW_NS).astype(np.int64)
    return steps(np.arange(count, dtype=np.int64) * WINDOW_NS, SECONDS * 10**9, rate_bps=bps)


def times_ms(run: Run, turn: int) -> Floats:
    """Return the download times of every third flow."""
    metrics = run.metrics
    wanted = metrics[metrics["name"] == "download time"].dropna(subset=["value"])
    second = wanted["workload"].str[1:].astype(int).to_numpy()
    values = wanted["value"].to_numpy(dtype=np.float64) * 1e3
    return np.asarray(values[(second - 1) % len(SIZES) == turn], dtype=np.float64)


if __name__ == "__main__":
    main()
