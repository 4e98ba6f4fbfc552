"""Results of forwarding tests for the tests of pages and tables. Everything in them is made up by simple formulas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.forward.folder import ForwardRecord
from wavebed.forward.frames import SIMPLE_IMIX, Headers, Rates, genome, line_rate_pps
from wavebed.forward.model import (
    Binding,
    Ceiling,
    ForwardLatency,
    ForwardTrial,
    FrameCounters,
    FrameSpec,
    InterfaceCounters,
    PortInfo,
    Refusal,
    SampledFrame,
    Sent,
    ValueRange,
)
from wavebed.forward.parts import BurstFinding, LatencyFinding, LossRateFinding, LossRateStep, OverloadFinding
from wavebed.forward.result import DeviceResult, PartTime
from wavebed.forward.search import Bound, GoalFinding, SizeFinding
from wavebed.forward.settings import ForwardSettings
from wavebed.stats.intervals import median_interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.forward.search import GoalOutcome

LINK_MBPS = 1000.0
HEADERS = Headers()
SETTINGS = ForwardSettings().quick()
CEILING_PPS = 1_900_000.0
LIMIT = Refusal(
    "tester_limit",
    "the tester sends 0.310 Mpps at most and 0.300 Mpps were forwarded, above 90 % of it",
    "use a faster machine, or a network card with AF_XDP zero copy",
)
SUPER = Refusal(
    "super_packets",
    "1200 frames of 2818 B and more arrived, and frames of 64 B were sent",
    "ethtool -K veth-tx tx-udp-segmentation off",
)
_FRAME = bytes.fromhex("020000000002020000000001080045000036000000004011f76ac6120002c6120102c000c00100220000")


def rates(pps: float, sizes: Sequence[int]) -> Rates:
    return Rates.of_pps(pps, sizes, HEADERS)


def line(sizes: Sequence[int]) -> float:
    return line_rate_pps(LINK_MBPS, sizes)


def interface_counters(sent: int, received: int, took_s: float, *, receives: bool) -> InterfaceCounters:
    return InterfaceCounters(
        time_ns=int(took_s * 1e9),
        rx_packets=received if receives else 0,
        rx_bytes=received * 60 if receives else 0,
        rx_dropped=0,
        rx_errors=0,
        rx_missed=0,
        tx_packets=0 if receives else sent,
        tx_bytes=0 if receives else sent * 60,
        tx_dropped=0,
        tx_errors=0,
        carrier_changes=0,
        up=True,
        driver={"rx_xdp_packets": received} if receives else {},
    )


def latency(base_s: float, count: int) -> ForwardLatency:
    """Delays around a base: most at it, some twice and few ten times as long."""
    counts = (
        (base_s, base_s * 1.02, count * 70 // 100),
        (base_s * 2, base_s * 2.04, count * 29 // 100),
        (base_s * 10, base_s * 10.2, count - count * 70 // 100 - count * 29 // 100),
    )
    p99 = base_s * 2.04 if count >= 100 else None
    p999 = base_s * 10.2 if count >= 1000 else None
    return ForwardLatency(count, base_s, base_s * 10.2, base_s * 1.5, base_s * 1.01, base_s * 2.02, p99, p999, counts)


class EmulatedSetup:
    """Trials of a device that forwards `capacity_pps` at most, on a link of 1 Gbit/s."""

    def __init__(self, capacity_pps: float, cpu_known: bool = True) -> None:
        self.capacity_pps = capacity_pps
        self.cpu_known = cpu_known
        self.trials: list[ForwardTrial] = []

    def trial(
        self,
        purpose: str,
        sizes: tuple[int, ...],
        pps: float,
        took_s: float = 1.0,
        refusals: tuple[Refusal, ...] = (),
        wobble: float = 0.0,
    ) -> int:
        """Make a trial, and return its place."""
        sent = round(pps * took_s)
        received = min(sent, round(self.capacity_pps * (1 + wobble) * took_s))
        busy = min(1.0, 0.02 + 0.98 * pps / self.capacity_pps)
        spread = {size: received * sizes.count(size) // len(sizes) for size in dict.fromkeys(sizes)}
        spread[sizes[0]] += received - sum(spread.values())
        counters = FrameCounters(
            unique=received,
            duplicates=0,
            stale=0,
            other_trial=0,
            damaged=0,
            foreign=2,
            reordered=0,
            sizes=spread if not refusals else {2818: received},
            first_ns=1_000_000_000 + len(self.trials) * 10**9,
            last_ns=1_000_000_000 + len(self.trials) * 10**9 + int(took_s * 1e9),
            latency=latency(50e-6 * (1 + pps / self.capacity_pps), received) if received else None,
            receiver_lost=0,
            sample=[
                SampledFrame(1_000_000_000 + len(self.trials) * 10**9 + n, sizes[0] - 4, _FRAME.ljust(60, b"\0"))
                for n in range(2)
            ],
        )
        self.trials.append(
            ForwardTrial(
                purpose=purpose,
                sizes_bytes=sizes,
                offered_pps=pps,
                duration_s=took_s,
                sent=sent,
                received=received,
                lost=sent - received,
                sent_pps=sent / took_s,
                received_pps=received / took_s,
                took_s=took_s,
                tx=interface_counters(sent, received, took_s, receives=False),
                rx=interface_counters(sent, received + 2, took_s, receives=True),
                send=Sent(sent, 0, int(took_s * 1e9), 12_000, 1, sent // 8, "live_frames"),
                counters=counters,
                refusals=refusals,
                cpu={"busy_max": busy, "busy_mean": busy / 2, "softirq_max": busy * 0.9} if self.cpu_known else {},
            )
        )
        return len(self.trials) - 1

    def search(self, name: str, sizes: tuple[int, ...], ceiling_pps: float = CEILING_PPS) -> SizeFinding:
        top = min(line(sizes), 0.9 * ceiling_pps)
        places = tuple(self.trial(f"search {name}", sizes, top * fraction, 0.25) for fraction in (1.0, 0.5, 0.75))
        goals = tuple(self.goal(index, sizes, top, top < line(sizes)) for index in range(len(SETTINGS.goals)))
        return SizeFinding(
            name=name,
            sizes_bytes=sizes,
            genome=genome(sizes) if len(sizes) > 1 else None,
            line_rate=rates(line(sizes), sizes),
            max_load=rates(top, sizes),
            limited_by="tester" if top < line(sizes) else "line_rate",
            ceiling=Ceiling(sizes, ceiling_pps, "live_frames", "xdp_native"),
            goals=goals,
            in_order=True,
            trials=places,
        )

    def goal(self, index: int, sizes: tuple[int, ...], top: float, by_tester: bool) -> GoalFinding:
        goal = SETTINGS.goals[index]
        lossy = self.capacity_pps * (1 + goal.loss_ratio)
        if lossy >= top:
            outcome: GoalOutcome = "at_least" if by_tester else "line_rate"
            lower = Bound(rates(top, sizes), 3, 2.0, 0.0, 0.0, 0.0)
            return GoalFinding(goal, outcome, lower, None, lower.offered, LIMIT if by_tester else None)
        lower = Bound(rates(lossy * 0.998, sizes), 3, 2.0, 0.0, goal.loss_ratio / 2, goal.loss_ratio)
        upper = Bound(rates(lossy * 1.002, sizes), 2, 0.0, 2.0, 0.01, 0.02)
        return GoalFinding(goal, "found", lower, upper, lower.offered)

    def overload(self, name: str, sizes: tuple[int, ...], *, refusal: Refusal | None = None) -> OverloadFinding:
        refusals = (refusal,) if refusal else ()
        places = tuple(self.trial(name, sizes, line(sizes), 1.0, refusals, wobble=0.002 * (n - 2.5)) for n in range(6))
        made = [self.trials[place] for place in places if not refusal]
        sent = median_interval([trial.sent_pps for trial in made])
        received = median_interval([trial.received_pps for trial in made])
        return OverloadFinding(
            name="throughput" if name == "throughput" else "overload",
            sizes_bytes=sizes,
            asked=rates(line(sizes), sizes),
            sent_pps=sent,
            received_pps=received,
            sent=None if sent.estimate is None else rates(sent.estimate, sizes),
            received=None if received.estimate is None else rates(received.estimate, sizes),
            loss_ratio=median_interval([trial.loss_ratio for trial in made]),
            cpu_busy_max=median_interval([trial.cpu["busy_max"] for trial in made if trial.cpu]),
            refusals=refusals,
            trials=places,
        )

    def loss_rate(self, sizes: tuple[int, ...]) -> LossRateFinding:
        steps = []
        for tenth in range(10, 0, -1):
            place = self.trial("loss-rate", sizes, line(sizes) * tenth / 10)
            trial = self.trials[place]
            offered = rates(trial.sent_pps, sizes)
            steps.append(LossRateStep(tenth / 10, offered, trial.received_pps, trial.loss_ratio, place))
            if len(steps) > 1 and steps[-1].loss_ratio == steps[-2].loss_ratio == 0:
                break
        return LossRateFinding(str(sizes[0]), sizes, rates(line(sizes), sizes), "line_rate", tuple(steps), True)

    def delays(self, finding: SizeFinding) -> list[LatencyFinding]:
        goal = finding.goal("ndr")
        if goal is None or goal.rate is None:
            return []
        found = []
        for fraction in SETTINGS.latency_fractions:
            place = self.trial("latency", finding.sizes_bytes, goal.rate.pps * fraction)
            counters = self.trials[place].counters
            assert counters is not None
            told = counters.latency
            assert told is not None
            found.append(
                LatencyFinding(
                    finding.name, fraction, "ndr", rates(goal.rate.pps * fraction, finding.sizes_bytes),
                    told.count, 0.0,
                    told.p50_s, told.p999_s, told.min_s, told.mean_s, told.p50_s, told.p90_s, told.p99_s, told.p999_s,
                    told.max_s, tuple(told.counts), place,
                )
            )  # fmt: skip
        return found

    def burst(self, sizes: tuple[int, ...]) -> BurstFinding:
        offered, longest = rates(line(sizes), sizes), round(line(sizes) * SETTINGS.burst_longest_s)
        place = self.trial("burst", sizes, line(sizes), 0.1)
        if self.capacity_pps >= line(sizes):
            return BurstFinding(
                str(sizes[0]), sizes, offered, "line_rate", longest, (longest,) * 3, float(longest), 0.0,
                True, None, None, None, None, trials=(place,),
            )  # fmt: skip
        implied = 1000 / offered.pps
        corrected = implied * (1 - self.capacity_pps / offered.pps)
        return BurstFinding(
            str(sizes[0]), sizes, offered, "line_rate", longest, (990, 1000, 1010), 1000.0, 10.0,
            False, self.capacity_pps, implied, corrected, corrected * offered.pps, trials=(place,),
        )  # fmt: skip


def port(interface: str) -> PortInfo:
    return PortInfo(
        interface=interface,
        mac="02:00:00:00:00:01",
        mtu=1500,
        up=True,
        carrier=True,
        carrier_changes=2,
        speed_mbps=1000,
        driver="veth",
        addresses=("198.18.0.1/24",),
        offloads={"tx-udp-segmentation": False, "rx-gro": interface == "veth-tx", "rx-vlan-hw-parse": True},
        fixed=("rx-vlan-hw-parse",),
        machine="boot",
        cores=2,
        xdp=False,
    )


def device(
    name: str,
    capacity_pps: float,
    *,
    kind: str = "routing",
    ceiling_pps: float = CEILING_PPS,
    refused: bool = False,
    cpu_known: bool = True,
) -> DeviceResult:
    """Make the result of a device; `refused` lets its 64-byte test meet super-packets."""
    setup = EmulatedSetup(capacity_pps, cpu_known)
    small, large = (64,), (1518,)
    overload = (
        setup.overload("throughput", large),
        setup.overload("overload", small, refusal=SUPER if refused else None),
    )
    sizes = tuple(setup.search(str(size), (size,), ceiling_pps) for size in SETTINGS.sizes_bytes)
    sizes += (setup.search("IMIX", SIMPLE_IMIX, ceiling_pps),)
    return DeviceResult(
        device=name,
        kind=kind,
        started="2026-03-01T12:00:00+00:00",
        took_s=95.0,
        settings=SETTINGS,
        frames=FrameSpec(
            (64,), "02:00:00:00:00:01", "02:00:00:00:00:02", ValueRange("198.18.0.2", 1), ValueRange("198.18.1.2", 16),
            ValueRange(49152, 64), ValueRange(49152, 64), 256,
        ),
        link_mbps=LINK_MBPS,
        transmitter=port("veth-tx"),
        receiver=port("veth-rx"),
        sender="live_frames",
        receiver_kind="xdp_native",
        probed=(
            Binding("live_frames", True, ""),
            Binding("af_xdp_zero_copy", False, "veth has no zero copy"),
            Binding("tx_ring", True, ""),
        ),
        ceilings=tuple(finding.ceiling for finding in sizes),
        sizes=sizes,
        overload=overload,
        latency=tuple(one for finding in (sizes[0], sizes[6]) for one in setup.delays(finding)),
        loss_rates=(setup.loss_rate(small), setup.loss_rate(large)),
        bursts=(setup.burst(small),),
        trials=tuple(setup.trials),
        doubts=("the device shares a processor with another process",),
        plan=(
            PartTime("overload", 12.0, 20.0, 13.1, 12),
            PartTime("search 64", 30.0, 60.0, 24.5, 3),
            PartTime("burst", 9.0, 18.0),
        ),
        machine={"processor": "made up", "cores": 2, "kernel": "6.18"},
        beside={},
    )  # fmt: skip


def record(result: DeviceResult) -> ForwardRecord:
    command_line = ("wavebed", "forward", "--dut", "netns", "-o", "out dir")
    return ForwardRecord(result, command_line, {"wavebed": "0.1.0", "kernel": "6.18", "python": "3.11"})
