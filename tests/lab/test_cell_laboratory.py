"""A laboratory with devices: each is a host of its own, reaches the server, and has links that change alone."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any, cast

import pytest

from wavebed.errors import UserError
from wavebed.lab.views import seen_from
from wavebed.path.api import Path

if TYPE_CHECKING:
    from pathlib import Path as FilePath

pytestmark = pytest.mark.timeout(300)

CELL = """
[[path.hop]]
name = "internet"
kind = "wired"
delay = "3ms"

[[path.hop]]
name = "radio"
kind = "radio"
radio = "nr-30khz"
rate = "60mbit"

[[device]]
name = "phone"
count = 2

[[device]]
name = "tablet"
delay = "20ms"
congestion-control = "reno"
"""
NAMES = ("phone-1", "phone-2", "tablet")
EDGE = '[path.edge]\nafter = "internet"\n'


def links_of(lab: Any) -> dict[str, dict[str, Any]]:
    return {link["name"]: link for link in cast("list[dict[str, Any]]", lab.summary["links"])}


@pytest.mark.parametrize("edge", ["", EDGE], ids=["server", "edge"])
def test_each_device_reaches_the_server_over_its_own_links(tmp_path: FilePath, edge: str) -> None:
    (tmp_path / "cell.toml").write_text(CELL + edge)
    with Path(tmp_path / "cell.toml").up() as lab:
        addresses = set()
        for name in NAMES:
            done = lab.host(name).run(["ping", "-c", "2", "-i", "0.2", "server"], capture_output=True, check=True)
            least_ms = float(done.stdout.rsplit("=", 1)[1].split("/")[0])
            assert least_ms >= (46.0 if name == "tablet" else 6.0)
            shown = lab.host(name).run(["ip", "-json", "-4", "address", "show"], capture_output=True, check=True)
            addresses |= {each["local"] for device in json.loads(shown.stdout) for each in device["addr_info"]}
        assert len(addresses) == 4, "one of each device, and the loopback's"
        with pytest.raises(UserError, match=r"client: is no host of this path: write one of server, .*tablet"):
            _ = lab.client
    links = links_of(lab)
    for name in NAMES:
        for direction in ("down", "up"):
            link = links[f"radio.{name}.{direction}"]
            assert link["delivered_segments"] >= 2
            assert link["unaccounted_segments"] == 0
    assert links["internet.up"]["delivered_segments"] >= 6


def test_a_cell_without_devices_has_the_client_beside_modelled_users(tmp_path: FilePath) -> None:
    first, _, _ = CELL.partition("[[device]]")
    users = '[[cell.background]]\nname = "neighbour"\nrate = "60mbit"\ntraffic = { kind = "full-buffer" }\n'
    (tmp_path / "cell.toml").write_text(first + users)
    with Path(tmp_path / "cell.toml").up() as lab:
        lab.client.run(["ping", "-c", "2", "-i", "0.2", "server"], capture_output=True, check=True)
    assert links_of(lab)["radio.client.down"]["delivered_segments"] >= 2
    (cell,) = (each for each in lab.summary["cells"] if each["name"] == "radio.down")
    assert [(user["name"], user["served_bytes"] > 0) for user in cell["background"]] == [("neighbour", True)]


def test_a_view_of_a_laboratory_has_a_device_for_its_client(tmp_path: FilePath) -> None:
    (tmp_path / "cell.toml").write_text(CELL)
    with Path(tmp_path / "cell.toml").up() as lab:
        client = seen_from(lab, "tablet").host("client")
        done = client.run(["ip", "route", "show"], capture_output=True, check=True)
        assert client.name == "tablet"
        assert "congctl reno" in done.stdout


def test_a_change_concerns_the_link_of_one_device(tmp_path: FilePath) -> None:
    (tmp_path / "cell.toml").write_text(CELL)
    with Path(tmp_path / "cell.toml").up() as lab:
        lab.set(**{"radio.phone-2.down.rate": "5mbit"})
        rates = {link["name"]: link["rate_bps"] for link in cast("list[dict[str, Any]]", lab.show()["links"])}
        assert (rates["radio.phone-1.down"], rates["radio.phone-2.down"]) == (60_000_000, 5_000_000)
        with pytest.raises(UserError, match=r"there is no link radio\.phone\.down"):
            lab.set(**{"radio.phone.down.rate": "5mbit"})


def test_a_command_runs_on_the_chosen_device_of_a_shell(tmp_path: FilePath) -> None:
    (tmp_path / "cell.toml").write_text(CELL)
    words = ["shell", "--scenario", "cell.toml", "--device", "tablet", "--summary", "summary.json", "--"]
    command = [sys.executable, "-m", "wavebed", *words, "ping", "-c", "1", "server"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    links = {link["name"]: link for link in json.loads((tmp_path / "summary.json").read_text())["links"]}
    assert links["radio.tablet.down"]["delivered_segments"] >= 1
    assert links["radio.phone-1.down"]["offered_segments"] == 0
