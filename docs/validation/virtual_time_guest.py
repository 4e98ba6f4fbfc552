"""Measure one case of `virtual_time.py` in a guest: `virtual_time_guest.py CASE`, with the case as JSON; prints JSON.

Both systems have the same path: 50 Mbit/s with a queue before it, and 10 ms each way. `wavebed` is a laboratory.
`linux` has four namespaces in a row: `tbf` with the queue as its child, then `netem`. Neither coalesces packets.
"""

from __future__ import annotations

import json
import re
import socket
import struct
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

RATE_MBIT: Final = 50
DELAY_MS: Final = 10
BURST_BYTES: Final = 1514
"""Of tbf: one frame."""
PINGS: Final = 200
HOSTS: Final = ("server", "left", "right", "client")
LINKS: Final = (("server", "left"), ("left", "right"), ("right", "client"))
MANY: Final = 100_000
"""Packets that fit wherever no limit is meant."""
RTM_NEWQDISC: Final = 36
RTM_GETQDISC: Final = 38
DUMP: Final = 0x1 | 0x300
TCA_KIND, TCA_STATS_QUEUE, TCA_STATS_APP, TCA_STATS2 = 1, 3, 4, 7
HANDLE: Final = 0x0011_0000
"""The child of tbf, 11:."""
REQUEST: Final = 0x1 | 0x4 | 0x400 | 0x100
"""NLM_F_REQUEST, ACK, CREATE, REPLACE."""
CHILD: Final = 0x0010_0001
"""The class of tbf, 10:1."""
DUALPI2: Final = {"limit": 1, "target": 3, "tupdate": 4, "alpha": 5, "beta": 6, "step_us": 8}
"""Attributes TCA_DUALPI2_ of 32 bits."""


def main() -> None:
    """Measure, and print the figures."""
    case = json.loads(sys.argv[1])
    measure = {"linux": _in_linux, "wavebed": _in_wavebed}[case["system"]]
    print(json.dumps(measure(case)))


def _run(command: str) -> str:
    done = subprocess.run(command.split(), capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{command}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def _in_linux(case: dict[str, Any]) -> dict[str, Any]:
    Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control").write_text(f"reno {case['control']}")
    for host in HOSTS:
        _run(f"ip netns add {host}")
        _run(f"ip -n {host} link set lo up")
        _run(f"ip netns exec {host} sysctl -qw net.ipv4.ip_forward=1 net.ipv4.tcp_ecn={int(case['ecn'])}")
        _run(f"ip netns exec {host} sysctl -qw net.ipv4.tcp_congestion_control={case['control']}")
    for number, ends in enumerate(LINKS):
        one, other = (f"{end}{number}" for end in "ab")
        _run(f"ip link add {one} gso_max_segs 1 gro_max_size 1 type veth peer name {other} gso_max_segs 1")
        for place, (host, device) in enumerate(zip(ends, (one, other), strict=True), 1):
            _run(f"ip link set {device} netns {host}")
            _run(f"ip -n {host} addr add 10.0.{number}.{place}/24 dev {device}")
            _run(f"ip -n {host} link set {device} up gso_max_segs 1")
    for host, gateway in (("server", "10.0.0.2"), ("left", "10.0.1.2"), ("right", "10.0.1.1"), ("client", "10.0.2.1")):
        _run(f"ip -n {host} route add default via {gateway}")
    _run("ip netns exec client ping -c 1 10.0.0.1")  # neighbours are known from here on
    delay = f"netem delay {DELAY_MS}ms limit {MANY}"
    _run(f"ip netns exec right tc qdisc add dev a2 root {delay}")
    _run(f"ip netns exec left tc qdisc add dev b0 root {delay}")
    if "ping" in case:
        return _ping(_run(f"ip netns exec client ping -c {PINGS} -i 0.01 10.0.0.1"))
    for host, device in (("left", "a1"), ("right", "b1")):
        _linux_queue(host, device, case["queue"])
    server = subprocess.Popen(["ip", "netns", "exec", "client", "iperf3", "-s", "-1"], stdout=subprocess.DEVNULL)
    _run("sleep 0.5")
    told = json.loads(_run(f"ip netns exec server iperf3 -J -c 10.0.2.2 -t {case['seconds']}"))
    server.wait()
    counted = _run(f"ip netns exec left {sys.executable} {__file__} counters a1")
    return _flow(told) | json.loads(counted)


def _linux_queue(host: str, device: str, queue: dict[str, Any]) -> None:
    """Put tbf with a queue on a device."""
    tc = f"ip netns exec {host} tc qdisc add dev {device}"
    _run(f"{tc} root handle 10: tbf rate {RATE_MBIT}mbit burst {BURST_BYTES} limit {MANY * BURST_BYTES}")
    child = f"{tc} parent 10:1 handle 11:"
    times = "target {target_ms}ms interval {interval_ms}ms limit {limit}"
    if queue["kind"] == "droptail":
        _run(f"{child} pfifo limit {queue['limit']}")
    elif queue["kind"] == "codel":
        _run(f"{child} codel {times.format_map(queue)} {'ecn' if queue['ecn'] else 'noecn'}")
    elif queue["kind"] == "fq_codel":
        _run(f"{child} fq_codel {times.format_map(queue)} {'ecn' if queue['ecn'] else 'noecn'}")
    else:
        period_s = min(queue["target_ms"], queue["rtt_max_ms"] / 3) / 1e3
        rtt_max_s = queue["rtt_max_ms"] / 1e3
        numbers = {
            "limit": queue["limit"],
            "target": round(queue["target_ms"] * 1e3),
            "tupdate": round(period_s * 1e6),
            "alpha": round(0.1 * period_s / rtt_max_s**2 * 256),
            "beta": round(0.3 / rtt_max_s * 256),
            "step_us": 1000,
        }
        # Run in the namespace: `tc` of many systems does not know the queue yet.
        told = json.dumps(numbers, separators=(",", ":"))
        _run(f"ip netns exec {host} {sys.executable} {__file__} dualpi2 {device} {told}")


def put_dualpi2(device: str, numbers: dict[str, int]) -> None:
    """Put DualPI2 below tbf on a device of this namespace."""

    def attribute(kind: int, data: bytes) -> bytes:
        return struct.pack("=HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)

    options = b"".join(attribute(DUALPI2[name], struct.pack("=I", value)) for name, value in numbers.items())
    body = struct.pack("=BxxxiIII", 0, socket.if_nametoindex(device), HANDLE, CHILD, 0)
    body += attribute(1, b"dualpi2\0") + attribute(0x8002, options)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as route:
        route.send(struct.pack("=IHHII", 16 + len(body), RTM_NEWQDISC, REQUEST, 1, 0) + body)
        (error,) = struct.unpack_from("=i", route.recv(65536), 16)
    if error:
        sys.exit(f"dualpi2: {error}")


def counters(device: str) -> dict[str, int]:
    """Return the drops and marks of the queue below tbf on a device of this namespace."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as route:
        body = struct.pack("=BxxxiIII", 0, socket.if_nametoindex(device), 0, 0, 0)
        route.send(struct.pack("=IHHII", 16 + len(body), RTM_GETQDISC, DUMP, 1, 0) + body)
        data = route.recv(1 << 20)
    while data:
        length, kind = struct.unpack_from("=IH", data)
        if kind == RTM_NEWQDISC:
            _, index, handle = struct.unpack_from("=BxxxiI", data, 16)
            if index == socket.if_nametoindex(device) and handle == HANDLE:
                found = _attributes(data[36:length])
                stats = _attributes(found[TCA_STATS2])
                (drops,) = struct.unpack_from("=8xI", stats[TCA_STATS_QUEUE])
                return {"drops": drops, "marks": _marks(found[TCA_KIND], stats.get(TCA_STATS_APP, b""))}
        data = data[-(-length // 4) * 4 :]
    sys.exit(f"{device}: has no queue")


def _attributes(data: bytes) -> dict[int, bytes]:
    found = {}
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        found[kind & 0x3FFF] = data[4:length]
        data = data[-(-length // 4) * 4 :]
    return found


def _marks(kind: bytes, own: bytes) -> int:
    """Return `ecn_mark` of what a queue tells of itself."""
    at = {b"codel": 24, b"fq_codel": 12, b"dualpi2": 24}.get(kind.rstrip(b"\0"))
    return 0 if at is None else int(struct.unpack_from("=I", own, at)[0])


def _in_wavebed(case: dict[str, Any]) -> dict[str, Any]:
    from wavebed.path.api import Path as LabPath

    lines = ["[path]", f'delay = "{DELAY_MS}ms"']
    if "ping" not in case:
        lines += [
            f'rate = "{RATE_MBIT}mbit"',
            f"overhead = {case['overhead']}",
            f"seed = {case['seed']}",
            'coalesce = "off"',
        ]
        lines += [f"queue = {_wavebed_queue(case['queue'])}", f'congestion-control = "{case["control"]}"']
        for host in ("server", "client"):
            lines += [f"[path.{host}.sysctl]", f"'net.ipv4.tcp_ecn' = {int(case['ecn'])}"]
    with TemporaryDirectory() as name:
        scenario = Path(name) / "path.toml"
        scenario.write_text("\n".join(lines) + "\n")
        with LabPath.load(scenario).up() as lab:
            if "ping" in case:
                ping = ["ping", "-4", "-c", str(PINGS), "-i", "0.01", "server"]
                return _ping(lab.client.run(ping, capture_output=True, check=True, timeout=60).stdout)
            lab.client.start(["iperf3", "-s", "-1"], stdout=-1)
            lab.client.wait_for_port(5201)
            sender = ["iperf3", "-4", "-J", "-c", "client", "-t", str(case["seconds"])]
            done = lab.server.run(sender, capture_output=True, check=True, timeout=case["seconds"] + 30)
        assert lab.summary is not None
        (down,) = (each for each in lab.summary["links"] if each["name"].endswith(".down"))
        return _flow(json.loads(done.stdout)) | {
            "drops": down["dropped_segments"]["overflow"] + down["dropped_segments"]["aqm"],
            "marks": down["marked_segments"],
        }


def _wavebed_queue(queue: dict[str, Any]) -> str:
    kind, limit = queue["kind"], f'limit = "{queue["limit"]}p"'
    if kind == "droptail":
        return f'{{ kind = "{kind}", {limit} }}'
    if kind == "dualpi2":
        times = f'target = "{queue["target_ms"]}ms", rtt-max = "{queue["rtt_max_ms"]}ms"'
        return f'{{ kind = "{kind}", {limit}, {times}, threshold = "1ms", range = "1us" }}'
    times = f'target = "{queue["target_ms"]}ms", interval = "{queue["interval_ms"]}ms"'
    return f'{{ kind = "{kind}", {limit}, {times}, ecn = {str(queue["ecn"]).lower()} }}'


def _flow(told: dict[str, Any]) -> dict[str, Any]:
    sender = told["end"]["streams"][0]["sender"]
    return {
        "mbit": told["end"]["sum_received"]["bits_per_second"] / 1e6,
        "retransmits": sender["retransmits"],
        "rtt_ms": sender["mean_rtt"] / 1e3,
    }


def _ping(text: str) -> dict[str, Any]:
    values = re.search(r"= ([0-9.]+)/([0-9.]+)/([0-9.]+)/([0-9.]+) ms", text)
    assert values is not None, text
    least, mean, most, deviation = (float(each) for each in values.groups())
    return {"min_ms": least, "mean_ms": mean, "max_ms": most, "mdev_ms": deviation}


if __name__ == "__main__":
    if sys.argv[1] == "counters":
        print(json.dumps(counters(sys.argv[2])))
    elif sys.argv[1] == "dualpi2":
        put_dualpi2(sys.argv[2], json.loads(sys.argv[3]))
    else:
        main()
