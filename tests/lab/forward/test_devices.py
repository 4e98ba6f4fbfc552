"""Emulated devices: each kind forwards a frame that was made by hand, as such a device should; their programs."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from wavebed._core import find_core
from wavebed.errors import UserError
from wavebed.forward.devices import FAULTY_KINDS, KINDS, device_kind, read_device

WITHIN_S = 90.0
AGENT = Path(__file__).with_name("agent.py")


def ask(*arguments: str) -> dict[str, Any]:
    command = [find_core(), "sandbox", "--", sys.executable, str(AGENT), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("kind", KINDS)
def test_a_frame_crosses_whole_and_the_ttl_is_treated_as_such_a_device_does(kind: str, version: int) -> None:
    answer = ask("cross", kind, str(version))
    hops = answer["hops"]
    assert hops == (0 if kind == "bridge" else 1)
    expected = [("hello", 64 - hops), ("again", 64 - hops)]
    if hops == 0:
        expected.insert(1, ("last hop", 1))
    assert [(frame["payload"], frame["ttl"]) for frame in answer["frames"]] == expected
    source, destination = answer["addresses"]
    if kind == "nat" and version == 4:
        source = "198.18.1.1"
    for frame in answer["frames"]:
        assert frame["sound"], "checksums fit"
        assert (frame["source"], frame["destination"]) == (source, destination)
        assert frame["to"] == answer["rx_mac"]
    assert answer["receiver_overruns"] == 0


def test_a_duplicating_device_sends_frames_twice() -> None:
    payloads = [frame["payload"] for frame in ask("cross", "duplicating:every=2", "4")["frames"]]
    assert payloads == ["hello", "hello", "again", "again"]


def test_a_flooding_device_sends_what_nobody_asked_for() -> None:
    answer = ask("cross", "flooding:rate=1000", "4")
    broadcasts = [frame for frame in answer["frames"] if frame["to"] == "ff:ff:ff:ff:ff:ff"]
    assert len(broadcasts) > 100
    assert [frame["payload"] for frame in answer["frames"] if frame["to"] == answer["rx_mac"]] == ["hello", "again"]


def test_a_shaped_device_never_exceeds_its_packet_rate() -> None:
    rate, burst = 500, 100
    answer = ask("press", f"shaped:rate={rate},burst={burst}", "0.5", "0.001")
    assert burst <= answer["received"] < answer["sent"]
    # What it held, and what came until it was counted; the device asks for its neighbours' addresses too.
    assert answer["received"] <= rate * answer["until_s"] + burst + 5


def test_a_rebooting_device_loses_its_link_and_gets_it_back() -> None:
    answer = ask("links", "rebooting:after=300ms,down=300ms")
    states = answer["states"]
    falls = sum(before and not after for before, after in itertools.pairwise(states))
    rises = sum(after and not before for before, after in itertools.pairwise(states))
    assert falls >= 1
    assert rises >= 1
    assert answer["up_afterwards"]


def test_no_port_of_the_setup_sends_super_packets_unless_asked() -> None:
    plain = ask("features")
    for interface, on in plain["features"].items():
        assert not [name for name in on if name.endswith("-segmentation")], interface
        assert on["rx-gro"], interface
    kept = ask("features", "keep")
    assert all("tx-udp-segmentation" in on for on in kept["features"].values())


def test_tester_and_device_have_a_processor_each_or_the_setup_says_so() -> None:
    answer = ask("features")
    tester, device = answer["cores"]
    if len(os.sched_getaffinity(0)) > 1:
        assert tester != device
    else:
        assert (tester, device) == (None, None)
        assert any("one processor" in doubt for doubt in answer["doubts"])


@pytest.mark.parametrize("name", [*KINDS, *FAULTY_KINDS])
def test_each_kind_says_what_it_is(name: str) -> None:
    kind = device_kind(name)
    assert kind.name == name
    assert kind.summary


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("rooting", "'rooting' is not a choice: did you mean 'routing'?"),
        ("routing:fast=1", "fast: the device routing has no options"),
        ("relay:delay=5", "delay:"),
        ("relay:delay=1500ns", "delay: '1500ns' is not a whole number of microseconds"),
        ("shaped:rate=0", "rate: '0' is not a whole number from 100 to 10000000"),
        ("shaped:rat=5", "rat: unknown key: did you mean 'rate'?"),
        ("shaped:1000,2000", "'2000' is not an option: write shaped:KEY=VALUE,KEY=VALUE, each key once"),
        ("shaped:", "'' is not an option"),
    ],
)
def test_a_device_that_nobody_can_make_is_refused_in_one_line(text: str, line: str) -> None:
    with pytest.raises(UserError) as caught:
        read_device(text)
    assert str(caught.value).startswith(line)


def test_a_value_alone_is_that_of_the_first_option() -> None:
    assert read_device("shaped:200000").values == {"rate": 200_000, "burst": 400}
    assert read_device("relay:500us").values == {"delay": 500}


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
