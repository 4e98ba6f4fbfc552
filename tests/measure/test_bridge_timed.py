"""How soon `wavebed bridge` follows a timeline and faults on command, and how long faults last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.lab.test_bridge_timed import TIMELINE, ask

if TYPE_CHECKING:
    from pathlib import Path

MS = 1_000_000
EFFECT_NS = 20 * MS
"""Within which a change takes effect (the target of timelines)."""


def in_range(packets: list[list[int | None]], from_ns: int, to_ns: int) -> list[bool]:
    """Return whether each packet that was sent in a range of time arrived."""
    found = [arrived is not None for sent, arrived in packets if sent is not None and from_ns <= sent < to_ns]
    assert len(found) > 20, "the machine sent too little to judge by"
    return found


def test_a_timeline_is_played_sought_paused_and_sped_up_within_20_ms(tmp_path: Path) -> None:
    file = tmp_path / "open-and-shut.toml"
    file.write_text(TIMELINE)
    answer = ask("timeline", str(file))
    times = {
        name: (answer[name]["asked_ns"], answer[name]["answered_ns"]) for name in answer if "asked_ns" in answer[name]
    }
    # At normal speed a seek lands on the next radio frame, at most 10 ms later.
    ahead_ns = answer["begun"]["state"]["position_ns"]
    assert ahead_ns < 10 * MS
    # Where the state changes: after which request, and how long after it.
    changes = [
        ("begun", 0, True),
        ("begun", 1000 * MS - ahead_ns, False),
        ("begun", 1500 * MS - ahead_ns, True),
        ("sought", 0, False),
        ("moved", 0, True),
        ("played", 400 * MS, False),
        ("edited", 0, True),
    ]
    last_ns = times["edited"][0] + 280 * MS
    ends = [times[name][0] + after_ns for name, after_ns, _ in changes[1:]] + [last_ns]
    for (name, after_ns, passes), end_ns in zip(changes, ends, strict=True):
        from_ns = times[name][1] + after_ns + EFFECT_NS
        # A packet of the last millisecond may be on its way when the next state begins.
        assert set(in_range(answer["packets"], from_ns, end_ns - 2 * MS)) == {passes}, (name, after_ns)
    assert answer["moved"]["state"]["playing"] is False
    assert answer["moved"]["state"]["position_ns"] == 200 * MS
    assert answer["played"]["state"]["speed"] == 2
    shown = answer["show"]["timeline"]
    assert [each["name"] for each in shown["stretches"]] == ["open", "shut", "after"]
    assert answer["end"]["status"] == 0


def test_faults_on_command_interrupt_as_often_and_as_long_as_asked() -> None:
    answer = ask("faults")
    flap = answer["flap"]
    waited = {
        number: max(
            arrived - sent for sent, arrived in flap["packets"] if number == (sent - flap["answered_ns"]) // (300 * MS)
        )
        for number in range(3)
    }
    # Nothing is lost; what comes during an outage waits for its end.
    assert all(arrived is not None for _, arrived in flap["packets"])
    for number, longest_ns in waited.items():
        assert 60 * MS < longest_ns < 100 * MS + EFFECT_NS, number
    after = [arrived - sent for sent, arrived in flap["packets"] if sent > flap["answered_ns"] + 750 * MS]
    assert max(after) < 60 * MS
    kept, lost = answer["handover"]["packets"], answer["lost"]["packets"]
    assert all(arrived is not None for _, arrived in kept)
    assert 100 * MS < max(arrived - sent for sent, arrived in kept) < 150 * MS + 2 * EFFECT_NS
    # Lost is what waits in the buffer when the handover begins; little does, at this rate.
    begun = answer["lost"]["answered_ns"]
    assert all(arrived is not None for sent, arrived in lost if sent > begun + EFFECT_NS)
    silent = [arrived for _, arrived in lost if arrived and begun + EFFECT_NS < arrived < begun + 140 * MS]
    assert silent == []
