"""`wavebed bridge` between two hosts in network namespaces: transparent, accounted for, timed, and without remains."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from wavebed._core import find_core

AGENT = Path(__file__).with_name("bridge_agent.py")
TIMED = AGENT.with_name("bridge_timed_agent.py")
WITHIN_S = 120.0
GONE = {"promiscuity": [0, 0], "engine": False, "tables": [], "sockets": []}


def ask(agent: Path, *what: str) -> dict[str, Any]:
    command = [find_core(), "sandbox", "--", sys.executable, str(agent), *what]
    variables = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False, env=variables)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def check_accounts(shown: dict[str, Any]) -> None:
    assert len(shown["frames"]) == 2
    for account in shown["frames"]:
        assert account["unaccounted_frames"] == 0, account
        entered = account["received_frames"] + account["duplicated_frames"]
        left = account["delivered_frames"] + account["around_frames"] + account["queued_frames"]
        assert entered == left + sum(account["dropped_frames"].values()), account


def test_every_kind_of_frame_passes_byte_for_byte_in_both_directions() -> None:
    answer = ask(AGENT, "transparency")
    for way in ("down", "up"):
        assert answer[way] == {"missing": [], "twice": [], "others": []}, way
    check_accounts(answer["show"])
    links = {link["name"]: link for link in answer["show"]["links"]}
    for account, link in zip(answer["show"]["frames"], (links["radio.down"], links["radio.up"]), strict=True):
        assert account["dropped_frames"] == {}
        # The hosts' own kernels send some frames too.
        assert link["offered_segments"] >= answer["linked"]
        assert account["around_frames"] >= answer["frames"] - answer["linked"]
        assert account["delivered_frames"] == link["delivered_segments"]


def test_offloads_change_no_account() -> None:
    answer = ask(AGENT, "offloads")
    for setting in ("on", "off"):
        found = answer[setting]
        check_accounts(found["show"])
        assert found["bps"] > 0
        assert found["end"]["status"] == 130
        down = found["show"]["frames"][0]
        assert down["dropped_frames"].get("loss", 0) > 0
        assert set(down["dropped_frames"]) <= {"loss", "unread"}


def test_a_bridge_ends_in_order_and_nothing_stays_however_it_ends() -> None:
    answer = ask(AGENT, "kills")
    assert answer["before"] == [0, 0]
    for name, status in (("SIGTERM", 0), ("SIGINT", 130), ("SIGKILL", -9)):
        found = answer[name]
        assert found["during"] == [1, 1]
        assert found["pings"] == 5
        assert {key: found[key] for key in GONE} == GONE, name
        assert found["status"] == status
    assert answer["SIGKILL"]["pings_after"] == 0


def test_a_bridge_fails_closed_at_once() -> None:
    answer = ask(AGENT, "failure", "closed")
    dead_s = answer["dead_s"]
    assert dead_s is not None
    # By the time at which they were sent: one that came before may be read later.
    assert len([sent_s for sent_s in answer["sent_s"] if sent_s > dead_s]) > 100
    assert [sent_s for sent_s, _ in answer["arrived_s"] if sent_s > dead_s] == []
    assert (answer["status"], answer["promiscuity"]) == (1, [0, 0])


def test_an_engine_that_hangs_is_killed_and_the_bridge_fails_open() -> None:
    answer = ask(AGENT, "hang")
    assert answer["before"] == 3
    assert answer["took_s"] < 40
    assert answer["show"]["state"] == "unshaped"
    assert answer["end"] == {"status": 1, "promiscuity": [0, 0]}


def test_a_port_that_the_machine_needs_or_that_is_none_is_refused() -> None:
    answer = ask(AGENT, "refusals")
    said = {name: (found["status"], found["said"]) for name, found in answer.items()}
    for name, status, words in (
        ("unknown", 2, 'b: there is no interface "other": `ip link` lists them'),
        ("same", 2, 'b: "dev0" is also a: name another port'),
        ("loopback", 2, "a: lo is no Ethernet interface"),
        ("default route", 2, "a: net0 has this machine's default route, which would be cut"),
        ("member", 2, "a: dev0 is a port of a bridge or bond"),
        ("down", 3, "a: dev0 is down: ip link set dev0 up"),
    ):
        assert said[name][0] == status, said[name]
        assert words in said[name][1]
    forced = answer["forced"]
    # With an address on it the machine would answer; nothing comes to its own stack.
    assert (forced["pings"], forced["own answers"], forced["status"]) == (3, 0, 0)


WANTED_MS = {"10.77.0.2": 2, "10.77.0.3": 20, "10.77.0.4": 40, "changed": 11}


def ask_classes(folder: Path) -> tuple[dict[str, Any], dict[tuple[str, int], list[float]]]:
    """Ping over a bridge with links for two devices; return the answer, and round trips (ms) by source and delay."""
    files = []
    for name, delay in (("slow", "10ms"), ("slower", "20ms")):
        files.append(str(folder / f"{name}.toml"))
        Path(files[-1]).write_text(f'[path]\ndelay = "{delay}"\n')
    answer = ask(AGENT, "classes", *files)
    return answer, {(source, wanted_ms): answer[source] for source, wanted_ms in WANTED_MS.items()}


def test_a_device_has_links_of_its_own_by_either_address(tmp_path: Path) -> None:
    answer, found = ask_classes(tmp_path)
    for (source, wanted_ms), rtts_ms in found.items():
        assert len(rtts_ms) == 10
        assert wanted_ms <= min(rtts_ms) < wanted_ms + 8, source
    check_accounts(answer["show"])
    offered = {link["name"]: link["offered_segments"] for link in answer["show"]["links"]}
    for name, least in (("radio", 12), ("tv.radio", 22), ("device-2.radio", 12)):
        assert offered[f"{name}.down"] >= least
        assert offered[f"{name}.up"] >= least


def test_a_port_may_go_down_for_a_while_but_not_away() -> None:
    answer = ask(AGENT, "down")
    assert (answer["before"], answer["amid"], answer["running"], answer["after"]) == (3, 0, True, 3)
    assert answer["status"] == 1
    assert "ended unexpectedly" in answer["said"]


TIMELINE = """
[[stretch]]
name = "open"
duration = "1s"
down-loss = "0%"

[[stretch]]
name = "shut"
duration = "500ms"
down-loss = "100%"

[[stretch]]
name = "after"
duration = "2s"
"""


@pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark")
def test_tshark_sees_the_same_frames_on_both_sides(tmp_path: Path) -> None:
    answer = ask(TIMED, "dissected", str(tmp_path))
    for way in ("down", "up"):
        near, far = answer[way]["near"], answer[way]["far"]
        assert len(near) == len(answer["names"]), way
        assert [raw for raw, _ in far] == [raw for raw, _ in near], way
        assert far == near, way
    protocols = " ".join(said.split(" ", 1)[0] for _, said in answer["down"]["near"])
    for protocol in ("arp", "lldp", "dhcp", "icmpv6", "vlan", "igmp", "esp", "sctp", "quic", "gre", "dhcpv6", "eapol"):
        assert protocol in protocols, protocol


def test_frames_pass_or_are_lost_as_the_state_of_the_timeline_says(tmp_path: Path) -> None:
    file = tmp_path / "open-and-shut.toml"
    file.write_text(TIMELINE)
    answer = ask(TIMED, "states", str(file))
    for move in answer["moves"]:
        assert move["state"]["playing"] is False
        # Nothing of a burst that was lost comes later.
        assert move["arrived"] == (list(range(20)) if move["passes"] else []), move
    positions_ms = [move["state"]["position_ns"] // 10**6 for move in answer["moves"]]
    assert positions_ms == [200, 1100, 1500, 1500, 0]
    assert answer["faster"]["speed"] == 2
    assert answer["played"]["playing"] is True
    assert answer["timeline"]["position_ns"] >= 1_600_000_000
    assert [each["name"] for each in answer["timeline"]["stretches"]] == ["open", "shut", "after"]
    check_accounts(answer["show"])
    assert answer["end"]["status"] == 0


def test_faults_on_command_keep_or_lose_what_waits() -> None:
    answer = ask(TIMED, "handovers")
    for name, least_ms in (("handover", 150), ("flap", 100)):
        arrived = answer[name]["arrived"]
        assert [number for number, _ in arrived] == list(range(20)), name
        # What was sent after the command waits for the end of the interruption.
        assert min(at_ns for number, at_ns in arrived if number >= 10) >= least_ms * 1_000_000, name
    lost = answer["lost"]
    (down, _) = lost["show"]["frames"]
    dropped = down["dropped_frames"]["handover"]
    assert down["dropped_frames"] == {"handover": dropped}
    # Some may be frames of the kernels.
    assert 300 - dropped <= len(lost["arrived"]) - 1 < 300 - dropped + 10
    assert lost["arrived"] == sorted(lost["arrived"])
    assert lost["arrived"][-1] == 300
    check_accounts(lost["show"])


def test_real_devices_behind_a_bridge_share_a_cell(tmp_path: Path) -> None:
    answer = ask(AGENT, "cell", str(tmp_path))
    assert answer["status"] == 0
    check_accounts(answer["show"])
    # Frames of a device that the cell does not have pass by the radio, and are counted.
    assert answer["unlisted"] == 5
    assert all(account["of_no_device_frames"] >= 5 for account in answer["show"]["frames"])
    # Only those milliseconds count at whose begin and end a device has data waiting.
    rows = {int(number): {row[0]: row[1:] for row in found} for number, found in answer["rows"].items()}
    waiting = {
        number: {time_ms for time_ms, (_, queue, _) in found.items() if queue and found.get(time_ms - 1, (0, 0, 0))[1]}
        for number, found in rows.items()
    }
    together = waiting[1] & waiting[2] & waiting[3]
    assert len(together) > 50
    given = [sum(rows[number][time_ms][0] for time_ms in together) for number in (1, 2, 3)]
    assert min(given) > 0.9 * max(given), given
    alone = {each for each in waiting[1] if not any(any(rows[number].get(each, ())) for number in (2, 3))}
    assert len(alone) > 20
    rate_alone = sum(rows[1][time_ms][0] for time_ms in alone) / len(alone)
    assert rate_alone > 2.5 * given[0] / len(together), (rate_alone, given, len(together))
