"""Settings of the radio stages, and the presets of the engine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from wavebed.config.problems import Problem
from wavebed.config.units import Limit
from wavebed.radio.presets import (
    PRESETS,
    SLEEP,
    RadioSettings,
    WifiSettings,
    preset_stages,
    radio_stage,
    ue_limit_stage,
    wifi_stage,
)
from wavebed.radio.read import carrier_slots, change_settings, mac_settings, ue_limit
from wavebed.spec.types import Aggregation, AmRlc, Configured, ConstantRate, PacketsRate, PatternRate, Reordering, UmRlc

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion


RATE = ConstantRate(1_000_000_000)
RADIOS = [name for name, settings in PRESETS.items() if isinstance(settings, RadioSettings)]


def radio(preset: str = "nr-120khz", **table: Any) -> RadioSettings:
    changed = change_settings(PRESETS[preset], {key.replace("_", "-"): value for key, value in table.items()}, "radio")
    assert isinstance(changed, RadioSettings)
    return changed


@pytest.mark.parametrize("preset", RADIOS)
def test_the_stages_of_a_preset(preset: str, snapshot: SnapshotAssertion) -> None:
    settings = PRESETS[preset]
    assert isinstance(settings, RadioSettings)
    stages = {"down": radio_stage(settings, "down", RATE), "up": radio_stage(settings, "up", RATE)}
    assert msgspec.json.decode(msgspec.json.encode(stages)) == snapshot


def test_the_stage_of_the_wifi_preset(snapshot: SnapshotAssertion) -> None:
    settings = PRESETS["802.11ad"]
    assert isinstance(settings, WifiSettings)
    assert msgspec.to_builtins(wifi_stage(settings, RATE)) == snapshot


@pytest.mark.parametrize(
    ("preset", "slot_ns"),
    [("nr-15khz", 1_000_000), ("nr-30khz", 500_000), ("nr-60khz", 250_000), ("nr-120khz", 125_000), ("lte", 1_000_000)],
)
def test_a_slot_is_a_millisecond_halved_with_every_numerology(preset: str, slot_ns: int) -> None:
    assert radio(preset).slots.slot_ns == slot_ns


def test_harq_of_lte_takes_eight_milliseconds() -> None:
    harq = radio("lte").slots.harq
    assert harq is not None
    assert (harq.feedback_slots + harq.schedule_slots) * radio("lte").slots.slot_ns == 8_000_000
    assert harq.processes == 8


@pytest.mark.parametrize("preset", RADIOS)
def test_a_preset_never_sleeps_and_only_its_uplink_waits_for_grants(preset: str) -> None:
    settings = radio(preset)
    assert settings.connection is None
    assert settings.fallback is None
    assert settings.down.grants is None
    assert settings.up.grants is not None


@pytest.mark.parametrize("preset", [name for name in RADIOS if name != "lte"])
def test_rlc_of_nr_recovers_before_reordering_gives_up(preset: str) -> None:
    down = radio(preset).down
    assert down.reordering is not None
    assert down.reordering.timer_ns is not None
    assert down.rlc.am.reassembly_ns + down.rlc.am.status_ns < down.reordering.timer_ns


def test_every_part_can_be_off() -> None:
    settings = radio(
        harq="off", reordering="off", grants="off", discard="off", drx="off", rrc="off", fallback="off", bler="0%"
    )
    stage = radio_stage(settings, "up", RATE)
    off = (stage.reordering, stage.grants, stage.discard_ns, stage.connection, stage.fallback, stage.slots.harq)
    assert off == (None,) * 6
    assert stage.bler == 0.0


def test_a_part_that_was_off_comes_back_as_the_preset_has_it() -> None:
    without = radio(harq="off", grants="off")
    again = change_settings(without, {"harq": {"limit": 2}, "grants": {"request": 40}}, "radio")
    assert isinstance(again, RadioSettings)
    assert again.slots.harq is not None
    assert again.up.grants is not None
    assert (again.slots.harq.limit, again.slots.harq.processes) == (2, 16)
    assert (again.up.grants.request_slots, again.up.grants.first_bytes) == (40, 512)


def test_unacknowledged_mode_has_no_timers_in_the_stage() -> None:
    assert radio_stage(radio(rlc="um"), "down", RATE).rlc == UmRlc()


def test_component_carriers_are_those_of_the_downlink() -> None:
    settings = radio(aggregation={"carriers": 8, "deactivation": "40ms"})
    assert radio_stage(settings, "down", RATE).aggregation == Aggregation(8, 24_000_000, 40_000_000)
    assert radio_stage(settings, "up", RATE).aggregation is None
    again = change_settings(settings, {"aggregation": "off"}, "radio")
    assert isinstance(again, RadioSettings)
    assert again.aggregation is None


def test_the_link_is_re_established_after_its_time() -> None:
    assert radio_stage(radio(), "down", RATE).rlc.reestablish_ns == 100_000_000
    assert radio_stage(radio(rlc={"reestablish": "1s"}), "up", RATE).rlc.reestablish_ns == 1_000_000_000
    with pytest.raises(Problem, match=r"^radio\.rlc\.reestablish: '0s' is no time"):
        radio(rlc={"reestablish": "0s"})


def test_lte_has_the_turbo_code_also_as_a_fallback() -> None:
    assert [radio(preset).slots.code for preset in ("nr-30khz", "lte")] == ["ldpc", "turbo"]
    fallback = radio(fallback="lte").fallback
    assert fallback is not None
    assert fallback.code == "turbo"


def test_rlc_of_lte_waits_for_ever_in_acknowledged_mode_and_until_its_timer_in_the_other() -> None:
    assert radio("lte").down.reordering == Reordering(None)
    assert radio("lte", rlc={"mode": "um", "reassembly": "50ms"}).up.reordering == Reordering(50_000_000)
    assert radio("lte", rlc="um", reordering="off").up.reordering is None


def test_a_configured_grant_needs_its_period_and_its_size() -> None:
    grants = radio(grants={"configured": {"slots": 8, "size": "1kb"}}).up.grants
    assert grants is not None
    assert (grants.configured, grants.request_slots) == (Configured(8, 1000), 10)
    with pytest.raises(Problem, match=r"^radio\.grants\.configured\.size: is missing"):
        radio(grants={"configured": {"slots": 8}})


def test_a_buffer_is_a_size_or_a_queue_and_each_direction_can_have_its_own() -> None:
    settings = radio(buffer="4mib", up_buffer="codel")
    assert (settings.down.queue.kind, settings.down.queue.limit) == ("droptail", Limit(bytes=4 << 20))
    assert (settings.up.queue.kind, settings.up.queue.limit) == ("codel", Limit(bytes=4 << 20))
    assert radio(down_buffer="droptail:500p").down.queue.limit == Limit(packets=500)


def test_sleep_can_be_turned_on_changed_or_given_in_full() -> None:
    drx, rrc = SLEEP["nr"]
    connection = radio(drx="on", rrc={"inactivity": "5s"}).connection
    assert connection is not None
    assert connection.drx == drx
    assert connection.rrc is not None
    assert (connection.rrc.inactivity_ns, connection.rrc.paging_ns) == (5_000_000_000, rrc.paging_ns)
    short = radio("lte", drx={"short-cycle": "off"}).connection
    assert short is not None
    assert short.drx is not None
    assert (short.drx.short_cycle_ns, short.drx.short_cycles) == (None, 0)


def test_the_frame_of_a_scene_belongs_to_its_carrier() -> None:
    settings = mac_settings("nr", {}, "radio", numerology=1, frame="DDDDDDDSUU", special_symbols=(6, 4, 4))
    assert isinstance(settings, RadioSettings)
    assert (settings.preset, settings.slots.frame, settings.slots.special_symbols) == (
        "nr-30khz",
        "DDDDDDDSUU",
        (6, 4, 4),
    )
    with pytest.raises(Problem, match=r"^radio\.frame: belongs to the carrier"):
        mac_settings("nr", {"frame": "DU"}, "radio", numerology=1, frame="DDDSU")


def test_a_fallback_carrier_has_slots_of_its_own() -> None:
    slots = carrier_slots("lte")
    settings = mac_settings("nr", {}, "radio", numerology=3, frame="DDDSU", fallback=slots)
    assert isinstance(settings, RadioSettings)
    assert settings.fallback == slots == radio(fallback="lte").fallback
    changed = radio(fallback={"preset": "nr-30khz", "frame": "fdd", "harq": "off"}).fallback
    assert changed is not None
    assert (changed.slot_ns, changed.frame, changed.harq) == (500_000, "", None)


def test_a_split_bearer_has_a_leg_of_the_preset_of_its_fallback_carrier() -> None:
    assert radio(fallback="lte").bearer == "switched"
    settings = radio(fallback="lte", bearer="split")
    pattern = PatternRate("two.csv", "repeat", 0)
    down, up = (radio_stage(settings, direction, pattern).split for direction in ("down", "up"))
    assert down is not None
    assert up is not None
    lte = PRESETS["lte"]
    assert isinstance(lte, RadioSettings)
    assert isinstance(up.rlc, AmRlc)
    assert (up.rlc.retransmissions, up.grants, down.grants) == (4, lte.up.grants, None)
    assert (down.threshold_bytes, up.threshold_bytes) == (0, None), "ul-DataSplitThreshold is infinity"
    assert radio_stage(radio(fallback="lte"), "up", pattern).split is None
    other = radio(fallback="nr-15khz", bearer="split", up_split_threshold="6400b", rlc="um", grants="off")
    leg = radio_stage(other, "up", pattern).split
    assert leg is not None
    assert (leg.threshold_bytes, leg.rlc, leg.grants) == (6400, UmRlc(), None)
    infinite = change_settings(other, {"up-split-threshold": "infinity"}, "radio")
    assert isinstance(infinite, RadioSettings)
    assert infinite.up_threshold_bytes is None


def test_a_split_bearer_waits_longer_for_a_gap_unless_the_scenario_says_how_long() -> None:
    timers = {
        name: (settings.down.reordering, settings.up.reordering)
        for name, settings in {
            "switched": radio(fallback="lte"),
            "split": radio(fallback="lte", bearer="split"),
            "given": radio(fallback="lte", bearer="split", reordering="100ms"),
            "off": radio(fallback="lte", bearer="split", reordering="off"),
            "before": change_settings(radio(fallback="lte", reordering="80ms"), {"bearer": "split"}, "radio"),
        }.items()
        if isinstance(settings, RadioSettings)
    }
    assert timers == {
        "switched": (Reordering(100_000_000),) * 2,
        "split": (Reordering(500_000_000),) * 2,
        "given": (Reordering(100_000_000),) * 2,
        "off": (None, None),
        "before": (Reordering(80_000_000),) * 2,
    }


def test_a_device_limits_packets_in_one_or_both_directions() -> None:
    limit = ue_limit({"packets-per-second": 60_000, "up-packets-per-second": 20_000, "queue": "droptail:50p"})
    down, up = (ue_limit_stage(limit, direction) for direction in ("down", "up"))
    assert msgspec.to_builtins(down) == {
        "stage": "bottleneck",
        "rate": {"kind": "packets", "packets_per_s": 60_000},
        "queue": {"kind": "droptail", "limit": {"packets": 50}},
        "overhead_bytes": 0,
        "unit": "packet",
        "outage": "hold",
    }
    assert up is not None
    assert up.rate == PacketsRate(20_000)
    assert ue_limit_stage(ue_limit({"down-packets-per-second": 1000}), "up") is None


@pytest.mark.parametrize(
    ("preset", "table", "message"),
    [
        ("nr-120khz", {"harqs": "off"}, r"radio\.harqs: unknown key: did you mean 'harq'"),
        ("nr-120khz", {"harq": "on"}, r"radio\.harq: 'on' is not a choice"),
        ("nr-120khz", {"harq": {"limit": 0}}, r"radio\.harq\.limit: 0 is out of range"),
        ("nr-120khz", {"harq": {"combining-gain-db": float("nan")}}, r"radio\.harq\.combining-gain-db: nan is out"),
        ("nr-120khz", {"harq": {"slope-per-db": -1}}, r"radio\.harq\.slope-per-db: -1 is out of range"),
        ("nr-120khz", {"frame": "DDD"}, r"radio\.frame: 'DDD' has no uplink slot: add a U"),
        ("nr-120khz", {"frame": "UU"}, r"radio\.frame: 'UU' has no downlink slot: add a D"),
        ("nr-120khz", {"frame": "DDDX"}, r"radio\.frame: 'DDDX' is not a frame"),
        ("nr-120khz", {"frame": "D" * 160 + "U"}, r"radio\.frame: has 161 slots"),
        ("nr-120khz", {"special-symbols": [10, 2, 3]}, r"radio\.special-symbols: \[10, 2, 3\] sums to 15"),
        ("nr-15khz", {"special-symbols": [10, 2, 2]}, r"radio\.special-symbols: requires an S slot"),
        ("nr-120khz", {"frame": "DDDS", "special-symbols": [12, 2, 0]}, r"radio\.frame: 'DDDS' has no uplink slot"),
        ("nr-120khz", {"rlc": "tm"}, r"radio\.rlc: 'tm' is not a choice"),
        ("nr-120khz", {"rlc": {"poll": "0ms"}}, r"radio\.rlc\.poll: '0ms' is no time"),
        ("nr-120khz", {"reordering": "on"}, r"radio\.reordering: 'on' is not a choice"),
        ("nr-120khz", {"reordering": 5}, r"radio\.reordering: 5 is not a choice"),
        ("nr-120khz", {"grants": {"first": "0b"}}, r"radio\.grants\.first: '0b' is no size: write more than 0"),
        ("nr-120khz", {"grants": {"request": 0}}, r"radio\.grants\.request: 0 is out of range"),
        ("nr-120khz", {"drx": {"on": "80ms"}}, r"radio\.drx\.on: must be less than the cycle"),
        ("nr-120khz", {"drx": {"short-cycles": 2}}, r"radio\.drx\.short-cycles: needs the key short-cycle"),
        ("nr-120khz", {"drx": {"short-cycle": "30ms"}}, r"radio\.drx\.long-cycle: must be a multiple"),
        ("nr-120khz", {"discard": "0ms"}, r"radio\.discard: '0ms' is no time: write more than 0"),
        ("nr-120khz", {"discard": "1s", "buffer": "fq_codel"}, r"radio\.discard: does not fit an fq_codel queue"),
        ("nr-120khz", {"buffer": "-1mb"}, r"radio\.buffer: '-1mb' is not a size"),
        ("nr-120khz", {"buffer": "0b"}, r"radio\.buffer: an empty buffer"),
        ("nr-120khz", {"fallback": "802.11ad"}, r"radio\.fallback\.preset: has no slots"),
        ("nr-120khz", {"bearer": "both"}, r"radio\.bearer: 'both' is not a choice"),
        ("nr-120khz", {"bearer": "split"}, r"radio\.bearer: is split, and there is no second carrier: add fallback"),
        ("nr-120khz", {"up-split-threshold": "1kb"}, r"radio\.up-split-threshold: requires bearer"),
        (
            "nr-120khz",
            {"fallback": "lte", "bearer": "split", "up-split-threshold": "much"},
            r"radio\.up-split-threshold: 'much' is not a size",
        ),
        ("nr-120khz", {"bler": 0.1}, r"radio\.bler: 0\.1 has no unit"),
        ("nr-120khz", {"handover": "drop"}, r"radio\.handover: 'drop' is not a choice"),
        ("802.11ad", {"harq": "off"}, r"radio\.harq: unknown key"),
        ("802.11ad", {"aggregate-bytes": "1kb"}, r"radio\.aggregate-bytes: '1kb' is out of range"),
        ("802.11ad", {"retries": 256}, r"radio\.retries: 256 is out of range"),
    ],
)
def test_a_wrong_table_gives_the_key_and_the_rule(preset: str, table: dict[str, object], message: str) -> None:
    with pytest.raises(Problem, match="^" + message):
        change_settings(PRESETS[preset], table, "radio")


def test_a_device_without_a_number_is_refused() -> None:
    with pytest.raises(Problem, match=r"^ue-limit\.packets-per-second: is missing"):
        ue_limit({"queue": "droptail:50p"}, "ue-limit")
    with pytest.raises(Problem, match=r"^ue-limit\.packets-per-second: 0 is out of range"):
        ue_limit({"packets-per-second": 0}, "ue-limit")


FILE = Path(__file__).parents[2] / "crates/wavebed-link/src/sim/presets.json"


def test_the_crate_has_the_presets_of_python() -> None:
    assert FILE.read_text() == preset_stages(), f"run: python -m wavebed.radio.presets {FILE}"
