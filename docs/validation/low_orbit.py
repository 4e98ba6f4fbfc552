"""Fit drives with Starlink, day by day, and write the tables of `recorded/low-orbit.txt`.

    python docs/validation/low_orbit.py                 the tables
    python docs/validation/low_orbit.py --run FOLDER    the picture, from a trial in virtual time into FOLDER

The drives are looked for in the folder that WAVEBED_DATA names. WAVEBED_LEOCC names the folder with ``bw_example.txt``
and ``delay_example.txt`` of LeoCC's repository (leoreplayer/replayer/example/Cubic); without it their table stays.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from wavebed.channel.low_orbit import STEP_NS, draw_drives, reconfigurations_s, to_pattern
from wavebed.cli import main as run_wavebed
from wavebed.conditions.condition import low_orbit
from wavebed.conditions.text import SEEDS, figures_of
from wavebed.fit.judge import autocorrelation, ks_distance, runs_below
from wavebed.fit.laps import find_files, split
from wavebed.fit.low_orbit import NETWORK, PERIOD_S, fit_access, learn_access, phase_of, read_drives
from wavebed.fit.page import trait_rows
from wavebed.page.charts import COLOURS, INK, blank, styled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wavebed.channel.low_orbit import LowOrbit
    from wavebed.conditions.text import ConditionSpread
    from wavebed.fit.low_orbit import DriveTest

    Floats = NDArray[np.float64]
    Rows = list[tuple[str, ...]]

HERE: Final = Path(__file__).parent
PAGE: Final = HERE / "recorded" / "low-orbit.txt"
PICTURE: Final = HERE.parent / "images" / "low-orbit-rtt.png"
DATA: Final = Path(os.environ.get("WAVEBED_DATA", HERE.parents[1] / ".." / "shared" / "data"))
DRIVES: Final = DATA / "satellite-vs-cellular"
END: Final = "<!-- end -->"
DPI: Final = 110
GARCIA: Final = "Garcia et al., LEO-NET 2023, 3.1"
MARGIN: Final = 0.05
"""The distance of drawn drives to a day may be this much above the distance of the other days to it."""
DRAWN: Final = range(1, 201)
DAY_COLUMNS: Final = (
    *("day", "seconds", "other days", "drawn", "at most", "met", "with its areas known"),
    *("< 1 Mbit/s", "drawn", "autocorrelation 1 s", "drawn", "KS of outages", "other days"),
)
SCENARIO: Final = """title = "CUBIC and UDP probes over Starlink at home"

[path]
scene = "starlink-home"

[[workload]]
kind = "latency"
probe = "udp"
interval = "20ms"

[[workload]]
kind = "bulk"
duration = "60s"
start = "5s"
congestion-control = "cubic"
limit = "100s"
"""


def files() -> list[Path]:
    """Return the files of the drives, one for each day."""
    return [file for file in find_files([DRIVES]) if file.name.startswith("starlink")]


def day_of(name: str) -> str:
    """Return the day in the name of a file."""
    return name.removeprefix("starlink-mobility-").removesuffix(".csv")


class Day:
    """A day that is held out, and what the other days teach."""

    def __init__(self, days: dict[str, list[DriveTest]], day: str) -> None:
        self.tests = days[day]
        others = [test for name, tests in days.items() if name != day for test in tests]
        self.access: LowOrbit = learn_access(others, f"all days but {day}", "fit")
        self.rates = pooled(self.tests)
        self.pool = pooled(others)
        self.drawn = draw_drives(self.access, DRAWN)
        names = [area.name for area in self.access.areas]
        self.by_area = np.concatenate(
            [
                draw_drives(self.access, DRAWN[:40], np.array([names.index(area) for area in test.area])).ravel()
                for test in self.tests
            ]
        )

    @property
    def between_days(self) -> float:
        """KS distance of the day to all other days together."""
        return ks_distance(self.rates, self.pool)

    @property
    def found(self) -> float:
        """KS distance of the day to drives drawn from the other days."""
        return ks_distance(self.rates, self.drawn.ravel())


def held_out(*, keep_ends: bool) -> dict[str, Day]:
    """Return each day held out; `keep_ends` as `read_drives` has it."""
    days = {day_of(file.name): read_drives([file], [], keep_ends=keep_ends) for file in files()}
    return {day: Day(days, day) for day in days}


def pooled(tests: Sequence[DriveTest]) -> Floats:
    """Return the rates of all tests."""
    return np.concatenate([test.rates for test in tests])


def days_table(found: dict[str, Day]) -> Rows:
    """Return a row for each day."""
    rows: Rows = [DAY_COLUMNS]
    for day, each in found.items():
        lasting = [outages([test.rates for test in each.tests]), outages(each.drawn)]
        others = outages(
            [row for other in found.values() if other is not each for row in [t.rates for t in other.tests]]
        )
        own = np.mean([autocorrelation(test.rates, 1) for test in each.tests])
        drawn = np.nanmedian([autocorrelation(row, 1) for row in each.drawn])
        limit = each.between_days + MARGIN
        rows.append(
            (
                day,
                str(len(each.rates)),
                f"{each.between_days:.2f}",
                f"{each.found:.2f}",
                f"{limit:.2f}",
                "yes" if each.found <= limit else "no",
                f"{ks_distance(each.rates, each.by_area):.2f}",
                percent((each.rates < NETWORK.none_mbps).mean()),
                percent((each.drawn < NETWORK.none_mbps).mean()),
                f"{own:.2f}",
                f"{drawn:.2f}",
                distance(ks_distance(*lasting)),
                distance(ks_distance(lasting[0], others)),
            )
        )
    return rows


def outages(walks: Sequence[Floats]) -> Floats:
    """Return the durations of all outages, seconds."""
    return np.concatenate([runs_below(rates, NETWORK.none_mbps)[1] for rates in walks]).astype(np.float64)


def distance(value: float) -> str:
    """Return a distance, or a dash where there is none."""
    return "–" if np.isnan(value) else f"{value:.2f}"


def percent(value: float, digits: int = 1) -> str:
    """Return a fraction in per cent."""
    return f"{100 * value:.{digits}f} %"


def phase_table(tests: Sequence[DriveTest]) -> Rows:
    """Return the rates and their changes by the phase of 15 s, and the test."""
    rates = pooled(tests)
    phase = np.concatenate([test.phase for test in tests])
    change = np.concatenate([np.abs(np.diff(test.rates, prepend=np.nan)) for test in tests])
    served = rates >= NETWORK.none_mbps
    rows: Rows = [
        ("second of the minute, modulo 15", "mean rate, Mbit/s", "mean change from the second before, Mbit/s")
    ]
    for second in range(PERIOD_S):
        here = (phase == second) & served
        rows.append((str(second), f"{rates[here].mean():.0f}", f"{np.nanmean(change[here]):.1f}"))
    found = phase_of(tests)
    chance = f"as great in {percent(found.chance)} of 1000 random rotations"
    rows.append(
        (
            f"greatest change at {found.phase_s}",
            f"{found.missing_s:.2f} s of service missing there",
            f"{found.ratio:.2f} times the others; {chance}",
        )
    )
    return rows


def shares_table(tests: Sequence[DriveTest]) -> Rows:
    """Return the variance within windows of 15 s, by where the windows begin."""
    rows: Rows = [("windows of 15 s begin at", "variance within, Mbit²/s²")]
    for begin in range(0, PERIOD_S, 3):
        inner = []
        for test in tests:
            window = np.cumsum(test.phase == (PERIOD_S - 4 + begin) % PERIOD_S)
            for place in np.unique(window):
                here = test.rates[window == place]
                if len(here) == PERIOD_S and here.min() >= NETWORK.none_mbps:
                    inner.append(here.var(ddof=1))
        rows.append((str((PERIOD_S - 4 + begin) % PERIOD_S), f"{np.mean(inner):.0f}"))
    return rows


def leocc_table(folder: Path) -> Rows:
    """Return what LeoCC's example, one trace of 120 s, has at its eight reconfigurations and between them."""
    sent_ms = np.loadtxt(folder / "bw_example.txt")
    delay_ms = np.loadtxt(folder / "delay_example.txt")
    gaps, missing, peaks = [], [], []
    for begin_s in range(8, 120, PERIOD_S):
        around = sent_ms[(sent_ms > begin_s * 1e3 + 300) & (sent_ms < begin_s * 1e3 + 1200)]
        longest = int(np.diff(around).argmax())
        gaps.append(float(np.diff(around)[longest]))
        usual = ((sent_ms > begin_s * 1e3 + 2000) & (sent_ms < begin_s * 1e3 + 6000)).sum() / 4000
        served = ((sent_ms >= around[longest]) & (sent_ms < around[longest] + 600)).sum()
        missing.append(600 - served / usual)
        peaks.append(float(delay_ms[begin_s * 100 + 50 : begin_s * 100 + 100].max()))
    slots = [delay_ms[begin * 100 + 150 : (begin + PERIOD_S) * 100] for begin in range(8, 105, PERIOD_S)]
    per_second = np.histogram(sent_ms, np.arange(0, 120_001, 1000))[0] * 12e-3
    means = [per_second[begin + 1 : begin + PERIOD_S - 1] for begin in range(8, 105, PERIOD_S)]
    between, within = np.std([each.mean() for each in means]), np.mean([each.std() for each in means])
    return [
        ("of one public trace", "least", "median", "greatest"),
        ("nothing delivered at a reconfiguration, ms", *spread(gaps)),
        ("service missing there within 0.6 s, ms", *spread(missing)),
        ("one-way delay at its peak there, ms", *spread(peaks)),
        ("least one-way delay of a slot, ms", *spread([float(each.min()) for each in slots])),
        (
            "standard deviation of the delay within a slot, ms",
            *(f"{x:.1f}" for x in ends([each.std() for each in slots])),
        ),
        ("standard deviation of 1 s rates: between slots, within one, Mbit/s", f"{between:.1f}", "", f"{within:.1f}"),
    ]


def ends(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the least, the median and the greatest."""
    return min(values), float(np.median(values)), max(values)


def spread(values: Sequence[float]) -> tuple[str, str, str]:
    """Return `ends` as text."""
    least, median, greatest = ends(values)
    return f"{least:.0f}", f"{median:.0f}", f"{greatest:.0f}"


def column(access: LowOrbit, seed: int, direction: str, name: str) -> Floats:
    """Return a column of a pattern for each step."""
    pattern = to_pattern(access, seed, "down" if direction == "down" else "up")
    return np.repeat(getattr(pattern, name), pattern.lengths() // STEP_NS).astype(np.float64)


def published_table() -> Rows:
    """Return published figures beside ours."""
    access = low_orbit("starlink-home/leo")
    trips = [column(access, seed, "down", "delay_ns") + column(access, seed, "up", "delay_ns") for seed in SEEDS]
    starts = reconfigurations_s(access)[:-1]
    slots = [[trip[round(at * 100) : round(at * 100) + 1400].min() / 1e6 for at in starts] for trip in trips]
    changes = np.concatenate([np.abs(np.diff(each)) for each in slots])
    most_of = f"95 % ≤ {np.percentile(changes, 95):.0f}, at most {changes.max():.0f} ms"
    down, up = (np.mean([column(access, seed, way, "loss").mean() for seed in SEEDS]) for way in ("down", "up"))
    home, drive = (figures_of(f"starlink-{name}/leo") for name in ("home", "drive"))
    least, most = (1000 * each for each in access.table.interruption_s)
    missing_s = (least + most) / 2000 + access.table.recovery_s / 2

    def mbit(spread: ConditionSpread) -> str:
        return f"{spread.median / 1e6:.3g} Mbit/s"

    mohan, michel = "Mohan et al., WWW 2024, {}".format, "Michel et al., IMC 2022, {}".format
    ma, example = "Ma et al., INFOCOM 2023, IV-B", "LeoCC's example"
    of_drives = "Laniewski et al., arXiv 2403.13497, V-C"
    period = f"{access.table.period_s:g} s; the same"
    trip = f"{np.median(np.concatenate(trips)) / 1e6:.0f} ms"
    return [
        ("figure", "published", "ours", "source"),
        ("reconfiguration", "15 s; 12, 27, 42, 57 s past the minute", period, f"{mohan('6.2')}; code of LEOViz"),
        ("RTT, idle, median", "40 ms (36 to 48 by country)", trip, mohan("6.1")),
        ("RTT at a handover", "30 to 80 ms at worst", f"slots differ by {most_of}", "Huston, APNIC, 17 May 2024"),
        ("interruption", "under 1 s; 59 to 135 ms", f"{least:.0f} to {most:.0f} ms", f"{mohan('6.2')}; {example}"),
        ("service missing in 15 s", "0.13 to 0.25 s; drives 0.21 s", f"{missing_s:.2f} s", f"{example}; our fold"),
        ("loss at a low rate, down", "0.40 %; 0.24 %", percent(float(down), 2), f"{michel('Table 2')}; {ma}"),
        ("loss at a low rate, up", "0.45 %; 1.24 %", percent(float(up), 2), "the same"),
        ("home, down, median", "178; 211 Mbit/s", mbit(home.down_median_bps), f"{michel('3.3')}; {GARCIA}"),
        ("home, up, median", "17 Mbit/s", mbit(home.up_median_bps), michel("3.3")),
        ("drive, down, mean", "128 Mbit/s", mbit(drive.down_mean_bps), f"Hu et al., CoNEXT 2023, by {of_drives}"),
        ("drive, up, median", "15.4 Mbit/s", mbit(drive.up_median_bps), of_drives),
    ]


def traits_table() -> Rows:
    """Return the traits of drives drawn from all days beside the traits of the tests."""
    judgement = fit_access(split(files(), "none"), lambda _text, _left_s: None, lambda _text: None, [])
    return [row[:3] + row[4:] for row in trait_rows(judgement)]


def main(arguments: list[str]) -> int:
    """Write the tables or the picture; 2 if there are no drives."""
    if arguments[:1] == ["--run"]:
        return draw(Path(arguments[1]))
    if not DRIVES.is_dir():
        print(f"{DRIVES}: no such folder: name the folder above it in WAVEBED_DATA", file=sys.stderr)
        return 2
    tests = read_drives(files(), [])
    tables = {
        "days": days_table(held_out(keep_ends=False)),
        "days with the ends": days_table(held_out(keep_ends=True)),
        "phase": phase_table(tests),
        "windows": shares_table(tests),
        "traits": traits_table(),
        "published": published_table(),
    }
    if "WAVEBED_LEOCC" in os.environ:
        tables["leocc"] = leocc_table(Path(os.environ["WAVEBED_LEOCC"]))
    page = PAGE.read_text(encoding="utf-8")
    for name, rows in tables.items():
        head, rest = page.split(f"<!-- table {name} -->\n")
        page = f"{head}<!-- table {name} -->\n{markdown(rows)}{rest[rest.index(END) :]}"
    PAGE.write_text(page, encoding="utf-8")
    return 0


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as a table in Markdown; the first row is its head."""
    lines = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def draw(folder: Path) -> int:
    """Run the scenario in virtual time if `folder` is not there, and draw the round trip and the goodput."""
    if not folder.exists():
        scenario = folder.with_suffix(".toml")
        scenario.write_text(SCENARIO, encoding="utf-8")
        if status := run_wavebed(["run", str(scenario), "--virtual-time", "-o", str(folder)]):
            return status
    (file,) = folder.glob("trials/*/series/samples.parquet")
    samples = pd.read_parquet(file)
    with styled():
        figure, _ = blank(10.5, 5.2, DPI, is_laid_out=True)
        above, below = figure.subplots(2, 1, sharex=True)
        for axes, workload, series, unit in (
            (above, "latency", "udp rtt", "round trip (ms)"),
            (below, "bulk", "goodput", "goodput of CUBIC (Mbit/s)"),
        ):
            here = samples[(samples["workload"] == workload) & (samples["series"] == series)]
            axes.plot(here["time_s"], here["value"], color=COLOURS[0], linewidth=0.8)
            axes.set_ylabel(unit)
            for moment_s in np.arange(12, samples["time_s"].max(), PERIOD_S):
                axes.axvline(moment_s, color=INK, linewidth=0.6, alpha=0.35)
        above.set_ylim(bottom=0)
        below.set_xlabel("time (s); a line at each reconfiguration")
        figure.savefig(PICTURE, metadata={"Software": None})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
