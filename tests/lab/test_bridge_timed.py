"""`wavebed bridge`: which frames pass in each state of a timeline and after faults; what tshark sees on both sides."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from test_bridge import check_accounts

from wavebed._core import find_core

AGENT = Path(__file__).with_name("bridge_timed_agent.py")
WITHIN_S = 120.0
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


def ask(*what: str) -> dict[str, Any]:
    command = [find_core(), "sandbox", "--", sys.executable, str(AGENT), *what]
    variables = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False, env=variables)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark")
def test_tshark_sees_the_same_frames_on_both_sides(tmp_path: Path) -> None:
    answer = ask("dissected", str(tmp_path))
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
    answer = ask("states", str(file))
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
    answer = ask("handovers")
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
