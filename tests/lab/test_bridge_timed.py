"""`wavebed bridge` with a timeline, with faults on command, and as tshark sees it from both sides."""

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

AGENT = Path(__file__).with_name("bridge_timed_agent.py")
WITHIN_S = 120.0


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
