"""Workloads that need programs of real hosts: what they store, and what is missing is named before anything runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from two_hosts import two_hosts

if TYPE_CHECKING:
    from pathlib import Path


LAB = '[lab]\nbackend = "hosts"\nserver = "ssh://root@server"\n'
COMMAND = """[[workload]]
kind = "command"
server-run = ["sh", "-c", "echo served; exec iperf3 -s -1 -p {port}"]
run = "iperf3 -c {server} -p {port} -n 200K > out.txt; cat out.txt"
limit = "60s"
"""
PATH = {"rate": "50mbit", "delay": "10ms"}


def test_a_program_that_a_host_lacks_is_named_with_its_package_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(LAB + '[path]\n[[workload]]\nkind = "download"\n')
    with two_hosts(tmp_path, hidden=["/usr/sbin/nginx"], **PATH) as hosts:
        done = hosts.wavebed(["run", str(tmp_path / "s.toml"), "-o", str(tmp_path / "out")])
    assert done.returncode == 3
    said = done.stderr.splitlines()[-1]
    assert "server, ssh://root@server: nginx: not found: run `apt-get install nginx-light` there" in said
    assert not list((tmp_path / "out").glob("trials/*/trial.json"))


def test_a_command_and_its_server_run_on_real_hosts_and_their_files_are_kept(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(LAB + "[path]\n" + COMMAND)
    with two_hosts(tmp_path, **PATH) as hosts:
        done = hosts.wavebed(["run", str(tmp_path / "s.toml"), "-o", str(tmp_path / "out")], limit_s=120)
    assert done.returncode == 0, done.stderr
    (file,) = (tmp_path / "out").glob("trials/*/trial.json")
    record = json.loads(file.read_text())
    assert [workload["status"] for workload in record["workloads"]] == ["ok"], record["workloads"]
    (folder,) = (tmp_path / "out").glob("trials/*/raw/command")
    assert {file.name.removesuffix(".gz") for file in folder.iterdir()} >= {"out.txt", "server.out"}
