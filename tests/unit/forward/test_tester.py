"""Trials between two ports, in virtual time."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import pytest
from msgspec.structs import replace
from tests.unit.forward.fakes import FakeDevice, FakePort, fake_ports, fake_tester

from wavebed.errors import MachineError, WavebedError
from wavebed.forward import tester as subject
from wavebed.forward.frames import Layout
from wavebed.forward.model import Binding, Refusal, ValueRange

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from wavebed.forward.model import ForwardTrial, InterfaceCounters, Sent

LAYOUT = Layout(ValueRange("198.18.0.2", 1), ValueRange("198.19.0.2", 16), next_hop="198.18.0.1")


def between(tx: FakePort, rx: FakePort, **options: object) -> subject.Tester:
    return subject.Tester(tx, rx, LAYOUT, sleep=tx.world.sleep, **options)  # type: ignore[arg-type]


def codes(trial: ForwardTrial) -> list[str]:
    return [refusal.code for refusal in trial.refusals]


def test_a_trial_within_the_devices_means_loses_nothing() -> None:
    trial = fake_tester(FakeDevice(capacity_pps=500_000)).trial("search", (64,), 400_000, 2.0, sample=3)
    assert trial.verdict == "valid"
    assert (trial.sent, trial.received, trial.lost) == (800_000, 800_000, 0)
    assert trial.sent_pps == pytest.approx(400_000, rel=1e-6)
    assert trial.took_s == pytest.approx(2.0, rel=1e-6)
    assert trial.tx is not None
    assert trial.rx is not None
    assert trial.tx.tx_packets == trial.rx.rx_packets == 800_000
    assert trial.counters is not None
    assert len(trial.counters.sample) == 3


def test_a_trial_above_them_loses_the_rest() -> None:
    trial = fake_tester(FakeDevice(capacity_pps=500_000, buffer_frames=1000)).trial("x", (64,), 1_000_000, 1.0)
    assert trial.verdict == "valid"
    assert trial.lost == 499_000
    assert trial.loss_ratio == pytest.approx(0.499)


def test_overload_sends_what_the_tester_can() -> None:
    trial = fake_tester(FakeDevice(capacity_pps=500_000)).trial("overload", (64,), None, 1.0)
    assert trial.verdict == "valid"
    assert trial.sent == 2_000_000
    assert trial.received_pps == pytest.approx(500_000)


def test_a_device_faster_than_the_tester_gives_no_number() -> None:
    trial = fake_tester(FakeDevice()).trial("overload", (64,), None, 1.0)
    assert codes(trial) == ["tester_limit"]


@pytest.mark.parametrize(
    ("device", "code"),
    [
        (FakeDevice(duplicates=5), "duplicates"),
        (FakeDevice(foreign=10_000), "flood"),
        (FakeDevice(super_packets=True), "super_packets"),
        (FakeDevice(fragments=True), "mtu"),
        (FakeDevice(carrier_flaps=2), "reboot"),
        (FakeDevice(no_frames=(1.0, 2.0)), "reboot"),
        (FakeDevice(no_frames=(0.0, 0.5)), "reboot"),
        (FakeDevice(no_frames=(1.0, 3.0)), "reboot"),
        (FakeDevice(receiver_lost=1), "tester_limit"),
        (FakeDevice(port_drops=1), "tester_limit"),
        (FakeDevice(vanished=1), "unaccounted"),
        (FakeDevice(sender_pps=90_000), "late"),
        (FakeDevice(tester_pps=110_000), "tester_limit"),
        (FakeDevice(loss=1.0), "no_frames"),
    ],
)
def test_a_fault_ends_in_its_verdict(device: FakeDevice, code: str) -> None:
    trial = fake_tester(device).trial("x", (1500,) if device.fragments else (64,), 100_000, 4.0)
    assert trial.verdict == "invalid"
    assert code in codes(trial)


def test_a_port_that_goes_down_is_named_and_ends_the_next_trial_too() -> None:
    device = FakeDevice()
    tester = fake_tester(device)
    assert tester.trial("x", (64,), 1000, 1.0).verdict == "valid"
    device.goes_down = True
    assert codes(tester.trial("x", (64,), 1000, 1.0)) == ["port_down"]


def test_a_receiver_that_fails_amid_sending_leaves_the_sender_to_say_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both interfaces of a cable go at once, and either the sender or a look at the receiver meets it first."""
    tx, rx = fake_ports()
    tester = between(tx, rx)
    tester.prepare()

    def gone() -> NoReturn:
        raise WavebedError("the interface went away: No such device")

    def send(*_: object, tick: Callable[[], None], **__: object) -> Sent:
        for port in (tx, rx):
            for name in ("describe", "counters", "frame_counters"):
                monkeypatch.setattr(port, name, gone)
        tick()
        raise WavebedError("cannot send through tx0: No such device")

    tester.trial("warm", (64,), 1000, 1.0)
    monkeypatch.setattr(tx, "send", send)
    trial = tester.trial("x", (64,), 1000, 1.0)
    assert codes(trial) == ["port_down"]
    assert trial.refusals[0].reason == "tx0 went away: cannot send through tx0: No such device"


def test_a_device_that_stops_answering_is_a_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    tx, rx = fake_ports()
    tester = between(tx, rx)
    tester.trial("x", (64,), 1000, 1.0)

    def resolve(*_: object, **__: object) -> str:
        raise WavebedError("nobody answers for 198.18.0.1")

    monkeypatch.setattr(tx, "resolve", resolve)
    tx.world.sleep(20)
    trial = tester.trial("x", (64,), 1000, 1.0)
    assert codes(trial) == ["no_frames"]
    assert "nobody answers for 198.18.0.1" in trial.refusals[0].reason


def test_an_error_that_nothing_explains_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    tx, rx = fake_ports()
    tester = between(tx, rx)

    def send(*_: object, **__: object) -> Sent:
        raise WavebedError("the kernel refuses")

    monkeypatch.setattr(tx, "send", send)
    with pytest.raises(WavebedError, match="the kernel refuses"):
        tester.trial("x", (64,), 1000, 1.0)


def test_a_sender_that_fails_because_its_port_was_down_for_a_while_is_a_verdict(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tx, rx = fake_ports()
    tester = between(tx, rx)
    tester.prepare()

    def send(*_: object, **__: object) -> Sent:
        tx.carrier_changes += 2
        raise WavebedError("cannot send through tx0: Network is down")

    monkeypatch.setattr(tx, "send", send)
    assert codes(tester.trial("x", (64,), 1000, 1.0)) == ["port_down"]


def test_a_sender_that_fails_because_its_port_is_down_is_a_verdict() -> None:
    tx, rx = fake_ports()
    tester = between(tx, rx)
    tester.prepare()
    tx.up = False
    trial = tester.trial("x", (64,), 1000, 1.0)
    assert codes(trial) == ["port_down"]
    assert trial.sent == 0
    assert trial.counters is None


def test_a_peer_that_vanishes_is_a_verdict_and_stays_one() -> None:
    device = FakeDevice(gone_at_s=4.0)
    tester = fake_tester(device)
    trial = tester.trial("x", (64,), 1000, 60.0)
    assert codes(trial) == ["peer"]
    assert "went away" in trial.refusals[0].reason
    assert codes(tester.trial("x", (64,), 1000, 1.0)) == ["peer"]


def test_a_device_that_forwards_nothing_only_under_load_has_lost_all() -> None:
    def capacity(_: tuple[int, ...]) -> float:
        return 1e9 if tx.world.trials[-1][1] == 2000.0 else 0.0

    device = FakeDevice(capacity_pps=capacity)
    tx, rx = fake_ports(device)
    trial = between(tx, rx).trial("x", (64,), 500_000, 1.0)
    assert trial.verdict == "valid"
    assert (trial.received, trial.lost, trial.loss_ratio) == (0, 500_000, 1.0)


# Before the first trial


def test_an_offload_in_the_way_refuses_every_trial_before_a_frame_is_sent() -> None:
    tx, rx = fake_ports()
    tx.offloads["tx-udp-segmentation"] = True
    tester = between(tx, rx)
    assert [refusal.code for refusal in tester.prepare().refusals] == ["offload"]
    trial = tester.trial("x", (64,), 1000, 1.0)
    assert codes(trial) == ["offload"]
    assert trial.refusals[0].remedy == "ethtool -K tx0 tx-udp-segmentation off"
    assert tx.world.trials == []
    tx.set_offload("tx-udp-segmentation", on=False)
    tester.prepare()
    assert tester.trial("x", (64,), 1000, 1.0).verdict == "valid"


def test_a_frame_beyond_the_mtu_is_refused_before_it_is_sent() -> None:
    tester = fake_tester(FakeDevice(mtu=1400))
    assert codes(tester.trial("x", (1518,), 1000, 1.0)) == ["mtu", "mtu"]
    assert tester.trial("x", (64,), 1000, 1.0).verdict == "valid"


def test_emulated_hosts_answer_at_both_ports() -> None:
    tx, rx = fake_ports()
    between(tx, rx).prepare()
    assert (tx.answers, rx.answers) == (LAYOUT.sources, LAYOUT.destinations)


def test_delays_need_one_clock() -> None:
    local = fake_tester(FakeDevice())
    assert local.preparation.one_clock
    counters = local.trial("x", (64,), 1000, 1.0).counters
    assert counters is not None
    assert counters.latency is not None
    assert counters.latency.p50_s == pytest.approx(20e-6, rel=0.01)
    apart = fake_tester(FakeDevice(machines=("one", "two")))
    assert not apart.preparation.one_clock
    counters = apart.trial("x", (64,), 1000, 1.0).counters
    assert counters is not None
    assert counters.latency is None


def test_the_best_way_that_works_is_chosen_or_the_wanted_one() -> None:
    assert fake_tester().preparation.sender == "live_frames"
    assert between(*fake_ports(), sender="sendmmsg").preparation.sender == "sendmmsg"
    with pytest.raises(MachineError, match="cannot send by af_xdp: there are live_frames, sendmmsg"):
        between(*fake_ports(), sender="af_xdp").prepare()


def test_a_port_without_any_way_to_send_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    tx, rx = fake_ports()

    def probe() -> tuple[Sequence[Binding], Sequence[Binding]]:
        return (Binding("live_frames", works=False, why="Linux 5.18 is needed"),), ()

    monkeypatch.setattr(tx, "probe", probe)
    with pytest.raises(MachineError, match=r"tx0 cannot send by any means: live_frames: Linux 5.18 is needed"):
        between(tx, rx).prepare()


def test_a_ceiling_is_measured_once_for_each_list_of_sizes() -> None:
    tx, rx = fake_ports()
    tester = between(tx, rx)
    first = tester.calibrate([64])
    tx.world.device.tester_pps = 1.0
    assert tester.calibrate((64,)) is first
    assert tester.calibrate((128,)).pps == 1.0


def test_two_machines_are_as_fast_as_the_slower_one(monkeypatch: pytest.MonkeyPatch) -> None:
    from wavebed.forward.model import Ceiling

    tx, rx = fake_ports(FakeDevice(machines=("one", "two")))
    monkeypatch.setattr(rx, "ceiling", lambda *_, **__: Ceiling((64,), 77.0, "a", "b"))
    assert between(tx, rx).calibrate((64,)).pps == 77.0


def test_a_pair_of_interfaces_without_zero_copy_measures_what_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    tx, rx = fake_ports()
    honest = tx.ceiling

    def picky(sizes: Sequence[int], flows: int, *, sender: str | None = None, receiver: str | None = None) -> object:
        if sender is not None:
            raise MachineError("veth has no zero copy")
        return honest(sizes, flows)

    monkeypatch.setattr(tx, "ceiling", picky)
    assert between(tx, rx).calibrate((64,)).sender == "live_frames"


# Around a trial


def warm_ups(tx: FakePort) -> int:
    return sum(rate == 2000.0 for _, rate, _ in tx.world.trials)


def test_a_device_is_warmed_up_once_for_each_list_of_sizes_and_after_a_pause() -> None:
    tx, rx = fake_ports()
    tester = between(tx, rx)
    for _ in range(3):
        tester.trial("x", (64,), 1000, 1.0)
    assert warm_ups(tx) == 1
    tester.trial("x", (128,), 1000, 1.0)
    assert warm_ups(tx) == 2
    tx.world.sleep(20)
    tester.trial("x", (128,), 1000, 1.0)
    assert warm_ups(tx) == 3


def test_warming_up_shows_each_flow_twice_and_ends_when_it_gets_no_better() -> None:
    tx, rx = fake_ports(FakeDevice(loss=0.5))
    between(tx, rx).trial("x", (64,), 1000, 1.0)
    warm = [seconds for _, rate, seconds in tx.world.trials if rate == 2000.0]
    assert warm == [512 / 2000, 512 / 2000]


def test_a_long_path_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    tx, rx = fake_ports(FakeDevice(latency_ns=600_000_000, loss=0.5))
    begin = tx.world.now_ns
    trial = between(tx, rx, settle_s=0).trial("x", (64,), 1000, 1.0)
    assert trial.verdict == "valid"
    trial_ns = tx.world.now_ns - begin
    ended = sum(seconds for _, _, seconds in tx.world.trials)
    assert trial_ns / 1e9 - ended > 1.2 + 2.0  # twice the delay, and the warm-up's whole patience


def test_trial_numbers_go_round_without_zero() -> None:
    tester = fake_tester()
    tester._trial = 65_533
    for _ in range(4):
        assert tester.trial("x", (64,), 1000, 0.1).verdict == "valid"
    assert tester._trial == 3  # the warm-up has a number of its own


def test_the_frames_that_leave_together_span_ten_microseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    tx, rx = fake_ports()
    batches: dict[float | None, int] = {}
    honest = tx.send

    def send(*args: object, rate_pps: float | None, batch: int, **rest: object) -> Sent:
        batches[rate_pps] = batch
        return honest(*args, rate_pps=rate_pps, batch=batch, **rest)  # type: ignore[arg-type]

    monkeypatch.setattr(tx, "send", send)
    tester = between(tx, rx)
    for rate in (100.0, 100_000.0, 1_488_095.0, None):
        tester.trial("x", (64,), rate, 0.1)
    assert [batches[rate] for rate in (100.0, 100_000.0, 1_488_095.0, None)] == [1, 8, 64, 64]


def test_the_devices_processor_is_watched_while_frames_are_sent_and_no_longer() -> None:
    class Cpu:
        def __init__(self, port: FakePort) -> None:
            self.port, self.times = port, list[int]()

        def start(self) -> None:
            self.times.append(self.port.world.now_ns)

        def stop(self) -> Mapping[str, float]:
            self.times.append(self.port.world.now_ns)
            return {"busy_max": 0.5}

    tx, rx = fake_ports()
    cpu = Cpu(tx)
    trial = between(tx, rx, cpu=cpu).trial("x", (64,), 1000, 3.0)
    assert trial.cpu == {"busy_max": 0.5}
    assert (cpu.times[1] - cpu.times[0]) / 1e9 == pytest.approx(3.0, abs=0.01)


@pytest.mark.parametrize(("behind_s", "verdict"), [(1.9, "valid"), (5.0, "invalid")])
def test_counters_that_are_behind_are_waited_for(
    monkeypatch: pytest.MonkeyPatch, behind_s: float, verdict: str
) -> None:
    tx, rx = fake_ports()
    honest = rx.counters
    shown = honest()

    def behind() -> InterfaceCounters:
        nonlocal shown
        now = honest()
        sent = rx.world.trials
        if not sent or sent[-1][1] == 2000.0 or now.time_ns > ended + behind_s * 1e9:
            shown = now
        return replace(now, rx_packets=shown.rx_packets)

    tester = between(tx, rx)
    tester.trial("x", (64,), 2000, 1.0)
    ended = rx.world.now_ns + 1e9
    monkeypatch.setattr(rx, "counters", behind)
    assert tester.trial("x", (64,), 1000, 1.0).verdict == verdict


def test_refusals_say_what_to_do() -> None:
    trial = fake_tester(FakeDevice(duplicates=1)).trial("x", (64,), 1000, 1.0)
    assert trial.refusals == (
        Refusal(
            "duplicates",
            "1 of 1000 frames arrived more than once",
            "look for a loop, a mirror port or two paths between the ports",
        ),
    )
