"""Three carriers at 3.7 GHz beside the measurements of SIGCOMM 2024: rate, MCS, layers, blocks.

Usage: python docs/validation/mid_band.py [--data DIR] [--without-engine] [-o DIR]

It writes `recorded/mid-band.txt` and the picture; a quarter of an hour, and a second without the engine. The files of
SIGCOMM24-5GinMidBands/artifacts are looked for in DIR, by default beside the repository. `--without-engine` keeps the
engine's table.

The only value taken from the measurement is the median rate, which decides how far from the mast the UE stands.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from fit_walks import markdown
from real_traces_pictures import cumulative, label, legend

from wavebed.channel import ensemble
from wavebed.channel.adaptation import LOOPS, adapt, peak_rate_bps
from wavebed.channel.transport_formats import code_rate, modulation_order, most_blocks, slot_bits
from wavebed.page.charts import INK, blank, styled
from wavebed.scene import load
from wavebed.store.load import load_run

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from wavebed.scene.model import Carrier, SceneModel

    Floats = NDArray[np.float64]

HERE: Final = Path(__file__).parent
PAGE: Final = HERE / "recorded" / "mid-band.txt"
PICTURE: Final = HERE.parent / "images" / "mid-band.png"
DATA: Final = HERE.parents[1] / ".." / "shared" / "data" / "midband-2024"


class Operator(NamedTuple):
    """A carrier as published: Figures 4 to 6 and 12 of the artifacts; Spain's spectrum after its order of 2022."""

    file: str
    name: str
    bandwidth_mhz: int
    frequency_ghz: float
    shadowing: str = ""


OPERATORS: Final = {
    each.file: each
    for each in (
        Operator("O_Sp_100Mhz", "Orange Spain, 100 MHz", 100, 3.65),
        Operator("O_Sp_90Mhz", "Orange Spain, 90 MHz", 90, 3.65),
        Operator("V_Sp_90Mhz", "Vodafone Spain, 90 MHz", 90, 3.755),
        Operator("V_It_90Mhz", "Vodafone Italy, 80 MHz", 80, 3.7),
    )
}
"""The artifacts call Italy's file 90 MHz; their Figures 4 and 12 say 80 MHz."""

COLUMNS: Final = {"rate": "Tput(Mbps)", "MCS": "MCS", "layers": "layers", "blocks": "RBs"}
WINDOW_S: Final = 0.5
"""Of a row: Figure 13 draws 100 rows in 50 s."""
TARGET: Final = LOOPS["nr"].target

SCENE: Final = """
title = "{name}: a phone in good coverage"
anchor = "Unveiling the 5G Mid-Band Landscape, SIGCOMM 2024, artifacts"
duration = "5s"
propagation = "uma"
line-of-sight = "drawn"
{shadowing}

[carrier]
technology = "nr"
frequency = "{frequency_ghz}ghz"
bandwidth = "{bandwidth_mhz}mhz"
frame = "DDDSU"
layers = 4
mcs-table = "256qam"

[[base-station]]
name = "mast"
at = [0, 0, 25]
power = "53dbm"
array = {{ rows = 12, columns = 8, element = "3gpp" }}

[ue]
start = [{distance_m:.2f}, 0, 1.5]
"""
"""Mast, panel and power are as in the scene `bbr-5g-phone-unicom`: usual values, none is published here. Of the TDD
frame only the part of the downlink matters: DDDSU with 10:2:2 symbols has as much of it as DDDDDDDSUU with 6:4:4."""
SEEDS: Final = range(1, 41)
STEP_S: Final = 1e-3
NEAREST_M, FARTHEST_M = 50.0, 5000.0

PREDICTED: Final = {
    "O_Sp_100Mhz": {"MCS": 15.0, "layers": 3.0, "blocks": 273, "engine": 0.96},
    "O_Sp_90Mhz": {"MCS": 16.5, "layers": 3.6, "blocks": 245, "engine": 0.96},
    "V_Sp_90Mhz": {"MCS": 16.5, "layers": 3.9, "blocks": 245, "engine": 0.96},
    "V_It_90Mhz": {"MCS": 20.0, "layers": 4.0, "blocks": 217, "engine": 0.96},
}
"""Medians expected before the first run of a scene, from the table of transport formats at the SINR of the measured
rate; `engine`: TCP data of a download over decoded transport blocks. Italy's are for 810 Mbit/s, the median of
`EU_Phy_DL_All.txt`: its file was not read before."""


def measured(folder: Path, operator: Operator) -> dict[str, Floats]:
    """Return rate (Mbit/s), MCS, layers and resource blocks of each row."""
    with (folder / f"{operator.file}.txt").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    return {key: np.array([float(row[column]) for row in rows]) for key, column in COLUMNS.items()}


def scene_at(operator: Operator, distance_m: float) -> SceneModel:
    """Return the scene of an operator with the UE at a distance from the mast."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "scene.toml"
        file.write_text(SCENE.format(**operator._asdict(), distance_m=distance_m), encoding="utf-8")
        return load(str(file))


def sent(operator: Operator, distance_m: float) -> dict[str, Floats]:
    """Return the columns of `measured` in each millisecond of all seeds; the rate is of decoded transport blocks."""
    scene = scene_at(operator, distance_m)
    found = list(ensemble(scene, seeds=SEEDS))
    adapted = adapt(np.stack([one.sinr_db for one in found]), scene.step_s, scene.carrier, "down")
    assert np.array_equal(adapted.mcs, np.stack([one.mcs for one in found])), "the realisations have the same layers"
    blocks = np.where(adapted.mcs >= 0, most_blocks(scene.carrier), 0)
    rate_mbps = adapted.rate_bps * (1 - adapted.bler) / 1e6
    columns = {"rate": rate_mbps, "MCS": np.maximum(adapted.mcs, 0), "layers": adapted.layers, "blocks": blocks}
    return {key: values.astype(np.float64) for key, values in columns.items()}


def modelled(operator: Operator, distance_m: float, window_s: float = WINDOW_S) -> dict[str, Floats]:
    """Return the columns of `sent` as means of windows."""
    columns = sent(operator, distance_m)
    steps = round(window_s / STEP_S)
    return {key: values.reshape(-1, steps).mean(axis=1) for key, values in columns.items()}


@cache
def place_of(operator: Operator, median: float, column: str = "rate") -> float:
    """Return the distance at which a column has this median: the rule that fixes the only free parameter."""
    near, far = NEAREST_M, FARTHEST_M
    for _ in range(14):
        middle = float(np.sqrt(near * far))
        if np.median(modelled(operator, middle)[column]) > median:
            near = middle
        else:
            far = middle
    return float(np.sqrt(near * far))


def rate_of_formats(operator: Operator, rows: Mapping[str, Floats]) -> Floats:
    """Return the rate that follows from measured MCS, layers and blocks alone, with the outer loop's error rate."""
    carrier = scene_at(operator, NEAREST_M).carrier
    bits = modulation_order(carrier.mcs_table) * code_rate(carrier.mcs_table)
    efficiency = np.interp(rows["MCS"], np.arange(bits.size), bits) / bits[-1]
    parts = efficiency * (rows["layers"] / 4) * (rows["blocks"] / most_blocks(carrier))
    return np.asarray(full_rate_mbps(carrier) * parts)


def full_rate_mbps(carrier: Carrier) -> float:
    """Return the decoded rate of the highest MCS on all layers and blocks."""
    frame, blocks = carrier.frame, most_blocks(carrier)
    bits = frame.count("D") * slot_bits(carrier, "down", 4, blocks)[-1]
    bits += frame.count("S") * slot_bits(carrier, "down", 4, blocks, carrier.special_symbols[0])[-1]
    return float(bits) / len(frame) * 2000 * (1 - TARGET) / 1e6


def quartiles(values: Floats, form: str) -> str:
    """Return the median with the quartiles in brackets."""
    low, median, high = (f"{value:{form}}" for value in np.quantile(values, [0.25, 0.5, 0.75]))
    return f"{median} [{low}–{high}]"


FORMS: Final = {"rate": ".0f", "MCS": ".1f", "layers": ".2f", "blocks": ".0f"}


def difference(found: float, true: float) -> str:
    """Return how much more one value is than another."""
    return f"{100 * (found / true - 1):+.0f} %".replace("-", "−")


def measured_table(rows: Mapping[Operator, Mapping[str, Floats]]) -> Iterator[tuple[str, ...]]:
    """Yield medians and quartiles of the files."""
    yield ("carrier", "rows of 0.5 s", "rate, Mbit/s", "MCS", "layers", "blocks")
    for operator, each in rows.items():
        yield (operator.name, str(each["rate"].size), *(quartiles(each[key], form) for key, form in FORMS.items()))


def formats_table(rows: Mapping[Operator, Mapping[str, Floats]]) -> Iterator[tuple[str, ...]]:
    """Yield the rate that follows from the other columns, beside the measured one."""
    yield ("carrier", "measured, Mbit/s", "from MCS, layers, blocks", "difference", "quotient of rows")
    for operator, each in rows.items():
        found = rate_of_formats(operator, each)
        medians = float(np.median(found)), float(np.median(each["rate"]))
        cells = (f"{medians[1]:.0f}", f"{medians[0]:.0f}", difference(*medians))
        yield (operator.name, *cells, quartiles(found / each["rate"], ".2f"))


def scenes_table(rows: Mapping[Operator, Mapping[str, Floats]], fixed: str) -> Iterator[tuple[str, ...]]:
    """Yield the medians of the scenes, where one column fixes the distance."""
    yield ("carrier", "distance", "column", "measured", "scene", "difference", "quartiles measured; scene", "predicted")
    for operator, each in rows.items():
        distance_m = place_of(operator, float(np.median(each[fixed])), fixed)
        ours = modelled(operator, distance_m)
        for key, form in FORMS.items():
            true, found = float(np.median(each[key])), float(np.median(ours[key]))
            cells = (f"{distance_m:.0f} m", key, f"{true:{form}}", f"{found:{form}}")
            low_high = [[f"{value:{form}}" for value in np.quantile(side[key], [0.25, 0.75])] for side in (each, ours)]
            told = "; ".join(f"{low}–{high}" for low, high in low_high)
            before = PREDICTED[operator.file].get(key)
            expected = "fixed" if key == fixed else f"{before:{form}}" if before and fixed == "rate" else "–"
            yield (operator.name, *cells, difference(found, true), told, expected)


SPREADS_DB: Final = (1, 3)


def spread_table(rows: Mapping[Operator, Mapping[str, Floats]]) -> Iterator[tuple[str, ...]]:
    """Yield the scenes with less shadowing than the standard's: places that are more alike."""
    yield ("carrier", "spread", "rate, Mbit/s", "MCS", "layers")
    for operator, each in rows.items():
        for spread_db in SPREADS_DB:
            alike = operator._replace(shadowing=f'shadowing = {{ spread = "{spread_db}db", distance = 40 }}')
            ours = modelled(alike, place_of(alike, float(np.median(each["rate"]))))
            cells = (quartiles(ours[key], form) for key, form in FORMS.items() if key != "blocks")
            yield (operator.name, f"{spread_db} dB", *cells)


class OtherSample(NamedTuple):
    """What section 4 of the artifacts has of a carrier: names in its files, and what was predicted for it.

    The rates are of seconds with a CQI of 12 or more (Figure 2); layers and modulations have files of their own
    (Figures 5 and 6), which may be of other times and places. Figure 2 labels Orange's two carriers the other way round
    than its file names them; the files of section 5 have the blocks, which agree with their names.
    """

    rate: str
    share: str
    layers: int
    modulation: str


SECTION_4: Final = {
    "O_Sp_100Mhz": OtherSample("O_Sp_100Mhz", "O_Sp100", 4, "64QAM"),
    "O_Sp_90Mhz": OtherSample("O_Sp_90Mhz", "O_Sp90", 3, "64QAM"),
    "V_Sp_90Mhz": OtherSample("V_Sp", "V_Sp", 4, "64QAM"),
}
MODULATIONS: Final = ("QPSK", "16QAM", "64QAM", "256QAM")


def column_of(file: Path, key: str, config: str, value: str) -> list[str]:
    """Return a column of a file in the rows of one operator."""
    with file.open(encoding="utf-8-sig", newline="") as text:
        return [row[value] for row in csv.DictReader(text, delimiter="\t") if row[key] == config]


def shares(values: list[str], names: tuple[str, ...]) -> list[float]:
    """Return how often each name is among the values that are names: a few rows have others."""
    known = [value for value in values if value in names]
    return [known.count(name) / len(known) for name in names]


def section_4_table(folder: Path) -> Iterator[tuple[str, ...]]:
    """Yield layers and modulations of section 4, where its median rate fixes the distance."""
    yield ("carrier", "rate (CQI ≥ 12)", "column", "measured", "scene", "most frequent: measured, scene, predicted")
    for file, other in SECTION_4.items():
        operator, carrier = OPERATORS[file], scene_at(OPERATORS[file], NEAREST_M).carrier
        rates = column_of(folder / "EU_Phy_DL_Spain_cqi_more.txt", "Config", other.rate, "Tput(Mbps)")
        median = float(np.median([float(rate) for rate in rates]))
        ours = sent(operator, place_of(operator, median))
        order = modulation_order(carrier.mcs_table)[ours["MCS"].astype(int)]
        sides = {
            "layers": (
                ("4.0", "3.0", "2.0", "1.0"),
                column_of(folder / "Sp_Mimo.txt", "Operators", other.share, "MIMO_layers"),
                [f"{layers:.1f}" for layers in ours["layers"].ravel().tolist()],
                f"{other.layers}.0",
            ),
            "modulation": (
                MODULATIONS[::-1],
                column_of(folder / "Sp_QAM.txt", "Operators", other.share, "QAM"),
                [MODULATIONS[bits // 2 - 1] for bits in order.ravel().tolist()],
                other.modulation,
            ),
        }
        for key, (names, true, found, before) in sides.items():
            both = [shares(side, names) for side in (true, found)]
            cells = [
                ", ".join(f"{n.removesuffix('.0')}: {part:.0%}" for n, part in zip(names, each, strict=True))
                for each in both
            ]
            most = [names[int(np.argmax(each))] for each in both]
            told = ", ".join(name.removesuffix(".0") for name in (*most, before))
            yield (operator.name, f"{median:.0f}", key, *cells, told)


PEAKS: Final = {
    "V_It": 80,
    "V_Sp": 90,
    "O_Sp_90Mhz": 90,
    "O_Sp_100Mhz": 100,
    "O_Fr": 90,
    "T_Ge": 90,
}
"""Bandwidths (MHz) of the operators in the file of European downlink rates, as in Figure 4 of the artifacts."""
DOWN: Final = (3 + 10 / 14) / 5
"""The part of the symbols that the frame gives to the downlink."""


UNITED_STATES: Final = ("US_Att", "US_Vzw", "US_Tmb")
"""Their phones use several carriers, which the artifacts do not name."""


def peaks_table(folder: Path) -> Iterator[tuple[str, ...]]:
    """Yield the peak rate of TS 38.306 4.1.2 beside the highest measured seconds."""
    yield ("carrier", "seconds", "rate, Mbit/s", "formula · 74 %", "p99.9", "highest", "seconds above the formula")
    for name, bandwidth_mhz in PEAKS.items():
        texts = column_of(folder / "EU_Phy_DL_All.txt", "Config", name, "Tput(Mbps)")
        rates = np.array([float(text) for text in texts])
        carrier = scene_at(Operator("", "", bandwidth_mhz, 3.7), NEAREST_M).carrier
        formula = peak_rate_bps(most_blocks(carrier), 1, 3.7e9, modulation_order=8, layers=4) * DOWN / 1e6
        cells = (f"{np.quantile(rates, 0.999):.0f}", f"{rates.max():.0f}", str(int((rates > formula).sum())))
        yield (f"{name}, {bandwidth_mhz} MHz", str(rates.size), quartiles(rates, ".0f"), f"{formula:.0f}", *cells)
    for name in UNITED_STATES:
        texts = column_of(folder / "US_Phy_DL_All.txt", "Config", name, "TP (Gbps)")
        rates = 1000 * np.array([float(text) for text in texts])
        highest = (f"{np.quantile(rates, 0.999):.0f}", f"{rates.max():.0f}", "–")
        yield (f"{name}, several carriers", str(rates.size), quartiles(rates, ".0f"), "–", *highest)


TRIALS: Final = 8
COUNTED: Final = slice(round(1 / WINDOW_S), round(4 / WINDOW_S))
"""Windows of the channel during which a download counts."""
DOWNLOAD: Final = """
title = "A saturated download"
[[path.hop]]
name = "internet"
kind = "wired"
delay = "5ms"
[[path.hop]]
name = "radio"
kind = "radio"
scene = "scene.toml"
[[workload]]
kind = "bulk"
duration = "4s"
settle = "1s"
"""


def downloaded(folder: Path, operator: Operator, distance_m: float, seeds: range) -> dict[int, float]:
    """Return the TCP goodput of a download through the engine, Mbit/s, for each seed."""
    text = SCENE.format(**operator._asdict(), distance_m=distance_m)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "scene.toml").write_text(text, encoding="utf-8")
    (folder / "download.toml").write_text(DOWNLOAD, encoding="utf-8")
    results = folder / ("run" if len(seeds) > 1 else "middle")
    if not (results / "run.json").exists():
        command = ["-m", "wavebed", "run", str(folder / "download.toml"), "--virtual-time", "-o", str(results)]
        numbers = ["--seed", str(seeds[0]), "--trials", str(len(seeds))]
        subprocess.run([sys.executable, *command, *numbers], check=True)
    metrics = load_run(results).metrics
    wanted = metrics[(metrics["name"] == "goodput after 1s") & (metrics["verdict"] == "valid")]
    return dict(zip(wanted["seed"].tolist(), wanted["value"].tolist(), strict=True))


def engine_table(folder: Path, rows: Mapping[Operator, Mapping[str, Floats]]) -> Iterator[tuple[str, ...]]:
    """Yield downloads through the engine beside the decoded rate of their channels.

    The middle seed is the one whose channel is nearest to the measured median.
    """
    many = ("trials", "channel, Mbit/s", "TCP data, Mbit/s", "TCP data / channel", "predicted")
    yield ("carrier", *many, "measured, Mbit/s", "middle seed: channel, TCP data")
    for operator, each in rows.items():
        median = float(np.median(each["rate"]))
        distance_m = place_of(operator, median)
        decoded = modelled(operator, distance_m)["rate"].reshape(len(SEEDS), -1)[:, COUNTED].mean(axis=1)
        found = downloaded(folder / operator.file, operator, distance_m, range(1, TRIALS + 1))
        channel = np.array([decoded[SEEDS.index(seed)] for seed in found])
        data = np.array(list(found.values()))
        place = int(np.argmin(np.abs(decoded - median)))
        (middle,) = downloaded(folder / operator.file, operator, distance_m, SEEDS[place : place + 1]).values()
        before = PREDICTED[operator.file]["engine"]
        cells = (f"{np.median(channel):.0f}", f"{np.median(data):.0f}", quartiles(data / channel, ".3f"))
        last = (f"{before:.2f}", f"{median:.0f}", f"{decoded[place]:.0f}, {middle:.0f}")
        yield (operator.name, str(len(found)), *cells, *last)


IDLE_MBPS: Final = 50.0
"""Rows before the first one above this, after the last one, and seconds below are pauses of the transfer."""


class Inside(NamedTuple):
    """Rates of 100 ms within seconds: the coefficient of variation of each second, and what all have together.

    Attributes
    ----------
    variation : (seconds,) float64
        Standard deviation over mean.
    halved : float
        Part of the rates below half of their second's mean.
    neighbours : float
        Autocorrelation at 100 ms of the differences from their second's mean.
    """

    variation: Floats
    halved: float
    neighbours: float

    @classmethod
    def of(cls, rates_mbps: Floats) -> Inside:
        """Take consecutive rates of 100 ms; seconds of pauses do not count."""
        seconds = rates_mbps[: rates_mbps.size // 10 * 10].reshape(-1, 10)
        mean = seconds.mean(axis=1, keepdims=True)
        seconds, mean = seconds[mean[:, 0] > IDLE_MBPS], mean[mean[:, 0] > IDLE_MBPS]
        away = seconds - mean
        neighbours = (away[:, 1:] * away[:, :-1]).mean() / (away**2).mean()
        return cls(seconds.std(axis=1) / mean[:, 0], float((seconds < mean / 2).mean()), float(neighbours))


def measured_inside(folder: Path, operator: Operator) -> Inside:
    """Return the measured rates of 100 ms within their seconds."""
    with (folder / f"Tput_{operator.file}.txt").open(encoding="utf-8-sig", newline="") as file:
        rates = np.array([float(row[COLUMNS["rate"]]) for row in csv.DictReader(file, delimiter="\t")])
    busy = np.flatnonzero(rates > IDLE_MBPS)
    return Inside.of(rates[busy[0] : busy[-1] + 1])


def inside_table(folder: Path, rows: Mapping[Operator, Mapping[str, Floats]]) -> Iterator[tuple[str, ...]]:
    """Yield the structure of a second, measured and of the scenes."""
    yield ("carrier", "", "seconds", "variation in a second", "below half of the mean", "correlation at 100 ms")
    for operator, each in rows.items():
        distance_m = place_of(operator, float(np.median(each["rate"])))
        ours = Inside.of(modelled(operator, distance_m, 0.1)["rate"])
        for side, found in (("measured", measured_inside(folder, operator)), ("scene", ours)):
            cells = (quartiles(found.variation, ".3f"), f"{found.halved:.1%}", f"{found.neighbours:.2f}")
            yield (operator.name, side, str(found.variation.size), *cells)


COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")


def draw(file: Path, rows: Mapping[Operator, Mapping[str, Floats]]) -> None:
    """Write the distributions of rate, MCS and layers, measured and of the scenes."""
    with styled():
        figure, _ = blank(10.5, 4.4, 110, is_laid_out=True)
        panels = figure.subplots(1, 3, squeeze=False)[0]
        units = {"rate": "Mbit/s", "MCS": "index", "layers": "layers"}
        for axes, (key, unit) in zip(panels, units.items(), strict=True):
            for colour, (operator, each) in zip(COLOURS, rows.items(), strict=False):
                ours = modelled(operator, place_of(operator, float(np.median(each["rate"]))))
                cumulative(axes, each[key], operator.name, colour, "-", 1.6)
                cumulative(axes, ours[key], f"{operator.name}: scene", colour, (0, (4, 1.5)), 1.6)
            axes.axhline(0.5, color=INK, linewidth=0.5)
            label(axes, key, unit, "part of windows of 0.5 s")
        legend(panels[1])
        figure.savefig(file, metadata={"Software": None})


BEGIN, END = "<!-- table {} -->\n", "<!-- end -->\n"


def kept(name: str) -> str:
    """Return a table of the page as it is."""
    return PAGE.read_text(encoding="utf-8").split(BEGIN.format(name))[1].split(END)[0]


def main() -> None:
    """Write the tables and the picture."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA, metavar="DIR", help="the folder of the files")
    parser.add_argument("--without-engine", action="store_true", help="run no download")
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help="keep the runs in DIR")
    given = parser.parse_args()
    there = [each for each in OPERATORS.values() if (given.data / f"{each.file}.txt").exists()]
    if not there:
        raise SystemExit(f"{given.data}: has no {next(iter(OPERATORS))}.txt: name the folder of the files with --data")
    rows = {each: measured(given.data, each) for each in there}
    tables = {
        "measured": markdown([*measured_table(rows)]),
        "formats": markdown([*formats_table(rows)]),
        "scenes": markdown([*scenes_table(rows, "rate")]),
        "scenes by MCS": markdown([*scenes_table(rows, "MCS")]),
        "spread": markdown([*spread_table(rows)]),
        "section 4": markdown([*section_4_table(given.data)]),
        "below a second": markdown([*inside_table(given.data, rows)]),
        "peaks": markdown([*peaks_table(given.data)]),
    }
    with tempfile.TemporaryDirectory() as folder:
        runs = given.output or Path(folder)
        engine = kept("engine") if given.without_engine else markdown([*engine_table(runs, rows)])
    tables["engine"] = engine
    page = "".join(f"{BEGIN.format(name)}{table}{END}\n" for name, table in tables.items())
    PAGE.write_text(f"Tables that docs/validation/mid_band.py writes.\n\n{page}", encoding="utf-8")
    draw(PICTURE, rows)


if __name__ == "__main__":
    main()
