"""``wavebed ui`` on real laboratories."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, cast
from urllib.request import Request, urlopen

import msgspec
import pytest
from tests.ui_client import page_server

from wavebed.cli import main
from wavebed.path.api import Path
from wavebed.path.control import LabState
from wavebed.ui.command import Options
from wavebed.ui.events import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path as FilePath

    from tests.ui_client import Client

    from wavebed.path.lab import Laboratory

NAME = f"shown-{os.getpid()}"
PATTERN = """# wavebed pattern 1
# kind = steps
# duration_s = 100
time_s,rate_bps,state
0,7000000,nlos
50,0,outage
"""


@pytest.fixture
def lab() -> Iterator[Laboratory]:
    with Path.of(rate="10mbit", delay="1ms").up(name=NAME) as running:
        yield running


@pytest.fixture
def client(lab: Laboratory) -> Iterator[Client]:
    with page_server(Options(lab=NAME)) as found:
        yield found


def send_echoes(lab: Laboratory, count: int) -> None:
    """Send echo requests, and wait until so many answers have crossed the path: ping itself waits for an interval."""
    lab.client.run(["ping", "-c", str(count), "-i", "0.01", "server"], capture_output=True, check=True)
    end = time.monotonic() + 60
    while cast("list[dict[str, int]]", lab.show()["links"])[0]["delivered_segments"] < count:
        assert time.monotonic() < end, "the answers arrive"
        time.sleep(0.01)


def link(client: Client, name: str) -> dict[str, Any]:
    links = cast("list[dict[str, Any]]", client.get(f"/api/labs/{NAME}").json["links"])
    return next(each for each in links if each["name"] == name)


def test_the_state_is_that_of_ctl_and_of_its_type(
    lab: Laboratory, client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    send_echoes(lab, 3)
    shown = client.get(f"/api/labs/{NAME}").json
    assert main(["ctl", NAME, "show", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    moving = ("now_ns", "links", "directions", "in_flight_bytes", "pool_bytes")
    assert {key: value for key, value in shown.items() if key not in moving} == {
        key: value for key, value in told.items() if key not in moving
    }
    state = msgspec.convert(shown, LabState)
    assert [each.name for each in state.links] == ["radio.down", "radio.up"]
    assert state.links[0].takes == ("rate", "delay", "pattern")
    assert (state.links[0].rate_bps, state.links[0].delay_ns, state.links[0].loss) == (10_000_000, 1_000_000, None)
    assert state.links[0].delivered_segments >= 3
    # An echo of 84 bytes takes 67.2 µs at this rate, and a millisecond.
    down = state.directions[0]
    assert down.name == "server-client.down"
    # Answers that the engine reads together wait for each other: two of three for 67.2 µs at most.
    assert 1_047_200 < down.transit_ns / down.transit_segments < 1_067_200 + 67_200 + 20_000


def test_changes_act_and_are_shown(lab: Laboratory, client: Client) -> None:
    at = f"/api/labs/{NAME}/links"
    assert client.send("PATCH", f"{at}/radio.down", {"rate": "20mbit", "delay": "30ms"}).status == 200
    shown = link(client, "radio.down")
    assert (shown["rate_bps"], shown["delay_ns"]) == (20_000_000, 30_000_000)
    assert link(client, "radio.up")["rate_bps"] == 10_000_000
    ping = lab.client.run(["ping", "-c", "1", "server"], capture_output=True, check=True).stdout
    assert float(ping.split("time=")[1].split()[0]) >= 31
    assert client.send("PATCH", at, {"pattern": PATTERN}).status == 200
    assert [link(client, name)["rate_bps"] for name in ("radio.down", "radio.up")] == [7_000_000] * 2
    refused = client.send("PATCH", f"{at}/radio.down", {"loss": "1%"})
    assert (refused.status, "has no stage that takes this change" in str(refused.json["error"])) == (400, True)
    refused = client.send("PATCH", at, {"pattern": "# wavebed pattern 1\nnonsense"})
    assert (refused.status, "pattern: line 2" in str(refused.json["error"])) == (400, True)
    refused = client.send("PATCH", f"{at}/nope.down", {"rate": "1mbit"})
    assert (refused.status, "there is no link nope.down" in str(refused.json["error"])) == (400, True)


def test_the_stream_shows_the_traffic_and_its_delay(lab: Laboratory, client: Client) -> None:
    names = [column.name for column in COLUMNS]
    ping = lab.client.start(["ping", "-q", "-i", "0.002", "server"], stdout=subprocess.DEVNULL)
    delays: list[float] = []
    bits = 0.0
    for kind, value in client.events(f"/api/labs/{NAME}/events?every_ms=20", 60 * 50):
        if kind == "points":
            points = cast("dict[str, list[Any]]", value)
            bits += sum(row[0][names.index("delivered_bps")] * 0.02 for row in points["links"])
            delays += [transit[0] for transit in points["transit_ms"] if transit[0] is not None]
        if bits > 10 * 84 * 8 and len(delays) >= 10:
            break
    ping.kill()
    ping.wait(60)
    assert bits > 10 * 84 * 8, "some echoes came"
    # What is emulated does not depend on this machine: 1 ms and 67.2 µs, and more behind another packet.
    assert 1.067 <= min(delays) < 3


def test_a_laboratory_whose_time_has_not_begun_has_a_state_and_no_stream() -> None:
    with Path.of(rate="1mbit").up(name=NAME, wait=True) as lab, page_server() as client:
        assert client.get(f"/api/labs/{NAME}").json["links"] == []
        refused = client.get(f"/api/labs/{NAME}/events")
        assert (refused.status, "time has not begun" in str(refused.json["error"])) == (400, True)
        lab.begin()
        assert next(client.events(f"/api/labs/{NAME}/events", 1))[0] == "head"


def test_the_command_prints_an_address_serves_and_leaves_the_laboratory_alone(
    lab: Laboratory, tmp_path: FilePath
) -> None:
    command = [sys.executable, "-m", "wavebed", "ui", NAME, "--record-to", str(tmp_path / "records")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert select.select([process.stdout], [], [], 60)[0], "it prints its address"
            address = process.stdout.readline().strip()
            match = re.fullmatch(r"(http://127\.0\.0\.1:\d+)/\?token=([\w-]{43})", address)
            assert match is not None, address
            request = Request(f"{match[1]}/api/labs", headers={"Authorization": f"Bearer {match[2]}"})
            with urlopen(request, timeout=30) as answer:
                listed = json.load(answer)
            assert [each["name"] for each in listed["laboratories"]] == [NAME]
            assert listed["settings"] == {"only": NAME, "records": True}
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130
        finally:
            process.kill()
        assert process.stderr is not None
        assert process.stderr.read() == "wavebed: Ctrl-C ends the page; the laboratories go on\n"
    assert lab.is_alive()
    assert lab.client.run(["ping", "-c", "1", "server"], capture_output=True).returncode == 0
