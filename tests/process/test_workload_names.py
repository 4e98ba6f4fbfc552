"""Names of servers that are looked up: the key, the resolver, and the metric."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from tests.unit.test_workload_names import ADDRESSES

from wavebed.lab.tools import find
from wavebed.workload.serve.resolver import resolver_configuration

if TYPE_CHECKING:
    from pathlib import Path


def test_dnsmasq_accepts_its_configuration(tmp_path: Path) -> None:
    file = tmp_path / "dnsmasq.conf"
    file.write_text(resolver_configuration("198.19.1.1", ADDRESSES))
    done = subprocess.run(
        [find("dnsmasq"), "--test", f"--conf-file={file}"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "dnsmasq: syntax check OK.\n")
