"""A forwarding test from its specification to its folder: the plan, the parts, other tools, the record and the page."""

from __future__ import annotations

import ipaddress
import signal
import threading
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from wavebed.beneath import remove_tree
from wavebed.config.problems import Problem
from wavebed.errors import WavebedError
from wavebed.experiment.estimate import duration_text
from wavebed.experiment.machine_lock import measuring
from wavebed.forward.cpu import CpuLog
from wavebed.forward.cpu_remote import open_meter
from wavebed.forward.devices import read_device
from wavebed.forward.folder import KEPT, ForwardRecord, rewrite_forward, write_forward
from wavebed.forward.frames import Layout, Tags
from wavebed.forward.iperf3 import Iperf3Host
from wavebed.forward.model import ForwardTrial, Refusal, ValueRange, blank_trial
from wavebed.forward.plan import IPERF3_BESIDE_S, whole_s
from wavebed.forward.port import Port
from wavebed.forward.result import verdict_of
from wavebed.forward.settings import EmulatedDevice, ForwardSpec, PeerPorts, RealPorts
from wavebed.forward.setup import EmulatedSetup
from wavebed.forward.suite import About, run_suite
from wavebed.forward.summary import summary_text
from wavebed.forward.tester import Tester
from wavebed.forward.trials import distinct
from wavebed.store.disk import check_new
from wavebed.store.journal import (
    Event,
    Journal,
    LoadMeasured,
    RunBegun,
    RunEnded,
    RunInterrupted,
    RunPlanned,
    StepBegun,
    TrialBegun,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from pathlib import Path
    from types import FrameType

    from wavebed.config.data import Json
    from wavebed.experiment.machine_lock import Neighbours
    from wavebed.forward.devices import EmulatedDut
    from wavebed.forward.model import Ceiling
    from wavebed.forward.result import DeviceResult
    from wavebed.store.journal import PlannedPart


@dataclass(frozen=True, slots=True)
class ForwardOutcome:
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


def run_spec(spec: ForwardSpec, folder: Path, command_line: Sequence[str], progress: ForwardProgress) -> ForwardOutcome:
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
    return ForwardOutcome(result, folder, _page(folder), interrupted)


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
    ) -> ForwardTrial:
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


def _interrupted(purpose: str, sizes: tuple[int, ...], offered_pps: float | None, duration_s: float) -> ForwardTrial:
    refusal = Refusal("interrupted", "the test was interrupted by the user", "run it again")
    return replace(blank_trial(purpose, sizes, offered_pps, duration_s), refusals=(refusal,))


# RFC 2544, appendix C.2.2, and RFC 5180, section 8, set these addresses aside for tests of devices.
TEST_NETWORKS = {4: ("198.18.0.2", "198.18.1.2"), 6: ("2001:2::2", "2001:2:0:1::2")}


TEST_HOSTS = 16


@dataclass(frozen=True, slots=True)
class Setup:
    """The ports of a test and the device between them.

    Parameters
    ----------
    kind : str
        Of the device.
    cores : collection of int, optional
        The device's processors, if it is on this machine.
    hosts : callable, optional
        Makes hosts of the sending and the receiving port, where other tools can run.
    overruns : callable, optional
        Counts frames that the tester itself lost behind the device.
    """

    tx: Port
    rx: Port
    layout: Layout
    kind: str
    cores: Collection[int] | None = None
    hosts: Callable[[], tuple[Iperf3Host, Iperf3Host]] | None = None
    overruns: Callable[[], int] | None = None
    doubts: tuple[str, ...] = ()


@contextmanager
def set_up(spec: ForwardSpec) -> Iterator[Setup]:
    """Open the ports, and make the device if it is to be made; all is gone afterwards."""
    if isinstance(spec.target, EmulatedDevice):
        with emulated_device(spec, spec.target) as setup:
            yield setup
        return
    with ExitStack() as stack:
        tx = stack.enter_context(Port.local(spec.target.tx))
        rx = stack.enter_context(_receiving(spec.target))
        yield Setup(tx, rx, _layout(spec, spec.target.tx, tx, rx), "external")


def _receiving(target: RealPorts | PeerPorts) -> Port:
    if isinstance(target, RealPorts):
        return Port.local(target.rx)
    return Port.remote(target.host, target.port, target.rx, target.token)


def _layout(spec: ForwardSpec, interface: str, tx: Port, rx: Port) -> Layout:
    """Return the test frames by the specification, and by the ports' own addresses where it names none."""
    version = 6 if spec.settings.headers.ipv6 else 4
    sources = spec.sources or _own(tx, version)
    if sources is None:
        sources = ValueRange(TEST_NETWORKS[version][0], 1)
        if spec.gateway is not None and not _near(spec.gateway, str(sources.first), version):
            raise Problem(
                f"is missing: {interface} has no IPv{version} address of its own, and {sources.first} is not a"
                f" neighbour of {spec.gateway}: write an address of the device's network",
                "--sources",
            )
    destinations = spec.destinations or _own(rx, version) or ValueRange(TEST_NETWORKS[version][1], TEST_HOSTS)
    tags = Tags(spec.vlan, spec.pppoe_session)
    return Layout(sources, destinations, next_hop=spec.gateway, flows=spec.flows, tags=tags)


def _own(port: Port, version: int) -> ValueRange | None:
    """Return the first address of a port's interface that others can reach."""
    for text in port.describe().addresses:
        address = ipaddress.ip_interface(text)
        if address.version == version and not address.ip.is_link_local and not address.ip.is_loopback:
            return ValueRange(str(address.ip), 1)
    return None


def _near(one: str, other: str, version: int) -> bool:
    network = ipaddress.ip_network(f"{other}/{24 if version == 4 else 64}", strict=False)
    return ipaddress.ip_address(one) in network


PREFIX_BITS = 24


@contextmanager
def emulated_device(spec: ForwardSpec, target: EmulatedDevice) -> Iterator[Setup]:
    """Make the setup, the device and the ports, and remove them afterwards.

    Raises
    ------
    MachineError
        If this machine cannot make them.
    """
    device = read_device(target.text)
    with ExitStack() as stack:
        setup = stack.enter_context(EmulatedSetup())
        device.set_up(setup)
        stack.callback(device.tear_down)
        tx, rx = (
            stack.enter_context(Port.local(port.interface, netns=port.namespace, core=setup.tester_core))
            for port in (setup.tx, setup.rx)
        )
        yield Setup(
            tx,
            rx,
            device.layout(6 if spec.settings.headers.ipv6 else 4, spec.flows),
            device.name,
            cores=None if setup.device_core is None else [setup.device_core],
            hosts=lambda: _hosts(setup, device),
            overruns=setup.receiver_overruns,
            doubts=tuple(setup.doubts),
        )


def _hosts(setup: EmulatedSetup, device: EmulatedDut) -> tuple[Iperf3Host, Iperf3Host]:
    """Give the tester's ports the addresses that it answered for until now, so that programs can use them."""
    layout = device.layout(4)
    hosts = []
    for port, span, hop in (
        (setup.tx, layout.sources, layout.next_hop),
        (setup.rx, layout.destinations, layout.back_hop),
    ):
        lines = [f"address add {span.first}/{PREFIX_BITS} dev {port.interface}"]
        lines += [f"route add default via {hop} dev {port.interface}"] if hop is not None else []
        setup.batch(lines, port.namespace)
        hosts.append(Iperf3Host(port.namespace, str(span.first), setup.tester_core))
    return hosts[0], hosts[1]


class ForwardProgress(Protocol):
    """Shows the progress of the test; `wavebed.terminal.StepProgress` is the real one."""

    def note(self, text: str) -> None:
        """Say a line that stays."""

    def step(self, text: str, left_s: float) -> None:
        """Say that a new step begins, and how long all that follows will take."""

    def go_on(self, text: str, left_s: float) -> None:
        """Take note of one of many small steps."""


class Teller:
    """Tells its progress the events that it hears."""

    def __init__(self, progress: ForwardProgress) -> None:
        self._progress = progress
        self._text = ""
        self._end_s = 0.0
        """The end of the test, on the clock of the events."""

    def __call__(self, event: Event) -> None:
        """Hear an event."""
        match event:
            case RunPlanned():
                parts = ", ".join(_part(part) for part in event.parts)
                at_most_s = event.expected_s if event.at_most_s is None else event.at_most_s
                self._progress.note(
                    f"plan: about {duration_text(event.expected_s)}, at most {duration_text(at_most_s)}: {parts}"
                )
            case StepBegun():
                self._begin(event.step, event.left_s, event.since_s)
            case TrialBegun():
                self._begin(f"part {event.number} of {event.trials}, {event.trial}", event.left_s, event.since_s)
            case LoadMeasured():
                rate = "as fast as it goes" if event.offered_pps is None else f"{event.offered_pps:,.0f} pps"
                outcome = "refused" if event.refused else f"{event.lost:,} lost"
                if event.left_s is not None:
                    self._end_s = event.since_s + event.left_s
                self._progress.go_on(f"{self._text}: {rate}, {outcome}", max(self._end_s - event.since_s, 0.0))
            case _:
                pass

    def _begin(self, text: str, left_s: float, since_s: float) -> None:
        self._text, self._end_s = text, since_s + left_s
        self._progress.step(text, left_s)


def _part(part: PlannedPart) -> str:
    return f"{part.trial} ({duration_text(part.expected_s)})"
