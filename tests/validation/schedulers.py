"""Schedulers of a cell from their publications, one device a slot: the shares and delays that a cell must have.

Nothing here knows the code of wavebed. Proportional fair is the rule of Jalali, Padovani and Pankaj ("Data throughput
of CDMA-HDR", VTC 2000), with the average of Viswanath, Tse and Laroia ("Opportunistic beamforming using dumb antennas",
IEEE Transactions on Information Theory 48(6), 2002, section II): in slot `t` the device with the highest `r(t) / R(t)`
sends, and `R(t + 1) = (1 - 1 / c) R(t) + (1 / c) r(t)` for it, `(1 - 1 / c) R(t)` for the others.
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Policy = Literal["proportional_fair", "round_robin", "maximum_rate"]

__all__ = [
    "Errors",
    "Shares",
    "constant",
    "equal_parts",
    "fair_limit",
    "fair_waits",
    "jain",
    "largest_ratio",
    "rayleigh",
    "shares",
    "thin_flow",
    "turns",
]

GAP_DB = 1.5
"""Distance of an adaptive modulation and coding from Shannon's capacity."""
SHARE_OF_TIE = 1e-12
"""Rates that differ by less are equal."""


class Shares(NamedTuple):
    """What each device was given.

    Parameters
    ----------
    air : numpy.ndarray
        Part of all slots, retransmissions included.
    rate : numpy.ndarray
        Mean of the new data over all slots, in the unit of the rates.
    """

    air: Floats
    rate: Floats


class Errors(NamedTuple):
    """Hybrid ARQ: a block that fails takes a whole slot again, before new data.

    Parameters
    ----------
    first : sequence of float
        Probability that the first transmission of each device fails; the second succeeds.
    round_trip : int
        Slots from a transmission to the first that may repeat it.
    counted : bool
        Whether a repetition counts in the average of proportional fair.
    seed : int
        Seed of the failures.
    """

    first: Sequence[float]
    round_trip: int
    counted: bool = False
    seed: int = 1


def constant(rates: Sequence[float], slots: int) -> Floats:
    """Return constant rates: one row a slot, one column a device."""
    return np.tile(np.asarray(rates, dtype=float), (slots, 1))


def rayleigh(mean_db: Sequence[float], blocks: int, hz: float, most: float, seed: int) -> Floats:
    """Return rates of block fading: the SNR is exponential about its mean, and independent in each block.

    Parameters
    ----------
    mean_db : sequence of float
        Mean SNR of each device, decibels.
    blocks : int
        Rows.
    hz : float
        Bandwidth.
    most : float
        Most bits per second and hertz.
    seed : int
        Seed of the fading.

    Returns
    -------
    numpy.ndarray
        Bits per second, whole.
    """
    random = np.random.default_rng(seed)
    means = 10 ** (np.asarray(mean_db, dtype=float) / 10)
    snr = random.exponential(1.0, (blocks, means.size)) * means
    bits = np.log2(1 + snr / 10 ** (GAP_DB / 10))
    return np.maximum(1.0, np.floor(hz * np.minimum(bits, most)))


def shares(rates: Floats, policy: Policy, average_slots: float = 99.0, errors: Errors | None = None) -> Shares:
    """Serve devices that always have data. A tie of the highest rate is divided in equal parts.

    Parameters
    ----------
    rates : numpy.ndarray
        What each device (column) could send in each slot (row).
    policy : str
        The rule.
    average_slots : float
        `c` of proportional fair.
    errors : Errors or None
        Failures; None: none.

    Returns
    -------
    Shares
        Over the second half of the slots: the first one is the start-up.
    """
    slots, devices = rates.shape
    air, data = np.zeros(devices), np.zeros(devices)
    average = np.full(devices, 1e-9)
    random = np.random.default_rng(errors.seed if errors else 0)
    again: deque[tuple[int, int]] = deque()
    turn = 0
    for slot in range(slots):
        counted = 1.0 if slot >= slots // 2 else 0.0
        now = rates[slot]
        given = np.zeros(devices)
        if again and again[0][0] <= slot:
            _, winner = again.popleft()
            air[winner] += counted
            if errors and errors.counted:
                given[winner] = now[winner]
        else:
            if policy == "round_robin":
                winners = np.array([turn])
                turn = (turn + 1) % devices
            elif policy == "maximum_rate":
                winners = np.flatnonzero(now >= now.max() * (1 - SHARE_OF_TIE))
                if errors:
                    winners = winners[slot % winners.size][None]
            else:
                winners = np.argmax(now / average)[None]
            part = counted / winners.size
            air[winners] += part
            data[winners] += part * now[winners]
            given[winners] = now[winners] / winners.size
            if errors and random.random() < errors.first[winners[0]]:
                again.append((slot + errors.round_trip, int(winners[0])))
        average += (given - average) / average_slots
    counted_slots = slots - slots // 2
    return Shares(air / counted_slots, data / counted_slots)


def equal_parts(rates: Floats, first: Sequence[float] | None = None) -> Shares:
    """Serve all devices in equal parts of each slot: a device has one block a slot, a repetition or new data.

    Parameters
    ----------
    rates : numpy.ndarray
        What each device (column) could send in each slot (row).
    first : sequence of float or None
        Probability that the first transmission of each device fails; the second succeeds.
    """
    devices = rates.shape[1]
    repeated = 1 + (np.zeros(devices) if first is None else np.asarray(first))
    later = rates[len(rates) // 2 :]
    return Shares(np.full(devices, 1 / devices), later.mean(axis=0) / devices / repeated)


def turns(rates: Floats, first: int) -> Shares:
    """Serve each device in turn, one a slot; `first` has slot 0."""
    slots, devices = rates.shape
    later = np.arange(slots // 2, slots)
    winners = (later + first) % devices
    air = np.bincount(winners, minlength=devices) / later.size
    return Shares(air, np.bincount(winners, rates[later, winners], devices) / later.size)


def fair_limit(rates: Floats, rounds: int = 400) -> Shares:
    """Compute proportional fair with an infinite average: the rates that maximise the sum of their logarithms.

    Parameters
    ----------
    rates : numpy.ndarray
        What each device (column) could send in each state of the channel (row), all states equally likely.
    rounds : int
        Rounds of the iteration (Viswanath et al. 2002, theorem 1: the averages converge to it).
    """
    devices = rates.shape[1]
    average = rates.mean(axis=0) / devices
    states = np.arange(rates.shape[0])
    air = data = np.zeros(devices)
    for number in range(1, rounds + 1):
        winners = np.argmax(rates / average, axis=1)
        air = np.bincount(winners, minlength=devices) / states.size
        data = np.bincount(winners, rates[states, winners], devices) / states.size
        average = average + (data - average) / number**0.7
    return Shares(air, data)


def jain(values: Floats) -> float:
    """Return Jain's index of fairness."""
    return float(values.sum() ** 2 / (values.size * (values**2).sum()))


def largest_ratio(devices: int, average_slots: float = 99.0) -> float:
    """Return the highest `r / R` in proportional fair among devices with equal constant rates, each served in turn.

    A device that was served once in `devices` slots has, just before its turn,
    `R = (r / c) q^(n - 1) / (1 - q^n)` with `q = 1 - 1 / c`.
    """
    q = 1 - 1 / average_slots
    return average_slots * (1 - q**devices) / q ** (devices - 1)


def fair_waits(arrivals: Sequence[tuple[int, float]], devices: int, average_slots: float = 99.0) -> list[int]:
    """Bound the slots that each packet of a thin flow waits in proportional fair, beside equal full buffers.

    The average of the flow before a packet is at most `A`, the sum of `(load / c) q^age` over its earlier packets, each
    as old as its own bound lets it be. The flow is chosen once `1 / A` is above the highest ratio of the others:
    `largest_ratio`, times `1 / q` for each packet that took a slot from them in their last two rounds. While a packet
    waits, `A` falls by `q` a slot, so it waits for the least `w` with `A q^w < 1 / ratio`.

    Parameters
    ----------
    arrivals : sequence of (int, float)
        The first slot in which each packet could be sent, in order, and the part of a slot that it needs.
    devices : int
        Devices with full buffers and equal constant rates.
    average_slots : float
        `c` of proportional fair.
    """
    q = 1 - 1 / average_slots
    bounds: list[int] = []
    sent: list[tuple[int, float]] = []
    for slot, load in arrivals:
        recent = sent[-400:]
        average = sum(part / average_slots * q ** max(0, slot - at) for at, part in recent)
        taken = 1 + sum(at > slot - 2 * devices for at, _ in recent)
        ratio = largest_ratio(devices, average_slots) / q**taken
        wait = math.log(1 / (average * ratio)) / math.log(q) if average > 0 else 0.0
        bounds.append(max(0, math.ceil(wait)))
        sent.append((slot + bounds[-1], load))
    return bounds


def thin_flow(
    arrivals: Sequence[tuple[int, float]],
    rates: Floats,
    policy: Policy,
    average_slots: float = 99.0,
) -> list[int]:
    """Serve a thin flow, the last device, beside devices that always have data, one device a slot.

    Parameters
    ----------
    arrivals : sequence of (int, float)
        The first slot in which each packet could be sent, in order, and its data.
    rates : numpy.ndarray
        What each device could send in each slot.
    policy : str
        The rule.
    average_slots : float
        `c` of proportional fair.

    Returns
    -------
    list of int
        The slot in which the last part of each packet was sent; shorter if the slots end.
    """
    slots, devices = rates.shape
    thin = devices - 1
    average = np.full(devices, 1e-9)
    waiting: deque[list[float]] = deque()
    sent: list[int] = []
    coming = deque(arrivals)
    turn = 0
    for slot in range(slots):
        while coming and coming[0][0] <= slot:
            waiting.append([coming.popleft()[1]])
        now = rates[slot].copy()
        if not waiting:
            now[thin] = 0.0
        if policy == "round_robin":
            if turn == thin and not waiting:
                turn = 0
            winner = turn
            turn = (turn + 1) % devices
        elif policy == "maximum_rate":
            winner = int(np.argmax(now))
        else:
            winner = int(np.argmax(now / average))
        given = np.zeros(devices)
        given[winner] = now[winner]
        if winner == thin:
            room = now[thin]
            while waiting and room > 0:
                part = min(room, waiting[0][0])
                waiting[0][0] -= part
                room -= part
                if waiting[0][0] <= 0:
                    waiting.popleft()
                    sent.append(slot)
            given[thin] = now[thin] - room
        average += (given - average) / average_slots
    return sent
