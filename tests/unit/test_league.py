"""The league of emulators: what each is given to play, its cells, its folder, and the errors of its figures."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pytest

from wavebed.cli import main
from wavebed.errors import MachineError, UserError
from wavebed.league import cells
from wavebed.league.cells import (
    APPLICATIONS,
    GATE_S,
    CellResult,
    LeagueCell,
    LeagueSettings,
    begin,
    netem_text,
    plan,
    run_all,
)
from wavebed.league.emulators import EMULATORS, MAHIMAHI, NETEM, RATTAN, WAVEBED, Emulator, Ends, path_tables
from wavebed.league.page import League, page, text
from wavebed.league.recordings import find, mean_bps, served_s, tc_schedule, write_inputs
from wavebed.page.text import MISSING
from wavebed.pattern import read_trace
from wavebed.pattern.model import Pattern, opportunities, steps

if TYPE_CHECKING:
    from pathlib import Path

    from wavebed.league.recordings import LeagueRecording

SETTINGS = LeagueSettings(("100mbit", "1mbit"), (MAHIMAHI, RATTAN, NETEM), ("download", "rtt", "call"), 8)


def rate(*mbit: float, step_s: float = 1.0) -> Pattern:
    index = np.array([round(place * step_s * 1e9) for place in range(len(mbit))], dtype=np.int64)
    return steps(
        index, round(len(mbit) * step_s * 1e9), rate_bps=np.array([each * 1e6 for each in mbit], dtype=np.int64)
    )


def chances(*times_ms: int) -> Pattern:
    index = np.array(times_ms, dtype=np.int64) * 1_000_000
    return opportunities(index, int(index[-1]), np.full(len(index), 1500, dtype=np.int64))


def test_every_cell_is_planned_once_and_emulators_are_interleaved() -> None:
    planned = plan(SETTINGS)
    assert len(planned) == len(set(planned)) == 2 * 3 * 2  # download and round trips are one run
    assert {cell.run for cell in planned} == {"load", "call"}
    for place in range(0, len(planned), 3):
        together = planned[place : place + 3]
        assert {cell.emulator for cell in together} == set(SETTINGS.emulators)
        assert len({(cell.recording, cell.run) for cell in together}) == 1
    assert planned == plan(SETTINGS)
    assert set(APPLICATIONS.values()) <= set(cells.TAKES_S)


def test_a_rate_becomes_opportunities_for_mahimahi_and_json_for_rattan(tmp_path: Path) -> None:
    notes = write_inputs(replace(find("12mbit"), up=rate(24, 0)), tmp_path)
    lines = (tmp_path / "down.mahimahi").read_text().split()
    assert lines == [str(ms) for ms in range(1, 1001)]
    assert json.loads((tmp_path / "down.json").read_text())["RepeatedBwPatternConfig"]["pattern"] == [
        {"StaticBwConfig": {"bw": "12Mbps", "duration": "1s"}}
    ]
    up = read_trace(tmp_path / "up.json")
    assert up.rate_bps is not None
    assert up.rate_bps.tolist() == [24_000_000, 1000]
    assert "up, netem-trace: a rate of 0 is 1000 bit/s, as Rattan 0.1.1 ends at 0" in notes


def test_opportunities_reach_each_emulator_with_the_same_bytes(tmp_path: Path) -> None:
    given = replace(find("1mbit"), down=chances(1, 1, 3, 10, 20))
    write_inputs(given, tmp_path)
    assert (tmp_path / "down.mahimahi").read_text().split() == ["1", "1", "3", "10", "20"]
    for name in ("down.csv", "down.mahimahi", "down.json"):
        assert mean_bps(read_trace(tmp_path / name)) == pytest.approx(mean_bps(given.down), rel=0.001), name


def test_tc_gets_the_changes_of_the_rate_and_never_a_rate_of_zero() -> None:
    assert tc_schedule(rate(10), 8.0) == [(0.0, 10_000_000)]
    assert tc_schedule(rate(10, 10, 0, 20), 5.5) == [
        (0.0, 10_000_000),
        (2.0, 16_000),
        (3.0, 20_000_000),
        (4.0, 10_000_000),
    ]
    bursts = tc_schedule(chances(*range(1, 101), 200), 0.2)
    assert [each[0] for each in bursts] == [0.0, 0.1]
    assert bursts[0][1] > bursts[1][1]


def test_the_exact_queue_serves_a_rate_outages_and_opportunities() -> None:
    assert served_s(rate(1), [0.0, 0.0, 1.0], 125) == pytest.approx([0.001, 0.002, 1.001])
    assert served_s(rate(1, 0), [0.9999, 1.5], 125) == pytest.approx([2.0009, 2.0019])
    # An opportunity delivers what waits and fits, even parts; what comes at its time or later waits for the next one.
    assert served_s(chances(10, 20, 30), [0.001, 0.002, 0.011, 0.02], 700) == pytest.approx([0.01, 0.01, 0.02, 0.03])
    assert served_s(chances(10, 20, 30), [0.001, 0.002, 0.003, 0.031], 700) == pytest.approx([0.01, 0.01, 0.02, 0.04])


def iperf3_tables(folder: Path) -> str:
    receiver, sender = folder / "recv.csv", folder / "send.csv"
    rows = [f"{place / 10:g},{(place + 1) / 10:g},{125_000},,,,,," for place in range(20)]
    receiver.write_text(
        "start_s (from 2023-02-14T06:30:31+00:00),end_s,bytes,retransmits,cwnd_bytes,rtt_us,a,b,c\n" + "\n".join(rows)
    )
    rows = [f"{place / 10:g},{(place + 1) / 10:g},1,0,9,{40_000 + 1000 * place},,," for place in range(20)]
    sender.write_text("start_s,end_s,bytes,retransmits,cwnd_bytes,rtt_us,a,b,c\n" + "\n".join(rows))
    return f"{receiver}+{sender}"


def test_a_measured_pair_has_its_goodput_as_rate_and_its_round_trips_as_the_live_measurement(tmp_path: Path) -> None:
    found = find(iperf3_tables(tmp_path))
    assert mean_bps(found.down) == pytest.approx(10e6 * 1500 / 1448, rel=1e-6)
    assert found.delay_ms == 20
    assert found.live is not None
    assert found.live.rtt_ms.tolist()[:2] == [40.0, 41.0]


def test_recordings_that_cannot_be_played_are_refused(tmp_path: Path) -> None:
    (tmp_path / "dark.txt").write_text("1 0\n2 0\n3 0\n")
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    pair = iperf3_tables(tmp_path)
    receiver = pair.split("+")[0]
    for given, why in (
        ("nothing-like-it", "is no file, rate or scene: write a trace, 100mbit, or a name of `wavebed scenes`"),
        ("0mbit", "has a rate of 0: write 1mbit, for example"),
        (str(tmp_path / "dark.txt"), "has a rate of 0 for its first 60 s: choose another recording"),
        (f"{tmp_path / 'other.csv'}+{receiver}", "other.csv: is no table of iperf3's intervals: it needs the columns"),
        (f"{receiver}+{receiver}", "has no round trip in its first 60 s"),
    ):
        with pytest.raises(UserError, match=why):
            find(given)


@pytest.fixture
def recording(tmp_path: Path) -> LeagueRecording:
    return find("100mbit")


def test_each_emulator_of_others_is_started_with_its_own_words(tmp_path: Path, recording: LeagueRecording) -> None:
    script = EMULATORS[MAHIMAHI].script
    assert script is not None
    said = script(recording, tmp_path)
    assert "mm-delay 10 sh -c" in said
    assert f"mm-link {tmp_path}/up.mahimahi {tmp_path}/down.mahimahi" in said
    assert "--downlink-queue-args=bytes=1250000" in said
    script = EMULATORS[RATTAN].script
    assert script is not None
    said = script(recording, tmp_path)
    assert "--downlink-delay 10ms --downlink-bandwidth 100000000bps --downlink-queue droptail" in said
    said = script(replace(recording, down=rate(1, 2)), tmp_path)
    assert f"--downlink-trace {tmp_path}/down.json" in said
    assert 'down-rate = "100mbit"\ndown-queue = "droptail:1250000b"' in path_tables(recording, tmp_path)


def test_netem_is_set_at_the_edge_and_follows_the_recording(recording: LeagueRecording) -> None:
    said = netem_text(replace(recording, down=rate(10, 0)), 4.0)
    run = json.loads(said.split("run = ", 1)[1])
    assert run.startswith("set -e; tc qdisc add dev wb0 root handle 1: netem delay 10ms")
    assert "tc qdisc add dev wb1 parent 1:1 handle 10: tbf rate 10000000bit burst 1514 limit 1250000" in run
    assert "sleep 1.000; tc qdisc change dev wb1 parent 1:1 handle 10: tbf rate 16000bit" in run
    assert run.endswith("sleep 1.000")


def test_applications_wait_for_one_moment_of_the_recording() -> None:
    said = cells.outside_text(Ends(1, 2, "10.0.0.1", 100.0, 3), "load", 8)
    assert 'server-address = "10.0.0.1"' in said
    assert f"at={100 + GATE_S:.2f}" in said
    assert said.count('after = "gate"') == 2


def measured(mbit: float, **more: float) -> CellResult:
    figures = {"latency rtt loaded p50 ms": more.get("rtt", 50.0)}
    return CellResult(
        verdict="valid", figures=figures, errors={"delivered Mbit/s": mbit, "each second %": 1.5},
        goodput=((13.0, mbit), (14.0, mbit)), processor_s=more.get("processor"),
    )  # fmt: skip


def test_a_league_goes_on_and_repeats_only_cells_without_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recordings = [find(name) for name in SETTINGS.recordings]
    begin(tmp_path / "l", SETTINGS, recordings)
    ran: list[LeagueCell] = []

    def fake(folder: Path, cell: LeagueCell, recording: LeagueRecording, seconds: int) -> CellResult:
        assert (recording.name, seconds) == (cell.recording, 8)
        ran.append(cell)
        place = folder / cell.folder
        place.mkdir(parents=True, exist_ok=True)
        result = CellResult(reason="it did not start") if cell.emulator == RATTAN and len(ran) < 9 else measured(90)
        (place / cells.RESULT_FILE).write_bytes(msgspec.json.encode(result))
        if len(ran) == 4:
            raise KeyboardInterrupt
        return result

    monkeypatch.setattr(cells, "run_cell", fake)
    told: list[tuple[str, float]] = []
    with pytest.raises(KeyboardInterrupt):
        run_all(tmp_path / "l", SETTINGS, recordings, lambda *each: told.append(each))
    begin(tmp_path / "l", SETTINGS, recordings)
    failed = [cell for cell in ran if cell.emulator == RATTAN]
    run_all(tmp_path / "l", SETTINGS, recordings, lambda *each: told.append(each))
    assert ran.count(failed[0]) == 2
    assert all(ran.count(cell) == 1 for cell in plan(SETTINGS) if cell.emulator != RATTAN)
    assert told[0][1] == sum(cells.TAKES_S[cell.run] for cell in plan(SETTINGS))


def test_a_folder_of_another_league_or_of_something_else_is_refused(tmp_path: Path) -> None:
    recordings = [find(name) for name in SETTINGS.recordings]
    begin(tmp_path / "l", SETTINGS, recordings)
    with pytest.raises(UserError, match="has a league of other settings: repeat its options, or name another folder"):
        begin(tmp_path / "l", LeagueSettings(SETTINGS.recordings, (NETEM,), SETTINGS.applications, 8), recordings)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    with pytest.raises(UserError, match="is not empty, and no league: name a new folder"):
        begin(tmp_path / "other", SETTINGS, recordings)


def test_a_cell_that_fails_keeps_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recording: LeagueRecording
) -> None:
    begin(tmp_path / "l", SETTINGS, [recording])

    def fails(*_: object) -> CellResult:
        raise MachineError("Rattan did not start: no such option")

    monkeypatch.setattr(cells, "_measured", fails)
    monkeypatch.setattr(Emulator, "absent", lambda _: "")
    cell = LeagueCell("100mbit", RATTAN, "load")
    assert cells.run_cell(tmp_path / "l", cell, recording, 8).reason == "Rattan did not start: no such option"
    assert cells.result_of(tmp_path / "l", cell) is not None
    monkeypatch.setattr(Emulator, "absent", lambda _: "rattan is not in PATH: cargo install rattan")
    assert cells.run_cell(tmp_path / "l", cell, recording, 8).reason.startswith("rattan is not in PATH")


def test_a_video_has_a_table_of_stalls_too(tmp_path: Path) -> None:
    settings = msgspec.structs.replace(SETTINGS, applications=("video",))
    begin(tmp_path, settings, [find(name) for name in settings.recordings])
    for emulator, bitrate, stalled in ((MAHIMAHI, 1.15, 60.0), (RATTAN, 1.15, 48.5)):
        cell = LeagueCell("1mbit", emulator, "video")
        figures = {"video mean bitrate Mbit/s": bitrate, "video time stalled %": stalled}
        (tmp_path / cell.folder).mkdir(parents=True)
        (tmp_path / cell.folder / cells.RESULT_FILE).write_bytes(msgspec.json.encode(CellResult(figures=figures)))
    said = text(League(tmp_path, settings))
    assert f"| 1mbit | 1.15 (+0.0 %) | 1.15 (+0.0 %) | {MISSING} |" in said
    assert f"| 1mbit | 60 (+11.5) | 48.5 (−11.5) | {MISSING} |" in said


def test_the_page_has_figures_errors_costs_and_the_reason_of_every_missing_cell(tmp_path: Path) -> None:
    recordings = [find(name) for name in SETTINGS.recordings]
    begin(tmp_path, SETTINGS, recordings)
    results = {
        LeagueCell("100mbit", MAHIMAHI, "load"): measured(90, rtt=50, processor=1.44),
        LeagueCell("100mbit", RATTAN, "load"): measured(80, rtt=100),
        LeagueCell("100mbit", NETEM, "load"): measured(70, rtt=200),
        LeagueCell("1mbit", RATTAN, "load"): CellResult(reason="Rattan did not start: it printed nothing"),
        LeagueCell("100mbit", NETEM, "call"): CellResult(
            verdict="suspect", errors={"delay p95 ms": 12.0, "exact delay p95 ms": 10.5}
        ),
    }
    for cell, result in results.items():
        (tmp_path / cell.folder).mkdir(parents=True)
        (tmp_path / cell.folder / cells.RESULT_FILE).write_bytes(msgspec.json.encode(result))
    league = League(tmp_path, SETTINGS)
    said = text(league)
    assert "| 100mbit | 90 (1.5 %) | 80 (1.5 %) | 70 (1.5 %) |" in said
    assert "| 100mbit | 50 (−75.0 %) | 100 (−50.0 %) | 200 |" in said
    assert f"| 100mbit | {MISSING} | {MISSING} | 12 (+1.5 ms) |" in said
    assert league.cost("100mbit", MAHIMAHI) == pytest.approx(2.0)
    assert ["rattan", "load", "1mbit", "Rattan did not start: it printed nothing"] in league.reasons()
    assert [NETEM, "call", "1mbit", "was not run yet"] in league.reasons()
    assert ["netem and tbf, guest", "2", "1"] in league.late()
    made = page(league, recordings)
    assert "100mbit: delivered in each second" in made
    assert "A league of 3 emulators over 2 recordings" in made
    assert "it printed nothing" in made


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (["--emulators", "mahimahy"], "--emulators: 'mahimahy' is unknown: did you mean 'mahimahi'?"),
        (
            ["--applications", "game"],
            "--applications: 'game' is unknown: write one of download, rtt, page, call, video",
        ),
        (["--seconds", "1"], "--seconds: 1 is out of range: write a whole number from 4 to 20"),
        (["--recordings", "here.txt"], "--recordings here.txt: is no file, rate or scene"),
    ],
)
def test_wrong_options_name_what_would_be_right(given: list[str], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["league", *given]) == 2
    assert why in capsys.readouterr().err


def test_the_plan_names_each_emulator_and_runs_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Emulator, "absent", lambda self: "" if self.name == WAVEBED else "is missing: get it")
    assert main(["league", "--plan", "--recordings", "1mbit", "2mbit", "--applications", "rtt"]) == 0
    said = capsys.readouterr().out
    assert "wavebed            ready" in said
    assert "mahimahi           is missing: get it" in said
    assert "12, some 4 min" in said
    assert not list(tmp_path.iterdir())
