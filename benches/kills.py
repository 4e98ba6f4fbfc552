"""Transfers through `wavebed-edge splitter` whose ends, or the splitter, are killed at random moments.

Usage: python benches/kills.py [--megabytes N] [--seed N] [--save FILE] (--help: all options)

A client, a router with the splitter and a server are in network namespaces of this program, which end with it. In each
transfer one of sender, receiver and splitter is killed (SIGKILL) at a random moment, or none. It must arrive whole, by
its hash and with the receiver's answer at the sender, or fail with an error at every end that lives: never may a stream
that is cut look like a whole one.

Ends have SO_LINGER of zero until they have all they wait for: the kernel resets the connection of one that is killed.
Without it a killed sender would look like one that has finished, whatever is between the ends. Prints JSON and a table;
the exit status is 1 if a transfer broke the rule. Needs root.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kills_ends import PATIENCE_S, End, Transfer, linger, receive, send
from run import machine

from wavebed._core import find_edge
from wavebed.forward.sandbox import within

if TYPE_CHECKING:
    from collections.abc import Callable

INSIDE = "WAVEBED_KILLS_INSIDE"
CLIENT, ROUTER, SERVER = "client", "router", "server"
TRANSFERS = 40
LEAST_MB, MOST_MB = 2, 100
RATE_MBIT = 1000
VICTIMS = ("sender", "receiver", "splitter", "nobody")
PORT = 7000


class Splitter:
    """The splitter on the router."""

    def __init__(self, program: str, copy: str) -> None:
        sets = ("rules=true", "client-interfaces=['c0']", f"copy={copy}", "drain=1s")
        words = [word for one in sets for word in ("--set", one)]
        argv = ["ip", "netns", "exec", ROUTER, program, "splitter", *words]
        self._process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self._process.stdout
        for _ in range(2):
            if not self._process.stdout.readline().startswith("listening"):
                sys.exit("the splitter did not start")

    def kill(self) -> None:
        """Kill it."""
        self._process.kill()
        self._process.wait()

    def end(self) -> bool:
        """End it in order, and say whether it did."""
        self._process.terminate()
        return self._process.wait(PATIENCE_S) == 0


@dataclass
class Counts:
    """What became of the transfers with one victim."""

    transfers: int = 0
    whole: int = 0
    failed: int = 0
    arrived_bytes: int = 0
    errors: dict[str, int] = field(default_factory=dict)


def make_network() -> None:
    """Make the hosts: client 10.1.0.2, router, server 10.2.0.2. The radio is between client and router."""
    for name in (CLIENT, ROUTER, SERVER):
        call("ip netns add " + name)
        call(f"ip -n {name} link set lo up")
    for name, cable, number in ((CLIENT, "c0", 1), (SERVER, "s0", 2)):
        call(f"ip link add {cable} netns {ROUTER} type veth peer name eth0 netns {name}")
        call(f"ip -n {ROUTER} addr add 10.{number}.0.1/24 dev {cable}")
        call(f"ip -n {name} addr add 10.{number}.0.2/24 dev eth0")
        call(f"ip -n {ROUTER} link set {cable} up")
        call(f"ip -n {name} link set eth0 up")
        call(f"ip -n {name} route add default via 10.{number}.0.1")
    call(f"ip netns exec {ROUTER} sysctl -qw net.ipv4.ip_forward=1")
    for name, device in ((ROUTER, "c0"), (CLIENT, "eth0")):
        call(f"tc -n {name} qdisc add dev {device} root tbf rate {RATE_MBIT}mbit burst 256kb limit 1mb")


def call(words: str) -> None:
    """Run a command that must succeed."""
    subprocess.run(words.split(), check=True)


class Setup:
    """Hosts, the splitter, and what an undisturbed transfer takes."""

    def __init__(self, program: str, source: random.Random) -> None:
        make_network()
        self._program, self._source = program, source
        with within(SERVER):
            self._listener = socket.create_server(("10.2.0.2", PORT))
        self._splitter = self._start()
        self.seconds_per_byte = 1.2 * 8 / (RATE_MBIT * 1e6)
        """The transfers that nobody disturbs correct it."""

    def _start(self) -> Splitter:
        return Splitter(self._program, self._source.choice(("splice", "read-write")))

    def run(self, transfer: Transfer) -> dict[str, Any]:
        """Run a transfer; what both ends say of it."""

        def serve(connected: Callable[[], None]) -> dict[str, Any]:
            self._listener.settimeout(PATIENCE_S)
            return job(self._listener.accept()[0], connected, sends=transfer.is_download)

        def ask(connected: Callable[[], None]) -> dict[str, Any]:
            with within(CLIENT):
                one = socket.create_connection(("10.2.0.2", PORT), PATIENCE_S)
            return job(one, connected, sends=not transfer.is_download)

        def job(one: socket.socket, connected: Callable[[], None], *, sends: bool) -> dict[str, Any]:
            one.settimeout(PATIENCE_S)
            linger(one, 0)
            connected()
            return (send if sends else receive)(one, transfer)

        server, client = End(serve), End(ask)
        if not (client.wait_until_connected() and server.wait_until_connected()):
            sys.exit("the ends do not connect")
        start = time.monotonic()
        sender, receiver = (server, client) if transfer.is_download else (client, server)
        if transfer.victim != "nobody":
            time.sleep(transfer.moment * transfer.total * self.seconds_per_byte)
            victims: dict[str, End | Splitter] = {"sender": sender, "receiver": receiver, "splitter": self._splitter}
            victims[transfer.victim].kill()
        results = {"sender": sender.result(), "receiver": receiver.result()}
        if transfer.victim == "nobody":
            # One that the machine held up says nothing.
            self.seconds_per_byte = min(self.seconds_per_byte, (time.monotonic() - start) / transfer.total)
        if transfer.victim == "splitter":
            self._splitter = self._start()
        return results

    def end(self) -> bool:
        """End the splitter, and say whether it ended in order."""
        return self._splitter.end()


def faults(transfer: Transfer, results: dict[str, Any]) -> list[str]:
    """Return what breaks the rule."""
    found = []
    for end, result in results.items():
        if result is None:
            if transfer.victim != end:
                found.append(f"the {end} ended without a word")
        elif result["ended"] not in ("whole", "error"):
            found.append(f"{end}: {result['ended']} after {result['bytes']} of {transfer.total} bytes")
    sender, receiver = results["sender"], results["receiver"]
    is_told_whole = sender is not None and sender["ended"] == "whole"
    # A receiver that was killed behind its answer has said nothing to us.
    if is_told_whole and receiver is not None and receiver["ended"] != "whole":
        found.append("the sender was told that everything arrived, and it did not")
    if transfer.victim == "nobody" and not is_told_whole:
        found.append(f"not whole, though nobody was killed: {results}")
    return found


def count(counts: Counts, results: dict[str, Any]) -> None:
    """Count a transfer."""
    counts.transfers += 1
    receiver = results["receiver"]
    told = [result for result in results.values() if result is not None]
    if any(result["ended"] == "whole" for result in told):
        counts.whole += 1
    else:
        counts.failed += 1
    counts.arrived_bytes += receiver["bytes"] if receiver is not None else 0
    for error in (result["error"] for result in told if "error" in result):
        counts.errors[error] = counts.errors.get(error, 0) + 1


def run_all(megabytes: int, seed: int) -> dict[str, Any]:
    """Run transfers of so many bytes together."""
    source = random.Random(seed)
    setup = Setup(find_edge(), source)
    mean_mb = min(MOST_MB, max(LEAST_MB, megabytes / TRANSFERS))
    counts = {victim: Counts() for victim in VICTIMS}
    found: list[str] = []
    left, number = megabytes * 10**6, 0
    start = time.monotonic()
    while left > 0:
        total = min(left, source.randrange(int(mean_mb * 5e5), int(mean_mb * 15e5)))
        # The first ones measure how long a transfer takes.
        victim = "nobody" if number < 2 else source.choice(VICTIMS)
        transfer = Transfer(total, number + 1, source.random() < 0.5, victim, source.uniform(0, 1.2))
        results = setup.run(transfer)
        count(counts[victim], results)
        found += [f"transfer {number + 1} ({victim} killed): {fault}" for fault in faults(transfer, results)]
        left, number = left - total, number + 1
    if not setup.end():
        found.append("the splitter did not end in order")
    return {
        "megabytes": megabytes,
        "seed": seed,
        "seconds": round(time.monotonic() - start, 1),
        "victims": {victim: vars(one) for victim, one in counts.items()},
        "faults": found,
    }


def table(figures: dict[str, Any]) -> str:
    """Lay out what became of the transfers."""
    lines = [f"{'killed':<12}{'transfers':>10}{'whole':>8}{'failed':>8}{'arrived, MB':>13}  errors"]
    for victim, one in figures["victims"].items():
        shown = ", ".join(f"{name} {number}" for name, number in sorted(one["errors"].items()))
        arrived = one["arrived_bytes"] / 1e6
        lines.append(f"{victim:<12}{one['transfers']:>10}{one['whole']:>8}{one['failed']:>8}{arrived:>13.1f}  {shown}")
    return "\n".join(lines)


def main() -> int:
    """Run in namespaces of our own: a mount namespace for the names of the others."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save", type=Path)
    args = parser.parse_args()
    if INSIDE not in os.environ:
        apart = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
        environment = os.environ | {INSIDE: "1"}
        return subprocess.run([*apart, sys.executable, *sys.argv], env=environment, check=False).returncode
    call("mount -t tmpfs tmpfs /run")
    figures = run_all(args.megabytes, args.seed)
    print(table(figures), file=sys.stderr)
    print(json.dumps(figures, indent=2))
    if args.save is not None:
        args.save.write_text(json.dumps({"machine": machine(), **figures}, indent=2) + "\n")
    return 1 if figures["faults"] else 0


if __name__ == "__main__":
    sys.exit(main())
