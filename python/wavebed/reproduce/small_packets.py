"""The study small-packets, on five datapaths of this machine.

Yan and Li (CETC 7th Institute), "Testing the small-packet forwarding of WLAN devices": throughput by iperf3 in frames
of 1518 bytes, and the rate of frames of 64 bytes, for five Wi-Fi routers. The routers are not ours. The question is:
does the second test separate devices that the first does not?
"""

from __future__ import annotations

import itertools
import shutil
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec.structs import replace

from wavebed.beneath import remove_tree
from wavebed.experiment.estimate import duration_text
from wavebed.experiment.inputs import inputs_now
from wavebed.experiment.order import in_blocks
from wavebed.forward.estimate import UNKNOWN, Evidence
from wavebed.forward.folder import ForwardRecord, write_forward
from wavebed.forward.frames import Headers
from wavebed.forward.iperf3 import STUDY_TESTS
from wavebed.forward.parts import overload_finding
from wavebed.forward.plan import IPERF3_BESIDE_S, whole_s
from wavebed.forward.result import refused_parts, verdict_of
from wavebed.forward.run import Teller, measure, set_up
from wavebed.forward.settings import FULL_GOALS, QUICK_GOALS, ForwardOptions, ForwardSpec, parse_options
from wavebed.forward.trials import distinct
from wavebed.reproduce.small_packets_folder import (
    Asked,
    PlannedTest,
    begin,
    go_on,
    has_begun,
    read_begun,
    run_folder,
    stored_raw,
    stored_result,
)
from wavebed.result.machine import versions
from wavebed.result.names import RUN_FILE, TRIALS_FOLDER
from wavebed.store.disk import claimed, make_new
from wavebed.store.journal import CheckFailed, Journal, LoadMeasured, RunInterrupted

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from wavebed.forward.model import Trial
    from wavebed.forward.parts import OverloadFinding, OverloadName
    from wavebed.forward.result import DeviceResult
    from wavebed.forward.run import Progress
    from wavebed.store.folder import RunFolder
    from wavebed.store.journal import Event

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
    resume: bool = False,
    accept_changes: bool = False,
) -> Reproduction:
    """Test all devices in all rounds; inside a sandbox. Each test is a trial of the folder, stored when it has ended.

    Parameters
    ----------
    resume : bool
        Make only the trials that the folder has not stored yet.
    accept_changes : bool
        Resume although programs, the kernel or the machine changed; the round that has not ended begins again.

    Raises
    ------
    UserError
        If the folder holds something, or cannot be resumed.
    MachineError, WavebedError
        If a device cannot be made, a port fails, or the results cannot be written.
    """
    asked = Asked(quick, seed, tuple(kinds), rounds)
    blocks = in_blocks(kinds, rounds, seed)
    tests = _planned(blocks, quick=quick)
    resume = resume and has_begun(folder)
    if resume:
        read_begun(folder)
    else:
        make_new(folder)
    try:
        with claimed(folder), Journal() as journal:
            kept = run_folder(folder, journal, tests)
            inputs = inputs_now(["iperf3"], tests=msgspec.json.encode([test.spec for test in tests]))
            if resume:
                go_on(kept, asked, inputs, accept_changes=accept_changes)
                stored = len(list(kept.ledger.stored()))
                left_s = kept.trials.left_s if stored < len(tests) else 0.0
                progress.note(f"{stored} of {len(tests)} tests are stored; about {duration_text(left_s)} left")
            else:
                begin(kept, asked, inputs, command_line)
            with kept.guarded():
                interrupted = _all_left(tests, kept, progress, tuple(command_line))
            if interrupted:
                journal.emit(RunInterrupted(reason="by the user"))
            else:
                kept.end()
    finally:
        if not resume and not any((folder / TRIALS_FOLDER).glob(f"*/{RUN_FILE}")):
            remove_tree(folder)
    found, raw = _stored(kept, tests)
    changed = [line for lines in kept.ledger.changes for line in lines]
    doubts = tuple(f"rounds were made with other inputs: {line}" for line in changed)
    results = tuple(merge(found[kind], doubts) for kind in kinds) if len(found) == len(kinds) else ()
    return Reproduction(results, blocks, raw, interrupted)


def _all_left(
    tests: Sequence[PlannedTest], folder: RunFolder, progress: Progress, command_line: tuple[str, ...]
) -> bool:
    """Make the tests that are not stored, in order; return whether it was interrupted."""
    evidence = UNKNOWN
    stored = {one.number for one in folder.ledger.stored()}
    for number, of_round in itertools.groupby(tests, key=lambda test: test.round):
        if number in folder.ledger.ended:
            continue
        for test in of_round:
            if test.number in stored:
                continue
            result, interrupted = _one(test, folder, progress, command_line)
            if interrupted:
                return True
            evidence += Evidence.of(result.trials)
            for later in tests[test.number :]:
                folder.trials.expect(later.number, _expected_s(later.spec, evidence))
        folder.end_block(number)
    return False


def _stored(
    folder: RunFolder, tests: Sequence[PlannedTest]
) -> tuple[dict[str, list[DeviceResult]], dict[str, dict[str, bytes]]]:
    """Return the results of the stored trials and the outputs of other tools, by device."""
    found: dict[str, list[DeviceResult]] = {}
    raw: dict[str, dict[str, bytes]] = {}
    for one in folder.ledger.stored():
        test = tests[one.number - 1]
        found.setdefault(test.kind, []).append(stored_result(folder.path, test.name))
        raw.setdefault(test.kind, {}).update(stored_raw(folder.path, test.name))
    return found, raw


def _planned(blocks: Sequence[Sequence[str]], *, quick: bool) -> list[PlannedTest]:
    tests: list[PlannedTest] = []
    for number, block in enumerate(blocks, 1):
        last = number == len(blocks)
        for kind in block:
            spec = spec_of(kind, quick=quick, last=last)
            tests.append(PlannedTest(len(tests) + 1, kind, number, len(blocks), spec, _expected_s(spec)))
    return tests


def _expected_s(spec: ForwardSpec, evidence: Evidence = UNKNOWN) -> float:
    """Return the seconds that one test is expected to take, with its device."""
    iperf3_s = len(STUDY_TESTS) * (spec.settings.overload_trial_s + IPERF3_BESIDE_S) if spec.beside else 0.0
    return _SET_UP_S + whole_s(spec.settings, evidence) + iperf3_s


def _one(
    test: PlannedTest, folder: RunFolder, progress: Progress, command_line: tuple[str, ...]
) -> tuple[DeviceResult, bool]:
    """Test one device in one round, and store the result unless it was interrupted."""
    began_s = time.monotonic()
    after_s = folder.trials.after_s(test.number)
    teller = Teller(_Within(progress, f"round {test.round} of {test.rounds}, {test.kind}", after_s))
    raw: dict[str, bytes] = {}

    def heard(event: Event) -> None:
        teller(event)
        if isinstance(event, LoadMeasured | CheckFailed):
            folder.journal.emit(msgspec.structs.replace(event, trial=test.name))

    with folder.begun(test.number) as partial:
        with set_up(test.spec) as setup:
            result, interrupted = measure(test.spec, setup, heard, raw)
        if interrupted:
            return result, True
        write_forward(partial, ForwardRecord(result, command_line, versions(["iperf3"] if raw else [])), raw)
        reasons = [refusal.reason for refusal in refused_parts(result)]
        folder.keep(partial, test.number, verdict_of(result), time.monotonic() - began_s, reasons)
    return result, False


def said_plan(*, quick: bool) -> str:
    """Return the plan and its time, as text."""
    total_s = sum(test.expected_s for test in _planned([KINDS] * ROUNDS, quick=quick))
    return (
        f"plan: {len(KINDS)} devices in {ROUNDS} rounds, the loss-free rate in the last: about"
        f" {duration_text(total_s)}; the tester offers at most 1 Gbit/s at L1 at the device's input"
    )


def merge(rounds: Sequence[DeviceResult], doubts: Sequence[str] = ()) -> DeviceResult:
    """Return the rounds of one device as one result: all trials, both tests over all of them, and further doubts."""
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
        doubts=tuple(dict.fromkeys((*(doubt for one in rounds for doubt in one.doubts), *doubts))),
    )


_SET_UP_S = 0.5
"""The device is made, the result is written, and the device is removed."""


class _Within:
    """Shows the progress of one device as a part of the whole, of which `after_s` seconds follow."""

    def __init__(self, progress: Progress, where: str, after_s: float) -> None:
        self._progress, self._where, self._after_s = progress, where, after_s

    def note(self, text: str) -> None:
        """Leave the plan of a part out."""

    def step(self, text: str, left_s: float) -> None:
        """Say where the whole is."""
        self._progress.go_on(f"{self._where}: {text}", left_s + self._after_s)

    go_on = step
