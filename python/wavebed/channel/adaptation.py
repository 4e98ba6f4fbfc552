"""The link adaptation loop: reports, an outer loop, and the error rate that results."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from math import log
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from wavebed.channel.transport_formats import TABLE_ERROR_RATE, Formats, format_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, NDArray

    from wavebed.channel.transport_formats import FormatTable
    from wavebed.radio.carriers import Direction
    from wavebed.radio.presets import Technology, WifiSettings
    from wavebed.scene.model import Carrier


ODDS = 1 / TABLE_ERROR_RATE - 1


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """How the MCS follows the channel.

    Parameters
    ----------
    period_s : float
        Time between reports. TS 38.331 CSI-ReportPeriodicityAndOffset has 10 ms for every numerology, TS 36.213 Table
        7.2.2-1A for LTE.
    delay_s : float
        From what a report measures to its use. NR: the reference resource lies 4 ms or more before the report (TS
        38.214 5.2.2.5), then two slots or more for scheduling. LTE: 4 ms (TS 36.213 7.2.3) and 4 ms of processing.
    target : float
        Share of first transmissions that the outer loop lets fail.
    step_db : float
        How far the outer loop steps back when everything fails for one period.
    lowest_db, highest_db : float
        Bounds of the outer loop's correction. Upwards, it makes good what the CQI hides, whose widest step is 4.8 dB.
    """

    period_s: float = 0.01
    delay_s: float = 0.005
    target: float = 0.1
    step_db: float = 1.0
    lowest_db: float = -10.0
    highest_db: float = 5.0


LOOPS: Mapping[Technology, LoopSettings] = MappingProxyType(
    {
        "nr": LoopSettings(),
        "lte": LoopSettings(delay_s=0.008),
        # Each block acknowledgement tells the sender: a choice, the standard leaves rate control to the maker.
        "802.11ad": LoopSettings(period_s=0.01, delay_s=0.001),
    }
)


class Adapted(NamedTuple):
    """What link adaptation makes of an SINR; every array has the shape of the SINR.

    Attributes
    ----------
    mcs, layers : int16
        Modulation and coding scheme, -1 where nothing is sent; spatial layers, 0 where nothing is sent.
    rate_bps : int64
        Bits of transport blocks per second, averaged over the duplex frame, all slots given to one user.
    bler : float64
        Share of first transmissions that fail; 0 where nothing is sent.
    sinr_db : float64
        Effective SINR of a layer: after the split of power, transmitter and receiver errors. Where nothing is sent,
        the SINR of the slowest format.
    need_db : float64
        SINR of a layer at which a tenth of the blocks fails; where nothing is sent, the slowest format's SINR.
    """

    mcs: NDArray[np.int16]
    layers: NDArray[np.int16]
    rate_bps: NDArray[np.int64]
    bler: NDArray[np.float64]
    sinr_db: NDArray[np.float64]
    need_db: NDArray[np.float64]


def adapt(
    sinr_db: ArrayLike,
    step_s: float,
    carrier: Carrier,
    direction: Direction,
    *,
    loop: LoopSettings | None = None,
    wifi: WifiSettings | None = None,
) -> Adapted:
    """Choose layers, resource blocks and MCS over time, and say what rate and error rate follow.

    The receiver measures the SINR every `loop.period_s`. In the downlink of NR and LTE it reports the rank and CQI that
    carry most and would fail at most once in ten; in the uplink, and with 802.11ad, the value itself is known. The
    sender adds the outer loop's correction, and takes what is fastest and would then fail at most once in ten, until
    the next report is there. The outer loop moves by its expected value, `step_db`·(target - error rate)/(1 - target) a
    period, because the channel is made before the traffic runs: which blocks fail is the link engine's to draw. It
    assumes that there is traffic in every period. It stands still where nothing faster exists, or nothing slower.

    Parameters
    ----------
    sinr_db : array_like of float, (..., n)
        Effective SINR of each step, all power in one layer on all resource blocks.
    step_s : float
        Length of a step.
    carrier : Carrier
        The carrier.
    direction : str
        ``down`` or ``up``.
    loop : LoopSettings or None
        How the MCS follows; ``None``: `LOOPS` of the technology.
    wifi : WifiSettings or None
        Needed for 802.11ad.

    Raises
    ------
    ValueError
        One line: the SINR has no number somewhere, or the carrier has a value that its technology does not allow.
    """
    values = np.asarray(sinr_db, dtype=np.float64)
    if np.isnan(values).any():
        raise ValueError("the SINR is not a number in some step")
    settings = loop or LOOPS[carrier.technology]
    table = format_table(carrier, direction, wifi)
    formats = _with_silence(table.formats)
    place, inverse = np.empty(values.shape, dtype=np.intp), 10 ** (np.clip(values, -100.0, 100.0) / -10)
    for row in np.ndindex(values.shape[:-1]):
        place[row] = _follow(values[row], inverse[row], step_s, table, settings)
    layer_db = -10 * np.log10(inverse * formats.noise[place] + table.floor)
    needed_db = formats.need_db[place]
    bler = 1 / (1 + ODDS * np.exp(formats.slope_per_db[place] * (layer_db - needed_db)))
    bler[place < 0] = 0.0
    mcs, layers = (column.astype(np.int16)[place] for column in (formats.mcs, formats.layers))
    return Adapted(mcs, layers, formats.rate_bps[place], bler, layer_db, needed_db)


def _with_silence(formats: Formats) -> Formats:
    """Add, at the end and so in place -1, what holds where nothing is sent: the slowest format without its bits."""
    none = {"rate_bps": 0, "mcs": -1, "layers": 0, "blocks": 0}
    return Formats(*(np.append(column, none.get(name, column[0])) for name, column in formats._asdict().items()))


def _follow(
    row: NDArray[np.float64], inverse: NDArray[np.float64], step_s: float, table: FormatTable, settings: LoopSettings
) -> NDArray[np.intp]:
    """Return the place among the formats of what is sent in each step of one realisation; -1: nothing."""
    period = max(1, round(settings.period_s / step_s))
    delay = round(settings.delay_s / step_s)
    reported = row[::period]
    if table.reports_db is not None:
        known = np.append(table.reports_db, -np.inf)  # CQI 0, out of range, reads the last
        reported = known[np.searchsorted(table.reports_db, reported, side="right") - 1]
    begins = np.arange(reported.size) * period + delay
    early, late = (inverse[np.minimum(begins + (period * part) // 4, row.size - 1)] for part in (1, 3))
    resting_db = _resting_db(reported, early, late, table, settings)
    chosen = _outer_loop(reported.tolist(), early.tolist(), late.tolist(), resting_db.tolist(), table, settings)
    # Each report holds for a period, the first one also until it is there.
    holds = np.full(len(chosen), period)
    holds[0] += delay
    return np.repeat(np.array(chosen, dtype=np.intp), holds)[: row.size]


def _powers(formats: Formats) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return what makes the odds of each format's blocks from 1/SINR: the logistic curve in decibels is a power."""
    return ODDS * np.exp(-formats.slope_per_db * formats.need_db), formats.slope_per_db * (-10 / log(10))


def _resting_db(
    reported: NDArray[np.float64],
    early: NDArray[np.float64],
    late: NDArray[np.float64],
    table: FormatTable,
    settings: LoopSettings,
) -> NDArray[np.float64]:
    """Return the correction from which on a report chooses the fastest format, and its errors move nothing."""
    odds, powers = (each[-1] for each in _powers(table.formats))
    noise, floor = table.formats.noise[-1], table.floor
    bler = sum(0.5 / (1 + odds * (part * noise + floor) ** powers) for part in (early, late))
    # The tiny numbers leave to the loop what rounding would decide.
    return np.where(bler < settings.target - 1e-9, table.formats.from_db[-1] - reported + 1e-9, np.inf)


def _outer_loop(
    reported: list[float],
    early: list[float],
    late: list[float],
    resting_db: list[float],
    table: FormatTable,
    settings: LoopSettings,
) -> list[int]:
    """Return the place of what is chosen after each report; -1: nothing is sent.

    The error rate of a period is the mean at its first and third quarter; `early` and `late` are 1/SINR there.
    """
    formats, floor = table.formats, table.floor
    levels_db = formats.from_db.tolist()
    constants = list(zip(formats.noise.tolist(), *(each.tolist() for each in _powers(formats)), strict=True))
    target, lowest, highest = settings.target, settings.lowest_db, settings.highest_db
    gain = settings.step_db / (1 - target)
    top = len(levels_db) - 1
    # CQI 1 has less than the lowest MCS, and is in range; CQI 0 is not (TS 38.214 5.2.2.1).
    least_db = levels_db[0] if table.reports_db is None else float(table.reports_db[0])
    correction = 0.0
    chosen = []
    for report, one, other, resting in zip(reported, early, late, resting_db, strict=True):
        if correction >= resting:
            chosen.append(top)
            continue
        best = bisect_right(levels_db, report + correction) - 1
        if best < 0 and report >= least_db:
            best = 0  # what the report alone allows is tried: repetitions add up, and the correction can come back
        chosen.append(best)
        if best < 0:
            continue
        noise, odd, power = constants[best]
        bler = 0.5 / (1 + odd * (one * noise + floor) ** power) + 0.5 / (1 + odd * (other * noise + floor) ** power)
        if best == (top if bler < target else 0):
            continue
        correction += gain * (target - bler)
        if not lowest <= correction <= highest:
            correction = lowest if correction < lowest else highest
    return chosen


OVERHEAD = {("fr1", "down"): 0.14, ("fr2", "down"): 0.18, ("fr1", "up"): 0.08, ("fr2", "up"): 0.10}
FR2_FROM_HZ = 24.25e9


def peak_rate_bps(
    blocks: int,
    numerology: int,
    frequency_hz: float,
    *,
    modulation_order: int = 6,
    layers: int = 1,
    direction: Direction = "down",
) -> float:
    """Return the peak rate of one NR carrier in bit/s (TS 38.306 4.1.2), with scaling factor 1 and all slots.

    Parameters
    ----------
    blocks : int
        Resource blocks.
    numerology : int
        Subcarrier spacing 15·2^µ kHz.
    frequency_hz : float
        Centre frequency; decides the overhead, FR1 or FR2.
    modulation_order : int
        Bits per symbol of the highest modulation.
    layers : int
        Spatial layers.
    direction : str
        ``down`` or ``up``.
    """
    kind = "fr2" if frequency_hz >= FR2_FROM_HZ else "fr1"
    symbols_per_s = 14 * 2.0**numerology / 1e-3
    return layers * modulation_order * (948 / 1024) * 12 * blocks * symbols_per_s * (1 - OVERHEAD[kind, direction])
