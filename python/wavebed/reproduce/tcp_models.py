"""Steady throughput of one TCP flow whose packets are lost at random, by published models.

No model knows of slow start, buffers, the rate of the link, or queues. N flows have N times as much.
"""

from __future__ import annotations

import math
from typing import Final

MSS: Final = 1448
"""Bytes of a segment: 1500 less 20 of IPv4, 20 of TCP and 12 of time stamps."""

LINUX_RTO_MIN: Final = 0.2
"""Least variance term of Linux's retransmission timeout, in seconds: ``tcp_rto_min_us``."""

HEADERS: Final = 52
"""Bytes of IPv4, TCP and its time stamps."""
_BBR_PROBES: Final = 0.02
_BBR_BEARS: Final = 0.2
_CUBIC_C: Final = 0.4
_CUBIC_BETA: Final = 0.7


def mathis_mbps(loss: float, rtt: float, mss: int = MSS) -> float:
    """Return ``sqrt(3 / (2 p)) MSS / RTT``: Reno without timeouts, an acknowledgement for each segment.

    Parameters
    ----------
    loss : float
        Probability that a segment is lost, above 0 and at most 1.
    rtt : float
        Round-trip time in seconds.
    mss : int
        Bytes of a segment.

    Returns
    -------
    float
        Mbit/s of payload.

    Raises
    ------
    ValueError
        If the probability, the time or the size is out of range.

    Notes
    -----
    M. Mathis, J. Semke, J. Mahdavi, T. Ott, The Macroscopic Behavior of the TCP Congestion Avoidance Algorithm,
    ACM SIGCOMM Computer Communication Review 27(3), 1997, equation 3.
    """
    _check(loss, rtt, mss)
    return _mbps(math.sqrt(1.5 / loss), rtt, mss)


def cubic_mbps(loss: float, rtt: float, mss: int = MSS) -> float:
    """Return the rate of CUBIC: its cubic window's rate, or its Reno-friendly window's rate where that is more.

    Parameters, result and errors are as in `mathis_mbps`.

    Notes
    -----
    RFC 9438, section 5.1: the mean window is ``(C (3 + b) / (4 (1 - b)))^(1/4) (RTT / p)^(3/4)`` segments, with
    C = 0.4 and b = 0.7. Section 4.3: the Reno-friendly window has the mean of Reno's, as in `mathis_mbps`.
    """
    _check(loss, rtt, mss)
    factor = (_CUBIC_C * (3 + _CUBIC_BETA) / (4 * (1 - _CUBIC_BETA))) ** 0.25
    return max(_mbps(factor * (rtt / loss) ** 0.75, rtt, mss), mathis_mbps(loss, rtt, mss))


def pftk_mbps(loss: float, rtt: float, mss: int = MSS, rto_min: float = LINUX_RTO_MIN) -> float:
    """Return the rate of Reno with timeouts, an acknowledgement for each segment.

    Parameters
    ----------
    rto_min : float
        The retransmission timeout is the round-trip time and this, in seconds. The other parameters, result and
        errors are as in `mathis_mbps`.

    Notes
    -----
    J. Padhye, V. Firoiu, D. Towsley, J. Kurose, Modeling TCP Throughput: A Simple Model and its Empirical Validation,
    ACM SIGCOMM 1998: the approximate model, which is also in RFC 5348, section 3.1, with b = 1 and an unlimited
    window. Its senders have no selective acknowledgements: more of their losses end in a timeout than with Linux.
    """
    _check(loss, rtt, mss)
    if rto_min < 0:
        raise ValueError(f"rto_min: {rto_min} is negative: write seconds from 0 on")
    recovered = rtt * math.sqrt(2 * loss / 3)
    timed_out = (rtt + rto_min) * min(1.0, 3 * math.sqrt(3 * loss / 8)) * loss * (1 + 32 * loss**2)
    return mss * 8e-6 / (recovered + timed_out)


def bbr_mbps(loss: float, link_mbps: float, mss: int = MSS) -> float:
    """Return the rate of BBR version 1, which no random loss slows: all that the link delivers, of 10 s all but 200 ms.

    Parameters
    ----------
    loss : float
        Probability that a segment is lost, from 0 to below 0.2.
    link_mbps : float
        Rate of the link, Mbit/s of IP packets.
    mss : int
        Bytes of a segment.

    Returns
    -------
    float
        Mbit/s of payload, of all flows together.

    Raises
    ------
    ValueError
        If the probability, the rate or the size is out of range.

    Notes
    -----
    N. Cardwell, Y. Cheng, C. S. Gunn, S. H. Yeganeh, V. Jacobson, BBR: Congestion-Based Congestion Control, ACM Queue
    14(5), 2016: it sends at the rate that it measured, probes for the round trip for 200 ms of each 10 s with four
    packets in flight, and bears losses of up to 20 %.
    """
    if not 0 <= loss < _BBR_BEARS:
        raise ValueError(f"loss: {loss} is no probability below {_BBR_BEARS}")
    if link_mbps <= 0:
        raise ValueError(f"link_mbps: {link_mbps} is no rate above 0")
    if mss <= 0:
        raise ValueError(f"mss: {mss} is no size above 0")
    return link_mbps * mss / (mss + HEADERS) * (1 - loss) * (1 - _BBR_PROBES)


def _mbps(window: float, rtt: float, mss: int) -> float:
    """Return the rate of a window in segments, in Mbit/s."""
    return window * mss * 8e-6 / rtt


def _check(loss: float, rtt: float, mss: int) -> None:
    if not 0 < loss <= 1:
        raise ValueError(f"loss: {loss} is no probability above 0")
    if rtt <= 0:
        raise ValueError(f"rtt: {rtt} is no time above 0")
    if mss <= 0:
        raise ValueError(f"mss: {mss} is no size above 0")
