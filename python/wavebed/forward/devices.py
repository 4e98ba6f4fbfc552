"""Emulated devices: set up between the cables, they say how frames reach them, and are taken down."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from wavebed._core import find_core
from wavebed.config.problems import Problem, at, choose, described, unknown_key
from wavebed.config.units import parse_time
from wavebed.errors import MachineError, WavebedError
from wavebed.forward.frames import FLOWS, Layout
from wavebed.forward.model import ValueRange
from wavebed.forward.sandbox import within

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Mapping

    from wavebed.forward.setup import EmulatedSetup

Version = int
"""4 or 6."""


PREFIX_BITS = {4: 24, 6: 64}


INSIDE = {4: "198.18.0.{}", 6: "fd77:6176:6562::{}"}


OUTSIDE = {4: "198.18.1.{}", 6: "fd77:6176:6562:1::{}"}
"""Networks at the device's ports in0 and out0; the device is host 1 in each (RFC 2544, appendix C: 198.18.0.0/15)."""


FIRST_HOST = 2


HOSTS = 16


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a kind of device: a whole number, however it is written."""

    summary: str
    default: int
    read: Callable[[str], int]


class EmulatedDut(ABC):
    """A device between the ports ``in0`` and ``out0`` of the namespace ``dut``.

    Parameters
    ----------
    values : mapping of str to int
        A value for each of `options`.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    options: ClassVar[Mapping[str, Option]] = {}

    def __init__(self, values: Mapping[str, int]) -> None:
        self.values = dict(values)

    @abstractmethod
    def set_up(self, setup: EmulatedSetup) -> None:
        """Make it forward.

        Raises
        ------
        WavebedError
            If the machine does not let it.
        """

    def tear_down(self) -> None:  # noqa: B027 - most devices go with their namespace
        """End processes and threads that do not end with the setup."""

    def layout(self, version: Version, flows: int = FLOWS) -> Layout:
        """Return the test frames that cross it, from ``tx0`` to ``rx0``: by default through a router."""
        return Layout(
            ValueRange(INSIDE[version].format(FIRST_HOST), 1),
            ValueRange(OUTSIDE[version].format(FIRST_HOST), HOSTS),
            next_hop=INSIDE[version].format(1),
            back_hop=OUTSIDE[version].format(1),
            flows=flows,
        )


def give_addresses(setup: EmulatedSetup) -> None:
    """Give the device's ports their addresses, from which its routes follow."""
    versions = (4, 6) if setup.has_v6 else (4,)
    setup.batch(
        [
            f"address add {network[version].format(1)}/{PREFIX_BITS[version]} dev {port.interface}"
            + (" nodad" if version == 6 else "")
            for port, network in ((setup.device_in, INSIDE), (setup.device_out, OUTSIDE))
            for version in versions
        ],
        "dut",
    )


def count_from(least: int, most: int) -> Callable[[str], int]:
    """Return a reader of whole numbers."""

    def read(text: str) -> int:
        if not text.isascii() or not text.isdecimal() or not least <= int(text) <= most:
            raise Problem(f"{described(text)} is not a whole number from {least} to {most}")
        return int(text)

    return read


def whole_microseconds(text: str) -> int:
    """Read a time as microseconds."""
    nanoseconds = parse_time(text)
    if nanoseconds % 1000:
        raise Problem(f"{described(text)} is not a whole number of microseconds")
    return nanoseconds // 1000


class Routing(EmulatedDut):
    """The kernel's own forwarding."""

    name = "routing"
    summary = "the kernel forwards between two networks"

    def set_up(self, setup: EmulatedSetup) -> None:
        """Give the ports addresses; the setup has switched forwarding on."""
        give_addresses(setup)


FIRST_FAR_HOST = 100


class Bridge(EmulatedDut):
    """Both ports in one Ethernet segment; the bridge learns addresses and has none of its own."""

    name = "bridge"
    summary = "a Linux bridge joins both ports"

    def set_up(self, setup: EmulatedSetup) -> None:
        """Make the bridge. It says nothing by itself: no spanning tree, no multicast queries."""
        ports = (setup.device_in, setup.device_out)
        setup.batch(
            [
                "link add br0 type bridge stp_state 0 forward_delay 0 mcast_snooping 0",
                *(f"link set dev {port.interface} master br0" for port in ports),
                "link set dev br0 multicast off",
            ],
            "dut",
        )
        if setup.has_v6:
            setup.set("dut", {"net.ipv6.conf.br0.disable_ipv6": "1"})
        setup.batch(["link set dev br0 up"], "dut")

    def layout(self, version: int, flows: int = FLOWS) -> Layout:
        """Return test frames between hosts of one segment."""
        return Layout(
            ValueRange(INSIDE[version].format(FIRST_HOST), 1),
            ValueRange(INSIDE[version].format(FIRST_FAR_HOST), HOSTS),
            flows=flows,
        )


NAT_RULES = """
table inet router {
    chain forward {
        type filter hook forward priority filter; policy drop
        ct state established,related accept
        iifname "in0" accept
    }
    chain leave {
        type nat hook postrouting priority srcnat
        meta nfproto ipv4 oifname "out0" masquerade
    }
}
"""


class Nat(EmulatedDut):
    """As a home router: connections from inside only, IPv4 behind the router's address, IPv6 with its own."""

    name = "nat"
    summary = "routing with connection tracking, and NAT for IPv4: from in0 to out0"

    def set_up(self, setup: EmulatedSetup) -> None:
        """Give the ports addresses and load the rules."""
        give_addresses(setup)
        setup.run("dut", "nft", "-f", "-", text=NAT_RULES)


SHAPER_RULES = """
table inet shaper {{
    chain forward {{
        type filter hook forward priority filter
        limit rate over {rate}/second burst {burst} packets drop
    }}
}}
"""


class Shaped(EmulatedDut):
    """A token bucket of packets, by nftables: packets above the rate are lost, at every frame size."""

    name = "shaped"
    summary = "routing that drops packets above a rate"
    options: ClassVar[Mapping[str, Option]] = {
        "rate": Option("packets per second", 100_000, count_from(100, 10_000_000)),
        "burst": Option("packets that may come at once; 0: those of 2 ms, at least 64", 0, count_from(0, 100_000)),
    }

    def __init__(self, values: Mapping[str, int]) -> None:
        super().__init__(values)
        if not self.values["burst"]:
            # A trial of T seconds passes this much more than its rate: 0.2 % for 1 s. Less would count a sender or a
            # poller that is late for a moment as loss.
            self.values["burst"] = max(64, self.values["rate"] // 500)

    def set_up(self, setup: EmulatedSetup) -> None:
        """Give the ports addresses and load the rule."""
        give_addresses(setup)
        setup.run("dut", "nft", "-f", "-", text=SHAPER_RULES.format(**self.values))


READY_WITHIN_S = 10.0


class ProgramDevice(EmulatedDut):
    """A router with a forwarding program of ours; the kernel answers all other packets, such as ARP."""

    def __init__(self, values: Mapping[str, int]) -> None:
        super().__init__(values)
        self._program: subprocess.Popen[str] | None = None

    def arguments(self) -> list[str]:
        """Return the options of its command line."""
        return []

    def set_up(self, setup: EmulatedSetup) -> None:
        """Give the ports addresses, start the program, and wait until it forwards."""
        give_addresses(setup)
        ports = (setup.device_in.interface, setup.device_out.interface)
        macs = ["--in-next-mac", setup.mac(setup.tx), "--out-next-mac", setup.mac(setup.rx)]
        command = [find_core(), "device", self.name, *ports, *macs, *self.arguments()]
        program = setup.start("dut", command, setup.device_core)
        assert program.stdout is not None, "it was asked for"
        ready, _, _ = select.select([program.stdout], [], [], READY_WITHIN_S)
        line = program.stdout.readline() if ready else ""
        if not line:
            ended = "said nothing" if program.poll() is None else f"ended with status {program.returncode}"
            raise WavebedError(f"the device {self.name} {ended} within {READY_WITHIN_S:.0f} s")
        answer = json.loads(line)
        if "error" in answer:
            raise MachineError(f"the device {self.name}: {answer['error']}")
        self._program = program

    def tear_down(self) -> None:
        """End the program; an end of its own before that is a fault of the device.

        Raises
        ------
        WavebedError
            If it had ended already.
        """
        program, self._program = self._program, None
        if program is None:
            return
        status = program.poll()
        if status is not None:
            raise WavebedError(f"the device {self.name} ended during the test (status {status})")
        assert program.stdin is not None, "it was asked for"
        program.stdin.close()


class Relay(ProgramDevice):
    """Busy-polls rings of AF_PACKET, and keeps each frame for a known time."""

    name = "relay"
    summary = "a program in user space forwards, after a known delay"
    options: ClassVar[Mapping[str, Option]] = {"delay": Option("how long each frame is kept", 0, whole_microseconds)}

    def set_up(self, setup: EmulatedSetup) -> None:
        """Start the program, in the kernel's place: a ring only shows it frames, which the kernel would forward too."""
        keys = ["net.ipv4.ip_forward", *(["net.ipv6.conf.all.forwarding"] if setup.has_v6 else [])]
        setup.set("dut", dict.fromkeys(keys, "0"))
        super().set_up(setup)

    def arguments(self) -> list[str]:
        """Return the delay."""
        return ["--delay-us", str(self.values["delay"])] if self.values["delay"] else []


class Xdp(ProgramDevice):
    """Forwards before the kernel makes a packet of a frame."""

    name = "xdp"
    summary = "a BPF program in the driver forwards (XDP)"


DUPLICATING_RULES = """
table netdev fault {{
    chain leave {{
        type filter hook egress device "out0" priority filter
        meta l4proto udp numgen inc mod {every} 0 dup to "out0"
    }}
}}
"""


class Duplicating(EmulatedDut):
    """Of as many frames as `every` says, copies counted, one leaves twice."""

    name = "duplicating"
    summary = "routing that sends some frames twice"
    options: ClassVar[Mapping[str, Option]] = {
        "every": Option("one frame of so many is sent twice", 100, count_from(2, 1_000_000))
    }

    def set_up(self, setup: EmulatedSetup) -> None:
        """Give the ports addresses and load the rule."""
        give_addresses(setup)
        setup.run("dut", "nft", "-f", "-", text=DUPLICATING_RULES.format(**self.values))


DISCARD = 9


PERIOD_S = 0.01


class Flooding(EmulatedDut):
    """Besides forwarding, it sends broadcasts out of ``out0`` at a constant rate."""

    name = "flooding"
    summary = "routing with a flood of broadcasts of its own"
    options: ClassVar[Mapping[str, Option]] = {
        "rate": Option("broadcasts per second", 10_000, count_from(100, 100_000))
    }

    def __init__(self, values: Mapping[str, int]) -> None:
        super().__init__(values)
        self._stop = threading.Event()
        self._sender: threading.Thread | None = None

    def set_up(self, setup: EmulatedSetup) -> None:
        """Give the ports addresses and begin to send."""
        give_addresses(setup)
        with within("dut"):
            source = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        source.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        source.bind((OUTSIDE[4].format(1), 0))
        self._sender = threading.Thread(target=self._send, args=(source,), daemon=True)
        self._sender.start()

    def _send(self, source: socket.socket) -> None:
        at_once = max(1, round(self.values["rate"] * PERIOD_S))
        with source:
            while not self._stop.wait(PERIOD_S):
                # The port may be gone before we are.
                with contextlib.suppress(OSError):
                    for _ in range(at_once):
                        source.sendto(bytes(18), (OUTSIDE[4].format(255), DISCARD))

    def tear_down(self) -> None:
        """Stop sending."""
        self._stop.set()
        if self._sender is not None:
            self._sender.join()


class Rebooting(EmulatedDut):
    """Loses the link at both ports, again and again, as a device does that starts anew."""

    name = "rebooting"
    summary = "routing that loses its links now and then"
    options: ClassVar[Mapping[str, Option]] = {
        "after": Option("how long it forwards", 2_000_000, whole_microseconds),
        "down": Option("how long its links are down", 200_000, whole_microseconds),
    }

    def __init__(self, values: Mapping[str, int]) -> None:
        super().__init__(values)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def set_up(self, setup: EmulatedSetup) -> None:
        """Give the ports addresses and let the time run."""
        give_addresses(setup)
        if setup.has_v6:
            # It has the same addresses afterwards.
            setup.set("dut", {"net.ipv6.conf.all.keep_addr_on_down": "1"})
        self._thread = threading.Thread(target=self._reboot, args=(setup,), daemon=True)
        self._thread.start()

    def _reboot(self, setup: EmulatedSetup) -> None:
        while not self._stop.wait(self.values["after"] / 1e6):
            # The setup may be gone before we are.
            with contextlib.suppress(WavebedError):
                self._all(setup, "down")
                self._stop.wait(self.values["down"] / 1e6)
                self._all(setup, "up")

    def _all(self, setup: EmulatedSetup, state: str) -> None:
        ports = (setup.device_in, setup.device_out)
        setup.batch([f"link set dev {port.interface} {state}" for port in ports], "dut")

    def tear_down(self) -> None:
        """Leave the links up."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()


KINDS: Mapping[str, type[EmulatedDut]] = {kind.name: kind for kind in (Routing, Bridge, Nat, Xdp, Relay, Shaped)}


FAULTY_KINDS: Mapping[str, type[EmulatedDut]] = {kind.name: kind for kind in (Duplicating, Flooding, Rebooting)}
"""Devices that do wrong, to show that the tester says so."""


def read_device(text: str) -> EmulatedDut:
    """Return the device that a text describes: ``routing``, ``relay:delay=500us``, ``shaped:200000``.

    A value without a key sets the kind's first option.

    Raises
    ------
    Problem
        If it describes none.
    """
    name, colon, rest = text.partition(":")
    kind = device_kind(name)
    options: dict[str, str] = {}
    for part in rest.split(",") if colon else ():
        key, equals, value = part.partition("=")
        if not equals and kind.options:
            key, value = next(iter(kind.options)), part
        if not value or key in options:
            raise Problem(f"{described(part)} is not an option: write {name}:KEY=VALUE,KEY=VALUE, each key once")
        options[key] = value
    return make_device(name, options)


def make_device(name: str, options: Mapping[str, str]) -> EmulatedDut:
    """Return a device of a kind, with its options as texts.

    Raises
    ------
    Problem
        If the kind, an option or its value is wrong.
    """
    kind = device_kind(name)
    values: dict[str, int] = {}
    for key, text in options.items():
        if key not in kind.options:
            if not kind.options:
                raise Problem(f"the device {name} has no options", key)
            raise unknown_key(key, kind.options)
        values[key] = at(key, kind.options[key].read, text)
    for key, option in kind.options.items():
        values.setdefault(key, option.default)
    return kind(values)


def device_kind(name: str) -> type[EmulatedDut]:
    """Return the class of a kind of device.

    Raises
    ------
    Problem
        If there is no such kind.
    """
    known = KINDS if name not in FAULTY_KINDS else FAULTY_KINDS
    return known[choose(name, known)]
