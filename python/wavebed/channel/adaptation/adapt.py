"""The link adaptation loop: reports, an outer loop, and the error rate that results."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from math import exp
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from wavebed.channel.adaptation.bler import TABLE_ERROR_RATE, cqi_snr_db, waterfall
from wavebed.channel.adaptation.rates import mcs_rates_bps
from wavebed.channel.adaptation.wifi import FIRST_DATA_MCS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike, NDArray

    from wavebed.radio.model import Technology, WifiSettings
    from wavebed.radio.table_files import Direction
    from wavebed.scene.model import Carrier

__all__ = ["LOOPS", "Adapted", "LoopSettings", "adapt"]


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
    mcs : int16
        Modulation and coding scheme; -1 where nothing is sent.
    rate_bps : int64
        Bits of transport blocks per second, averaged over the duplex frame, all resource blocks given to one user.
    bler : float64
        Share of first transmissions that fail, in steps of 0.0001; 0 where nothing is sent.
    """

    mcs: NDArray[np.int16]
    rate_bps: NDArray[np.int64]
    bler: NDArray[np.float64]


class _Curves(NamedTuple):
    """The MCS that may be chosen, slowest first, and the reports that exist (``None``: any SINR)."""

    first: int
    snr_db: list[float]
    slope_per_db: list[float]
    levels_db: list[float]
    reports_db: NDArray[np.float64] | None


def adapt(
    sinr_db: ArrayLike,
    step_s: float,
    carrier: Carrier,
    direction: Direction,
    *,
    loop: LoopSettings | None = None,
    wifi: WifiSettings | None = None,
) -> Adapted:
    """Choose the MCS over time, and say what rate and error rate follow.

    The receiver measures the SINR every `loop.period_s`. In the downlink of NR and LTE it reports the highest CQI that
    would fail at most once in ten; in the uplink, and with 802.11ad, the value itself is known. The sender adds the
    outer loop's correction, and takes the highest MCS that would then fail at most once in ten, until the next report
    is there. The outer loop moves by its expected value, `step_db`·(target - error rate)/(1 - target) a period, because
    the channel is made before the traffic runs: which blocks fail is the link engine's to draw. It assumes that there
    is traffic in every period. It stands still where a faster MCS does not exist.

    Parameters
    ----------
    sinr_db : array_like of float, (..., n)
        Effective SINR of each step.
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
    curves = _curves(carrier, direction)
    rates = np.append(mcs_rates_bps(carrier, direction, wifi), 0)  # MCS -1 reads the last
    mcs, bler = np.empty(values.shape, dtype=np.int16), np.empty(values.shape)
    for place in np.ndindex(values.shape[:-1]):
        row = np.clip(values[place], -100.0, 100.0)
        mcs[place], bler[place] = _follow(row, step_s, curves, settings)
    return Adapted(mcs, rates[mcs], bler)


def _curves(carrier: Carrier, direction: Direction) -> _Curves:
    curve = waterfall(carrier.technology, carrier.mcs_table)
    first = FIRST_DATA_MCS if carrier.technology == "802.11ad" else 0
    snr_db = curve.snr_db[first:]
    # An MCS that needs more than a faster one is never chosen.
    levels_db = np.minimum.accumulate(snr_db[::-1])[::-1]
    quantised = direction == "down" and carrier.technology != "802.11ad"
    reports_db = cqi_snr_db(carrier.mcs_table) if quantised else None
    return _Curves(first, snr_db.tolist(), curve.slope_per_db[first:].tolist(), levels_db.tolist(), reports_db)


def _follow(
    row: NDArray[np.float64], step_s: float, curves: _Curves, settings: LoopSettings
) -> tuple[NDArray[np.int16], NDArray[np.float64]]:
    """Return MCS and error rate of one realisation."""
    period = max(1, round(settings.period_s / step_s))
    delay = round(settings.delay_s / step_s)
    reported = row[::period]
    if curves.reports_db is not None:
        known = np.append(curves.reports_db, -np.inf)  # CQI 0, out of range, reads the last
        reported = known[np.searchsorted(curves.reports_db, reported, side="right") - 1]
    begins = np.arange(reported.size) * period + delay
    early, late = (row[np.minimum(begins + (period * part) // 4, row.size - 1)] for part in (1, 3))
    chosen = np.array(_outer_loop(reported.tolist(), early.tolist(), late.tolist(), curves, settings), dtype=np.int16)
    # Each report holds for a period, the first one also until it is there.
    holds = np.full(chosen.size, period)
    holds[0] += delay
    slope, needed, mcs = (
        np.repeat(values, holds)[: row.size]
        for values in (
            np.array(curves.slope_per_db)[chosen],
            np.array(curves.snr_db)[chosen],
            np.where(chosen < 0, -1, chosen + curves.first).astype(np.int16),
        )
    )
    bler = 1 / (1 + (1 / TABLE_ERROR_RATE - 1) * np.exp(slope * (row - needed)))
    bler[mcs < 0] = 0.0
    return mcs, np.round(bler, 4)


def _outer_loop(
    reported: list[float], early: list[float], late: list[float], curves: _Curves, settings: LoopSettings
) -> list[int]:
    """Return the place in `curves` that is chosen after each report; -1: nothing is sent.

    The error rate of a period is the mean at its first and third quarter.
    """
    _, snr_db, slope_per_db, levels_db, _ = curves
    target, lowest, highest = settings.target, settings.lowest_db, settings.highest_db
    gain = settings.step_db / (1 - target)
    odds, top = 1 / TABLE_ERROR_RATE - 1, len(levels_db) - 1
    correction = 0.0
    chosen = []
    for report, one, other in zip(reported, early, late, strict=True):
        best = bisect_right(levels_db, report + correction) - 1
        if best < 0 and report >= levels_db[0]:
            best = 0  # what the report alone allows is tried, so that the correction can come back
        chosen.append(best)
        if best < 0:
            continue
        slope, needed = slope_per_db[best], snr_db[best]
        bler = 0.5 / (1 + odds * exp(slope * (one - needed))) + 0.5 / (1 + odds * exp(slope * (other - needed)))
        if bler < target and best == top:
            continue
        correction = min(max(correction + gain * (target - bler), lowest), highest)
    return chosen
