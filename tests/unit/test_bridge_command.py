"""The command line of bridges: what `bridge` hands to the core, what it refuses, and what `ctl` shows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import pytest

from wavebed.cli import main
from wavebed.cli.ctl import _table
from wavebed.path.control import LinkState

if TYPE_CHECKING:
    from pathlib import Path

PORTS = ("--a", "eth1", "--b", "eth2")


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    assert main(["bridge", *PORTS, "--print-bridge", *arguments]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_the_path_is_that_of_shell(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--rate", "50mbit", "--down-delay", "10ms", "--seed", "7", "--mtu", "9000")
    bridge = printed(capsys, *options)
    assert main(["shell", *options, "--print-laboratory"]) == 0
    laboratory = json.loads(capsys.readouterr().out)
    assert bridge["hops"] == laboratory["network"]["legs"][0]["hops"]
    assert bridge["seed"] == laboratory["seed"]
    for key in ("mtu", "coalesce", "packet_memory_bytes"):
        assert bridge[key] == laboratory["network"][key]


def test_hops_on_both_sides_of_an_edge_are_in_a_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scenario = tmp_path / "edge.toml"
    scenario.write_text(
        '[path.edge]\nafter = "internet"\n'
        '[[path.hop]]\nname = "internet"\nkind = "wired"\ndelay = "5ms"\n'
        '[[path.hop]]\nname = "radio"\nkind = "radio"\nrate = "10mbit"\n'
    )
    assert main(["bridge", *PORTS, "--print-bridge", "--scenario", str(scenario)]) == 0
    captured = capsys.readouterr()
    assert [hop["name"] for hop in json.loads(captured.out)["hops"]] == ["internet", "radio"]
    assert captured.err == "wavebed: note: a bridge has no hosts: all hops of the path are in a row\n"


def test_a_path_without_options_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys)["hops"] == [{"name": "radio", "kind": "radio", "down": [], "up": []}]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--b", "eth2"], "--a"),
        (["--a", "eth/1", "--b", "eth2"], "--a: 'eth/1' is no interface: write a name that `ip link` lists"),
        (["--a", "eth1", "--b", "a-name-of-16-byt"], "--b: 'a-name-of-16-byt' is no interface"),
        ([*PORTS, "--nat"], "nat: a bridge has no server: leave --nat out"),
        ([*PORTS, "--on-failure", "half"], "'half' is not a choice: write one of closed, open"),
        ([*PORTS, "--name", "Not a name"], "--name: 'Not a name' is not a name"),
        ([*PORTS, "--rate", "10"], "--rate: '10' has no unit"),
    ],
)
def test_a_wrong_use_is_refused_in_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bridge", "--print-bridge", *arguments]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


def test_a_second_radio_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scenario = tmp_path / "two.toml"
    scenario.write_text('[path]\nrate = "10mbit"\n[path.second-radio]\nrate = "5mbit"\n')
    assert main(["bridge", *PORTS, "--print-bridge", "--scenario", str(scenario)]) == 2
    assert "second-radio: a bridge has two ports" in capsys.readouterr().err


def test_devices_have_the_path_of_a_scenario_under_their_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario = tmp_path / "slow.toml"
    scenario.write_text('[path]\nrate = "10mbit"\n')
    bridge = printed(
        capsys, "--devices", f"tv@02:00:00:00:00:0A,192.0.2.7={scenario}", "--devices", f"fd00::0:7={scenario}"
    )
    first, second = cast("list[dict[str, Any]]", bridge["classes"])
    assert (first["name"], first["addresses"]) == ("tv", ["02:00:00:00:00:0a", "192.0.2.7"])
    assert (second["name"], second["addresses"]) == ("device-2", ["fd00::7"])
    assert [hop["name"] for hop in first["hops"]] == ["tv.radio"]
    assert first["hops"][0]["down"][0]["rate"] == {"kind": "constant", "rate_bps": 10_000_000}


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        (["1.2.3=FILE"], "--devices: '1.2.3' is no address: write a MAC address as 02:00:00:00:00:01"),
        (["tv@1.2.3.4"], "--devices: 'tv@1.2.3.4' names no scenario"),
        (["Tv@1.2.3.4=FILE"], "--devices: 'Tv' is not a name"),
        (["1.2.3.4=FILE", "1.2.3.4=FILE"], "--devices: 1.2.3.4 is an address of two devices"),
        (["tv@1.2.3.4=FILE", "tv@1.2.3.5=FILE"], "--devices: 'tv' is the name of two devices"),
        (["a-name-of-thirty-and-two-letters@1.2.3.4=FILE"], "is longer than 32 characters"),
        (["1.2.3.4=NONE"], "neither a file nor a shipped scenario"),
    ],
)
def test_wrong_devices_are_refused_in_one_line(
    devices: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario = tmp_path / "slow.toml"
    scenario.write_text("[path]\n")
    options = [word.replace("FILE", str(scenario)) for each in devices for word in ("--devices", each)]
    assert main(["bridge", *PORTS, "--print-bridge", *options]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


def test_ctl_shows_the_frames_of_both_directions() -> None:
    frames = {"received_frames": 12, "delivered_frames": 7, "around_frames": 2, "queued_frames": 1}
    answer = {
        "name": "walk",
        "links": [],
        "hosts": [],
        "hops": [],
        "state": "unshaped",
        "ports": {"a": "eth1", "b": "eth2"},
        "frames": [{"from": "eth1", "to": "eth2", "dropped_frames": {"loss": 1, "too_long": 1}, **frames}],
    }
    lines = [line.split() for line in _table("bench", answer).splitlines()]  # type: ignore[arg-type]
    assert ["frames", "received", "delivered", "around", "dropped", "queued"] in lines
    assert ["eth1", "to", "eth2", "12", "7", "2", "2", "1"] in lines


def test_ctl_shows_the_drops_of_all_reasons_together() -> None:
    fields = dict.fromkeys(LinkState.__struct_fields__)
    link = {**fields, "name": "radio.down", "takes": (), "dropped_segments": {"overflow": 3, "loss": 4, "aqm": 5}}
    answer = {"name": "walk", "links": [link], "hosts": [], "hops": [], "state": "running"}
    head, row = (line.split() for line in _table("bench", answer).splitlines()[:2])  # type: ignore[arg-type]
    assert dict(zip(head, row, strict=True))["dropped"] == "12"


def test_a_shipped_scenario_or_scene_is_named_alone(capsys: pytest.CaptureFixture[str]) -> None:
    found = printed(capsys, "--scenario", "kau-e5g-1")
    hops = cast("list[dict[str, Any]]", found["hops"])
    assert [hop["name"] for hop in hops] == ["internet", "radio"]
    hops = cast("list[dict[str, Any]]", printed(capsys, "--scene", "street-canyon-bus")["hops"])
    assert [[stage["stage"] for stage in hop["down"]] for hop in hops] == [["radio"]]
    device = printed(capsys, "--devices", "02:00:00:00:00:01=kau-e5g-1")
    assert [hop["name"] for hop in cast("Any", device)["classes"][0]["hops"]] == ["device-1.internet", "device-1.radio"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--scenario", "kau-e5g"), "kau-e5g: is neither a file nor a shipped scenario: did you mean 'kau-e5g-4'?"),
        (("--scene", "street"), "--scene: street: no such file, scene or condition: did you mean street-c"),
    ],
)
def test_an_unknown_name_is_answered_with_the_known_ones(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    assert main(["bridge", *PORTS, *arguments]) == 2
    assert said in capsys.readouterr().err
