"""A made-up result of a forwarding test, for tests of what reads it."""

from __future__ import annotations

from wavebed.forward.frames import Headers, Rates
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
from wavebed.forward.settings import QUICK_GOALS, ForwardSettings
from wavebed.stats.intervals import median_interval

HEADERS = Headers()


def rates(pps: float, size: int = 64) -> Rates:
    return Rates.of_pps(pps, [size], HEADERS)


def port(interface: str) -> PortInfo:
    return PortInfo(
        interface=interface,
        mac="02:00:00:00:00:01",
        mtu=1500,
        up=True,
        carrier=True,
        carrier_changes=2,
        speed_mbps=None,
        driver="veth",
        addresses=("198.18.0.1/24",),
        offloads={"tx-udp-segmentation": False, "rx-gro": True},
        fixed=("rx-gro-hw", "rx-lro"),
        machine="00000000-0000-0000-0000-000000000000",
        cores=2,
        xdp=False,
    )


def interface_counters(**known: int) -> InterfaceCounters:
    names = ("rx_packets", "rx_bytes", "rx_dropped", "rx_errors", "rx_missed")
    more = ("tx_packets", "tx_bytes", "tx_dropped", "tx_errors", "carrier_changes")
    return InterfaceCounters(
        time_ns=10**9, up=True, driver={}, **{name: known.get(name, 0) for name in (*names, *more)}
    )


def trial(pps: float = 400_000.0, lost: int = 0, refusals: tuple[Refusal, ...] = (), size: int = 64) -> ForwardTrial:
    sent = int(pps)
    counters = FrameCounters(
        unique=sent - lost,
        duplicates=0,
        stale=0,
        other_trial=0,
        damaged=0,
        foreign=0,
        reordered=0,
        sizes={size: sent - lost},
        first_ns=0,
        last_ns=10**9,
        latency=ForwardLatency(sent - lost, 1e-5, 2e-4, 4e-5, 3e-5, 6e-5, 1e-4, 1.5e-4, ((1e-5, 2e-5, sent - lost),)),
        receiver_lost=0,
        sample=(SampledFrame(5, 60, bytes(60)),),
    )
    return ForwardTrial(
        purpose="search",
        sizes_bytes=(size,),
        offered_pps=pps,
        duration_s=1.0,
        sent=sent,
        received=sent - lost,
        lost=lost,
        sent_pps=pps,
        received_pps=pps - lost,
        took_s=1.2,
        tx=interface_counters(tx_packets=sent),
        rx=interface_counters(rx_packets=sent - lost),
        send=Sent(sent, 0, 10**9, 1000, 0, sent // 8, "tx_ring"),
        counters=counters,
        refusals=refusals,
        cpu={"busy_max": 0.9, "busy_mean": 0.5, "softirq_max": 0.8},
    )


def goal_finding(number: int, low: float, high: float) -> GoalFinding:
    lower = Bound(rates(low), 3, 0.75, 0.0, 0.0, 0.0)
    upper = Bound(rates(high), 3, 0.0, 0.75, 0.02, 0.03)
    return GoalFinding(QUICK_GOALS[number], "found", lower, upper, rates(low))


def result(device: str = "router", capacity_pps: float = 400_000.0) -> DeviceResult:
    """Return a result with one of everything."""
    limit = Refusal("tester_limit", "the tester sends 1.2 Mpps at most", "use a faster sender")
    goals = tuple(goal_finding(n, capacity_pps * f, capacity_pps * f * 1.004) for n, f in enumerate((0.99, 1.0, 1.01)))
    ceiling = Ceiling((64,), 1_300_000.0, "tx_ring", "xdp_native")
    size = SizeFinding(
        "64", (64,), None, rates(1_488_095.0), rates(1_170_000.0), "tester", ceiling, goals, True, (0, 1)
    )
    latency = LatencyFinding(
        "64",
        0.5,
        "ndr",
        rates(capacity_pps / 2),
        1000,
        0.0,
        3e-5,
        1.5e-4,
        1e-5,
        4e-5,
        3e-5,
        6e-5,
        1e-4,
        1.5e-4,
        2e-4,
        ((1e-5, 2e-5, 400), (2e-5, 2e-4, 600)),
        0,
    )
    sent, received = median_interval([1.17e6] * 6), median_interval([capacity_pps * 0.9] * 6)
    return DeviceResult(
        device=device,
        kind="routing",
        started="2026-01-02T03:04:05+00:00",
        took_s=61.5,
        settings=ForwardSettings(goals=QUICK_GOALS, sizes_bytes=(64, 1518), link_mbps=1000.0),
        frames=FrameSpec(
            (64,),
            "02:00:00:00:00:01",
            "02:00:00:00:00:02",
            ValueRange("198.18.0.2", 1),
            ValueRange("198.18.1.2", 16),
            ValueRange(49152, 64),
            ValueRange(49152, 64),
            256,
        ),
        link_mbps=1000.0,
        transmitter=port("a"),
        receiver=port("b"),
        sender="tx_ring",
        receiver_kind="xdp_native",
        probed=(Binding("live_frames", False, "no BPF"), Binding("tx_ring", True, "")),
        ceilings=(ceiling,),
        sizes=(size,),
        overload=(
            OverloadFinding(
                "overload",
                (64,),
                rates(1_488_095.0),
                sent,
                received,
                rates(1.17e6),
                rates(capacity_pps * 0.9),
                median_interval([0.6] * 6),
                median_interval([1.0] * 6),
                (limit,),
                (0, 1),
            ),
        ),
        latency=(latency,),
        loss_rates=(
            LossRateFinding(
                "64",
                (64,),
                rates(1.17e6),
                "tester",
                (
                    LossRateStep(1.0, rates(1.17e6), 4e5, 0.66, 0),
                    LossRateStep(0.9, rates(1.053e6), None, None, 1, limit),
                ),
                False,
            ),
        ),
        bursts=(
            BurstFinding(
                "64",
                (64,),
                rates(1.17e6),
                "tester",
                585_000,
                (1500, 1520, 1490),
                1503.3,
                15.3,
                False,
                capacity_pps,
                1.285e-3,
                8.46e-4,
                989.0,
            ),
        ),
        trials=(trial(capacity_pps), trial(capacity_pps * 1.1, 44_000, (limit,))),
        refusals=(limit,),
        doubts=("trials of 0.25 s hide up to 1 % of overload in a buffer of 1000 frames",),
        plan=(PartTime("search 64", 30.0, 50.0, 28.4, 61),),
        machine={"kernel": "6.18", "cores": 2},
        beside={"iperf3": {"payload_mbps": 21.6}},
    )
