"""Workers of Dask on this machine: how fast two are, and that a real laboratory on one keeps others waiting."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from tests.dask_workers import ROOT, DaskWorkers
from tests.on_time import assert_ended, lateness

if TYPE_CHECKING:
    from pathlib import Path


_SCENARIO = """
[path]
rate = "10mbit"
[[workload]]
kind = "command"
run = ["sleep", "6"]
"""
_CAMPAIGN = """
title = "a laboratory on a worker"
scenario = "s.toml"
[campaign]
blocks = 1
[[factor]]
name = "delay"
key = "path.delay"
values = ["5ms", "20ms"]
[[primary]]
workload = "command"
metric = "time"
margin = "5%"
"""


def test_a_second_laboratory_waits_for_that_of_a_worker(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(_SCENARIO)
    (tmp_path / "c.toml").write_text(_CAMPAIGN)
    cluster = DaskWorkers(tmp_path / "dask", 1)
    lock = str(tmp_path / "dask" / "worker-0.lock")
    path = os.pathsep.join([str(ROOT), str(ROOT / "python")])
    variables = {**os.environ, "PYTHONPATH": path, "WAVEBED_LOCK": lock}
    wavebed = [sys.executable, "-m", "wavebed"]
    with cluster:
        there = [*wavebed, "campaign", "run", str(tmp_path / "c.toml"), "-o", str(tmp_path / "there")]
        there += ["--executor", cluster.address.replace("tcp", "dask")]
        with subprocess.Popen(there, env=variables, stdout=subprocess.PIPE) as front:
            while not _is_held(lock):
                assert front.poll() is None
                time.sleep(0.05)
            here = [*wavebed, "run", str(tmp_path / "s.toml"), "-o", str(tmp_path / "here")]
            second = subprocess.run(here, env=variables, capture_output=True, text=True, timeout=120, check=False)
            front.communicate(timeout=120)
            assert front.returncode == 0
    assert f"waiting for the end of another run on this machine (process {cluster.workers[0].pid})" in second.stderr
    assert_ended(second, tmp_path / "here")
    run = json.loads((tmp_path / "there" / "run.json").read_text())
    assert {line["treatment"] for line in run["trials"]} == {"5ms", "20ms"}
    files = list((tmp_path / "there").glob("trials/*/trial.json"))
    records = [json.loads(file.read_text()) for file in files]
    assert all(record["verdict"] in ("valid", "suspect") or lateness(record) for record in records)
    assert run["machine"].keys() == {os.uname().nodename}


def _is_held(lock: str) -> bool:
    """Return whether another process has the lock."""
    if not os.path.exists(lock):  # noqa: PTH110 - a name as text
        return False
    asked = subprocess.run(["flock", "--nonblock", "--shared", lock, "true"], check=False)
    return asked.returncode != 0
