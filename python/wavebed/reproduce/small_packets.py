"""The study small-packets, asked of five datapaths of this machine.

Yan and Li (CETC 7th Institute), "Testing the small-packet forwarding of WLAN devices": throughput by iperf3 in frames
of 1518 bytes, and the rate of frames of 64 bytes, for five Wi-Fi routers. The routers are not ours. The question is:
does the second test separate devices that the first does not?
"""

from __future__ import annotations

import random
import shutil
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from wavebed.forward.arithmetic import Headers, Rates
from wavebed.forward.command import Order, Wish, parse_wish
from wavebed.forward.run import measure
from wavebed.forward.session import set_up
from wavebed.forward.settings import FULL_GOALS, QUICK_GOALS
from wavebed.forward.tell import Teller
from wavebed.forward.trials import distinct
from wavebed.stats.intervals import median_interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.forward.findings import DeviceResult, OverloadFinding
    from wavebed.forward.model import Trial
    from wavebed.forward.tell import Speaker

__all__ = [
    "KINDS",
    "PUBLISHED",
    "PUBLISHED_CPU",
    "SOURCE",
    "Published",
    "Reproduction",
    "in_blocks",
    "merge",
    "repeat",
    "said_plan",
]

KINDS = ("bridge", "routing", "nat", "xdp", "relay")
ROUNDS = 6
"""The fewest with which a 95 % interval of a median exists."""
SOURCE = "Yan and Li, CETC 7th Institute: Testing the small-packet forwarding of WLAN devices, tables 1 and 2"


class Published(NamedTuple):
    """A row of the study's second table."""

    device: str
    processor: str
    throughput_mbps: float
    throughput_rank: int
    small_mpps: float
    small_rank: int


PUBLISHED = (
    Published("A", "BCM4908", 952, 2, 1.43, 3),
    Published("B", "EN7561", 945, 5, 1.47, 2),
    Published("C", "IP5018", 954, 1, 0.91, 4),
    Published("D", "BCM4708", 947, 4, 0.13, 5),
    Published("E", "MT7622B", 949, 3, 1.48, 1),
)
PUBLISHED_CPU = (("throughput", "952 Mbit/s", 0.07), ("64 B", "1.45 Mpps", 0.29))
"""The study's first table: device A, and its processor in either test."""


@dataclass(frozen=True, slots=True)
class Reproduction:
    """What came of it.

    Parameters
    ----------
    results : tuple of DeviceResult
        One for each device, in the order of `KINDS`; rounds are merged.
    blocks : tuple of tuple of str
        The order in which devices were tested, round by round.
    raw : dict
        What iperf3 printed, by device and file.
    """

    results: tuple[DeviceResult, ...]
    blocks: tuple[tuple[str, ...], ...]
    raw: dict[str, dict[str, bytes]]
    interrupted: bool


def in_blocks(kinds: Sequence[str], rounds: int, seed: int) -> tuple[tuple[str, ...], ...]:
    """Draw the order: each device once in each round, so that what drifts meets all of them alike."""
    luck = random.Random(f"small-packets {seed}")  # noqa: S311 - an order, no secret
    return tuple(tuple(luck.sample(kinds, len(kinds))) for _ in range(rounds))


def order_of(kind: str, *, quick: bool, last: bool) -> Order:
    """Return what one device is asked in one round: both tests once; in the last round the loss-free rate too."""
    tests = "overload,search" if last else "overload"
    wish = Wish(dut=kind, name=kind, link_speed="1gbit", sizes="64,1518", tests=tests, quick=quick, thorough=not quick)
    beside = ("iperf3",) if last and shutil.which("iperf3") else ()
    order = parse_wish(replace(wish, beside=beside))
    goals = QUICK_GOALS if quick else FULL_GOALS
    return replace(order, settings=replace(order.settings, overload_repeats=1, goals=goals))


def repeat(
    *, quick: bool, seed: int, speaker: Speaker, kinds: Sequence[str] = KINDS, rounds: int = ROUNDS
) -> Reproduction:
    """Test all devices in all rounds; inside a cell.

    Raises
    ------
    MachineError, WavebedError
        If a device cannot be made, or a port fails.
    """
    blocks = in_blocks(kinds, rounds, seed)
    found: dict[str, list[DeviceResult]] = {kind: [] for kind in kinds}
    raw: dict[str, dict[str, bytes]] = {kind: {} for kind in kinds}
    clock = _Clock(len(kinds) * rounds, quick=quick, last=len(kinds))
    interrupted = False
    for number, block in enumerate(blocks, 1):
        for kind in block:
            last = number == rounds
            order = order_of(kind, quick=quick, last=last)
            within = _Within(speaker, f"round {number} of {rounds}, {kind}", clock)
            with set_up(order) as setup:
                result, interrupted = measure(order, setup, Teller(within), raw[kind])
            if interrupted:
                break
            found[kind].append(result)
            clock.done(last=last)
        if interrupted:
            break
    whole = all(found.values())
    return Reproduction(tuple(merge(found[kind]) for kind in kinds) if whole else (), blocks, raw, interrupted)


def said_plan(*, quick: bool) -> str:
    """Say what will be done, and for how long."""
    from wavebed.forward.plan import said

    clock = _Clock(len(KINDS) * ROUNDS, quick=quick, last=len(KINDS))
    return (
        f"plan: {len(KINDS)} devices in {ROUNDS} rounds, the loss-free rate in the last: about {said(clock.left_s)};"
        " the tester offers at most 1 Gbit/s at L1 at the device's input"
    )


def merge(rounds: Sequence[DeviceResult]) -> DeviceResult:
    """Return the rounds of one device as one result: all trials, and both tests over all of them."""
    first, last = rounds[0], rounds[-1]
    starts: list[int] = []
    trials: list[Trial] = []
    for one in rounds:
        starts.append(len(trials))
        trials += one.trials
    names = list(dict.fromkeys(test.name for one in rounds for test in one.overload))
    sizes = tuple(
        replace(size, trials=tuple(start + place for place in size.trials))
        for one, start in zip(rounds, starts, strict=True)
        for size in one.sizes
    )
    tests = []
    for name in names:
        parts = [
            (test, tuple(start + place for place in test.trials))
            for one, start in zip(rounds, starts, strict=True)
            for test in one.overload
            if test.name == name
        ]
        tests.append(_merged([test for test, _ in parts], [place for _, places in parts for place in places], trials))
    return replace(
        last,
        started=first.started,
        took_s=sum(one.took_s for one in rounds),
        settings=replace(last.settings, overload_repeats=len(rounds)),
        overload=tuple(tests),
        sizes=sizes,
        trials=tuple(trials),
        refusals=distinct([refusal for one in rounds for refusal in one.refusals]),
        doubts=tuple(dict.fromkeys(doubt for one in rounds for doubt in one.doubts)),
    )


def _merged(tests: Sequence[OverloadFinding], places: Sequence[int], trials: Sequence[Trial]) -> OverloadFinding:
    counted = [trials[place] for place in places if not trials[place].refusals]
    sent = median_interval([one.sent_pps for one in counted])
    received = median_interval([one.received_pps for one in counted])

    def rates(pps: float | None) -> Rates | None:
        return None if pps is None else Rates.of_pps(pps, tests[0].sizes_bytes, Headers())

    return replace(
        tests[0],
        sent_pps=sent,
        received_pps=received,
        sent=rates(sent.estimate),
        received=rates(received.estimate),
        loss_ratio=median_interval([one.loss_ratio for one in counted]),
        cpu_busy_max=median_interval([one.cpu["busy_max"] for one in counted if "busy_max" in one.cpu]),
        refusals=distinct([refusal for place in places for refusal in trials[place].refusals]),
        trials=tuple(places),
    )


class _Clock:
    """How long all rounds will still take: by guess at first, then by what rounds took."""

    def __init__(self, runs: int, *, quick: bool, last: int) -> None:
        from wavebed.forward.plan import plan

        once, whole = (
            plan(order_of(KINDS[0], quick=quick, last=in_last).settings, _TRIAL_BESIDE_S).span.expected_s + _SET_UP_S
            for in_last in (False, True)
        )
        self._each = {False: once, True: whole + _IPERF3_S}
        self._left = {False: runs - last, True: last}
        self._began_s = time.monotonic()

    @property
    def left_s(self) -> float:
        """Seconds left when the present device begins."""
        return sum(self._each[kind] * self._left[kind] for kind in self._left)

    def done(self, *, last: bool) -> None:
        """Take note of a device that is over."""
        now_s = time.monotonic()
        self._each[last] = (self._each[last] + now_s - self._began_s) / 2
        self._left[last] -= 1
        self._began_s = now_s


_TRIAL_BESIDE_S = 0.4
_SET_UP_S = 5.0
_IPERF3_S = 8.0


class _Within:
    """Says what one device does as a part of the whole."""

    def __init__(self, speaker: Speaker, where: str, clock: _Clock) -> None:
        self._speaker, self._where, self._left_s = speaker, where, clock.left_s

    def note(self, text: str) -> None:
        """Leave the plan of a part out."""

    def step(self, text: str, left_s: float) -> None:
        """Say where the whole is."""
        del left_s
        self._speaker.go_on(f"{self._where}: {text}", self._left_s)

    go_on = step
