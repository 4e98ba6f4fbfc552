"""Runs inside a sandbox: a bridge between a router and a phone, each in a network namespace, and what happens to it.

router eth0 ─── net0  wavebed bridge  dev0 ─── eth0 phone
"""

from __future__ import annotations

import array
import contextlib
import csv
import fcntl
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bridge_frames import collect, frames_of_every_kind, raw_port

from wavebed._core import find_core
from wavebed.forward.sandbox import within

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

ADDRESSES = {"router": ("10.77.0.1", "fd77::1"), "phone": ("10.77.0.2", "fd77::2")}
PORTS = {"router": "net0", "phone": "dev0"}
NET, DEV = PORTS.values()
NAME = "between"
WITHIN_S = 40.0
SIOCETHTOOL = 0x8946
STXCSUM, STSO, SGSO, SGRO = 0x17, 0x1F, 0x24, 0x2C
"""Commands of `linux/ethtool.h`."""


def ip(*words: str) -> str:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=True, timeout=WITHIN_S)
    return done.stdout


def at(host: str, *argv: str, check: bool = True) -> str:
    command = ["ip", "netns", "exec", host, *argv]
    return subprocess.run(command, capture_output=True, text=True, check=check, timeout=WITHIN_S).stdout


def build(mtu: int = 1500) -> None:
    """Make both hosts, cabled to the ports."""
    for host, port in PORTS.items():
        ip("netns", "add", host)
        ip("link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", host)
        ip("link", "set", port, "mtu", str(mtu), "up")
        at(host, "ip", "link", "set", "eth0", "mtu", str(mtu), "up")
        for address, bits in zip(ADDRESSES[host], ("24", "64"), strict=True):
            at(host, "ip", "addr", "add", f"{address}/{bits}", "dev", "eth0", *(["nodad"] if bits == "64" else []))


@contextlib.contextmanager
def bridge(*options: str) -> Iterator[subprocess.Popen[str]]:
    """Run a bridge until the block ends."""
    command = [sys.executable, "-m", "wavebed", "bridge", "--a", NET, "--b", DEV, "--name", NAME, *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        started(process)
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(WITHIN_S)


def started(process: subprocess.Popen[str]) -> None:
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line)
        if line.startswith(f"wavebed-core: bridge {NAME}: "):
            return
    raise AssertionError(f"no bridge: {''.join(said)}")


def ended(process: subprocess.Popen[str], signal_number: int) -> dict[str, Any]:
    """Send a signal, and return what is left afterwards."""
    engine = engine_of(process)
    process.send_signal(signal_number)
    status = process.wait(WITHIN_S)
    said = process.stderr.read() if process.stderr else ""
    return {"status": status, "said": said, **remains(engine)}


def remains(engine: int) -> dict[str, Any]:
    """Return what is left of a bridge as soon as its engine is gone, or after some time."""
    end = time.monotonic() + WITHIN_S
    while os.path.exists(f"/proc/{engine}") and time.monotonic() < end:  # noqa: PTH110 much lighter
        time.sleep(0.01)
    tables = subprocess.run(["nft", "list", "tables"], capture_output=True, text=True, check=True).stdout
    return {
        "promiscuity": [promiscuity(port) for port in PORTS.values()],
        "engine": os.path.exists(f"/proc/{engine}"),  # noqa: PTH110
        "tables": tables.split("\n")[:-1],
        "sockets": Path("/proc/net/packet").read_text().splitlines()[1:],
    }


def promiscuity(port: str) -> int:
    (shown,) = json.loads(ip("-d", "-j", "link", "show", "dev", port))
    return int(shown["promiscuity"])


def engine_of(process: subprocess.Popen[str]) -> int:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return int(children[0])


def show() -> dict[str, Any]:
    command = [sys.executable, "-m", "wavebed", "ctl", "--json", NAME, "show"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=WITHIN_S)
    return dict(json.loads(done.stdout))


def change(*changes: str) -> None:
    command = [sys.executable, "-m", "wavebed", "ctl", NAME, "set", *changes]
    subprocess.run(command, check=True, timeout=WITHIN_S)


def transparency() -> dict[str, Any]:
    """Send frames of every kind both ways and compare what comes out, byte for byte."""
    build(mtu=9000)
    sent = frames_of_every_kind()
    answer: dict[str, Any] = {"linked": sum(each.linked for each in sent), "frames": len(sent)}
    with bridge("--delay", "1ms", "--mtu", "9000"):
        for way, (near, far) in {"down": ("router", "phone"), "up": ("phone", "router")}.items():
            with raw_port(near) as sender, raw_port(far) as receiver:
                for each in sent:
                    sender.send(each.frame)
                found = Counter(collect(receiver, len(sent)))
            wanted = {each.frame: each.name for each in sent}
            answer[way] = {
                "missing": [name for frame, name in wanted.items() if found[frame] == 0],
                "twice": [name for frame, name in wanted.items() if found[frame] > 1],
                "others": [frame.hex() for frame in found if frame not in wanted],
            }
        answer["show"] = show()
    return answer


def ping_command(
    count: int, interval_s: float = 0.02, source: str = ADDRESSES["phone"][0], wait: tuple[str, str] = ("-W", "2")
) -> list[str]:
    options = ["-c", str(count), "-i", str(interval_s), *wait, "-I", source]
    return ["ping", *options, ADDRESSES["router"][0]]


def round_trips_ms(text: str) -> list[float]:
    return [float(time_ms) for time_ms in re.findall(r"time=([\d.]+) ms", text)]


def pings(count: int, interval_s: float = 0.02, source: str = ADDRESSES["phone"][0]) -> list[float]:
    """Send `count` pings. ping leaves out a last answer that comes late."""
    return round_trips_ms(at("phone", *ping_command(count, interval_s, source), check=False))


def answered(count: int, source: str = ADDRESSES["phone"][0]) -> list[float]:
    """Ping until `count` pings were answered, however late."""
    found = at("phone", *ping_command(count, source=source, wait=("-w", "30")), check=False)
    return round_trips_ms(found)[:count]


def tcp(*length: str) -> float:
    """Return the goodput of a TCP download, bits per second.

    `shaped` omits its first seconds (-O): where slow start ends is random. It is not below 16 segments, from which
    cubic needs 30 round trips, 1.2 s, to the 67 packets that a path of 20 Mbit/s and 40 ms holds.

    Parameters
    ----------
    *length : str
        Options of iperf3 that say how long or how much.
    """
    listen = ["ip", "netns", "exec", "router", "iperf3", "-s", "-1", "--forceflush"]
    server = subprocess.Popen(listen, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert server.stdout is not None
    assert any("listening" in line for line in server.stdout)
    command = ["iperf3", "-c", ADDRESSES["router"][0], "-R", "-J", *length]
    try:
        result = json.loads(at("phone", *command))
    finally:
        server.terminate()
        server.communicate(timeout=WITHIN_S)
    return float(result["end"]["sum_received"]["bits_per_second"])


def shaped() -> dict[str, Any]:
    """Measure round trips and a download through a shaped bridge, and after a change of both."""
    build()
    with bridge("--rate", "20mbit", "--delay", "20ms") as process:
        pings(3)
        answer: dict[str, Any] = {"rtt_ms": pings(50), "tcp_bps": tcp("-t", "3", "-O", "2")}
        change("rate=40mbit", "delay=5ms")
        answer |= {"rtt_later_ms": pings(50), "tcp_later_bps": tcp("-t", "3", "-O", "1"), "show": show()}
        answer["end"] = ended(process, signal.SIGTERM)
    return answer


def set_offloads(interface: str, *, on: bool) -> None:
    """Switch checksums, segmentation and merging by an interface in the namespace of this thread (ethtool -K)."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for command in (STXCSUM, STSO, SGSO, SGRO):
            value = array.array("I", [command, int(on)])
            request = struct.pack("16sP16x", interface.encode(), value.buffer_info()[0])
            fcntl.ioctl(control, SIOCETHTOOL, request)


def offloads() -> dict[str, Any]:
    """Send TCP through a bridge whose ports have all offloads, and none; the account must close."""
    build()
    answer: dict[str, Any] = {}
    for setting in ("on", "off"):
        for host, port in PORTS.items():
            set_offloads(port, on=setting == "on")
            with within(host):
                set_offloads("eth0", on=setting == "on")
        with bridge("--loss", "0.1%", "--delay", "1ms", "--mtu", "1500") as process:
            answer[setting] = {"bps": tcp("-n", "30M"), "show": show(), "end": ended(process, signal.SIGINT)}
    return answer


def kills() -> dict[str, Any]:
    """End bridges in every way, and look at what stays."""
    build()
    answer: dict[str, Any] = {"before": [promiscuity(port) for port in PORTS.values()]}
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
        with bridge("--delay", "1ms") as process:
            during = [promiscuity(port) for port in PORTS.values()]
            answer[number.name] = {"during": during, "pings": len(answered(5)), **ended(process, number)}
            answer[number.name]["pings_after"] = len(pings(2, 0.2)) if number == signal.SIGKILL else 0
    return answer


def stream(host: str, interval_s: float, stop: threading.Event, sent_s: list[float]) -> Callable[[], None]:
    """Return a function that sends numbered datagrams from a host until it is to stop, and notes when."""
    with within(host):
        sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def send() -> None:
        with sender:
            while not stop.is_set():
                sent_s.append(time.monotonic())
                sender.sendto(struct.pack("!I", len(sent_s) - 1), (ADDRESSES["phone"][0], 7000))
                time.sleep(interval_s)

    return send


def failure(mode: str) -> dict[str, Any]:
    """Kill the link engine amid a stream of datagrams; return when those that arrived were sent, and came."""
    build()
    stop = threading.Event()
    sent_s: list[float] = []
    arrived: list[tuple[float, float]] = []
    with within("phone"):
        receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.bind(("", 7000))
    receiver.settimeout(0.5)
    with bridge("--on-failure", mode, "--delay", "1ms") as process, receiver:
        sender = threading.Thread(target=stream("router", 0.002, stop, sent_s))
        sender.start()
        try:
            killed_s = dead_s = None
            end = time.monotonic() + WITHIN_S
            while time.monotonic() < end:
                with contextlib.suppress(TimeoutError):
                    (number,) = struct.unpack("!I", receiver.recv(64)[:4])
                    arrived.append((sent_s[number], time.monotonic()))
                if dead_s is not None and time.monotonic() > dead_s + 1.8 and sum(at > dead_s for at in sent_s) > 100:
                    break
                if killed_s is None and len(arrived) > 100:
                    killed_s = time.monotonic()
                    os.kill(engine_of(process), signal.SIGKILL)
                    dead_s = time.monotonic()
        finally:
            stop.set()
            sender.join()
        answer: dict[str, Any] = {"killed_s": killed_s, "dead_s": dead_s, "arrived_s": arrived, "sent_s": sent_s}
        if mode == "open":
            answer |= {"show": show(), "pings": len(answered(5)), "end": ended_open(process)}
        else:
            answer["status"] = process.wait(WITHIN_S)
            answer["promiscuity"] = [promiscuity(port) for port in PORTS.values()]
    return answer


def hang() -> dict[str, Any]:
    """Stop the link engine of a bridge that fails open, and return how long nothing passed."""
    build()
    with bridge("--on-failure", "open", "--delay", "1ms") as process:
        before = len(answered(3))
        os.kill(engine_of(process), signal.SIGSTOP)
        began = time.monotonic()
        while not pings(1) and time.monotonic() < began + WITHIN_S:
            pass
        return {"before": before, "took_s": time.monotonic() - began, "show": show(), "end": ended_open(process)}


def ended_open(process: subprocess.Popen[str]) -> dict[str, Any]:
    process.send_signal(signal.SIGTERM)
    status = process.wait(WITHIN_S)
    return {"status": status, "promiscuity": [promiscuity(port) for port in PORTS.values()]}


def refused(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "wavebed", "bridge", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=WITHIN_S)
    return {"status": done.returncode, "said": done.stderr}


def refusals() -> dict[str, Any]:
    """Ask for bridges that cannot be."""
    build()
    answer = {
        "unknown": refused("--a", NET, "--b", "other"),
        "same": refused("--a", DEV, "--b", DEV),
        "loopback": refused("--a", "lo", "--b", DEV),
    }
    ip("addr", "add", "10.77.0.9/24", "dev", NET)
    ip("route", "add", "default", "via", "10.77.0.1")
    answer["default route"] = refused("--a", NET, "--b", DEV)
    ip("link", "add", "bridge0", "type", "bridge")
    ip("link", "set", DEV, "master", "bridge0")
    answer["member"] = refused("--a", DEV, "--b", "bridge0")
    ip("link", "set", DEV, "nomaster")
    ip("link", "set", DEV, "down")
    answer["down"] = refused("--a", DEV, "--b", "bridge0")
    ip("link", "set", DEV, "up")
    with bridge("--force") as process:
        own = at("phone", "ping", "-c", "2", "-i", "0.2", "-W", "1", "10.77.0.9", check=False)
        answer["forced"] = {"pings": len(answered(3)), "own answers": own.count("bytes from"), "said": ""}
        answer["forced"]["status"] = ended(process, signal.SIGTERM)["status"]
    return answer


def classes(slow: str, slower: str) -> dict[str, Any]:
    """Measure round trips of three devices: one known by its IP address, one by its MAC address, one by none."""
    build()
    # Each interface answers for its own addresses only.
    at("phone", "sysctl", "-qw", "net.ipv4.conf.all.arp_ignore=1", "net.ipv4.conf.all.arp_announce=2")
    at("phone", "ip", "addr", "add", "10.77.0.3/24", "dev", "eth0")
    at("phone", "ip", "link", "add", "link", "eth0", "name", "other", "type", "macvlan", "mode", "bridge")
    at("phone", "ip", "link", "set", "other", "up")
    (shown,) = json.loads(at("phone", "ip", "-j", "link", "show", "dev", "other"))
    at("phone", "ip", "addr", "add", "10.77.0.4/32", "dev", "other")
    at("phone", "ip", "rule", "add", "from", "10.77.0.4", "lookup", "7")
    at("phone", "ip", "route", "add", "10.77.0.0/24", "dev", "other", "src", "10.77.0.4", "table", "7")
    devices = [f"tv@10.77.0.3={slow}", f"{shown['address']}={slower}"]
    with bridge("--delay", "1ms", *(word for each in devices for word in ("--devices", each))):
        answer: dict[str, Any] = {"links": {}}
        for source in ("10.77.0.2", "10.77.0.3", "10.77.0.4"):
            pings(2, source=source)
            answer[source] = answered(10, source)
        change("tv.radio.down.delay=1ms")
        answer["changed"] = answered(10, "10.77.0.3")
        answer["show"] = show()
    return answer


CELL = """
[[path.hop]]
name = "internet"
kind = "wired"
delay = "2ms"
[[path.hop]]
name = "radio"
kind = "radio"
radio = "nr-30khz"
rate = "30mbit"
[cell]
[[device]]
name = "phone"
count = 3
address = "10.77.0.10-10.77.0.12"
"""


def cell(folder: str) -> dict[str, Any]:
    """Fill the queues of three devices of a cell, then one of them alone; return rows of each ms, and the account."""
    build()
    for last in (10, 11, 12):
        at("phone", "ip", "addr", "add", f"10.77.0.{last}/24", "dev", "eth0")
    scenario, log = Path(folder) / "cell.toml", Path(folder) / "log"
    scenario.write_text(CELL)
    with bridge("--scenario", str(scenario), "--log", str(log)) as process:
        unlisted = len(answered(5))
        for last in (10, 11, 12):
            answered(1, f"10.77.0.{last}")
        with within("router"):
            sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        # All leave an outage together, however slowly they are sent. Each queue holds 300 datagrams.
        change("outage=2s")
        burst(sender, ("10.77.0.10", "10.77.0.11", "10.77.0.12"), 300)
        drained()
        burst(sender, ("10.77.0.10",), 300)
        drained()
        shown = show()
        end = ended(process, signal.SIGTERM)
    rows = {}
    for number in (1, 2, 3):
        (found,) = (file for file in log.rglob(f"*phone-{number}.down*") if "radio" in file.name)
        with found.open() as lines:
            rows[number] = [
                [int(row[name]) for name in ("time_ms", "delivered_bytes", "queue_bytes", "air_ns")]
                for row in csv.DictReader(lines)
            ]
    return {"unlisted": unlisted, "rows": rows, "show": shown, "status": end["status"]}


def burst(sender: socket.socket, addresses: Iterable[str], count: int) -> None:
    """Send datagrams of 1200 bytes to each of the addresses in turn."""
    for _ in range(count):
        for address in addresses:
            sender.sendto(bytes(1172), (address, 9))


def drained() -> None:
    """Wait until the bridge holds nothing."""
    end = time.monotonic() + WITHIN_S
    while any(account["queued_frames"] for account in show()["frames"]):
        assert time.monotonic() < end, "the queues stay filled"
        time.sleep(0.1)


def down() -> dict[str, Any]:
    """Take a port down and up again, and then away."""
    build()
    with bridge("--delay", "1ms") as process:
        before = len(answered(3))
        ip("link", "set", DEV, "down")
        time.sleep(0.3)
        amid, running = len(pings(2, 0.2)), process.poll() is None
        ip("link", "set", DEV, "up")
        # The kernel looks at a carrier once a second.
        end = time.monotonic() + WITHIN_S
        while not pings(1, 0.2) and time.monotonic() < end:
            pass
        after = len(answered(3))
        ip("link", "del", DEV)
        status = process.wait(WITHIN_S)
        said = process.stderr.read() if process.stderr else ""
    return {"before": before, "amid": amid, "running": running, "after": after, "status": status, "said": said}


WORKS: dict[str, Callable[..., dict[str, Any]]] = {
    "transparency": transparency,
    "shaped": shaped,
    "offloads": offloads,
    "kills": kills,
    "failure": failure,
    "hang": hang,
    "refusals": refusals,
    "classes": classes,
    "cell": cell,
    "down": down,
}

if __name__ == "__main__":
    find_core()
    work, *arguments = sys.argv[1:]
    print(json.dumps(WORKS[work](*arguments)))
