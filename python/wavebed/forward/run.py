"""A forwarding test from its specification to its folder: the plan, the parts, other tools, the record and the page."""

from __future__ import annotations

import signal
import threading
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from wavebed.beneath import remove_tree
from wavebed.errors import WavebedError
from wavebed.experiment.machine_lock import measuring
from wavebed.forward.cpu import open_meter
from wavebed.forward.cpu.log import CpuLog
from wavebed.forward.model import Refusal, Trial, blank_trial
from wavebed.forward.plan import IPERF3_BESIDE_S, whole_s
from wavebed.forward.record import ForwardRecord
from wavebed.forward.session import Setup, set_up
from wavebed.forward.suite import About, run_suite
from wavebed.forward.summary import summary_text
from wavebed.forward.tell import Teller
from wavebed.forward.tester import Tester
from wavebed.forward.trials import distinct
from wavebed.forward.verdicts import verdict_of
from wavebed.forward.write import KEPT, rewrite_forward, write_forward
from wavebed.store.disk import check_new
from wavebed.store.journal import Journal, RunBegun, RunEnded, RunInterrupted, StepBegun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from types import FrameType

    from wavebed.config.data import Json
    from wavebed.experiment.machine_lock import Neighbours
    from wavebed.forward.command import ForwardSpec
    from wavebed.forward.findings import DeviceResult
    from wavebed.forward.model import Ceiling
    from wavebed.forward.tell import Progress
    from wavebed.store.journal import Event

__all__ = ["Outcome", "measure", "run_spec"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a test, and its folder.

    Parameters
    ----------
    interrupted : bool
        By Ctrl-C; the trials that had ended were kept.
    """

    result: DeviceResult
    folder: Path
    page: Path | None
    interrupted: bool

    @property
    def measured(self) -> bool:
        """Whether there is a number at all."""
        return verdict_of(self.result) != "invalid"

    def as_text(self) -> str:
        """Return tables for a terminal, and where the rest is."""
        lines = [summary_text(self.result), "", f"results: {self.folder}"]
        if self.page is not None:
            lines.append(f"report: {self.page}")
        return "\n".join(lines)

    def as_json(self) -> dict[str, Json]:
        """Return the record without its trials, as one object."""
        return {
            "verdict": verdict_of(self.result),
            "folder": str(self.folder),
            "report": None if self.page is None else str(self.page),
            "result": replace(self.result, trials=()).to_plain(),
        }


class Watched:
    """A tester that ends the test at Ctrl-C instead of losing it, and hands each trial to the log of the processor.

    A trial is broken off at once. Anything else is short: it ends, and no trial follows. From `listen` on, Ctrl-C does
    nothing else, so that a second one does not lose the files that are being written.
    """

    def __init__(
        self, tester: Tester, cpu_log: CpuLog | None, overruns: Callable[[], int] | None, neighbours: Neighbours
    ) -> None:
        self._tester, self._cpu_log, self._overruns, self._neighbours = tester, cpu_log, overruns, neighbours
        self._breakable = False
        self.interrupted = False

    def listen(self) -> None:
        """Take Ctrl-C from now on."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, self._hear)

    def _hear(self, _signal: int, _frame: FrameType | None) -> None:
        self.interrupted = True
        if self._breakable:
            self._breakable = False
            raise KeyboardInterrupt

    @contextmanager
    def breakable(self) -> Iterator[None]:
        """Have Ctrl-C break off the block."""
        try:
            self._breakable = not self.interrupted
            yield
        except KeyboardInterrupt:
            self.interrupted = True
        finally:
            self._breakable = False

    def calibrate(self, sizes_bytes: Sequence[int]) -> Ceiling:
        """Measure how fast the tester is by itself."""
        return self._tester.calibrate(sizes_bytes)

    def trial(
        self, purpose: str, sizes_bytes: Sequence[int], offered_pps: float | None, duration_s: float, sample: int = 0
    ) -> Trial:
        """Make one trial; one that is interrupted is refused, and is the last."""
        trial, over = None, 0
        self._neighbours.look()
        with self.breakable():
            if not self.interrupted:
                before = self._overruns() if self._overruns else 0
                trial = self._tester.trial(purpose, sizes_bytes, offered_pps, duration_s, sample)
                over = self._overruns() - before if self._overruns else 0
        if trial is None or self.interrupted:
            return _interrupted(purpose, tuple(sizes_bytes), offered_pps, duration_s)
        if over > 0:
            reason = f"the ring of the receiving port was full {over:,} times: the tester lost frames, not the device"
            trial = replace(
                trial, refusals=(*trial.refusals, Refusal("tester_limit", reason, "leave the machine alone"))
            )
        if self._cpu_log is not None:
            self._cpu_log.hear(trial)
        return trial


def run_spec(spec: ForwardSpec, folder: Path, command_line: Sequence[str], progress: Progress) -> Outcome:
    """Run a test and write its folder.

    Raises
    ------
    UserError
        If the folder holds something, or an option does not fit what is there.
    MachineError
        If this machine cannot do it.
    WavebedError
        If the device or a port cannot be reached.
    """
    check_new(folder)
    raw: dict[str, bytes] = {}
    kept: DeviceResult | None = None

    def keep(result: DeviceResult) -> None:
        nonlocal kept
        first = kept is None
        write = write_forward if first else rewrite_forward
        write(folder, ForwardRecord(result, tuple(command_line), _versions(raw)), raw)
        kept = result
        if first:
            journal.open(folder)

    try:
        with Journal(Teller(progress), kept=KEPT) as journal:
            journal.emit(RunBegun(kind="forward", title=spec.name))
            with set_up(spec) as setup:
                result, interrupted = measure(spec, setup, journal.emit, raw, lambda found: keep(_unfinished(found)))
            keep(result)
            parts = sum(part.took_s is not None for part in result.plan)
            journal.emit(RunInterrupted(reason="by the user") if interrupted else RunEnded(trials=parts))
    except BaseException:
        if kept is not None and not kept.trials:
            remove_tree(folder)
        raise
    return Outcome(result, folder, _page(folder), interrupted)


def _unfinished(result: DeviceResult) -> DeviceResult:
    """Return the record of a test that gets no further."""
    refusal = Refusal(
        "interrupted", "the test did not reach its end: only the parts that had ended are here", "run it again"
    )
    return replace(result, refusals=distinct((*result.refusals, refusal)))


def measure(
    spec: ForwardSpec,
    setup: Setup,
    emit: Callable[[Event], None],
    raw: dict[str, bytes],
    keep: Callable[[DeviceResult], None] = lambda _: None,
) -> tuple[DeviceResult, bool]:
    """Put the device through the whole test.

    Parameters
    ----------
    emit : callable
        Told of each event.
    raw : dict
        The outputs of other tools are put in here, by the name of a file.
    keep : callable
        Given the findings so far, before the first trial and after each part.

    Returns
    -------
    DeviceResult
        The findings.
    bool
        Whether it was interrupted.
    """
    meter = None if spec.cpu is None else open_meter(spec.cpu, setup.cores)
    met: dict[str, None] = {}
    with nullcontext() if meter is None else closing(meter), measuring() as neighbours:
        cpu_log = None if meter is None else CpuLog(meter)
        if cpu_log is not None:
            cpu_log.try_out()
        emit(StepBegun(step="looking for the device", left_s=whole_s(spec.settings)))
        tester = Tester(setup.tx, setup.rx, setup.layout, sender=spec.sender, cpu=cpu_log)
        watched = Watched(tester, cpu_log, setup.overruns, neighbours)
        about = _about(spec, setup, tester)
        watched.listen()

        def doubted(found: DeviceResult) -> DeviceResult:
            alone = neighbours.check()
            if not alone.holds:
                met[alone.evidence] = None
            return replace(found, doubts=(*found.doubts, *setup.doubts, *(cpu_log.doubts if cpu_log else ()), *met))

        result = doubted(run_suite(watched, spec.settings, about, emit, keep=lambda found: keep(doubted(found))))
        if spec.beside and not result.refusals:
            with watched.breakable():
                result = _beside(setup, result, emit, raw)
    return result, watched.interrupted


def _about(spec: ForwardSpec, setup: Setup, tester: Tester) -> About:
    from wavebed.result.machine import machine

    ready = tester.preparation
    sizes = spec.settings.sizes_bytes
    return About(
        device=spec.name,
        kind=setup.kind,
        transmitter=ready.tx,
        receiver=ready.rx,
        sender=ready.sender,
        receiver_kind=ready.receiver,
        frames=setup.layout.frames(sizes, ready.tx.mac, ready.next_hop_mac),
        probed=tuple(setup.tx.probe()[0]),
        machine=machine(),
    )


def _beside(setup: Setup, result: DeviceResult, emit: Callable[[Event], None], raw: dict[str, bytes]) -> DeviceResult:
    """Run the study's commands by iperf3 through the same device."""
    from wavebed.forward.iperf3 import STUDY_TESTS, run_study_command

    assert setup.hosts is not None, "only devices of ours have hosts"
    # The hosts answer for themselves now.
    for port in (setup.tx, setup.rx):
        port.answer(None)
        port.release()
    client, server = setup.hosts()
    seconds = max(2, round(result.settings.overload_trial_s))
    told: list[dict[str, Json]] = []
    for test in STUDY_TESTS:
        left_s = (len(STUDY_TESTS) - len(told)) * (seconds + IPERF3_BESIDE_S)
        emit(StepBegun(step=f"iperf3, {test} test", left_s=left_s))
        try:
            run = run_study_command(test, client, server, setup.rx.counters, seconds)
        except WavebedError as error:
            told.append({"test": test, "failed": str(error), "doubt": str(error)})
            continue
        raw[f"iperf3-{test}.json"] = run.output.encode()
        told.append(run.for_record())
    return replace(result, beside={**result.beside, "iperf3": told})


def _page(folder: Path) -> Path | None:
    from wavebed.forward.report.build import write_forward_report

    return write_forward_report(folder)


def _versions(raw: dict[str, bytes]) -> dict[str, str]:
    from wavebed.result.machine import versions

    return versions(["iperf3"] if raw else [])


def _interrupted(purpose: str, sizes: tuple[int, ...], offered_pps: float | None, duration_s: float) -> Trial:
    refusal = Refusal("interrupted", "the test was interrupted by the user", "run it again")
    return replace(blank_trial(purpose, sizes, offered_pps, duration_s), refusals=(refusal,))
