"""The study small-packets, on five datapaths of this machine.

Yan and Li (CETC 7th Institute), "Testing the small-packet forwarding of WLAN devices": throughput by iperf3 in frames
of 1518 bytes, and the rate of frames of 64 bytes, for five Wi-Fi routers. The routers are not ours. The question is:
does the second test separate devices that the first does not?
"""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec.structs import replace

from wavebed.experiment.disk import claimed, explained, make_new
from wavebed.experiment.events import (
    CheckFailed,
    LoadMeasured,
    Part,
    RunBegun,
    RunEnded,
    RunInterrupted,
)
from wavebed.experiment.journal import Journal
from wavebed.experiment.order import in_blocks
from wavebed.experiment.store import KEPT, keep_partial
from wavebed.experiment.trials import Trials
from wavebed.forward.arithmetic import Headers
from wavebed.forward.command import ForwardOptions, ForwardSpec, parse_options
from wavebed.forward.overload import overload_finding
from wavebed.forward.plan import plan, said
from wavebed.forward.record import ForwardRecord
from wavebed.forward.run import measure
from wavebed.forward.session import set_up
from wavebed.forward.settings import FULL_GOALS, QUICK_GOALS
from wavebed.forward.tell import Teller
from wavebed.forward.trials import distinct
from wavebed.forward.verdicts import refused_parts, verdict_of
from wavebed.forward.write import write_forward
from wavebed.result.machine import versions
from wavebed.result.names import TRIALS_FOLDER

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from wavebed.experiment.events import Event
    from wavebed.forward.findings import DeviceResult, OverloadFinding, OverloadName
    from wavebed.forward.model import Trial
    from wavebed.forward.tell import Progress

__all__ = [
    "KINDS",
    "PUBLISHED",
    "PUBLISHED_CPU",
    "SOURCE",
    "Published",
    "Reproduction",
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
    """The outcome of a reproduction.

    Parameters
    ----------
    results : tuple of DeviceResult
        One for each device, in the order of `KINDS`; rounds are merged.
    blocks : tuple of tuple of str
        The order in which devices were tested, round by round.
    raw : dict
        Outputs of iperf3, by device and file.
    """

    results: tuple[DeviceResult, ...]
    blocks: tuple[tuple[str, ...], ...]
    raw: dict[str, dict[str, bytes]]
    interrupted: bool


def spec_of(kind: str, *, quick: bool, last: bool) -> ForwardSpec:
    """Return the test of one device in one round: both tests once; in the last round the loss-free rate too."""
    tests = "overload,search" if last else "overload"
    options = ForwardOptions(
        dut=kind, name=kind, link_speed="1gbit", sizes="64,1518", tests=tests, quick=quick, thorough=not quick
    )
    beside = ("iperf3",) if last and shutil.which("iperf3") else ()
    spec = parse_options(replace(options, beside=beside))
    goals = QUICK_GOALS if quick else FULL_GOALS
    return replace(spec, settings=replace(spec.settings, overload_repeats=1, goals=goals))


def repeat(
    *,
    quick: bool,
    seed: int,
    progress: Progress,
    folder: Path,
    command_line: Sequence[str] = (),
    kinds: Sequence[str] = KINDS,
    rounds: int = ROUNDS,
) -> Reproduction:
    """Test all devices in all rounds; inside a sandbox. Each test is a trial of the folder, stored when it has ended.

    Raises
    ------
    UserError
        If the folder holds something.
    MachineError, WavebedError
        If a device cannot be made, a port fails, or the results cannot be written.
    """
    blocks = in_blocks(kinds, rounds, seed)
    found: dict[str, list[DeviceResult]] = {kind: [] for kind in kinds}
    raw: dict[str, dict[str, bytes]] = {kind: {} for kind in kinds}
    interrupted = False
    make_new(folder)
    try:
        with explained(folder, KEPT):
            (folder / TRIALS_FOLDER).mkdir()
        with Journal() as journal:
            journal.open(folder)
            journal.emit(RunBegun(kind="reproduction", title="small-packets"))
            slots = _slots(blocks, quick=quick)
            trials = Trials(folder, journal, [Part(slot.name, slot.expected_s) for slot in slots])
            with claimed(folder), trials.guarded():
                for slot in slots:
                    result, interrupted = _one(slot, trials, progress, raw[slot.kind], tuple(command_line))
                    if interrupted:
                        break
                    found[slot.kind].append(result)
            journal.emit(RunInterrupted(reason="by the user") if interrupted else RunEnded(trials=len(slots)))
    finally:
        if not any(found.values()):
            shutil.rmtree(folder, ignore_errors=True)
    whole = all(found.values())
    return Reproduction(tuple(merge(found[kind]) for kind in kinds) if whole else (), blocks, raw, interrupted)


class _Slot(NamedTuple):
    """One device in one round."""

    number: int
    kind: str
    round: int
    rounds: int
    spec: ForwardSpec
    expected_s: float

    @property
    def name(self) -> str:
        """The name of its folder."""
        return f"{self.number:04d}-{self.kind}"


def _slots(blocks: Sequence[Sequence[str]], *, quick: bool) -> list[_Slot]:
    slots: list[_Slot] = []
    for number, block in enumerate(blocks, 1):
        last = number == len(blocks)
        for kind in block:
            spec = spec_of(kind, quick=quick, last=last)
            parts = plan(spec.settings, _TRIAL_BESIDE_S)
            expected_s = sum(part.expected_s for part in parts) + _SET_UP_S + last * _IPERF3_S
            slots.append(_Slot(len(slots) + 1, kind, number, len(blocks), spec, expected_s))
    return slots


def _one(
    slot: _Slot, trials: Trials, progress: Progress, raw: dict[str, bytes], command_line: tuple[str, ...]
) -> tuple[DeviceResult, bool]:
    """Test one device in one round, and store the result unless it was interrupted."""
    began_s = time.monotonic()
    teller = Teller(_Within(progress, f"round {slot.round} of {slot.rounds}, {slot.kind}", trials.left_s))

    def heard(event: Event) -> None:
        teller(event)
        if isinstance(event, LoadMeasured | CheckFailed):
            trials.journal.emit(msgspec.structs.replace(event, trial=slot.name))

    with trials.begun(slot.number, slot.kind, slot.round) as partial:
        with set_up(slot.spec) as setup:
            result, interrupted = measure(slot.spec, setup, heard, raw)
        if interrupted:
            return result, True
        write_forward(partial, ForwardRecord(result, command_line, versions(["iperf3"] if raw else [])), raw)
        with explained(trials.folder, KEPT):
            keep_partial(partial, slot.name)
    reasons = [refusal.reason for refusal in refused_parts(result)]
    trials.stored(slot.number, verdict_of(result), time.monotonic() - began_s, reasons)
    return result, False


def said_plan(*, quick: bool) -> str:
    """Return the plan and its time, as text."""
    total_s = sum(slot.expected_s for slot in _slots([KINDS] * ROUNDS, quick=quick))
    return (
        f"plan: {len(KINDS)} devices in {ROUNDS} rounds, the loss-free rate in the last: about {said(total_s)};"
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
    tests: dict[OverloadName, tuple[OverloadFinding, dict[int, Trial]]] = {}
    sizes = []
    for one, start in zip(rounds, starts, strict=True):
        sizes += [replace(size, trials=tuple(start + place for place in size.trials)) for size in one.sizes]
        for test in one.overload:
            _, all_trials = tests.setdefault(test.name, (test, {}))
            all_trials |= {start + place: trials[start + place] for place in test.trials}
    return replace(
        last,
        started=first.started,
        took_s=sum(one.took_s for one in rounds),
        settings=replace(last.settings, overload_repeats=len(rounds)),
        overload=tuple(
            overload_finding(name, test.sizes_bytes, test.asked, Headers(), found)
            for name, (test, found) in tests.items()
        ),
        sizes=tuple(sizes),
        trials=tuple(trials),
        refusals=distinct([refusal for one in rounds for refusal in one.refusals]),
        doubts=tuple(dict.fromkeys(doubt for one in rounds for doubt in one.doubts)),
    )


_TRIAL_BESIDE_S = 0.4
_SET_UP_S = 5.0
_IPERF3_S = 8.0


class _Within:
    """Shows the progress of one device as a part of the whole."""

    def __init__(self, progress: Progress, where: str, left_s: float) -> None:
        self._progress, self._where = progress, where
        self._end_s = time.monotonic() + left_s

    def note(self, text: str) -> None:
        """Leave the plan of a part out."""

    def step(self, text: str, left_s: float) -> None:
        """Say where the whole is."""
        del left_s
        self._progress.go_on(f"{self._where}: {text}", max(self._end_s - time.monotonic(), 0.0))

    go_on = step
