"""What ModemManager, QMI and Android phones print of a modem, in their documented formats; no hardware was at hand."""

from __future__ import annotations

import subprocess

import pytest

from wavebed.hosts.samples import SCRIPT


def test_without_a_modem_the_sampling_ends_at_once() -> None:
    done = subprocess.run(["sh", "-c", SCRIPT, "sh", "auto"], capture_output=True, timeout=60, check=True, env={})
    assert done.stdout == b""


@pytest.mark.parametrize("tool", ["mmcli", "qmicli", "adb"])
def test_a_tool_that_is_not_installed_gives_no_samples(tool: str) -> None:
    done = subprocess.run(["sh", "-c", SCRIPT, "sh", tool], capture_output=True, timeout=60, check=True, env={})
    assert done.stdout == b""
