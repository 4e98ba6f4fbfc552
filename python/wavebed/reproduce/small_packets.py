"""The study small-packets, on five datapaths of this machine.

Yan and Li (CETC 7th Institute), "Testing the small-packet forwarding of WLAN devices": throughput by iperf3 in frames
of 1518 bytes, and the rate of frames of 64 bytes, for five Wi-Fi routers. The routers are not ours. The question is:
does the second test separate devices that the first does not?

A test of a device is stored whole or made again. Its parts cannot be resumed one by one: the loads of a search lie on a
grid below the highest load, which is calibrated anew with every new device, and loads that were decided by trials on
another device, in another state, decide nothing.
"""

from __future__ import annotations

import gzip
import itertools
import json
import shutil
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple, cast

import msgspec
from msgspec.structs import replace

from wavebed.beneath import guard, remove, remove_tree
from wavebed.errors import UserError
from wavebed.experiment.estimate import duration_text, in_blocks
from wavebed.experiment.inputs import accepted_changes, inputs_now
from wavebed.foreign import MAX_BYTES, open_foreign, read_json
from wavebed.forward.estimate import UNKNOWN, Evidence
from wavebed.forward.folder import RAW_FOLDER, ForwardRecord, read_forward, write_forward
from wavebed.forward.frames import Headers
from wavebed.forward.iperf3 import STUDY_TESTS
from wavebed.forward.model import PlainValue, from_plain, to_plain
from wavebed.forward.parts import overload_finding
from wavebed.forward.plan import IPERF3_BESIDE_S, whole_s
from wavebed.forward.result import refused_parts, verdict_of
from wavebed.forward.run import Teller, measure, set_up
from wavebed.forward.settings import FULL_GOALS, QUICK_GOALS, ForwardOptions, ForwardSpec, parse_options
from wavebed.forward.trials import distinct
from wavebed.result.machine import versions
from wavebed.result.names import INCOMPLETE, RUN_FILE, TRIALS_FOLDER
from wavebed.secret import redacted_line
from wavebed.store.disk import claimed, make_new
from wavebed.store.folder import PlannedTrial, ReadAttempt, RunFolder, TrialForm
from wavebed.store.journal import CheckFailed, Journal, LoadMeasured, RunBegun, RunInterrupted

if TYPE_CHECKING:
    import io
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from wavebed.forward.model import ForwardTrial
    from wavebed.forward.parts import OverloadFinding, OverloadName
    from wavebed.forward.result import DeviceResult
    from wavebed.forward.run import ForwardProgress
    from wavebed.store.journal import Event

STUDY = "small-packets"
BEGUN_FILE = "reproduction.json"
_BEGUN = RunBegun(kind="reproduction", title=STUDY)


class Asked(PlainValue, frozen=True):
    """What was asked for; the order and the tests follow from it."""

    quick: bool
    seed: int
    kinds: tuple[str, ...]
    rounds: int


class BegunReproduction(PlainValue, frozen=True):
    """The file of a reproduction that has begun.

    Parameters
    ----------
    inputs : mapping of str to str
        Tests, programs, kernel and machine of the last start.
    changed : tuple of tuple of str
        The inputs that changed at each resume that accepted it, a line each.
    """

    study: str
    asked: Asked
    started: str
    command_line: tuple[str, ...]
    inputs: dict[str, str]
    changed: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class PlannedTest:
    """The test of one device in one round: a trial of the folder.

    Parameters
    ----------
    number, round : int
        Its place in the order, and the place of its round, from 1.
    """

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

    @property
    def parts(self) -> str:
        """The parts of the test; tests of the same parts take about as long."""
        return ",".join(self.spec.settings.parts)


def has_begun(folder: Path) -> bool:
    """Return whether a folder holds a reproduction; what one left that was killed while it began is removed."""
    guard(folder)
    if folder.is_dir() and not (folder / BEGUN_FILE).exists():
        for file in folder.glob(".wavebed-*"):
            remove(file)
        return any(folder.iterdir())
    return folder.exists()


def read_begun(folder: Path) -> BegunReproduction:
    """Return what a reproduction was begun with.

    Raises
    ------
    UserError
        If the folder has none.
    """
    guard(folder)
    file = folder / BEGUN_FILE
    if not file.exists():
        raise UserError(f"{folder}: holds no reproduction that can be resumed: leave --resume out")
    try:
        return from_plain(BegunReproduction, read_json(file, "name a folder of wavebed reproduce"))
    except UserError as error:
        raise UserError(f"{file}: {error}: name a folder of wavebed reproduce") from None


def begin(folder: RunFolder, asked: Asked, inputs: Mapping[str, str], command_line: Sequence[str]) -> None:
    """Begin a new, empty folder.

    Raises
    ------
    WavebedError
        If it cannot be written.
    """
    started = datetime.now(UTC).isoformat(timespec="seconds")
    begun = BegunReproduction(STUDY, asked, started, tuple(redacted_line(command_line)), dict(inputs))
    folder.begin(_BEGUN, {BEGUN_FILE: _text(begun)})


def go_on(folder: RunFolder, asked: Asked, inputs: Mapping[str, str], *, accept_changes: bool = False) -> None:
    """Go on in a folder whose lock is held; with accepted changes of inputs the round that has not ended begins again.

    Raises
    ------
    UserError
        If it is no reproduction, something else was asked for, or inputs changed and that is not accepted.
    WavebedError
        If it cannot be written.
    """
    begun = read_begun(folder.path)
    if begun.asked != asked:
        raise UserError(f"{folder.path}: something else was asked for there: resume it with the same options")
    changed = accepted_changes(folder.path, begun.inputs, inputs, accept=accept_changes)
    folder.resume(_BEGUN, changed)
    if changed:
        begun = replace(begun, inputs=dict(inputs), changed=(*begun.changed, changed))
        folder.write({BEGUN_FILE: _text(begun)})


def run_folder(path: Path, journal: Journal, tests: Sequence[PlannedTest]) -> RunFolder:
    """Return the folder whose trials are tests of devices; its rounds are the blocks."""
    planned = [
        PlannedTrial(test.number, test.round, test.kind, None, test.expected_s, kind=test.parts) for test in tests
    ]
    return RunFolder(path, planned, journal, form=TrialForm(RUN_FILE, _read_attempt))


def _read_attempt(folder: Path) -> ReadAttempt:
    result = read_forward(folder).result
    reasons = [refusal.reason for refusal in refused_parts(result)]
    return ReadAttempt(folder.name, verdict_of(result), result.took_s, reasons)


def stored_result(folder: Path, trial: str) -> DeviceResult:
    """Return the result of a stored trial.

    Raises
    ------
    UserError
        If it is damaged.
    """
    return read_forward(folder / TRIALS_FOLDER / trial).result


def stored_raw(folder: Path, trial: str) -> dict[str, bytes]:
    """Return the outputs of other tools of a stored trial, by the names of their files."""
    files = sorted((folder / TRIALS_FOLDER / trial / RAW_FOLDER).glob("*.json.gz"))
    return {file.name.removesuffix(".gz"): _unpacked(file) for file in files}


def _unpacked(file: Path) -> bytes:
    with open_foreign(file, INCOMPLETE) as stream, gzip.open(cast("io.BufferedReader", stream)) as packed:
        try:
            data = packed.read(MAX_BYTES + 1)
        except (OSError, EOFError) as error:
            raise UserError(f"{file}: cannot be unpacked ({error}): {INCOMPLETE}") from None
    if len(data) > MAX_BYTES:
        raise UserError(f"{file}: is larger than {MAX_BYTES} bytes: {INCOMPLETE}")
    return data


def _text(begun: BegunReproduction) -> str:
    return json.dumps(to_plain(begun), allow_nan=False, ensure_ascii=False, indent=1) + "\n"


KINDS = ("bridge", "routing", "nat", "xdp", "relay")
ROUNDS = 6
"""The fewest with which a 95 % interval of a median exists."""
SOURCE = "Yan and Li, CETC 7th Institute: Testing the small-packet forwarding of WLAN devices, tables 1 and 2"


class PublishedDevice(NamedTuple):
    """A row of the study's second table."""

    device: str
    processor: str
    throughput_mbps: float
    throughput_rank: int
    small_mpps: float
    small_rank: int


PUBLISHED = (
    PublishedDevice("A", "BCM4908", 952, 2, 1.43, 3),
    PublishedDevice("B", "EN7561", 945, 5, 1.47, 2),
    PublishedDevice("C", "IP5018", 954, 1, 0.91, 4),
    PublishedDevice("D", "BCM4708", 947, 4, 0.13, 5),
    PublishedDevice("E", "MT7622B", 949, 3, 1.48, 1),
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
    progress: ForwardProgress,
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
    tests: Sequence[PlannedTest], folder: RunFolder, progress: ForwardProgress, command_line: tuple[str, ...]
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
    test: PlannedTest, folder: RunFolder, progress: ForwardProgress, command_line: tuple[str, ...]
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
        folder.keep(partial, test.number)
    reasons = [refusal.reason for refusal in refused_parts(result)]
    line = folder.line(test.number, verdict_of(result), reasons)
    folder.add(line, test.number, time.monotonic() - began_s)
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
    trials: list[ForwardTrial] = []
    for one in rounds:
        starts.append(len(trials))
        trials += one.trials
    tests: dict[OverloadName, tuple[OverloadFinding, dict[int, ForwardTrial]]] = {}
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
    """Shows the progress of one device as a part of the whole, which takes `after_s` seconds more after this device."""

    def __init__(self, progress: ForwardProgress, where: str, after_s: float) -> None:
        self._progress, self._where, self._after_s = progress, where, after_s

    def note(self, text: str) -> None:
        """Leave the plan of a part out."""

    def step(self, text: str, left_s: float) -> None:
        """Say where the whole is."""
        self._progress.go_on(f"{self._where}: {text}", left_s + self._after_s)

    go_on = step
