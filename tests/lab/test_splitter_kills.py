"""Transfers through the splitter in which an end, or the splitter, is killed: some of ``benches/kills.py``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from zlib import crc32

from tests.samples_by_seed import SEED

KILLS = Path(__file__).parents[2] / "benches/kills.py"
MEGABYTES = 30


def test_transfers_with_kills_arrive_whole_or_fail_at_both_ends() -> None:
    argv = [sys.executable, KILLS, "--megabytes", str(MEGABYTES), "--seed", str(crc32(SEED.encode()))]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=280)
    assert done.stdout, done.stderr
    figures = json.loads(done.stdout)
    assert figures["faults"] == []
    assert done.returncode == 0
    victims = figures["victims"]
    assert victims["nobody"]["whole"] == victims["nobody"]["transfers"] > 0
    assert sum(each["failed"] for each in victims.values()) > 0, "no kill came in time"
