"""The programs behind the devices `xdp` and `relay`, by their command line."""

from __future__ import annotations

import json
import subprocess

import pytest

from wavebed._core import find_core

MACS = ["--in-next-mac", "02:00:00:00:00:01", "--out-next-mac", "02:00:00:00:00:02"]


def run(*arguments: str, before: str = "true") -> subprocess.CompletedProcess[str]:
    """Run it in a sandbox after the shell commands `before`, with an empty standard input."""
    script = f'{before} && exec "$0" device "$@"'
    command = [find_core(), "sandbox", "--", "sh", "-c", script, find_core(), *arguments]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, check=False)


PORTS = " && ".join(
    f"ip link add {port} type veth peer name {port}-end && ip link set {port} up" for port in ("in", "out")
)


@pytest.mark.parametrize("kind", ["xdp", "relay"])
def test_a_device_says_that_it_forwards_and_ends_with_its_input(kind: str) -> None:
    done = run(kind, "in", "out", *MACS, before=PORTS)
    assert (done.returncode, done.stdout, done.stderr) == (0, '{"ok":{}}\n', "")


@pytest.mark.parametrize("kind", ["xdp", "relay"])
def test_a_missing_interface_is_said_in_one_line(kind: str) -> None:
    done = run(kind, "in", "out", *MACS)
    line = "in: there is no such interface"
    assert (done.returncode, done.stderr) == (2, f"wavebed-core: {line}\n")
    assert json.loads(done.stdout) == {"error": line}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["relay", "in", "out", "--in-next-mac", "2:0", "--out-next-mac", "02:00:00:00:00:02"], "six bytes"),
        (["relay", "in", "out", *MACS, "--delay-us", "1000001"], "1000001"),
        (["xdp", "lo", "in", *MACS, "--delay-us", "5"], "only a relay"),
        (["relay", "lo", "lo", *MACS], "another interface"),
        (["switch", "in", "out", *MACS], "switch"),
    ],
)
def test_bad_options_are_refused_with_their_reason(arguments: list[str], expected: str) -> None:
    done = run(*arguments, before=PORTS)
    assert done.returncode == 2
    assert expected in done.stderr
