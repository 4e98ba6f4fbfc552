"""The E-model of ITU-T G.107 (12/2011) for narrowband voice over packets: from delay and loss to R and MOS.

All parameters except delay, codec and packet loss have the default values of G.107, clause 7.7; there is no echo
(Idte = Idle = 0) and no advantage factor (A = 0).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log2
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = ["CODECS", "DEFAULT_R", "VERSION", "Codec", "Rating", "burst_ratio", "delay_impairment", "mos", "rate"]

VERSION = "ITU-T G.107 (12/2011)"
DEFAULT_R = 93.2
"""R of G.107 with all its default values: Ro - Is."""

_LOUD_DELAY_MS = 100.0
_BURST_LEAST, _BURST_MOST = 1.0, 8.0
"""The range that G.107 permits for BurstR."""

LOSS_MOST = 20.0
"""The largest packet loss, in per cent, that G.107 permits."""


@dataclass(frozen=True, slots=True)
class Codec:
    """A codec with one packet interval.

    Parameters
    ----------
    title : str
        Its name.
    payload_bytes : int
        Bytes of speech in a packet.
    interval_ms : float
        Duration of speech in a packet.
    lookahead_ms : float
        Look-ahead of the encoder.
    impairment, robustness : float
        Ie and Bpl of ITU-T G.113, appendix I.
    """

    title: str
    payload_bytes: int
    interval_ms: float
    lookahead_ms: float
    impairment: float
    robustness: float

    @property
    def delay_ms(self) -> float:
        """Delay before sending: packet interval and look-ahead, without processing."""
        return self.interval_ms + self.lookahead_ms


CODECS = {
    "g711": Codec("G.711 with packet loss concealment (appendix I)", 160, 20.0, 0.0, 0.0, 25.1),
    "g711-without-plc": Codec("G.711 without packet loss concealment", 160, 20.0, 0.0, 0.0, 4.3),
    "g729a": Codec("G.729A with voice activity detection's Ie and Bpl", 20, 20.0, 5.0, 11.0, 19.0),
}
"""The codecs by their names in scenarios."""


@dataclass(frozen=True, slots=True)
class Rating:
    """The rating of one direction of a call.

    Parameters
    ----------
    r : float
        Transmission rating, from 0 to 100.
    mos : float
        Mean opinion score, estimated for conversation (MOS-CQE), from 1 to 4.5.
    delay_impairment, loss_impairment : float
        Idd and Ie,eff.
    loss_percent : float
        Packet loss of the rating.
    """

    r: float
    mos: float
    delay_impairment: float
    loss_impairment: float
    loss_percent: float


def delay_impairment(delay_ms: float) -> float:
    """Return Idd for the absolute one-way delay, mouth to ear (clause 7.4)."""
    if delay_ms <= _LOUD_DELAY_MS:
        return 0.0
    x = log2(delay_ms / _LOUD_DELAY_MS)
    return float(25 * ((1 + x**6) ** (1 / 6) - 3 * (1 + (x / 3) ** 6) ** (1 / 6) + 2))


def loss_impairment(codec: Codec, loss_percent: float, burst: float) -> float:
    """Return Ie,eff (clause 7.5)."""
    if loss_percent == 0:
        return codec.impairment
    return codec.impairment + (95 - codec.impairment) * loss_percent / (loss_percent / burst + codec.robustness)


def burst_ratio(lost: Sequence[bool] | NDArray[np.bool_]) -> float:
    """Return BurstR: the mean length of runs of lost packets / that under random loss, 1/(1-p).

    It is clipped to the range from 1 to 8 of G.107. It is 1 if no packet or every packet was lost.
    """
    flags = np.asarray(lost, dtype=bool)
    gone = int(np.count_nonzero(flags))
    if gone in (0, len(flags)):
        return _BURST_LEAST
    runs = int(flags[0]) + int(np.count_nonzero(flags[1:] & ~flags[:-1]))
    ratio = gone / runs * (1 - gone / len(flags))
    return min(max(ratio, _BURST_LEAST), _BURST_MOST)


def mos(r: float) -> float:
    """Return MOS-CQE (annex B)."""
    if r <= 0:
        return 1.0
    if r >= 100:
        return 4.5
    return max(1.0, 1 + 0.035 * r + r * (r - 60) * (100 - r) * 7e-6)


def rate(codec: Codec, delay_ms: float, loss_percent: float, burst: float = 1.0) -> Rating:
    """Rate one direction of a call.

    Parameters
    ----------
    delay_ms : float
        From mouth to ear.
    loss_percent : float
        Packets not played, from 0 to 100.
    burst : float
        BurstR.
    """
    by_delay = delay_impairment(delay_ms)
    by_loss = loss_impairment(codec, loss_percent, burst)
    r = min(100.0, max(0.0, DEFAULT_R - by_delay - by_loss))
    return Rating(r, mos(r), by_delay, by_loss, loss_percent)
