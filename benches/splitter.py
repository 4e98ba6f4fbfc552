"""Processor time and memory of `wavebed-edge splitter`, in turn with its other way to copy and with HAProxy.

Usage: python benches/splitter.py [CASE]... [--rounds N] [--save FILE] (--help: all options)

Cases:
  copy         processor time per GB of bulk TCP over loopback by iperf3, 1 and 16 flows, down; each round runs every
               system once, in random order (target: splitter <= read/write, <= HAProxy)
  connections  memory with idle and busy connections, and the time from connect to the first byte of the answer
               beside them (targets: 200 MiB at 10 000 and 1000; p99 within 2 ms of the path)

Systems: splice, read-write, haproxy and haproxy-splice (where it is installed), and none: the path itself. Prints JSON
and a table. Needs no root; the limit of open files must allow for twice the connections.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import selectors
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from run import machine

if TYPE_CHECKING:
    from collections.abc import Iterator

TICKS = os.sysconf("SC_CLK_TCK")
FLOWS = (1, 16)
PROBES = 500


def free_port() -> int:
    """Find a port that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def haproxy_most(*, splice: bool) -> int:
    """Return how many connections the limit of open files allows HAProxy."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1] // (4 if splice else 2) - 100


def haproxy_text(port: int, to: int, options: str) -> str:
    """Configure HAProxy as a relay of one thread, with as many connections as the limit of open files allows."""
    most = haproxy_most(splice=bool(options))
    return f"""global
  nbthread 1
  maxconn {most}
defaults
  mode tcp
  timeout connect 5s
  timeout client 1h
  timeout server 1h
  {options}
listen relay
  bind 127.0.0.1:{port}
  server one 127.0.0.1:{to}
"""


@contextmanager
def relay(system: str, program: Path, to: int) -> Iterator[tuple[int, int | None]]:
    """Run a system in front of port `to`; give its port and its process."""
    if system == "none":
        yield to, None
        return
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        if system.startswith("haproxy"):
            config = Path(folder) / "haproxy.cfg"
            config.write_text(haproxy_text(port, to, "option splice-auto" if system.endswith("splice") else ""))
            command = ["haproxy", "-db", "-f", str(config)]
        else:
            settings = (f'listen=["127.0.0.1:{port}"]', f"copy={system}", "max-connections=12000")
            command = [str(program), "splitter", "--to", f"127.0.0.1:{to}"]
            command += [word for one in settings for word in ("--set", one)]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                wait_for(port)
                yield port, process.pid
            finally:
                process.kill()


def wait_for(port: int) -> None:
    """Wait until somebody listens."""
    for _ in range(500):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.02)
        else:
            time.sleep(0.2)
            return
    sys.exit(f"nobody listens on port {port}")


def process_seconds(pid: int | None) -> float:
    """Processor time of a process."""
    if pid is None:
        return 0.0
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def machine_seconds() -> float:
    """Busy time of all processors, softirq included."""
    user, nice, system, _, _, irq, softirq, *_ = map(int, Path("/proc/stat").read_text().split("\n")[0].split()[1:])
    return (user + nice + system + irq + softirq) / TICKS


def copy_once(system: str, program: Path, flows: int, gigabytes: float) -> dict[str, float]:
    """Send so much through a system."""
    server_port = free_port()
    serve = ["iperf3", "--server", "--one-off", "--bind", "127.0.0.1", "--port", str(server_port)]
    with (
        relay(system, program, server_port) as (port, pid),
        subprocess.Popen(serve, stdout=subprocess.DEVNULL) as server,
    ):
        time.sleep(0.3)
        start, busy = process_seconds(pid), machine_seconds()
        size = str(int(gigabytes * 1e9 / flows))
        command = ["iperf3", "-c", "127.0.0.1", "-p", str(port), "-R", "-J", "-n", size, "-P", str(flows)]
        answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
        used, all_used = process_seconds(pid) - start, machine_seconds() - busy
        server.wait(10)
    ended = json.loads(answer.stdout)["end"]["sum_received"]
    carried = ended["bytes"] / 1e9
    return {
        "process_s_per_gb": used / carried,
        "machine_s_per_gb": all_used / carried,
        "gbit_per_s": ended["bits_per_second"] / 1e9,
    }


class Echo(threading.Thread):
    """A server that answers the first byte of a connection, and sends to those that ask for it."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        self.port = int(self.listener.getsockname()[1])
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ)

    def run(self) -> None:
        """Serve until the program ends."""
        bulk = bytes(1 << 16)
        while True:
            for key, _ in self.selector.select():
                one = key.fileobj
                if one is self.listener:
                    connection, _ = self.listener.accept()
                    connection.setblocking(False)
                    self.selector.register(connection, selectors.EVENT_READ)
                elif isinstance(one, socket.socket):
                    self.answer(one, bulk)

    def answer(self, one: socket.socket, bulk: bytes) -> None:
        """Echo a byte; `b` asks for data without end."""
        try:
            asked = one.recv(1) if not self.selector.get_key(one).data else b"b"
            if asked == b"b":
                self.selector.modify(one, selectors.EVENT_WRITE, data="bulk")
                one.send(bulk)
            elif asked:
                one.send(asked)
                return
        except BlockingIOError:
            return
        except OSError:
            asked = b""
        if not asked:
            self.selector.unregister(one)
            one.close()


def first_bytes(port: int) -> list[float]:
    """Times from connect to the answer, s."""
    times = []
    for _ in range(PROBES):
        start = time.perf_counter()
        with socket.create_connection(("127.0.0.1", port)) as one:
            one.sendall(b"x")
            one.recv(1)
        times.append(time.perf_counter() - start)
    return times


def connections_once(system: str, program: Path, idle: int, busy: int) -> dict[str, float]:
    """Open connections that are idle, and others whose client does not read."""
    echo = Echo()
    echo.start()
    with relay(system, program, echo.port) as (port, pid):
        resting = []
        for number in range(idle + busy):
            one = socket.create_connection(("127.0.0.1", port))
            one.sendall(b"b" if number >= idle else b"x")
            resting.append(one)
        time.sleep(5)
        times = sorted(first_bytes(port))
        figures = {
            "first_byte_p50_ms": statistics.median(times) * 1e3,
            "first_byte_p99_ms": times[len(times) * 99 // 100] * 1e3,
        }
        if pid is not None:
            status = Path(f"/proc/{pid}/status").read_text()
            figures["resident_mib"] = int(status.split("VmRSS:")[1].split()[0]) / 1024
        for one in resting:
            one.close()
    return figures


def table(figures: dict[str, dict[str, list[dict[str, float]]]]) -> str:
    """Lay out medians, with the range of the runs."""
    lines = []
    for case, systems in figures.items():
        for system, runs in systems.items():
            shown = []
            for name in runs[0]:
                values = [run[name] for run in runs]
                shown.append(f"{name} {statistics.median(values):.4g} ({min(values):.4g}-{max(values):.4g})")
            lines.append(f"{case:<14}{system:<16}" + "  ".join(shown))
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="copy, connections; both without one")
    parser.add_argument("--program", type=Path, default=Path("target/release/wavebed-edge"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--gigabytes", type=float, default=4)
    parser.add_argument("--idle", type=int, default=10_000)
    parser.add_argument("--busy", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save", type=Path)
    args = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    systems = ["none", "splice", "read-write"] + ["haproxy", "haproxy-splice"] * (shutil.which("haproxy") is not None)
    order = random.Random(args.seed)
    figures: dict[str, dict[str, list[dict[str, float]]]] = {}
    for turn in range(args.rounds):
        for case in args.cases or ["copy", "connections"]:
            for flows in FLOWS if case == "copy" else (0,):
                name = f"{case} ×{flows}" if flows else case
                order.shuffle(systems)
                for system in systems:
                    if not flows and "haproxy" in system and args.idle + args.busy > haproxy_most(splice="-" in system):
                        continue  # the machine's limit of open files
                    run = (
                        copy_once(system, args.program, flows, args.gigabytes)
                        if flows
                        else connections_once(system, args.program, args.idle, args.busy)
                    )
                    figures.setdefault(name, {}).setdefault(system, []).append(run)
                    print(f"[{turn + 1}/{args.rounds}] {name} {system}: {run}", file=sys.stderr)
    print(table(figures))
    options = {"rounds": args.rounds, "gigabytes": args.gigabytes, "idle": args.idle, "busy": args.busy}
    text = json.dumps({"machine": machine(), **options, "figures": figures}, indent=2)
    print(text)
    if args.save is not None:
        args.save.write_text(text + "\n")


if __name__ == "__main__":
    main()
