"""Measured handovers: their messages, their alignment with a transfer, and their effect on it."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.made_up_handovers import COMMANDS, HEAD, MadeUpHandover, events_text, write_recording

from wavebed.errors import UserError
from wavebed.fit.handovers import (
    LEAST_EVENTS,
    calm_events,
    distances,
    effects,
    kind_of,
    learn_handovers,
    read_events,
    read_recordings,
    read_transfer,
)

HANDOVERS = [
    MadeUpHandover(kind, at_s, gap_s=gap_s)
    for kind, at_s, gap_s in (
        ("scg", 5.04, 0.2),
        ("lte", 12.31, 0.06),
        ("addition", 19.02, 0.3),
        ("release", 27.73, 0.15),
        ("scg", 33.0, 0.1),
    )
]


@pytest.fixture
def folder(tmp_path):
    write_recording(tmp_path / "m2ho", HANDOVERS, shift_s=-2.3)
    return tmp_path / "m2ho"


def test_a_message_commands_one_kind_of_handover():
    assert {kind_of("LTE rrcConnectionReconfiguration", text) for text in COMMANDS.values()} == set(COMMANDS)
    assert kind_of("LTE rrcConnectionReconfiguration", "cellGroupId : 1") is None
    assert kind_of("LTE measurementReport", COMMANDS["scg"]) is None


def test_events_are_shifted_to_where_goodput_dips(folder):
    (recording,) = read_recordings(folder)
    assert recording.alignment.shift_s == pytest.approx(-2.3, abs=0.06)
    assert recording.alignment.score > 1.5 * recording.alignment.rival
    assert [event.kind for event in recording.events] == [each.kind for each in HANDOVERS]
    assert [event.at_s for event in recording.events] == pytest.approx([each.at_s for each in HANDOVERS], abs=0.06)


def test_an_effect_has_the_missing_data_the_dip_and_the_spike(folder):
    (recording,) = read_recordings(folder)
    found = effects(recording)
    assert len(found) == len(HANDOVERS)
    for effect, made in zip(found, HANDOVERS, strict=True):
        assert effect.before_bps == effect.after_bps == pytest.approx(1e8)
        assert effect.lost_s == pytest.approx(made.gap_s, abs=0.002)
        assert effect.spike_ms == pytest.approx(50)
        assert effect.retransmits >= 3
        assert effect.cwnd_ratio == 1.0
    assert found[0].depth == 0.0
    assert found[0].dip_s == pytest.approx(0.2)
    assert found[1].dip_s == pytest.approx(0.1)
    assert 0.2 <= found[0].recovery_s <= 0.31
    assert found[3].event.access_s != found[3].event.access_s  # a release has no random access


def test_calm_times_have_no_effect(folder):
    (recording,) = read_recordings(folder)
    calm = calm_events(recording)
    assert len(calm) > 5
    assert all(min(abs(one.at_s - each.at_s) for each in recording.events) > 2 for one in calm)


def test_without_a_sender_there_is_no_round_trip_time(tmp_path):
    write_recording(tmp_path / "m2ho", HANDOVERS, sender=False)
    (recording,) = read_recordings(tmp_path / "m2ho")
    found = effects(recording)
    assert recording.sent is None
    assert all(np.isnan(one.spike_ms) and np.isnan(one.retransmits) for one in found)
    assert [one.lost_s for one in found] == pytest.approx([each.gap_s for each in HANDOVERS], abs=0.002)


def test_a_kind_is_judged_from_fourteen_events_on_two_days_on(tmp_path):
    for day, gap_s in (("20230206", 0.1), ("20230213", 0.3)):
        made = [MadeUpHandover("scg", 5.0 + 4 * number, gap_s=gap_s) for number in range(LEAST_EVENTS // 2)]
        write_recording(tmp_path / "m2ho", made, day=day)
    learned = learn_handovers([tmp_path / "m2ho"])
    dip, *_ = distances(learned.effects)
    assert (dip.kind, dip.metric, dip.events, dip.days) == ("scg", "dip", LEAST_EVENTS, 2)
    assert dip.is_judged
    assert dip.between == dip.modelled == 1.0, "each day is the model of the other one"
    own, *_ = distances(learned.effects, learned.effects)
    assert own.modelled == 0.0
    assert not distances(learned.effects[:-1])[0].is_judged


def test_what_was_learned_is_a_table_of_timers(folder):
    learned = learn_handovers([folder])
    text = learned.as_toml()
    times = re.findall(r'^(\w+) = \["(\d+)ms".*"(\d+)ms"\]$', text, re.MULTILINE)
    assert times == [(key, "70", "300") for key in ("handover", "fallback", "return", "anchor")]
    assert 'anchor-every = "43s"' in text
    assert "# change of the NR cell: 2 events are too few: kinds like it;" in text
    assert "NaN" not in text


@settings(max_examples=40, deadline=None)
@given(
    made=st.lists(
        st.tuples(st.sampled_from(sorted(COMMANDS)), st.integers(300, 5000), st.integers(1, 90), st.integers(1, 200)),
        min_size=1,
        max_size=12,
    ),
    zone_h=st.integers(-12, 12),
    modem_s=st.floats(-3000, 3000),
)
def test_messages_are_read_as_they_were_written(tmp_path_factory, made, zone_h, modem_s):
    at_s = np.cumsum([apart / 1000 for _, apart, _, _ in made])
    written = [
        MadeUpHandover(kind, float(at), completed, access)
        for (kind, _, completed, access), at in zip(made, at_s, strict=True)
    ]
    file = tmp_path_factory.mktemp("messages") / "20230213-1-ho.events.csv"
    file.write_text(events_text(written, zone_h * 3600, modem_s), encoding="utf-8")
    found = read_events(file)
    assert [event.kind for event in found] == [each.kind for each in written]
    assert np.diff([event.at_s for event in found]) == pytest.approx(np.diff(at_s), abs=0.003)
    for event, each in zip(found, written, strict=True):
        assert event.completed_s == pytest.approx(each.completed_ms / 1000, abs=0.003)
        if each.kind != "release":
            assert event.access_s == pytest.approx(each.access_ms / 1000, abs=0.003)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("20230213-1-ho.events.csv", "time\n1\n", "has no columns details, message, modem_time, phone_time"),
        ("20230213-1-ho.events.csv", HEAD + "noon,12:00:00,,,,x,\n", "line 2: 'noon' is no time of day"),
        (
            "20230213-tcp-recv-1-x.tcp.csv",
            "start_s,end_s\n0,1\n",
            "does not begin with the columns start_s (from TIME)",
        ),
        (
            "20230213-tcp-recv-1-x.tcp.csv",
            "start_s (from 2023-02-14T06:30:00+00:00),end_s,bytes,retransmits,cwnd_bytes,rtt_us\n1,1,5,,,\n",
            "has rows without a start, a later end and bytes",
        ),
    ],
)
def test_another_file_is_refused_with_a_remedy(tmp_path, name, text, message):
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=re.escape(message)) as caught:
        (read_events if "events" in name else read_transfer)(file)
    assert ": name a file of " in str(caught.value) or "write 13:05:09.250" in str(caught.value)


def test_a_folder_without_a_pair_is_refused(tmp_path):
    with pytest.raises(UserError, match="has no DAY-N-"):
        learn_handovers([tmp_path])
