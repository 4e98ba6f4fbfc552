"""Two ports and a device between them, in virtual time: what a trial of minutes says is known at once.

`FakeDevice` says what the device does, `fake_ports` gives the two ports, and `fake_tester` the tester between them.
Nothing is drawn at random: a device that loses 1 % loses exactly the hundredth part (rounded) of every trial.
"""

# ruff: noqa: ARG002 - a fake is asked what the real one is asked

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec.structs import replace

from wavebed.errors import WavebedError
from wavebed.forward.answers import latency_of
from wavebed.forward.model import (
    Binding,
    Ceiling,
    FrameCounters,
    FrameSpec,
    InterfaceCounters,
    PortInfo,
    SampledFrame,
    Sent,
    ValueRange,
)
from wavebed.forward.port import PortGoneError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wavebed.forward.tester import Tester

NS = 1_000_000_000
TICK_S = 0.5
DEVICE_MAC = "02:00:00:00:00:fe"


@dataclass
class FakeDevice:
    """What is between the ports, and what the tester itself can do. Change it between trials as you like.

    Parameters
    ----------
    capacity_pps : float or None
        Frames per second that it forwards, None: all; or a function of the sizes.
    buffer_frames : int
        Frames above its capacity that it keeps and forwards later.
    loss : float
        Fraction of forwarded frames that it loses all the same.
    no_frames : (float, float) or None
        From when to when in each trial it forwards nothing, seconds.
    super_packets : bool
        It joins ten frames to one.
    gone_at_s : float or None
        Virtual time at which the receiving port vanishes.
    """

    capacity_pps: float | Callable[[tuple[int, ...]], float] | None = None
    buffer_frames: int = 0
    loss: float = 0.0
    duplicates: int = 0
    foreign: int = 0
    latency_ns: int = 20_000
    no_frames: tuple[float, float] | None = None
    carrier_flaps: int = 0
    goes_down: bool = False
    super_packets: bool = False
    fragments: bool = False
    vanished: int = 0
    """Frames that no counter has."""
    receiver_lost: int = 0
    port_drops: int = 0
    """Frames that the receiving interface itself drops."""
    gone_at_s: float | None = None
    tester_pps: float = 2_000_000.0
    """How fast the tester is: its ceiling, and what it sends as fast as it goes."""
    sender_pps: float | None = None
    """What it really sends at most, where that differs from its ceiling."""
    mtu: int = 1500
    machines: tuple[str, str] = ("one", "one")


@dataclass
class FakeWorld:
    """The clock and the wires that two fake ports share."""

    device: FakeDevice
    now_ns: int = NS
    trials: list[tuple[str, float | None, float]] = field(default_factory=list)
    """What was sent: size list as text, rate, seconds; warm-ups are in it."""

    def sleep(self, seconds: float) -> None:
        self.now_ns += round(seconds * NS)


class FakePort:
    """One port. `other` is set by `fake_ports`."""

    def __init__(self, world: FakeWorld, name: str, index: int) -> None:
        self.world = world
        self.name = name
        self.index = index
        self.other: FakePort = self
        self.offloads: dict[str, bool] = {"tx-udp-segmentation": False, "rx-gro": True}
        self.fixed: frozenset[str] = ()
        self.up = True
        self.carrier_changes = 2
        self.counts = dict.fromkeys(
            ("rx_packets", "rx_bytes", "rx_dropped", "tx_packets", "tx_bytes", "tx_dropped"), 1000 * index
        )
        self.answers: ValueRange | None = None
        self.closed = False
        self._counters: FrameCounters | None = None
        self._frames: FrameSpec | None = None
        self._trial = 0
        self._sample = 0

    def _alive(self) -> None:
        gone = self.world.device.gone_at_s
        if self.closed or (self.index == 1 and gone is not None and self.world.now_ns >= gone * NS):
            raise PortGoneError(f"the connection to the port {self.name} ended: the other machine went away")

    def describe(self) -> PortInfo:
        self._alive()
        return PortInfo(
            interface=self.name,
            mac=f"02:00:00:00:00:0{self.index + 1}",
            mtu=self.world.device.mtu,
            up=self.up,
            carrier=self.up,
            carrier_changes=self.carrier_changes,
            speed_mbps=1000,
            driver="veth",
            addresses=(),
            offloads=dict(self.offloads),
            fixed=self.fixed,
            machine=self.world.device.machines[self.index],
            cores=2,
            xdp=False,
        )

    def counters(self) -> InterfaceCounters:
        self._alive()
        self.world.now_ns += 10_000
        return InterfaceCounters(
            time_ns=self.world.now_ns,
            rx_errors=0,
            rx_missed=0,
            tx_errors=0,
            carrier_changes=self.carrier_changes,
            up=self.up,
            driver={},
            **self.counts,
        )

    def set_offload(self, name: str, *, on: bool) -> bool:
        self.offloads[name] = on
        return on

    def probe(self) -> tuple[Sequence[Binding], Sequence[Binding]]:
        self._alive()
        return (
            (Binding("live_frames", works=True, why=""), Binding("sendmmsg", works=True, why="")),
            (Binding("xdp_native", works=True, why=""),),
        )

    def answer(self, addresses: ValueRange | None) -> None:
        self._alive()
        self.answers = addresses

    def resolve(self, address: str, source: str, *, vlan: int | None = None, timeout_s: float = 3.0) -> str:
        self._alive()
        return DEVICE_MAC

    def receive(self, frames: FrameSpec, trial: int, *, sample: int = 0, receiver: str | None = None) -> str:
        self._alive()
        assert 1 <= trial <= 65535
        self._frames, self._trial, self._sample = frames, trial, sample
        self._counters = FrameCounters(0, 0, 0, 0, 0, 0, 0, {}, None, None, None, 0)
        return "xdp_native"

    def frame_counters(self) -> FrameCounters:
        self._alive()
        assert self._counters is not None, "a trial is started before its counters are read"
        return self._counters

    def send(
        self,
        frames: FrameSpec,
        trial: int,
        count: int,
        *,
        rate_pps: float | None,
        batch: int,
        deadline_s: float,
        sender: str | None = None,
        tick: Callable[[], None] | None = None,
    ) -> Sent:
        self._alive()
        if not self.up:
            raise WavebedError(f"{self.name}: network is down")
        device = self.world.device
        fastest = device.sender_pps or device.tester_pps
        rate = fastest if rate_pps is None else min(rate_pps, fastest)
        number = min(count, round(rate * deadline_s))
        took_s = max(number - 1, 0) / rate
        self.world.trials.append((",".join(map(str, frames.sizes_bytes)), rate_pps, number / rate))
        start_ns = self.world.now_ns
        self.counts["tx_packets"] += number
        self.counts["tx_bytes"] += number * (frames.sizes_bytes[0] - 4)
        self.other.deliver(frames, trial, number, rate, start_ns, tick)
        self.world.now_ns = start_ns + round(took_s * NS)
        batches = -(-number // batch)
        late = batches if rate_pps is not None and rate < rate_pps else 0
        late_ns = max(0, round((took_s - (number - 1) / rate_pps) * NS)) if rate_pps is not None else 0
        return Sent(number, 0, round(took_s * NS), late_ns, late, batches, sender or "live_frames")

    def _run(self, start_ns: int, seconds: float, arrive: Callable[[float], int], tick: Callable[[], None]) -> None:
        """Let time pass: at each tick all counters stand where the device has brought them."""
        before = self.counts["rx_packets"]
        assert self._counters is not None
        at_s = TICK_S
        while at_s < seconds:
            self.world.now_ns = start_ns + round(at_s * NS)
            self.counts["rx_packets"] = before + arrive(at_s)
            self._counters = replace(self._counters, unique=arrive(at_s))
            tick()
            at_s += TICK_S
        self.counts["rx_packets"] = before

    def deliver(
        self, frames: FrameSpec, trial: int, number: int, rate: float, start_ns: int, tick: Callable[[], None] | None
    ) -> None:
        """Take what the device forwards of `number` frames sent at `rate`."""
        device, counters = self.world.device, self._counters
        assert counters is not None, "the trial is started at the receiver first"
        assert self._trial == trial, "both ports are told of the same trial"
        seconds = number / rate
        capacity = device.capacity_pps
        limit = capacity(tuple(frames.sizes_bytes)) if callable(capacity) else capacity
        forwarded = number if limit is None else min(number, round(limit * seconds) + device.buffer_frames)
        lost_fraction = device.loss
        first_s, last_s = 0.0, seconds
        if device.no_frames is not None:
            from_s, to_s = (min(t, seconds) for t in device.no_frames)
            lost_fraction += (to_s - from_s) / seconds
            first_s = to_s if from_s == 0 else 0.0
            last_s = from_s if to_s >= seconds else seconds
        forwarded = max(0, round(forwarded * (1 - lost_fraction)) - device.port_drops - device.receiver_lost)
        if tick is not None:

            def arrive(at_s: float) -> int:
                gap = (0.0, 0.0) if device.no_frames is None else device.no_frames
                quiet = max(0.0, min(at_s, gap[1]) - gap[0])
                return round(forwarded * (at_s - quiet) / seconds)

            self._run(start_ns, seconds, arrive, tick)
        self.carrier_changes += device.carrier_flaps
        self.up = not device.goes_down
        self._write_counters(frames, forwarded, start_ns, first_s, last_s)

    def _write_counters(self, frames: FrameSpec, forwarded: int, start_ns: int, first_s: float, last_s: float) -> None:
        device = self.world.device
        unique, damaged = forwarded, 0
        sizes = _by_size(frames.sizes_bytes, forwarded)
        if device.super_packets:
            unique, damaged = 0, forwarded // 10
            sizes = {frames.sizes_bytes[0] * 10: damaged}
        elif device.fragments:
            unique, damaged = 0, forwarded
            sizes = {1400: damaged}
        delay = device.latency_ns
        counters = FrameCounters(
            unique=unique,
            duplicates=device.duplicates,
            stale=0,
            other_trial=0,
            damaged=damaged,
            foreign=device.foreign,
            reordered=0,
            sizes=sizes,
            first_ns=start_ns + round(first_s * NS) + delay if forwarded else None,
            last_ns=start_ns + round(last_s * NS) + delay if forwarded else None,
            latency=latency_of({_bucket(delay): unique}, delay, delay) if unique else None,
            receiver_lost=device.receiver_lost,
            sample=tuple(
                SampledFrame(start_ns + delay, frames.sizes_bytes[0] - 4, bytes(frames.sizes_bytes[0] - 4))
                for _ in range(min(self._sample, unique))
            ),
        )
        total = unique + damaged + device.duplicates + device.foreign
        self._counters = counters
        self.counts["rx_packets"] += total + device.receiver_lost + device.vanished
        self.counts["rx_dropped"] += device.port_drops

    def release(self) -> None:
        self._counters = None

    def ceiling(
        self,
        sizes_bytes: Sequence[int],
        flows: int,
        *,
        seconds: float = 0.5,
        sender: str | None = None,
        receiver: str | None = None,
    ) -> Ceiling:
        self._alive()
        self.world.sleep(seconds)
        return Ceiling(tuple(sizes_bytes), self.world.device.tester_pps, sender or "live_frames", "xdp_native")

    def close(self) -> None:
        self.closed = True


def _bucket(value: int) -> int:
    if value < 128:
        return value
    shift = value.bit_length() - 1 - 6
    return shift * 64 + (value >> shift)


def _by_size(sizes: Sequence[int], number: int) -> dict[int, int]:
    whole, rest = divmod(number, len(sizes))
    counts: dict[int, int] = {}
    for index, size in enumerate(sizes):
        counts[size] = counts.get(size, 0) + whole + (index < rest)
    return {size: count for size, count in counts.items() if count}


def fake_ports(device: FakeDevice | None = None) -> tuple[FakePort, FakePort]:
    """Return the sending and the receiving port with `device` between them; ``tx.world.sleep`` is their clock."""
    world = FakeWorld(device or FakeDevice())
    tx, rx = FakePort(world, "tx0", 0), FakePort(world, "rx0", 1)
    tx.other, rx.other = rx, tx
    return tx, rx


def fake_tester(device: FakeDevice | None = None) -> Tester:
    """Return a prepared tester with `device` between its ports: ``tester.trial(...)`` works at once."""
    from wavebed.forward.frames import Layout
    from wavebed.forward.tester import Tester

    tx, rx = fake_ports(device)
    layout = Layout(
        sources=ValueRange("198.18.0.2", 1), destinations=ValueRange("198.19.0.2", 16), next_hop="198.18.0.1"
    )
    tester = Tester(tx, rx, layout, sleep=tx.world.sleep)
    tester.prepare()
    return tester


def changed(device: FakeDevice, **fields: object) -> FakeDevice:
    """Return a device that differs in `fields`."""
    return replace(device, **fields)  # type: ignore[arg-type]
