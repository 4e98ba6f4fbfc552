"""Two ports and the device between them: one trial at a time, with its checks.

The order of a trial follows RFC 2544 section 23: the device has learned its addresses, the frame counters
start at zero, interface counters are read, frames are sent, late frames are awaited, and counters are read again.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec.structs import replace

from wavebed.errors import MachineError, WavebedError
from wavebed.forward.checks import Totals, TrialEvidence, check_mtu, check_ports, check_trial, difference
from wavebed.forward.model import ForwardTrial, Refusal, blank_trial
from wavebed.forward.port import PortGoneError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from wavebed.forward.cpu import CpuLog
    from wavebed.forward.frames import Layout
    from wavebed.forward.model import Ceiling, FrameCounters, FrameSpec, InterfaceCounters, PortInfo, Sent
    from wavebed.forward.port import Port

NS = 1_000_000_000
LAST_TRIAL = 65535

RESIDUE_S = 2.0
"""Late frames are awaited for at most this time (RFC 2544 section 23)."""
LOOK_S = 0.02
CAUGHT_UP_S = 2.5
"""Some drivers bring their counters up to date only every two seconds."""
WARM_FOR_S = 15.0
"""A device that saw no frame for longer has to learn again: UDP connections are forgotten after 30 s."""
WARM_PPS = 2000.0
WARM_ROUNDS = 2
WARM_TRIES = 5
BATCH_S = 80e-6
"""Frames that leave together span no more of the intended time. Network cards hand over what came in tens of
microseconds together, too; smaller batches cost a veth device a tenth of its rate (it takes a lock for each)."""
BATCH_MOST = 64
FASTER_THAN_CEILING = 4.0
SEND_SLACK_S = 0.5


@dataclass(frozen=True, slots=True)
class Preparation:
    """The state of the ports and the path before the first frame.

    Parameters
    ----------
    refusals : tuple of Refusal
        Not empty: no trial counts, and none is run.
    one_clock : bool
        Both ports are of one machine, so that delays can be told.
    """

    tx: PortInfo
    rx: PortInfo
    refusals: tuple[Refusal, ...]
    next_hop_mac: str
    sender: str
    receiver: str
    one_clock: bool


class _NoAnswerError(WavebedError):
    """The device answered before, and does not now."""


class Tester:
    """Sends frames through a device and counts those that arrive.

    Parameters
    ----------
    tx, rx : Port
        The sending and the receiving port. They stay the caller's to close.
    layout : Layout
        Where the device is.
    sender, receiver : str, optional
        Ways to send and to receive; the best that works by default.
    cpu : CpuLog, optional
        Looks at the device's processor while frames are sent.
    quiet_s : float
        The receiver must have been quiet for this long before a trial ends, or for twice the delay that the warm-up
        showed if that is more; at most 2 s are waited.
    settle_s : float
        Pause between two trials, for the device to come to rest (RFC 2544 asks for 5 s).
    sleep : callable
        Waits; another one in tests.
    """

    def __init__(
        self,
        tx: Port,
        rx: Port,
        layout: Layout,
        *,
        sender: str | None = None,
        receiver: str | None = None,
        cpu: CpuLog | None = None,
        quiet_s: float = 0.1,
        settle_s: float = 0.1,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._tx, self._rx = tx, rx
        self._layout = layout
        self._wanted = (sender, receiver)
        self._cpu = cpu
        self._quiet_s, self._settle_s, self._sleep = quiet_s, settle_s, sleep
        self._ready: Preparation | None = None
        self._ceilings: dict[tuple[int, ...], Ceiling] = {}
        self._warm: tuple[tuple[int, ...], int] | None = None
        self._transit_s = 0.0
        self._trial = 0

    # Before the first trial

    @property
    def preparation(self) -> Preparation:
        """The result of `prepare`, which is called if it has not been."""
        return self._ready if self._ready is not None else self.prepare()

    def prepare(self) -> Preparation:
        """Look at both ports, make the emulated hosts answer, and find the device.

        Raises
        ------
        MachineError
            If a port can neither send nor receive.
        WavebedError
            If the device does not answer.
        """
        tx, rx = self._tx.describe(), self._rx.describe()
        refusals = tuple(check_ports(tx, rx))
        sender = receiver = mac = ""
        if not refusals:
            sender = _choose(self._tx, self._wanted[0], 0, "send")
            receiver = _choose(self._rx, self._wanted[1], 1, "receive")
            self._tx.answer(self._layout.sources)
            self._rx.answer(self._layout.destinations)
            mac = self._learn()
        self._ready = Preparation(
            tx=tx,
            rx=rx,
            refusals=refusals,
            next_hop_mac=mac,
            sender=sender,
            receiver=receiver,
            one_clock=tx.machine == rx.machine,
        )
        self._warm = None
        return self._ready

    def _learn(self) -> str:
        """Ask for the device's address, which shows it ours; at the receiving port too, where it has one."""
        layout = self._layout
        asked = layout.next_hop or str(layout.destinations.first)
        mac = self._tx.resolve(asked, str(layout.sources.first), vlan=layout.tags.vlan)
        if layout.back_hop is not None:
            self._rx.resolve(layout.back_hop, str(layout.destinations.first), vlan=layout.arriving.vlan)
        return mac

    def calibrate(self, sizes_bytes: Sequence[int]) -> Ceiling:
        """Return how fast the tester is by itself with frames of these sizes; measured once for each list.

        Ports of two machines are as fast as the slower one.
        """
        sizes = tuple(sizes_bytes)
        if sizes not in self._ceilings:
            ready = self.preparation
            ports = [self._tx] if ready.one_clock else [self._tx, self._rx]
            ceilings = [self._ceiling(port, sizes, ready) for port in ports]
            self._ceilings[sizes] = min(ceilings, key=lambda ceiling: ceiling.pps)
        return self._ceilings[sizes]

    def _ceiling(self, port: Port, sizes: tuple[int, ...], ready: Preparation) -> Ceiling:
        flows = self._layout.flows
        try:
            return port.ceiling(sizes, flows, sender=ready.sender or None, receiver=ready.receiver or None)
        except MachineError:
            # The pair of interfaces cannot do what the real one can, as zero copy: what it can do is slower.
            return port.ceiling(sizes, flows)

    # A trial

    def trial(
        self, purpose: str, sizes_bytes: Sequence[int], offered_pps: float | None, duration_s: float, sample: int = 0
    ) -> ForwardTrial:
        """Offer frames for a time and return the trial.

        Parameters
        ----------
        purpose : str
            Goes into the record.
        sizes_bytes : sequence of int
            Frame sizes with FCS, repeated in this order.
        offered_pps : float or None
            Frames per second; ``None``: as fast as the tester can.
        duration_s : float
            How long to send.
        sample : int
            How many frames are kept as they arrived.

        Returns
        -------
        ForwardTrial
            With refusals if its numbers would not be true; a port that goes down or vanishes is one.
        """
        sizes = tuple(sizes_bytes)
        blank = blank_trial(purpose, sizes, offered_pps, duration_s)
        try:
            ready = self.preparation
            refusals = (*ready.refusals, *check_mtu(self._layout, sizes, ready.tx, ready.rx))
            if refusals:
                return replace(blank, refusals=refusals)
            ceiling = self.calibrate(sizes)
            self._warm_up(sizes, ready)
            trial = self._measure(blank, ready, ceiling, sample)
            if trial.counters is not None and not trial.received:
                trial = self._judge_no_frames(trial, ready)
            self._sleep(self._settle_s)
        except PortGoneError as error:
            return replace(blank, refusals=(Refusal("peer", str(error), "start the port again, and the run"),))
        except WavebedError as error:
            refusal = self._why_failed(error)
            if refusal is None:
                raise
            return replace(blank, refusals=(refusal,))
        return trial

    def _why_failed(self, error: WavebedError) -> Refusal | None:
        """Return the state of the ports as the reason of an error, if it explains it."""
        ready = self._ready
        for port, before in ((self._tx, ready and ready.tx), (self._rx, ready and ready.rx)):
            try:
                info = port.describe()
            except PortGoneError as gone:
                return Refusal("peer", str(gone), "start the port again, and the run")
            except WavebedError:
                return Refusal("port_down", f"{port.name} went away: {error}", "make the interface again, and the run")
            if not info.up or not info.carrier:
                return Refusal("port_down", f"{port.name} went down: {error}", f"ip link set {port.name} up")
            if before and info.carrier_changes != before.carrier_changes:
                return Refusal("port_down", f"{port.name} was down for a while: {error}", "hold its link up; run again")
        if isinstance(error, _NoAnswerError):
            return Refusal("no_frames", f"the device does not answer any more: {error}", "look whether it still runs")
        return None

    def _measure(self, blank: ForwardTrial, ready: Preparation, ceiling: Ceiling, sample: int) -> ForwardTrial:
        offered, duration_s = blank.offered_pps, blank.duration_s
        planned = None if offered is None else max(1, round(offered * duration_s))
        count = planned if planned is not None else math.ceil(FASTER_THAN_CEILING * ceiling.pps * duration_s)
        deadline_s = duration_s if planned is None else duration_s * 1.05 + SEND_SLACK_S
        run = _Run(self._tx, self._rx, self._layout, ready, blank.sizes_bytes, self._next_trial())
        run.open(sample)
        cpu: Mapping[str, float] = {}
        if self._cpu is not None:
            self._cpu.start()
        try:
            run.send(count, offered, deadline_s)
        finally:
            if self._cpu is not None:
                cpu = self._cpu.stop()
        self._wait_for_residue(run, self._patience_s)
        evidence = self._close(run, ceiling, offered, planned)
        self._warm = (blank.sizes_bytes, self._now_ns())
        return _result(blank, evidence, cpu, one_clock=ready.one_clock)

    def _next_trial(self) -> int:
        self._trial = self._trial % LAST_TRIAL + 1
        return self._trial

    def _now_ns(self) -> int:
        return self._tx.counters().time_ns

    def _wait_for_residue(self, run: _Run, quiet_s: float) -> None:
        """Wait until all frames have come, or none has for `quiet_s`; 2 s at most."""
        last, waited_s, quiet = -1, 0.0, 0.0
        while waited_s < RESIDUE_S:
            counters = self._rx.frame_counters()
            if counters.unique >= run.sent.frames:
                return
            frames = _count(counters)
            quiet = 0.0 if frames != last else quiet + LOOK_S
            if quiet >= quiet_s:
                return
            last = frames
            self._sleep(LOOK_S)
            waited_s += LOOK_S

    def _close(self, run: _Run, ceiling: Ceiling, offered_pps: float | None, planned: int | None) -> TrialEvidence:
        """Read all counters; again for a while if the interface's counters are behind the frame counters."""
        waited_s = 0.0
        while True:
            evidence = run.evidence(ceiling, offered_pps, planned)
            refusals = check_trial(evidence)
            behind = [refusal.code for refusal in refusals] == ["unaccounted"] * len(refusals) and refusals
            if not behind or waited_s >= CAUGHT_UP_S:
                return evidence
            self._sleep(CAUGHT_UP_S / 5)
            waited_s += CAUGHT_UP_S / 5

    # Around a trial

    def _warm_up(self, sizes: tuple[int, ...], ready: Preparation) -> None:
        """Let the device cache neighbours, connections and routes of every flow; no result counts these frames."""
        if self._warm is not None and self._warm[0] == sizes and self._now_ns() - self._warm[1] < WARM_FOR_S * NS:
            return
        if self._warm is not None:
            try:
                self._learn()
            except PortGoneError:
                raise
            except WavebedError as error:
                raise _NoAnswerError(str(error)) from None
        came = -1
        for _ in range(WARM_TRIES):
            sent, now = self._warm_run(sizes, ready, RESIDUE_S if came < 0 else self._patience_s)
            if now in {sent, came}:  # all of them, or no more than the last time: this is the device
                break
            came = now
        self._warm = (sizes, self._now_ns())

    def _warm_run(self, sizes: tuple[int, ...], ready: Preparation, patience_s: float) -> tuple[int, int]:
        """Send each flow twice, slowly; return how many frames were sent and came."""
        run = _Run(self._tx, self._rx, self._layout, ready, sizes, self._next_trial())
        count = WARM_ROUNDS * max(self._layout.flows, len(sizes))
        run.open(0)
        run.send(count, WARM_PPS, count / WARM_PPS + SEND_SLACK_S)
        ended_ns = self._rx.counters().time_ns
        self._wait_for_residue(run, patience_s)
        counters = self._rx.frame_counters()
        if counters.last_ns is not None:
            self._transit_s = min(RESIDUE_S, max(0.0, (counters.last_ns - ended_ns) / NS))
        return run.sent.frames, counters.unique

    @property
    def _patience_s(self) -> float:
        return max(self._quiet_s, 2 * self._transit_s)

    def _judge_no_frames(self, trial: ForwardTrial, ready: Preparation) -> ForwardTrial:
        """Tell a device that forwards nothing under this load from one that is not there.

        If slow frames get through right after, nothing is wrong with the path, and the loss of all is a result.
        """
        if {refusal.code for refusal in trial.refusals} != {"no_frames"} or not trial.sent:
            return trial
        _, came = self._warm_run(trial.sizes_bytes, ready, RESIDUE_S)
        return replace(trial, refusals=()) if came else trial


class _Run:
    """Frames of one trial number, and the counters of the ports around them."""

    def __init__(
        self, tx: Port, rx: Port, layout: Layout, ready: Preparation, sizes: tuple[int, ...], number: int
    ) -> None:
        self._tx, self._rx, self._ready, self._number = tx, rx, ready, number
        self._frames: FrameSpec = layout.frames(sizes, ready.tx.mac, ready.next_hop_mac)
        self._arriving = layout.arriving_frames(sizes, ready.tx.mac, ready.next_hop_mac)
        self._before: tuple[InterfaceCounters, InterfaceCounters, InterfaceCounters] | None = None
        self._sent: Sent | None = None
        self._looks: list[tuple[int, int]] = []
        self._rate: float | None = None

    @property
    def sent(self) -> Sent:
        """The outcome of sending."""
        assert self._sent is not None, "frames are sent first"
        return self._sent

    def open(self, sample: int) -> None:
        """Start the frame counters at zero, and read the interface's counters before and after."""
        outer = self._rx.counters()
        self._rx.receive(self._arriving, self._number, sample=sample, receiver=self._ready.receiver or None)
        inner = self._rx.counters()
        self._before = (self._tx.counters(), outer, inner)
        self._looks = [(inner.time_ns, 0)]

    def _look(self) -> None:
        """Note what has arrived by now; a receiver that fails is found when its counters are read at the end.

        The sender is asked meanwhile, and an error from here would end its conversation too. A receiver that does not
        answer any more ends the trial at once.
        """
        try:
            now_ns = self._rx.counters().time_ns
            self._looks.append((now_ns, _count(self._rx.frame_counters())))
        except PortGoneError:
            raise
        except WavebedError:
            pass

    def send(self, count: int, rate_pps: float | None, deadline_s: float) -> None:
        """Send, looking at the receiver now and then."""
        self._rate = rate_pps
        batch = BATCH_MOST if rate_pps is None else min(BATCH_MOST, max(1, math.ceil(rate_pps * BATCH_S)))
        self._sent = self._tx.send(
            self._frames,
            self._number,
            count,
            rate_pps=rate_pps,
            batch=batch,
            deadline_s=deadline_s,
            sender=self._ready.sender or None,
            tick=self._look,
        )

    def evidence(self, ceiling: Ceiling, offered_pps: float | None, planned: int | None) -> TrialEvidence:
        """Read all counters now."""
        assert self._before is not None, "the counters are started first"
        tx_before, outer_before, inner_before = self._before
        inner_after = self._rx.counters()
        counters = self._rx.frame_counters()
        outer_after = self._rx.counters()
        tx_after = self._tx.counters()
        return TrialEvidence(
            names=(self._tx.name, self._rx.name),
            arriving_sizes=self._arriving.sizes_bytes,
            offered_pps=offered_pps,
            planned=planned,
            sent=self.sent,
            counters=counters,
            tx=Totals((tx_before, tx_after), (tx_before, tx_after)),
            rx=Totals((outer_before, outer_after), (inner_before, inner_after)),
            ceiling=ceiling,
            took_s=_took_s(self.sent, self._rate),
            looks=(*self._looks, (inner_after.time_ns, _count(counters))),
            tx_is_veth=self._ready.tx.driver == "veth",
        )


def _count(counters: FrameCounters) -> int:
    return counters.unique + counters.duplicates + counters.stale + counters.damaged


def _took_s(sent: Sent, rate_pps: float | None) -> float:
    """Return the time that the frames fill: from the first to the last, and the gap behind the last."""
    took_s = sent.took_ns / NS
    if rate_pps is not None:
        return took_s + 1 / rate_pps
    return took_s * sent.frames / (sent.frames - 1) if sent.frames > 1 else took_s


def _choose(port: Port, wanted: str | None, which: int, verb: str) -> str:
    """Return the best way to send (0) or receive (1) that works at a port, or the wanted one."""
    bindings = port.probe()[which]
    for binding in bindings:
        if binding.works and wanted in {None, binding.kind}:
            return binding.kind
    reasons = "; ".join(f"{b.kind}: {b.why}" for b in bindings if wanted in {None, b.kind} and not b.works)
    known = ", ".join(b.kind for b in bindings)
    raise MachineError(f"{port.name} cannot {verb} by {wanted or 'any means'}: {reasons or f'there are {known}'}")


def _result(blank: ForwardTrial, evidence: TrialEvidence, cpu: Mapping[str, float], *, one_clock: bool) -> ForwardTrial:
    counters, took_s = evidence.counters, evidence.took_s
    return replace(
        blank,
        sent=evidence.left if evidence.offered_pps is None else evidence.sent.frames,
        received=counters.unique,
        lost=evidence.lost,
        sent_pps=evidence.left / took_s if took_s > 0 else 0.0,
        received_pps=counters.unique / took_s if took_s > 0 else 0.0,
        took_s=took_s,
        tx=difference(*evidence.tx.outer),
        rx=difference(*evidence.rx.outer),
        send=evidence.sent,
        counters=counters if one_clock else replace(counters, latency=None),
        refusals=check_trial(evidence),
        cpu=dict(cpu),
    )
