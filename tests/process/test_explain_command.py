"""``wavebed explain`` on a run: text, JSON, picture, refusals."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.export_example import made_run

from wavebed.cli import main
from wavebed.explain.model import CAUSES, PLACE
from wavebed.explain.split import Fates
from wavebed.explain.summary import stalls_of
from wavebed.export.trial import ExportedTrial, TimeWindow
from wavebed.path.api import Path as EmulatedPath
from wavebed.path.laboratory import resolve_network
from wavebed.path.traces import Traces
from wavebed.result.model import WorkloadRecord
from wavebed.result.tables import SCHEMAS
from wavebed.spec.part import plain
from wavebed.spec.types import ConstantDelay, DelayStage, Hop
from wavebed.workload.model import Metric, Outcome, TimeSpan

if TYPE_CHECKING:
    from pathlib import Path

MS = 1_000_000


def with_network(folder: Path) -> Path:
    """Give the trial of the example a network: a wire, and a radio with a bottleneck up."""
    path = EmulatedPath.of(rate="2mbit", radio="nr-30khz", delay="1ms")
    network = plain(resolve_network(path.model, Traces()))
    (leg,) = cast("list[dict[str, Any]]", network["legs"])
    wired = EmulatedPath.of(rate="2mbit", delay="2ms")
    (up,) = cast("list[dict[str, Any]]", plain(resolve_network(wired.model, Traces()))["legs"])
    radio = {**leg["hops"][0], "name": "radio", "up": up["hops"][0]["up"]}
    wire = plain(Hop("internet", "wired", (DelayStage(ConstantDelay(8 * MS)),), ()))
    leg["hops"] = [wire, radio]
    file = folder / "trials/0001-cubic/trial.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "laboratory": network}))
    return folder


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return with_network(made_run(tmp_path))


def test_a_direction_is_explained_packet_by_packet(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(run / "trials/0001-cubic"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["source"], told["verdict"], told["missing"]) == ("packets", "valid", [])
    down, up = told["directions"]
    assert (down["name"], down["links"]) == ("server-client.down", ["internet.down", "radio.down"])
    # Packet 3 entered the radio without coming over the wire; it is not the direction's.
    assert [down[f"{what}segments"] for what in ("", "delivered_", "lost_", "unfinished_")] == [4, 3, 1, 0]
    assert down["lost"] == [{"link": "radio.down", "reason": "overflow", "cause": "queue", "segments": 1}]
    assert down["delay_mean_ms"] == 11.5
    means = {cause["cause"]: cause["mean_ms"] for cause in down["causes"]}
    assert sum(means.values()) == pytest.approx(11.5)
    assert means["propagation"] == 8
    # Block 0 failed once: segments 0 and 1 waited 2 ms for its retransmission, segment 2 for them in order.
    assert means["harq"] == pytest.approx((2.0 + 1.5) / 3)
    assert means["reordering"] == pytest.approx(1.5 / 3)
    assert (up["delivered_segments"], up["base_delay_ms"]) == (0, None), "its second link has no log"


def test_the_text_has_causes_losses_moments_and_meanings(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(run)]) == 0
    text = capsys.readouterr().out
    assert "0 to 0.03 s, from the packet log" in text
    assert "server-client.down over internet.down, radio.down: 4 segments sent, 3 delivered, 1 lost\n" in text
    assert "one-way delay: mean 11.50 ms" in text
    assert "longest delays, by the time of sending:\n  0.0–0.0 s: up to 3.5 ms late: harq 2.0 ms" in text
    assert "retransmissions of its transport blocks" in text


def test_without_a_packet_log_the_links_are_explained_coarsely(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = with_network(made_run(tmp_path, packet_log=False))
    assert main(["explain", str(run)]) == 0
    text = capsys.readouterr().out
    assert "coarse, from the series per millisecond" in text
    assert "run it with --set path.packet-log=true" in text
    assert main(["explain", str(run), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["source"] == "series"
    assert [each["name"] for each in told["directions"]] == ["internet.down", "radio.down", "radio.up", "internet.up"]
    assert {each["base_delay_ms"] for each in told["directions"]} == {None}


def test_a_part_is_what_was_sent_in_it(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(run), "--json", "--from", "1.5ms", "--to", "10ms", "--step", "1ms"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [each["segments"] for each in told["directions"]] == [1, 0]
    assert [window["start_s"] for window in told["directions"][0]["windows"]] == [0.0015]


def test_a_picture_is_drawn(run: Path, tmp_path: Path) -> None:
    assert main(["explain", str(run), "--step", "1ms", "--plot", str(tmp_path / "p.png"), "--json"]) == 0
    first = (tmp_path / "p.png").read_bytes()
    assert first.startswith(b"\x89PNG")
    assert main(["explain", str(run), "--step", "1ms", "--plot", str(tmp_path / "p.png"), "--json"]) == 0
    assert (tmp_path / "p.png").read_bytes() == first
    assert main(["explain", str(run), "--from", "25ms", "--plot", str(tmp_path / "empty.png")]) == 0


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--worst", "-1"], "--worst: '-1' is not a whole number"),
        (["--step", "0.5ms"], "--step: is shorter than a millisecond: write 1ms or more"),
        (["--plot", "x.svg"], "--plot x.svg: the name of the picture must end in .png"),
        (["--from", "2s", "--to", "1s"], "2 s to 1 s is no part of the trial"),
        (["--trial", "0009"], "no trial '0009'"),
    ],
)
def test_a_wrong_argument_is_named(
    run: Path, capsys: pytest.CaptureFixture[str], options: list[str], line: str
) -> None:
    assert main(["explain", str(run), *options]) == 2
    assert line in capsys.readouterr().err


def test_a_trial_without_emulated_links_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(made_run(tmp_path))]) == 2
    assert "has no emulated links" in capsys.readouterr().err


def test_the_causes_stand_beside_what_users_waited_for() -> None:
    rows = [
        {"time_s": 3.0, "end_s": 3.5, "workload": "video", "name": "stall", "text": "at 2.0 s"},
        {"time_s": 9.0, "end_s": 9.5, "workload": "video", "name": "stall", "text": "after the part"},
        {"time_s": 3.0, "end_s": 3.5, "workload": "radio.down", "name": "state", "text": "outage"},
        {"time_s": 1.0, "end_s": None, "workload": "video", "name": "stall", "text": "open"},
    ]
    page = Outcome(metrics=[Metric("on load", 800.0, "ms", "lower")], details={"start_s": 0.5})
    workloads = [
        WorkloadRecord("video", "video", TimeSpan(0, 9, True), Outcome()),
        WorkloadRecord("web", "web", None, page),
    ]
    trial = SimpleNamespace(
        record=SimpleNamespace(workloads=workloads),
        table=lambda name: pa.Table.from_pylist(rows, schema=SCHEMAS[name]),
    )
    ns = np.zeros((2, len(CAUSES)), np.int64)
    ns[:, PLACE["outage"]] = [900 * MS, 5 * MS]
    nothing = np.full(2, None, object)
    fates = Fates(
        np.array([2_100, 5_000]) * MS, np.ones(2, np.int64), ns.sum(axis=1), ns, nothing, nothing, np.full(2, -1)
    )
    found = stalls_of(cast("ExportedTrial", trial), TimeWindow(0, 8_000 * MS), {"a.down": fates})
    assert [(each.workload, each.kind, each.start_s, each.end_s) for each in found] == [
        ("web", "page load", 0.5, 1.3),
        ("video", "stall", 3.0, 3.5),
    ]
    assert found[0].causes[0].late_max_ms is None
    assert (found[1].causes[0].late_max_ms, found[1].causes[0].late_ms_by_cause) == (900.0, {"outage": 900.0})
