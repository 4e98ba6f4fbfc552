"""The API of the page, on played laboratories: what it answers is what its description says."""

from __future__ import annotations

import csv
import gc
import io
import json
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import msgspec
import pytest
from tests.played_lab import PlayedLab, played
from tests.ui_client import page_server

from wavebed.errors import UserError
from wavebed.path.control import LabState, LinkSample, SampleHead, Watch
from wavebed.path.live import CHANGES, FAULTS
from wavebed.ui import events, prometheus
from wavebed.ui.command import Options
from wavebed.ui.events import COLUMNS, MOST_RUNNING, Meter, Recordings
from wavebed.ui.guard import RequestRefusedError
from wavebed.ui.reference import reference_page

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.ui_client import Client

ROOT = Path(__file__).parents[2]
EVENTS = "/api/labs/walk/events?every_ms=10"


@pytest.fixture
def lab() -> PlayedLab:
    return PlayedLab("walk", 2)


@pytest.fixture
def client(lab: PlayedLab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Client]:
    with played(monkeypatch, lab, PlayedLab("other")), page_server(Options(record_to=tmp_path / "records")) as found:
        yield found


def wait_until(what: str, condition: Any) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.01)


def check(client: Client, value: object, kind: str) -> None:
    """Hold a value against the schema of a type in the description."""
    found = client.get("/api/openapi.json").json
    schema = {"$ref": f"#/components/schemas/{kind}", "components": found["components"]}
    jsonschema.Draft202012Validator(schema).validate(value)


def test_the_laboratories_are_listed_by_name(client: Client) -> None:
    listed: Any = client.get("/api/labs").json
    check(client, listed, "Laboratories")
    assert [each["name"] for each in listed["laboratories"]] == ["other", "walk"]
    assert listed["settings"] == {"only": None, "records": True}


def test_a_laboratory_is_shown_as_ctl_shows_it(client: Client) -> None:
    shown = client.get("/api/labs/walk").json
    check(client, shown, "LabState")
    state = msgspec.convert(shown, LabState)
    assert [link.name for link in state.links] == ["hop0.down", "hop0.up", "hop1.down", "hop1.up"]
    assert state.links[0].takes == ("rate", "delay", "pattern")


def test_one_that_does_not_run_is_not_found(client: Client, lab: PlayedLab) -> None:
    for target in ("/api/labs/nobody", "/api/labs/nobody/events"):
        reply = client.get(target)
        assert reply.status == 404
        check(client, reply.json, "Failure")
    lab.ended.set()
    assert client.get("/api/labs/walk").status == 404


def test_a_change_concerns_one_link_or_all(client: Client, lab: PlayedLab) -> None:
    assert client.send("PATCH", "/api/labs/walk/links/hop1.up", {"rate": "50mbit", "delay": "5ms"}).json == {"ok": True}
    assert client.send("PATCH", "/api/labs/walk/links", {"rate": "0bit"}).status == 200
    assert lab.asked == [
        {"do": "set", "link": "hop1.up", "key": "rate_bps", "value": 50_000_000},
        {"do": "set", "link": "hop1.up", "key": "delay_ns", "value": 5_000_000},
        {"do": "set", "link": None, "key": "rate_bps", "value": 0},
    ]


def test_faults_are_written_as_for_ctl(client: Client, lab: PlayedLab) -> None:
    faults = {"outage": "2s", "handover": "80ms:lose", "flap": "5:1s:200ms"}
    assert client.send("PATCH", "/api/labs/walk/links/hop0.down", faults).status == 200
    assert lab.asked == [
        {"do": "set", "link": "hop0.down", "key": "outage_ns", "value": 2_000_000_000},
        {"do": "set", "link": "hop0.down", "key": "handover", "value": {"for_ns": 80_000_000, "handling": "lose"}},
        {"do": "set", "link": "hop0.down", "key": "flap",
         "value": {"times": 5, "period_ns": 1_000_000_000, "down_ns": 200_000_000}},
    ]  # fmt: skip
    refused = client.send("PATCH", "/api/labs/walk/links", {"flap": "5:1s:2s"})
    assert (refused.status, len(lab.asked)) == (400, 3)
    assert refused.json["error"] == (
        "flap: '5:1s:2s': the link is down for a part of the period: write a shorter time, above 0"
    )


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Client, PlayedLab]]:
    lab = PlayedLab("walk", timed=True)
    with played(monkeypatch, lab, PlayedLab("other")), page_server() as client:
        yield client, lab


@pytest.mark.parametrize(
    ("body", "asked"),
    [
        ({"action": "pause"}, {"action": "pause"}),
        ({"action": "play", "value": None}, {"action": "play"}),
        ({"action": "seek", "value": "street+5s"}, {"action": "seek", "stretch": "street", "position_ns": 5 * 10**9}),
        ({"action": "seek", "value": "1.5s"}, {"action": "seek", "stretch": None, "position_ns": 15 * 10**8}),
        ({"action": "speed", "value": "0.5"}, {"action": "speed", "permille": 500}),
        ({"action": "loop", "value": "on"}, {"action": "loop", "on": True}),
        ({"action": "set", "value": "lift.down-rate=1mbit"},
         {"action": "edit", "stretch": "lift", "direction": "down", "key": "rate_bps", "value": 1_000_000}),
    ],
)  # fmt: skip
def test_a_timeline_does_what_it_is_told_and_its_state_is_the_answer(
    timed: tuple[Client, PlayedLab], body: dict[str, object], asked: dict[str, object]
) -> None:
    client, lab = timed
    reply = client.send("POST", "/api/labs/walk/timeline", body)
    assert reply.status == 200
    check(client, reply.json, "TimelineState")
    assert lab.asked == [{"do": "timeline", **asked}]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"action": "seek"}, "timeline.seek: write timeline seek WHERE"),
        ({"action": "seek", "value": "90 seconds"}, "timeline.seek: "),
        ({"action": "speed", "value": "0"}, "timeline.speed: '0' is no speed"),
        ({"action": "speed", "value": "nan"}, "timeline.speed: 'nan' is no speed"),
        ({"action": "loop", "value": "yes"}, "timeline.loop: 'yes' is no choice: write on or off"),
        ({"action": "set", "value": "lift=1mbit"}, "timeline.set: 'lift=1mbit' names no value of a stretch"),
        ({"action": "rewind"}, "the body is wrong: "),
        ({"action": "play", "value": "now"}, "timeline.play: write timeline play"),
        ({"action": "play", "speed": "2"}, "the body is wrong: "),
    ],
)
def test_a_wrong_action_is_told_and_reaches_no_timeline(
    timed: tuple[Client, PlayedLab], body: dict[str, object], said: str
) -> None:
    client, lab = timed
    reply = client.send("POST", "/api/labs/walk/timeline", body)
    check(client, reply.json, "Failure")
    assert (reply.status, lab.asked) == (400, [])
    assert str(reply.json["error"]).startswith(said), reply.json


def test_what_a_timeline_refuses_is_told(timed: tuple[Client, PlayedLab]) -> None:
    client, _ = timed
    reply = client.send("POST", "/api/labs/walk/timeline", {"action": "seek", "value": "moon"})
    assert (reply.status, reply.json["error"]) == (400, "walk: the timeline does not do this")
    reply = client.send("POST", "/api/labs/other/timeline", {"action": "pause"})
    assert (reply.status, reply.json["error"]) == (400, "other: there is no timeline: start with --timeline")
    assert client.send("POST", "/api/labs/nobody/timeline", {"action": "pause"}).status == 404


def test_a_stream_tells_where_the_timeline_is(timed: tuple[Client, PlayedLab]) -> None:
    client, _ = timed
    client.send("POST", "/api/labs/walk/timeline", {"action": "pause"})
    client.send("POST", "/api/labs/walk/timeline", {"action": "seek", "value": "lift+2500ms"})
    value: dict[str, object] = {}
    for name, value in client.events(EVENTS, 3):
        check(client, value, "Points" if name == "points" else "PointHead")
    assert value["timeline"] == {"position_s": 22.5, "stretch": "lift", "playing": False, "speed": 1.0}
    *_, (name, points) = client.events("/api/labs/other/events?every_ms=10", 2)
    assert (name, points["timeline"]) == ("points", None)


def test_a_pattern_is_a_text_and_never_a_file(client: Client, lab: PlayedLab, tmp_path: Path) -> None:
    text = "# wavebed pattern 1\n# kind = steps\n# duration_s = 1\ntime_s,rate_bps\n0,1000\n"
    assert client.send("PATCH", "/api/labs/walk/links", {"pattern": text}).status == 200
    assert lab.asked[-1]["value"] == text
    file = tmp_path / "pattern.csv"
    file.write_text(text)
    refused = client.send("PATCH", "/api/labs/walk/links", {"pattern": str(file)})
    assert (refused.status, len(lab.asked)) == (400, 1)
    assert "the first line is not '# wavebed pattern 1'" in str(refused.json["error"])


def test_nothing_is_changed_if_one_of_the_values_is_wrong(client: Client, lab: PlayedLab) -> None:
    reply = client.send("PATCH", "/api/labs/walk/links/hop0.down", {"rate": "50mbit", "delay": "5"})
    assert (reply.status, lab.asked) == (400, [])
    assert reply.json["error"] == "delay: '5' has no unit: did you mean '5ms' or '5s'?"


def test_what_the_laboratory_refuses_is_told(client: Client) -> None:
    reply = client.send("PATCH", "/api/labs/walk/links/hop9.down", {"rate": "50mbit"})
    assert (reply.status, "there is no link hop9.down" in str(reply.json["error"])) == (400, True)
    reply = client.send("PATCH", "/api/labs/walk/links/hop0.down", {"loss": "1%"})
    assert (reply.status, "no stage that takes this change" in str(reply.json["error"])) == (400, True)


def test_a_stream_has_rates_delays_and_states_of_each_link(client: Client) -> None:
    (_, head), *rest = client.events(EVENTS, 6)
    check(client, head, "PointHead")
    assert head["links"] == ["hop0.down", "hop0.up", "hop1.down", "hop1.up"]
    columns: Any = head["columns"]
    points: list[Any] = [value for name, value in rest if name == "points"]
    for each in points:
        check(client, each, "Points")
    times = [time_s for each in points for time_s in each["time_s"]]
    assert times == sorted(set(times))
    row = dict(zip(columns, points[-1]["links"][-1][0], strict=True))
    assert 6e6 < row["delivered_bps"] < 1e7, "1000 bytes each millisecond, in whole milliseconds"
    assert (row["wait_ms"], row["rate_bps"], row["delay_ms"], row["state"]) == (2.0, 10_000_000, 5.0, "los")
    assert points[-1]["transit_ms"][-1] == [7.0, 4.0]


def test_a_stream_ends_with_its_laboratory(client: Client, lab: PlayedLab) -> None:
    seen = []
    for name, value in client.events(EVENTS, 100_000):
        seen.append(name)
        if name == "points":
            lab.ended.set()
        if name == "end":
            check(client, value, "Failure")
            break
    assert (seen[0], seen[-1]) == ("head", "end")


def test_a_stream_that_is_left_ends_its_watch_and_makes_room(client: Client, lab: PlayedLab) -> None:
    for _ in range(events.MOST_STREAMS + 2):
        list(client.events(EVENTS, 2))
        wait_until("the watch ends", lambda: lab.watches == 0)


def test_more_streams_than_there_may_be_are_refused(client: Client) -> None:
    slow = "/api/labs/walk/events?every_ms=500"  # they are not read here, and must not fill their sockets
    streams = [client.events(slow, 1000) for _ in range(events.MOST_STREAMS)]
    for stream in streams:
        next(stream)
    with page_server() as other:
        assert _opens(other), "each server has its own"
    reply = client.get(EVENTS)
    assert reply.status == 503
    check(client, reply.json, "Failure")
    for stream in streams:
        stream.close()  # type: ignore[attr-defined]
    wait_until("there is room again", lambda: client.ask("HEAD", EVENTS, client.bearer).status == 200)
    wait_until("a stream opens", lambda: _opens(client))


def _opens(client: Client) -> bool:
    try:
        return next(iter(client.events(EVENTS, 1)))[0] == "head"
    except AssertionError:
        return False


@pytest.mark.parametrize("every", ["9", "10001", "x", "-10", "1e3", "10.0", "%31%30%30%30%30%30"])
def test_a_period_out_of_bounds_is_refused(client: Client, every: str) -> None:
    reply = client.get(f"/api/labs/walk/events?every_ms={every}")
    assert (reply.status, "write a whole number from 10 to 10000" in str(reply.json["error"])) == (400, True)


def test_a_recording_has_a_row_for_each_link_and_point(client: Client, tmp_path: Path) -> None:
    started: Any = client.send("POST", "/api/labs/walk/recordings", {"every_ms": 10})
    assert started.status == 201
    check(client, started.json, "Recorded")
    wait_until("it has points", lambda: client.get("/api/recordings").json["recordings"][0]["points"] > 5)  # type: ignore[index]
    stopped: Any = client.send("POST", f"/api/recordings/{started.json['id']}/stop", {}).json
    assert stopped["state"] == "stopped"
    assert client.send("POST", "/api/recordings/1/stop", {}).json == stopped, "a second stop changes nothing"
    reply = client.get("/api/recordings/1")
    assert reply.headers["content-disposition"] == f'attachment; filename="{stopped["file"]}"'
    assert (tmp_path / "records" / stopped["file"]).read_bytes() == reply.body
    assert len(reply.body) == stopped["bytes"]
    rows = list(csv.DictReader(io.StringIO(reply.body.decode())))
    assert len(rows) == 4 * stopped["points"]
    assert list(rows[0]) == ["time_s", "link", *(column.name for column in COLUMNS)]
    assert {row["link"] for row in rows} == {"hop0.down", "hop0.up", "hop1.down", "hop1.up"}
    assert (rows[0]["state"], rows[1]["state"], rows[0]["sinr_db"]) == ("los", "", "")


def test_a_recording_ends_with_its_laboratory_and_its_file_stays(client: Client, lab: PlayedLab) -> None:
    client.send("POST", "/api/labs/walk/recordings", {})
    lab.ended.set()
    wait_until("it ends", lambda: client.get("/api/recordings").json["recordings"][0]["state"] == "ended")  # type: ignore[index]
    check(client, client.get("/api/recordings").json, "RecordingList")
    assert client.get("/api/recordings/1").body.startswith(b"time_s,link,")


def test_files_of_recordings_are_new_ones_in_their_folder(client: Client, tmp_path: Path) -> None:
    for _ in range(MOST_RUNNING):
        assert client.send("POST", "/api/labs/walk/recordings", {}).status == 201
    refused = client.send("POST", "/api/labs/walk/recordings", {})
    assert (refused.status, "stop one" in str(refused.json["error"])) == (409, True)
    names = [path.name for path in (tmp_path / "records").iterdir()]
    assert len(names) == MOST_RUNNING
    assert all(re.fullmatch(r"walk-\d{8}-\d{6}-\d\.csv", name) for name in names)


def test_a_file_that_was_exchanged_for_a_link_is_not_read(client: Client, tmp_path: Path) -> None:
    started: Any = client.send("POST", "/api/labs/walk/recordings", {}).json
    client.send("POST", "/api/recordings/1/stop", {})
    file = tmp_path / "records" / started["file"]
    secret = tmp_path / "secret"
    secret.write_text("secret")
    file.unlink()
    assert client.get("/api/recordings/1").status == 410
    file.symlink_to(secret)
    reply = client.get("/api/recordings/1")
    assert (reply.status, b"secret" in reply.body) == (410, False)


@pytest.mark.parametrize("body", [{"every_ms": 9}, {"every_ms": "10"}, {"file": "/etc/passwd"}, {"dir": "/"}])
def test_a_recording_takes_no_path(client: Client, tmp_path: Path, body: object) -> None:
    assert client.send("POST", "/api/labs/walk/recordings", body).status == 400
    assert list((tmp_path / "records").iterdir()) == []


def test_nothing_is_left_open_of_recordings_that_are_forgotten(lab: PlayedLab, tmp_path: Path) -> None:
    recordings = Recordings(tmp_path)
    for _ in range(5):
        recordings.stop(recordings.start("walk", 10, lambda: Watch(lab.connect(), 10)).id)
    wait_until("the laboratory's ends are closed", lambda: lab.watches == 0)
    recordings.close()
    with pytest.raises(RequestRefusedError, match="records nothing"):
        recordings.start("walk", 10, lambda: pytest.fail("no watch is opened"))
    assert len(_open_in(tmp_path)) == 5, "the folder, for each file that may be fetched"
    del recordings
    gc.collect()
    wait_until("all is closed", lambda: _open_in(tmp_path) == [])


def _open_in(folder: Path) -> list[str]:
    """Return the files there that this process has open, and the folder."""
    found = []
    for each in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.append(str(each.readlink()))
    return [name for name in found if name.startswith(str(folder))]


def test_without_a_folder_nothing_is_recorded(lab: PlayedLab, monkeypatch: pytest.MonkeyPatch) -> None:
    with played(monkeypatch, lab), page_server() as client:
        reply = client.send("POST", "/api/labs/walk/recordings", {})
        assert (reply.status, lab.watches) == (409, 0)
        assert reply.json["error"] == "this server records nothing: start it with wavebed ui --record-to DIR"


def test_metrics_have_the_counters_of_every_laboratory(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus, "LAB_S", 60.0)
    monkeypatch.setattr(prometheus, "ALL_S", 60.0)
    lines = client.get("/metrics").body.decode().splitlines()
    values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert int(values['wavebed_link_offered_bytes_total{lab="walk",link="hop1.up"}']) >= 0
    assert values['wavebed_link_rate_bits_per_second{lab="other",link="hop0.down"}'] == "10000000"
    assert values['wavebed_link_delay_seconds{lab="walk",link="hop0.down"}'] == "0.005"
    assert values['wavebed_link_radio_state{lab="walk",link="hop0.down",state="los"}'] == "1"
    assert 'wavebed_link_dropped_segments_total{lab="walk",link="hop0.down",reason="loss"}' in values
    assert values['wavebed_direction_transit_segments_total{lab="walk",direction="server-client.up"}'] == "1"
    kinds = {line.split()[2]: line.split()[3] for line in lines if line.startswith("# TYPE")}
    for name in (line.partition("{")[0] for line in lines if not line.startswith("#")):
        assert (kinds[name] == "counter") == name.endswith("_total"), name


def test_the_description_has_every_request_and_refers_to_types_that_it_has(client: Client) -> None:
    found: Any = client.get("/api/openapi.json").json
    assert found["openapi"] == "3.1.0"
    asked = {(method.upper(), path) for path, methods in found["paths"].items() for method in methods}
    assert ("PATCH", "/api/labs/{lab}/links/{link}") in asked
    assert ("GET", "/api/labs/{lab}/events") in asked
    assert ("POST", "/api/labs/{lab}/timeline") in asked
    references = set(re.findall(r'"\$ref": "#/components/schemas/(\w+)"', json.dumps(found)))
    assert references <= set(found["components"]["schemas"])
    for path, methods in found["paths"].items():
        for operation in methods.values():
            named = {each["name"] for each in operation["parameters"] if each["in"] == "path"}
            assert named == set(re.findall(r"\{(\w+)\}", path))
            assert {"401", "403"} <= set(operation["responses"])
    for schema in found["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
    assert {*CHANGES, *FAULTS} == set(found["components"]["schemas"]["Change"]["properties"])


def test_the_reference_page_of_the_api_is_up_to_date() -> None:
    stored = (ROOT / "docs/reference/api.md").read_text()
    assert stored == reference_page(), "run: python -m wavebed.ui.reference docs/reference/api.md"


LINK_COLUMNS = (
    "at_ns", "offered_bytes", "delivered_bytes", "dropped_segments", "marked_segments", "queued_bytes",
    "queued_segments", "waited_ns", "waited_segments", "rate_bps", "delay_ns", "loss", "blocks_sent", "blocks_failed",
    "air_ns", "link_failures", "state", "sinr_db",
)  # fmt: skip
HEAD = SampleHead(("a.down",), ("x-y.down",), LINK_COLUMNS, ("transit_ns", "transit_segments"), 10, 0)


def sample(at_ms: int, **values: float | str | None) -> LinkSample:
    row = [values.get(name, 0) for name in HEAD.link_columns]
    row[0] = at_ms * 1_000_000
    return LinkSample([row], [[values.get("transit_ns", 0), values.get("transit_segments", 0)]], 0)


def test_a_point_is_made_of_the_differences_of_two_samples() -> None:
    meter = Meter(HEAD)
    assert (
        meter.point(sample(10, delivered_bytes=1000, waited_ns=5_000_000, waited_segments=5, dropped_segments=1))
        is None
    )
    later = sample(
        30, delivered_bytes=3500, waited_ns=25_000_000, waited_segments=9, dropped_segments=4, delay_ns=1_500_000,
        rate_bps=None, state="nlos", transit_ns=8_000_000, transit_segments=2,
    )  # fmt: skip
    point = meter.point(later)
    assert point is not None
    row = dict(zip((column.name for column in COLUMNS), point.links[0], strict=True))
    assert (point.time_s, row["delivered_bps"], row["wait_ms"]) == (0.03, 1_000_000, 5.0)
    assert (row["dropped_segments"], row["delay_ms"], row["rate_bps"], row["state"]) == (3, 1.5, None, "nlos")
    assert point.transit_ms == [4.0]


def test_without_segments_there_is_no_delay_and_without_time_no_point() -> None:
    meter = Meter(HEAD)
    meter.point(sample(10, waited_ns=5_000_000, waited_segments=5))
    assert meter.point(sample(10, waited_ns=6_000_000, waited_segments=6)) is None
    point = meter.point(sample(20, waited_ns=5_000_000, waited_segments=5))
    assert point is not None
    assert (point.links[0][6], point.transit_ms) == (None, [None])


def test_sums_of_times_that_pass_their_largest_number_go_on() -> None:
    meter = Meter(HEAD)
    meter.point(sample(10, waited_ns=(1 << 64) - 1_000_000, waited_segments=5))
    point = meter.point(sample(20, waited_ns=1_000_000, waited_segments=6))
    assert point is not None
    assert point.links[0][6] == 2.0


def test_a_watch_reads_samples_until_the_laboratory_ends(lab: PlayedLab) -> None:
    watch = Watch(lab.connect(), 10)
    assert watch.head.links == ("hop0.down", "hop0.up", "hop1.down", "hop1.up")
    times = [watch.next(60).links[0][0] for _ in range(5)]
    assert times == sorted(times)
    watch.close()
    with lab.connect() as connection, pytest.raises(UserError, match="every_ms: 9 is out of range"):
        Watch(connection, 9)
