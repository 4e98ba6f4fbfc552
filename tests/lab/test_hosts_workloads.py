"""Workloads with browsers, and others that need more than a program, between two hosts that ssh joins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from two_hosts import two_hosts

if TYPE_CHECKING:
    from pathlib import Path


LAB = '[lab]\nbackend = "hosts"\nserver = "ssh://root@server"\n'
PATH = {"rate": "50mbit", "delay": "10ms"}


def test_a_program_that_a_host_lacks_is_named_with_its_package_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(LAB + '[path]\n[[workload]]\nkind = "download"\n')
    with two_hosts(tmp_path, hidden=["/usr/sbin/nginx"], **PATH) as hosts:
        done = hosts.wavebed(["run", str(tmp_path / "s.toml"), "-o", str(tmp_path / "out")])
    assert done.returncode == 3
    said = done.stderr.splitlines()[-1]
    assert "server, ssh://root@server: nginx: not found: run `apt-get install nginx-light` there" in said
    assert not list((tmp_path / "out").glob("trials/*/trial.json"))
