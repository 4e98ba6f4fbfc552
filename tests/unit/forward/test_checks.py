"""Each check of a trial: what it refuses, and what only looks like it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from wavebed.errors import UserError
from wavebed.forward.checks import Totals, TrialEvidence, check_mtu, check_ports, check_trial, difference, gap_s
from wavebed.forward.frames import Layout, Tags
from wavebed.forward.model import Ceiling, FrameCounters, InterfaceCounters, PortInfo, Refusal, Sent, ValueRange

S = 1_000_000_000
ZERO = InterfaceCounters(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, up=True, driver={})
FRAME_COUNTERS = FrameCounters(
    unique=100_000,
    duplicates=0,
    stale=0,
    other_trial=0,
    damaged=0,
    foreign=0,
    reordered=0,
    sizes={64: 100_000},
    first_ns=S,
    last_ns=2 * S,
    latency=None,
    receiver_lost=0,
)
SENT = Sent(100_000, 0, S - 10_000, 50_000, 10, 100_000, "live_frames")


def totals(
    after: InterfaceCounters, *, before: InterfaceCounters = ZERO, outer: InterfaceCounters | None = None
) -> Totals:
    return Totals((before, outer or after), (before, after))


def evidence(**fields: object) -> TrialEvidence:
    """A clean trial of 100 000 frames in a second through a veth pair, but for `fields`."""
    base = TrialEvidence(
        names=("tx0", "rx0"),
        arriving_sizes=(64,),
        offered_pps=100_000.0,
        planned=100_000,
        sent=SENT,
        counters=FRAME_COUNTERS,
        tx=totals(replace(ZERO, tx_packets=100_000)),
        rx=totals(replace(ZERO, rx_packets=100_000)),
        ceiling=Ceiling((64,), 1e6, "live_frames", "xdp_native"),
        took_s=1.0,
        tx_is_veth=True,
    )
    return replace(base, **fields)  # type: ignore[arg-type]


def received(unique: int, *, counted: int | None = None, **fields: object) -> dict[str, object]:
    """Frame counters with so many frames, and the counter of the port that goes with them."""
    counters = replace(FRAME_COUNTERS, unique=unique, sizes={64: unique} if unique else {}, **fields)  # type: ignore[arg-type]
    all_of_them = (
        counters.unique
        + counters.duplicates
        + counters.stale
        + counters.damaged
        + counters.other_trial
        + counters.foreign
        + counters.receiver_lost
    )
    return {
        "counters": counters,
        "rx": totals(replace(ZERO, rx_packets=all_of_them if counted is None else counted)),
    }


def codes(fields: dict[str, object]) -> list[str]:
    refusals = check_trial(evidence(**fields))
    assert all(refusal.reason and "\n" not in refusal.reason and refusal.remedy for refusal in refusals)
    return [refusal.code for refusal in refusals]


def reason(fields: dict[str, object]) -> str:
    return " / ".join(refusal.reason for refusal in check_trial(evidence(**fields)))


def test_a_clean_trial_counts() -> None:
    assert codes({}) == []


def test_a_trial_with_loss_counts() -> None:
    assert codes(received(70_000)) == []
    assert evidence(**received(70_000)).lost == 30_000


# The tester's limit


@pytest.mark.parametrize(("pps", "refused"), [(111_000.0, True), (112_000.0, False)])
def test_a_rate_above_nine_tenths_of_the_ceiling_is_the_testers(pps: float, refused: bool) -> None:
    fields: dict[str, object] = {"ceiling": Ceiling((64,), pps, "a", "b")}
    assert codes(fields) == (["tester_limit"] if refused else [])
    if refused:
        assert "the tester, not the device, was the limit: 100000 frames/s" in reason(fields)


def test_overload_is_judged_by_what_came_out_of_the_device() -> None:
    ceiling = Ceiling((64,), 100_000.0, "a", "b")
    full: dict[str, object] = {"offered_pps": None, "planned": None, "ceiling": ceiling}
    assert codes(full) == ["tester_limit"]
    assert "above 90 %" in reason(full)
    assert codes({**full, **received(80_000)}) == []


@pytest.mark.parametrize(("unique", "refused"), [(100_000, True), (99_001, True), (99_000, False)])
def test_a_device_that_carries_all_that_can_be_sent_was_not_overloaded(unique: int, refused: bool) -> None:
    fields: dict[str, object] = {**received(unique), "offered_pps": None, "planned": None}
    assert codes(fields) == (["tester_limit"] if refused else [])
    if refused:
        assert "that it could send" in reason(fields)


def test_a_frame_that_was_tried_again_has_left() -> None:
    tries = totals(replace(ZERO, tx_packets=100_000, tx_dropped=30_000))
    assert codes({"tx": tries, "tx_is_veth": False}) == []
    assert evidence(tx=tries, tx_is_veth=False).left == 100_000


def test_a_device_that_pushes_back_is_the_limit() -> None:
    fields: dict[str, object] = {"offered_pps": None, "planned": None}
    assert codes({**fields, "tx": totals(replace(ZERO, tx_packets=100_000, tx_dropped=30_000))}) == []
    assert codes({**fields, "tx": totals(replace(ZERO, tx_packets=100_000, tx_dropped=900))}) == ["tester_limit"]


def test_a_full_link_is_no_limit_of_the_tester() -> None:
    fields: dict[str, object] = {
        **received(60_000),
        "tx": totals(replace(ZERO, tx_packets=60_000, tx_dropped=40_000)),
        "tx_is_veth": False,
        "offered_pps": None,
        "planned": None,
    }
    assert codes(fields) == []


def test_what_the_receiver_lost_is_the_testers() -> None:
    assert codes(received(99_990, receiver_lost=10)) == ["tester_limit"]


def test_what_the_receiving_interface_dropped_is_the_testers() -> None:
    lost = received(99_000)
    dropped = totals(replace(ZERO, rx_packets=99_000, rx_dropped=900))
    assert codes({**lost, "rx": dropped}) == ["tester_limit"]


def test_dropped_frames_do_not_matter_when_none_is_missing_or_they_are_not_the_tests() -> None:
    assert codes({"rx": totals(replace(ZERO, rx_packets=100_000, rx_dropped=900))}) == []
    some = received(99_000, foreign=50)
    assert codes({**some, "rx": totals(replace(ZERO, rx_packets=99_050, rx_dropped=50))}) == []


def test_frames_that_a_real_interface_refused_are_no_loss_of_the_device() -> None:
    blocked: dict[str, object] = {
        **received(99_000),
        "tx": totals(replace(ZERO, tx_packets=99_000, tx_dropped=1000)),
    }
    assert codes({**blocked, "tx_is_veth": False}) == ["tester_limit"]
    assert codes(blocked) == []  # the far end of a veth pair is the device


def test_overload_counts_only_what_a_real_interface_took() -> None:
    fields: dict[str, object] = {
        **received(50_000),
        "tx": totals(replace(ZERO, tx_packets=60_000, tx_dropped=40_000)),
        "tx_is_veth": False,
        "offered_pps": None,
        "planned": None,
    }
    assert codes(fields) == []
    assert (evidence(**fields).left, evidence(**fields).lost) == (60_000, 10_000)


# The offered rate


@pytest.mark.parametrize(("took_ns", "late"), [(S + 6 * S // 1000, False), (S + 8 * S // 1000, True)])
def test_a_rate_that_was_not_kept_is_not_what_was_asked(took_ns: int, late: bool) -> None:
    assert codes({"sent": replace(SENT, took_ns=took_ns)}) == (["late"] if late else [])


@pytest.mark.parametrize(("took_ns", "late"), [(5_100_000, False), (5_300_000, True)])
def test_a_burst_that_takes_longer_is_none(took_ns: int, late: bool) -> None:
    fields: dict[str, object] = {
        **received(5001, first_ns=S, last_ns=S + 5_000_000),
        "planned": 5001,
        "offered_pps": 1e6,
        "took_s": 0.005,
        "ceiling": Ceiling((64,), 2e6, "a", "b"),
        "sent": replace(SENT, frames=5001, took_ns=took_ns, batches=501),
        "tx": totals(replace(ZERO, tx_packets=5001)),
    }
    assert codes(fields) == (["late"] if late else [])


def test_frames_that_a_socket_saw_refused_are_accounted_once() -> None:
    refused: dict[str, object] = {**received(99_000), "sent": replace(SENT, refused=1000)}
    counted = totals(replace(ZERO, tx_packets=99_000, tx_dropped=1000))
    assert codes({**refused, "tx": counted}) == []
    assert codes({**refused, "tx": totals(replace(ZERO, tx_packets=99_000))}) == []  # not every driver counts them
    missing = totals(replace(ZERO, tx_packets=98_900, tx_dropped=1000))
    assert codes({**refused, "tx": missing}) == ["unaccounted"]


def test_a_sender_that_gave_up_is_late() -> None:
    fields: dict[str, object] = {
        **received(90_000),
        "sent": replace(SENT, frames=90_000),
        "tx": totals(replace(ZERO, tx_packets=90_000)),
    }
    assert codes(fields) == ["late"]
    assert "only 90000 of 100000" in reason(fields)


@pytest.mark.parametrize(("batches", "late"), [(9_999, False), (10_001, True)])
def test_a_loss_that_bursts_of_the_tester_may_have_caused_is_not_the_devices(batches: int, late: bool) -> None:
    sent = replace(SENT, late_batches=batches)
    assert codes({**received(95_000), "sent": sent}) == (["late"] if late else [])


def test_bursts_of_which_nothing_was_lost_do_not_matter() -> None:
    sent = replace(SENT, late_batches=20_000)
    assert codes({"sent": sent}) == []
    assert codes({**received(99_999), "sent": sent}) == ["late"]


def test_as_fast_as_it_goes_is_never_late() -> None:
    fields: dict[str, object] = {**received(50_000), "offered_pps": None, "planned": None}
    assert codes({**fields, "sent": replace(SENT, late_batches=90_000, took_ns=S)}) == []


# What arrived


def test_super_packets_are_refused_with_the_remedy() -> None:
    fields = received(0, damaged=1000)
    fields["counters"] = replace(FRAME_COUNTERS, unique=0, damaged=1000, sizes={6004: 1000})
    assert "super_packets" in codes(fields)
    refusal = next(r for r in check_trial(evidence(**fields)) if r.code == "super_packets")
    assert "1000 frames larger" in refusal.reason
    assert "6004 bytes" in refusal.reason
    assert "ethtool -K rx0 rx-udp-gro-forwarding off" in refusal.remedy


def test_one_super_packet_among_many_frames_is_enough() -> None:
    fields = received(99_999, damaged=1)
    fields["counters"] = replace(FRAME_COUNTERS, unique=99_999, damaged=1, sizes={64: 99_999, 65535: 1})
    assert codes(fields) == ["super_packets"]


def test_frames_that_were_cut_point_to_the_mtu() -> None:
    fields = {**received(0, damaged=10), "arriving_sizes": (1518,)}
    fields["counters"] = replace(FRAME_COUNTERS, unique=0, damaged=10, sizes={1418: 10})
    assert codes(fields)[0] == "mtu"


def test_a_size_of_the_mix_is_no_stranger() -> None:
    fields = {**received(100_000), "arriving_sizes": (64, 594, 1518)}
    fields["counters"] = replace(FRAME_COUNTERS, sizes={64: 58_333, 594: 33_333, 1518: 8_334})
    assert codes(fields) == []
    fields["counters"] = replace(FRAME_COUNTERS, sizes={64: 58_333, 595: 33_333, 1518: 8_334})
    assert codes(fields) == ["mtu"]


def test_numbers_that_were_never_sent_are_refused() -> None:
    fields = received(99_999, damaged=1)
    fields["counters"] = replace(FRAME_COUNTERS, unique=99_999, damaged=1)
    assert codes(fields) == ["unaccounted"]


def test_duplicates_are_refused() -> None:
    assert codes(received(100_000, duplicates=1)) == ["duplicates"]


def test_a_flood_is_refused_and_talk_is_not() -> None:
    assert codes(received(100_000, foreign=120)) == []
    assert codes(received(100_000, foreign=121)) == ["flood"]
    assert codes(received(100_000, other_trial=121)) == ["flood"]


def test_nothing_at_all_is_no_number() -> None:
    assert codes({**received(0), "looks": ()}) == ["no_frames"]
    assert codes(received(1)) == []


def test_nothing_sent_is_no_number() -> None:
    fields: dict[str, object] = {**received(0), "sent": replace(SENT, frames=0), "tx": totals(ZERO)}
    assert codes(fields) == ["no_frames"]


# The device's life


def test_a_carrier_that_came_and_went_is_a_reboot() -> None:
    assert codes({"rx": totals(replace(ZERO, rx_packets=100_000, carrier_changes=4))}) == ["reboot"]
    assert codes({"tx": totals(replace(ZERO, tx_packets=100_000, carrier_changes=4))}) == ["reboot"]


def test_a_port_that_is_down_afterwards_is_named() -> None:
    fields: dict[str, object] = {
        "tx": totals(replace(ZERO, tx_packets=100_000, carrier_changes=3)),
        "rx": totals(replace(ZERO, rx_packets=100_000, up=False, carrier_changes=3)),
    }
    assert codes(fields) == ["port_down"]
    assert "rx0 went down" in reason(fields)


@pytest.mark.parametrize(("end_s", "dead"), [(1.95, False), (1.85, True)])
def test_a_trial_that_was_cut_off_is_a_reboot(end_s: float, dead: bool) -> None:
    assert codes(received(60_000, last_ns=round(end_s * S))) == (["reboot"] if dead else [])


@pytest.mark.parametrize(("end_s", "dead"), [(1.6, False), (1.4, True)])
def test_a_device_without_time_to_forward_may_be_silent_for_half_the_trial(end_s: float, dead: bool) -> None:
    assert codes(received(9_000, last_ns=round(end_s * S))) == (["reboot"] if dead else [])


def test_few_frames_far_apart_are_no_silence() -> None:
    assert codes(received(10, first_ns=S + S // 5, last_ns=2 * S - S // 5)) == []


def test_a_device_that_delivers_late_is_not_silent() -> None:
    assert codes(received(60_000, first_ns=5 * S, last_ns=7 * S)) == []


def test_a_trial_that_lost_nothing_was_not_cut_off() -> None:
    """The receiver of a busy machine takes the first frames late, and then all at once."""
    assert codes(received(100_000, first_ns=S + S // 5)) == []
    assert codes(received(99_999, first_ns=S + S // 5)) == ["reboot"]


def test_silence_amid_a_trial_is_a_reboot() -> None:
    half = S // 2
    looks = [(0, 0), (half, 10), (2 * half, 20), (3 * half, 20), (4 * half, 20), (5 * half, 30), (6 * half, 40)]
    assert gap_s(looks) == 1.0
    assert codes({"looks": looks}) == ["reboot"]
    assert codes({"looks": looks[:3] + looks[4:]}) == ["reboot"]
    assert codes({"looks": [*looks[:4], *looks[5:]]}) == []  # half a second may be chance


def test_the_silence_before_and_after_is_not_amid() -> None:
    assert gap_s([(0, 0), (S, 0), (2 * S, 5), (3 * S, 9), (4 * S, 9), (5 * S, 9)]) == 0.0
    assert gap_s([]) == 0.0


# Accounting


@pytest.mark.parametrize("counted", [99_999, 100_001])
def test_counters_and_interface_must_agree_to_the_frame(counted: int) -> None:
    assert codes({"rx": totals(replace(ZERO, rx_packets=counted))}) == ["unaccounted"]


def test_foreign_frames_are_accounted_exactly() -> None:
    assert codes(received(100_000, foreign=7)) == []
    assert codes(received(100_000, foreign=7, counted=100_008)) == ["unaccounted"]


def test_a_frame_between_the_counters_may_be_in_either() -> None:
    inner, outer = replace(ZERO, rx_packets=99_999), replace(ZERO, rx_packets=100_000)
    assert codes({"rx": totals(inner, outer=outer)}) == []
    assert codes({"rx": totals(inner, outer=replace(ZERO, rx_packets=99_999))}) == ["unaccounted"]


def test_a_frame_that_never_reached_the_interface_is_unaccounted() -> None:
    fields = {**received(99_999), "tx": totals(replace(ZERO, tx_packets=99_999))}
    assert codes(fields) == ["unaccounted"]
    assert codes({**fields, "tx": totals(replace(ZERO, tx_packets=99_999, tx_dropped=1))}) == []


def test_a_stranger_at_the_sending_port_is_seen_and_its_own_talk_is_allowed() -> None:
    assert codes({"tx": totals(replace(ZERO, tx_packets=100_030))}) == []
    assert codes({"tx": totals(replace(ZERO, tx_packets=100_031))}) == ["unaccounted"]
    assert codes({"tx": totals(replace(ZERO, tx_packets=100_031, rx_packets=1))}) == []
    assert codes({"tx": totals(replace(ZERO, tx_packets=100_000, tx_dropped=500))}) == []  # tries, not frames


def test_stale_frames_are_unaccounted() -> None:
    assert codes(received(99_999, stale=1)) == ["unaccounted"]


def test_differences_are_taken_field_by_field() -> None:
    before = InterfaceCounters(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, up=True, driver={"a": 1})
    after = InterfaceCounters(11, 22, 33, 44, 55, 66, 77, 88, 99, 110, 121, up=False, driver={"a": 4, "b": 2})
    assert difference(before, after) == InterfaceCounters(
        10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, up=False, driver={"a": 3, "b": 2}
    )


# Ports, before anything is sent

INFO = PortInfo(
    interface="tx0",
    mac="02:00:00:00:00:01",
    mtu=1500,
    up=True,
    carrier=True,
    carrier_changes=2,
    speed_mbps=None,
    driver="veth",
    addresses=(),
    offloads={"rx-gro": True, "tx-tcp-segmentation": True, "tx-udp-segmentation": False},
    fixed=(),
    machine="one",
    cores=2,
    xdp=False,
)
RX = replace(INFO, interface="rx0")


def on(info: PortInfo, name: str, *, fixed: bool = False) -> PortInfo:
    return replace(info, offloads={**info.offloads, name: True}, fixed=(name,) if fixed else ())


def test_ports_in_order_are_not_refused() -> None:
    assert check_ports(INFO, RX) == []


def test_udp_segmentation_at_the_sending_port_is_refused() -> None:
    (refusal,) = check_ports(on(INFO, "tx-udp-segmentation"), RX)
    assert refusal.code == "offload"
    assert "one super-packet" in refusal.reason
    assert refusal.remedy == "ethtool -K tx0 tx-udp-segmentation off"


@pytest.mark.parametrize("name", ["rx-udp-gro-forwarding", "rx-gro-list", "rx-gro-hw", "rx-lro"])
def test_joining_at_the_receiving_port_is_refused(name: str) -> None:
    assert [(r.code, r.remedy) for r in check_ports(INFO, on(RX, name))] == [("offload", f"ethtool -K rx0 {name} off")]
    assert check_ports(on(INFO, name), RX) == []


def test_a_feature_that_cannot_be_changed_asks_for_another_interface() -> None:
    (refusal,) = check_ports(INFO, on(RX, "rx-lro", fixed=True))
    assert "another" in refusal.remedy


def test_ports_that_are_down_are_refused() -> None:
    refusals: list[Refusal] = check_ports(replace(INFO, up=False, carrier=False), replace(RX, carrier=False))
    assert [refusal.code for refusal in refusals] == ["port_down", "port_down"]
    assert "tx0 is down" in refusals[0].reason
    assert "rx0 is up without a carrier" in refusals[1].reason


def test_a_foreign_program_at_the_receiving_port_is_refused() -> None:
    (refusal,) = check_ports(replace(INFO, xdp=True), replace(RX, xdp=True))
    assert refusal.remedy == "ip link set rx0 xdp off"


LAYOUT = Layout(ValueRange("198.18.0.2", 1), ValueRange("198.19.0.2", 16), next_hop="198.18.0.1")


def test_a_frame_of_1518_bytes_fits_an_mtu_of_1500() -> None:
    assert check_mtu(LAYOUT, (64, 1518), INFO, RX) == []
    (refusal,) = check_mtu(LAYOUT, (1519,), INFO, replace(RX, mtu=1600))
    assert "needs an MTU of 1501, and tx0 has 1500" in refusal.reason


def test_a_small_mtu_is_refused_where_it_is() -> None:
    (refusal,) = check_mtu(LAYOUT, (1518,), INFO, replace(RX, mtu=1400))
    assert refusal.code == "mtu"
    assert "rx0 has 1400" in refusal.reason


def test_a_vlan_tag_is_not_of_the_mtu_and_pppoe_is() -> None:
    assert check_mtu(replace(LAYOUT, tags=Tags(vlan=5)), (1522,), INFO, RX) == []
    (refusal, _) = check_mtu(replace(LAYOUT, tags=Tags(pppoe_session=1)), (1526,), INFO, RX)
    assert "needs an MTU of 1508" in refusal.reason


def test_frames_change_their_size_where_tags_end() -> None:
    layout = replace(LAYOUT, tags=Tags(pppoe_session=1), rx_tags=Tags())
    assert layout.arriving_sizes((72, 1526)) == (64, 1518)
    with pytest.raises(UserError, match="smallest that keeps its size is 72"):
        layout.arriving_sizes((71,))
    spec = layout.arriving_frames((72,), "a", "b")
    assert (spec.sizes_bytes, spec.pppoe_session) == ((64,), None)
    assert layout.frames((72,), "a", "b").pppoe_session == 1
