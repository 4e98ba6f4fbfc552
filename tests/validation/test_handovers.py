"""Handovers of M2HO's recordings: their clocks, their interruptions, and days that were held out.

`docs/validation/handovers.md` has the trials; they take half an hour.
"""

from __future__ import annotations

from functools import cache

import pytest
from handovers import CONSTANTS, path_of, pattern_of
from tests.traces import FOLDER, WORD

from wavebed.conditions.condition import condition
from wavebed.fit.handovers import LearnedHandovers, distances, effects, learn_handovers, lengths_of

DATA = FOLDER.parent / "data" / "m2ho"


@cache
def learned() -> LearnedHandovers:
    if not DATA.is_dir():
        pytest.skip(WORD)
    return learn_handovers([DATA])


def test_the_clocks_are_told_apart_from_the_next_best_shift():
    shifts = {(each.day, each.name): each.alignment for each in learned().recordings}
    assert len(shifts) == 6
    assert all(each.score > 1.5 * each.rival for each in shifts.values())
    # The four transfers of one day are shifted each for itself, and agree.
    one_day = [each.shift_s for (day, _), each in shifts.items() if day == "20230213"]
    assert max(one_day) - min(one_day) < 0.2


def test_an_interruption_is_longer_than_the_messages_say_and_than_scenes_have_it():
    lengths = lengths_of(learned().effects)
    medians = {kind: 1e3 * times[5] for kind, times in lengths.items()}
    assert medians == {
        "scg": pytest.approx(129, abs=2),
        "lte": pytest.approx(108, abs=2),
        "addition": pytest.approx(132, abs=2),
        "release": pytest.approx(111, abs=2),
    }
    assert all(medians[kind] > 1.4e3 * constant for kind, (constant,) in CONSTANTS.items())


def test_days_held_out_are_as_near_as_days_are_to_each_other():
    judged = [each for each in distances(learned().effects) if each.is_judged]
    assert {each.kind for each in judged} == {"scg", "lte", "addition", "release"}
    assert all(each.holds for each in judged)


def test_the_motorway_has_the_measured_changes_of_the_cell():
    (variant,) = (each for each in condition("motorway-handover").variants if each.name.endswith("mid-band"))
    text = next(each.says for each in variant.published if "TCP was interrupted" in each.says)
    low, middle, high = (1e3 * lengths_of(learned().effects)["scg"][place] for place in (0, 5, 9))
    assert f"{middle:.0f} ms at the median and {high:.0f} ms at percentile 90" in text
    assert low == pytest.approx(75, abs=1)


def test_a_pattern_has_the_events_and_the_rates_outside_of_them():
    recording = learned().recordings[0]
    pattern = pattern_of(recording, CONSTANTS, 1)
    rows = [line.split(",") for line in pattern.splitlines()[4:]]
    begins = [float(at) for at, _, state in rows if state == "handover"]
    within = [event.at_s for event in recording.events if 0 < event.at_s < recording.received.at_s[-1]]
    assert begins == pytest.approx(sorted(within), abs=1e-3)
    path = path_of(recording)
    assert path is not None
    assert path.rtt_ms == pytest.approx(30.25)
    assert len(effects(recording)) == 19
