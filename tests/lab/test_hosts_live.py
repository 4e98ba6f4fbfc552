"""A running trial of backend `hosts` in `ctl` and on the page; both hosts are this machine, over its loopback."""

from __future__ import annotations

import csv
import json
import os
import socket
import threading
import time
from typing import TYPE_CHECKING, Any, cast

import msgspec
import pytest
from tests.ui_client import page_server

from wavebed.cli import main
from wavebed.hosts.lab import RealHosts
from wavebed.hosts.samples import merge_samples
from wavebed.lab.protocol import WORKLOAD_PORTS
from wavebed.lab.tools import find
from wavebed.path.control import LabState, running
from wavebed.spec.trial import HostsLab
from wavebed.ui.command import Options

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SPEC = HostsLab(server="local", client="local", server_address="127.0.0.1")
BITS = 4_000_000


@pytest.fixture
def trial(tmp_path: Path) -> Iterator[str]:
    """A trial that runs, with one connection of a workload, at half a megabyte per second; its name."""
    over = threading.Event()

    def carry(sender: socket.socket, receiver: socket.socket) -> None:
        due_s = time.monotonic()
        while not over.wait(max(0.0, due_s - time.monotonic())):
            sender.sendall(bytes(BITS // 800))
            receiver.recv(1 << 20)
            due_s += 0.01

    with (
        RealHosts(SPEC, tmp_path / "log") as lab,
        socket.create_server(("127.0.0.1", WORKLOAD_PORTS[600])) as listener,
        socket.create_connection(listener.getsockname()) as sender,
    ):
        lab.begin()
        receiver, _ = listener.accept()
        thread = threading.Thread(target=carry, args=(sender, receiver))
        thread.start()
        yield lab.name
        over.set()
        thread.join()
        receiver.close()
    assert lab.name not in {each.name for each in running()}


def test_ctl_lists_and_shows_it_and_changes_are_refused(trial: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ctl"]) == 0
    assert trial in capsys.readouterr().out
    assert main(["ctl", trial, "show", "--json"]) == 0
    state = msgspec.convert(json.loads(capsys.readouterr().out), LabState)
    assert [link.name for link in state.links] == ["network.down", "network.up"]
    assert state.links[0].delivered_bytes is not None
    assert state.links[0].queued_bytes is None, "nobody counts it"
    assert [(host.name, host.ipv4, host.interface) for host in state.hosts] == [
        ("server", "127.0.0.1", "lo"), ("client", "127.0.0.1", "lo"),
    ]  # fmt: skip
    assert state.hosts[0].clock_error_ms is not None
    assert state.flows is not None
    assert state.flows.count >= 2, "both ends are on this machine"
    assert state.flows.max_rtt_us is not None
    assert main(["ctl", trial]) == 0
    assert "network.down" in capsys.readouterr().out
    assert main(["ctl", trial, "set", "rate=1mbit"]) != 0
    assert "the network is not ours to change" in capsys.readouterr().err


def test_a_recording_has_its_rates_and_the_stream_its_round_trip(trial: str, tmp_path: Path) -> None:
    with page_server(Options(lab=trial, record_to=tmp_path / "records")) as client:
        assert "wavebed_link_delivered_bytes_total" in client.get("/metrics").body.decode()
        started = client.send("POST", f"/api/labs/{trial}/recordings", {"every_ms": 100}).json
        heads, points = [], []
        for kind, value in client.events(f"/api/labs/{trial}/events?every_ms=10", 4):
            (heads if kind == "head" else points).append(cast("dict[str, Any]", value))
        assert (heads[0]["every_ms"], heads[0]["directions"]) == (1000, ["tcp-rtt"])
        columns, rates_bps = heads[0]["columns"], []
        for each in points:
            row = dict(zip(columns, each["links"][0][0], strict=True))
            rates_bps.append(row["delivered_bps"])
            assert (row["queued_bytes"], row["wait_ms"], row["rate_bps"]) == (None, None, None)
            assert 0 < each["transit_ms"][0][0] < 1000
        assert max(rates_bps) > BITS / 2, "with what else crosses this loopback; a busy machine sends late at times"
        assert client.send("POST", f"/api/recordings/{started['id']}/stop", {}).json["state"] == "stopped"
    (file,) = (tmp_path / "records").iterdir()
    rows = list(csv.DictReader(file.read_text().splitlines()))
    assert {row["link"] for row in rows} == {"network.down", "network.up"}
    assert max(float(row["delivered_bps"]) for row in rows if row["delivered_bps"]) > BITS / 2
    assert rows[0]["queued_bytes"] == ""


def test_the_page_shows_what_a_trial_has_and_dashes_for_the_rest(trial: str) -> None:
    from playwright.sync_api import sync_playwright

    with (
        page_server(Options(lab=trial)) as client,
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=find("chromium"), args=["--no-sandbox"]) as browser,
    ):
        page = browser.new_page(viewport={"width": 1280, "height": 1000})
        page.set_default_timeout(120_000)  # 30 s by default, in which a busy machine draws nothing
        said: list[str] = []
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(f"http://{client.host}/?token={client.token}", timeout=60_000)
        row = page.locator('tr[data-link="network.down"]')
        row.locator('td.delivered:has-text("bit/s")').wait_for()
        assert [row.locator(f"td.{name}").inner_text() for name in ("rate", "queue", "wait", "delay")] == ["–"] * 4
        page.wait_for_selector('#path:has-text("clock")')
        text = page.locator("#path").inner_text()
        assert text.startswith("server 127.0.0.1 lo, clock ")
        assert "TCP connections, round trip" in text
        assert page.get_by_role("button", name="Change all").is_disabled()
        assert said == []
        page.close()


def test_other_users_are_not_served(trial: str) -> None:
    """Only root may become another user, so the child does that; a connection is closed without an answer."""
    (lab,) = [each for each in running() if each.name == trial]
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.setuid(65534)
        with socket.socket(socket.AF_UNIX) as stream:
            stream.settimeout(5)
            stream.connect(f"\0{lab.socket}")
            try:
                stream.sendall(b'{"do": "show"}\n')
                os.write(write, b"answered" if stream.recv(100) else b"closed")
            except OSError:
                os.write(write, b"closed")
        os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    assert os.read(read, 100) == b"closed"
    os.close(read)


def test_samples_that_ended_before_the_first_one_count_as_none(tmp_path: Path) -> None:
    for host in ("server", "client"):
        (tmp_path / host).mkdir()
        (tmp_path / host / "cpu.csv").write_text("")
    merge_samples({host: tmp_path / host for host in ("server", "client")}, tmp_path)
    assert not (tmp_path / "cpu.csv").exists()


def test_an_error_before_the_time_begins_is_told_and_none_of_the_end(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), RealHosts(SPEC, tmp_path / "log"):
        raise ZeroDivisionError
