"""Timelines: how stretches are read, and the patterns that they become."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wavebed.cli import main
from wavebed.cli.ctl import _timeline_text
from wavebed.errors import UserError
from wavebed.path.live import USUAL_HANDOVER_NS, change_request, timeline_request
from wavebed.path.model import PatternFile
from wavebed.path.timeline import TimedPath, load_timeline, timed_path
from wavebed.path.traces import Traces
from wavebed.pattern import Pattern, read_trace
from wavebed.pattern.model import STATES, steps
from wavebed.pattern.resample import CLEAR_NEED_MDB, CLEAR_SINR_MDB, PatternPart, part_of, sequence
from wavebed.scene.tables import Timers
from wavebed.shipped import names

SECOND = 10**9
MS = 10**6


def rates(times_s: list[float], values: list[int], duration_s: float, **columns: Any) -> Pattern:
    index = np.array([round(time_s * SECOND) for time_s in times_s], dtype=np.int64)
    rate_bps = np.array(values, dtype=np.int64)
    return steps(index, round(duration_s * SECOND), rate_bps=rate_bps, **columns)


def at(pattern: Pattern, time_s: float, column: str = "rate_bps") -> float:
    row = int(np.searchsorted(pattern.index, round(time_s * SECOND), side="right")) - 1
    return float(getattr(pattern, column)[row])


def composed(tmp_path: Path, text: str, **options: object) -> tuple[TimedPath, dict[str, list[Pattern]], Traces]:
    """Return the path of a timeline, and the patterns that each link plays."""
    file = tmp_path / "line.toml"
    file.write_text(text)
    traces = Traces()
    timed = timed_path(load_timeline(file), None, options, traces)
    played: dict[str, list[Pattern]] = {}
    each: Any
    for each in timed.timeline["patterns"]:  # type: ignore[union-attr]
        played.setdefault(each["link"], []).append(read_trace(Path(each["file"])))
    return timed, played, traces


def test_a_part_begins_anywhere_and_is_repeated_or_holds() -> None:
    pattern = rates([0, 1, 3], [10, 20, 30], 4)
    part = part_of(pattern, 2 * SECOND, 7 * SECOND, "repeat")
    assert part.period == 7 * SECOND
    assert [at(part, time_s) for time_s in (0, 0.9, 1, 2, 3, 5, 6.5)] == [20, 20, 30, 10, 20, 30, 10]
    held = part_of(pattern, 2 * SECOND, 7 * SECOND, "hold")
    assert [at(held, time_s) for time_s in (0, 1, 6.9)] == [20, 30, 30]
    late = part_of(pattern, 9 * SECOND, SECOND, "repeat")
    assert [at(late, time_s) for time_s in (0, 0.999)] == [20, 20]


def test_parts_stand_one_after_another_to_the_nanosecond() -> None:
    made = sequence([PatternPart("a", rates([0], [10], 1)), PatternPart("b", rates([0, 0.5], [20, 30], 1.5))])
    assert made.index.tolist() == [0, SECOND, SECOND * 3 // 2]
    assert made.period == SECOND * 5 // 2


def test_a_transition_is_even_and_ends_in_the_rows_of_its_part() -> None:
    second = rates([0, 0.5], [200, 400], 2)
    made = sequence([PatternPart("a", rates([0, 0.9], [7, 100], 1)), PatternPart("b", second, SECOND)])
    assert at(made, 1) == 100
    for share in (0.1, 0.25, 0.49):
        assert at(made, 1 + share) == pytest.approx(100 + share * 100, abs=1.1)
    # The second row of the part is in the middle of the transition.
    assert at(made, 1.5) == pytest.approx(250, abs=1.1)
    assert at(made, 2) == 400
    steps_of_10_ms = np.diff(made.index[(made.index >= SECOND) & (made.index <= 2 * SECOND)])
    assert steps_of_10_ms.max() == 10 * MS


def test_what_a_part_lacks_is_no_impairment() -> None:
    sinr = {"sinr_mdb": np.array([5000]), "need_mdb": np.array([4000]), "state": np.array([1], dtype=np.uint8)}
    made = sequence([PatternPart("a", rates([0], [10], 1)), PatternPart("b", rates([0], [20], 1, **sinr))])
    assert (at(made, 0, "sinr_mdb"), at(made, 0, "need_mdb")) == (CLEAR_SINR_MDB, CLEAR_NEED_MDB)
    assert (at(made, 1, "sinr_mdb"), at(made, 1, "state")) == (5000, 1)
    assert STATES[int(at(made, 0, "state"))] == "los"
    lossy = rates([0], [20], 1, bler=np.array([0.5]))
    with pytest.raises(UserError, match="'c' has block errors by bler, 'b' by SINR"):
        sequence([PatternPart("c", lossy), PatternPart("b", rates([0], [20], 1, **sinr))])


FIXED = """
loop = true

[[stretch]]
name = "home"
duration = "10s"
down-rate = "100mbit"
up-rate = "20mbit"
delay = "5ms"

[[stretch]]
name = "lift"
duration = "2s"
transition = "1s"
rate = "1mbit"
loss = "10%"

[[stretch]]
name = "tunnel"
duration = "3s"
coverage = false
"""


def test_stretches_become_one_pattern_for_each_condition_of_a_link(tmp_path: Path) -> None:
    timed, played, _ = composed(tmp_path, FIXED, delay="1ms", queue="droptail:100p")
    assert timed.timeline["duration_ns"] == 15 * SECOND
    assert timed.timeline["loop"] is True
    assert timed.timeline["stretches"] == [
        {"name": "home", "start_ns": 0},
        {"name": "lift", "start_ns": 10 * SECOND},
        {"name": "tunnel", "start_ns": 12 * SECOND},
    ]
    rate, delay, loss = played["radio.down"]
    assert [at(rate, time_s) for time_s in (0, 9.9, 11, 12, 14.9)] == [100e6, 100e6, 1e6, 0, 0]
    assert at(played["radio.up"][0], 3) == 20e6
    # The options hold where a stretch says nothing.
    assert [at(delay, time_s, "delay_ns") for time_s in (0, 11.5)] == [5 * MS, MS]
    assert [at(loss, time_s, "loss") for time_s in (0, 11.5, 12)] == [0, 0.1, 0.1]
    link = timed.path.hops[0].down
    assert isinstance(link.rate, PatternFile)
    assert (link.rate.end, link.queue and link.queue.kind) == ("repeat", "droptail")


def test_a_scene_keeps_its_radio_and_its_realisation(tmp_path: Path) -> None:
    text = (
        '[[stretch]]\nname = "flat"\nduration = "1s"\nrate = "50mbit"\n'
        '[[stretch]]\nname = "street"\nduration = "5s"\nscene = "street-canyon-bus"\nstart-at = "3s"\n'
    )
    timed, played, traces = composed(tmp_path, text, seed="7")
    alone = Traces()
    from wavebed.path.scenario import read_path

    path = read_path(None, {"scene": "street-canyon-bus", "seed": "7"}, alone)
    assert timed.path.hops[0].down.radio == path.hops[0].down.radio
    rate = path.hops[0].down.rate
    assert rate is not None
    scene = alone.pattern(rate, 7)  # type: ignore[arg-type]
    (composed_rate,) = played["radio.down"]
    for time_s in (3.0, 4.4, 7.99):
        assert at(composed_rate, time_s - 2) == at(scene, time_s)
        assert at(composed_rate, time_s - 2, "sinr_mdb") == at(scene, time_s, "sinr_mdb")
    assert at(composed_rate, 0.5) == 50e6
    traces.close()
    alone.close()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "stretch: is missing: add a table [[stretch]] for each stretch"),
        ('[[stretch]]\nduration = "1s"', "stretch[1].name: is missing: write name = "),
        ('[[stretch]]\nname = "a"\nduration = "1s"\nqueue = "codel"', "stretch[1].queue: belongs to the path"),
        (
            '[[stretch]]\nname = "a"\nduration = "1s"\nrat = "1mbit"',
            "stretch[1].rat: unknown key: did you mean 'rate'?",
        ),
        ('[[stretch]]\nname = "a"\nduration = "1s"\nrate = "1"', "stretch[1].rate: '1' has no unit"),
        ('[[stretch]]\nname = "a"\nduration = "0s"\nrate = "1mbit"', "stretch[1].duration: a stretch lasts some time"),
        ('[[stretch]]\nname = "a"\nduration = "1s"\ntransition = "1s"\nrate = "1mbit"', "the first stretch has none"),
        (
            '[[stretch]]\nname = "a"\nduration = "1s"\nrate = "1mbit"\n[[stretch]]\nname = "a"\nduration = "1s"',
            "stretch[2].name: 'a' is the name of another stretch",
        ),
        (
            (
                '[[stretch]]\nname = "a"\nduration = "1s"\nrate = "1mbit"\n'
                '[[stretch]]\nname = "b"\nduration = "1s"\ntransition = "2s"'
            ),
            "stretch[2].transition: is longer than the stretch",
        ),
        (
            '[[stretch]]\nname = "a"\nduration = "1s"\nrate = "1mbit"\n[[stretch]]\nname = "b"\nduration = "1s"',
            "stretch[2]: downlink: rate: there is none: add rate, trace or scene",
        ),
        ('[[stretch]]\nname = "a"\nduration = "1s"\ncoverage = false', "stretch: no stretch has coverage"),
        (
            '[[stretch]]\nname = "a"\nduration = "1s"\nscene = "street"',
            "stretch[1].scene: street: no such file, scene or condition: did you mean street-c",
        ),
    ],
)
def test_a_wrong_timeline_is_told_with_file_and_key(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UserError) as caught:
        composed(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path / 'line.toml'}: ")
    assert said in str(caught.value)


def test_the_shipped_timelines_are_read_and_run_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert names("timelines") == ("commute",)
    assert main(["bridge", "--a", "x", "--b", "y", "--timeline", "commute", "--print-bridge"]) == 0
    timeline = json.loads(capsys.readouterr().out)["timeline"]
    assert [each["name"] for each in timeline["stretches"]][:3] == ["home", "lift", "street"]
    assert main(["shell", "--timeline", "comute", "--print-laboratory"]) == 2
    assert "comute: is neither a file nor a shipped timeline: did you mean 'commute'?" in capsys.readouterr().err


def test_the_words_of_a_timeline_are_read_and_wrong_ones_told() -> None:
    for words, request in (
        ("play", {"action": "play"}),
        ("pause", {"action": "pause"}),
        ("seek 90s", {"action": "seek", "stretch": None, "position_ns": 90 * SECOND}),
        ("seek street", {"action": "seek", "stretch": "street", "position_ns": 0}),
        ("seek street+5s", {"action": "seek", "stretch": "street", "position_ns": 5 * SECOND}),
        ("speed 0.5", {"action": "speed", "permille": 500}),
        ("loop off", {"action": "loop", "on": False}),
        (
            "set lift.down-rate=1mbit",
            {"action": "edit", "stretch": "lift", "direction": "down", "key": "rate_bps", "value": 1_000_000},
        ),
        ("set a-b.loss=1%", {"action": "edit", "stretch": "a-b", "direction": None, "key": "loss", "value": 0.01}),
    ):
        assert timeline_request(words.split()) == {"do": "timeline", **request}
    for words, said in (
        ("sek 1s", "did you mean 'seek'?"),
        ("seek", "timeline.seek: write timeline seek WHERE"),
        ("play now", "timeline.play: write timeline play"),
        ("speed 0", "'0' is no speed"),
        ("speed nan", "'nan' is no speed"),
        ("set lift", "'lift' names no value of a stretch: write STRETCH.KEY=VALUE"),
        ("set lift.queue=1p", "'queue' cannot be set: write rate, delay or loss"),
        ("set lift.rate=1", "lift.rate: '1' has no unit"),
        ("loop yes", "'yes' is no choice: write on or off"),
        ("seek street+5", "'5' has no unit"),
    ):
        with pytest.raises(UserError) as caught:
            timeline_request(words.split())
        assert said in str(caught.value), words


def test_faults_are_read_and_wrong_ones_told() -> None:
    assert Timers().handover_s[0] * SECOND == USUAL_HANDOVER_NS
    for key, value, wanted in (
        ("handover", "usual", {"for_ns": 50 * MS, "handling": None}),
        ("radio.down.handover", "80ms:lose", {"for_ns": 80 * MS, "handling": "lose"}),
        ("flap", "3:1s", {"times": 3, "period_ns": SECOND, "down_ns": SECOND // 2}),
        ("flap", "3:1s:200ms", {"times": 3, "period_ns": SECOND, "down_ns": 200 * MS}),
    ):
        request = change_request(key, value)
        assert request["value"] == wanted
        assert request["link"] == (key.rpartition(".")[0] or None)
    for key, value, said in (
        ("handover", "0s", "handover: a handover lasts some time"),
        ("handover", "50ms:drop", "write forward or lose"),
        ("flap", "3", "write TIMES:PERIOD or TIMES:PERIOD:DOWN"),
        ("flap", "0:1s", "0 is out of range"),
        ("flap", "2:1s:1s", "down for a part of the period"),
    ):
        with pytest.raises(UserError) as caught:
            change_request(key, value)
        assert said in str(caught.value)


def test_the_state_of_a_timeline_is_shown_with_its_stretches() -> None:
    stretches = [{"name": "home", "start_ns": 0}, {"name": "lift", "start_ns": 10 * SECOND}]
    text = _timeline_text(
        "bench",
        {
            "position_ns": 12 * SECOND,
            "duration_ns": 20 * SECOND,
            "stretch": "lift",
            "playing": False,
            "ended": False,
            "speed": 2.0,
            "loop": True,
            "stretches": stretches,  # type: ignore[dict-item]
        },
    )
    assert "paused at 12.000 s of 20 s, speed 2, loop on" in text
    assert ">" in next(line for line in text.splitlines() if "lift" in line)
