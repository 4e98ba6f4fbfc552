"""Names of servers: their resolver, and the addresses it answers with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from wavebed.config import values
from wavebed.config.table import Key
from wavebed.errors import WavebedError
from wavebed.lab.confine import Confined, confined_user
from wavebed.lab.protocol import LIMITS
from wavebed.lab.tools import Program, find
from wavebed.workload.programs import create
from wavebed.workload.serve.model import RunningServer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from wavebed.lab.protocol import Host, Process


Names: TypeAlias = Literal["mapped", "resolver"]

NAMES = Key(
    values.word("mapped", "resolver"),
    "resolver: the client asks a DNS server, over the path; mapped: it knows the addresses",
)

RESOLVER_PROGRAMS = tuple(Program(name, "names", ("resolver",)) for name in ("dnsmasq", "unshare"))
"""The programs of a workload that has a resolver."""

_NAMES_OF_CHROMIUM = ("accounts.google.com", "update.googleapis.com")
"""Chromium asks for them by itself, before and beside pages."""


def resolver_needed(names: Names) -> str:
    """Return what a workload needs that real hosts do not have, and what to write instead; perhaps nothing."""
    return 'a DNS server of its own: write names = "mapped"' if names == "resolver" else ""


def chromium_arguments(names: Names, addresses: Mapping[str, str]) -> list[str]:
    """Return Chromium's arguments for the addresses of names.

    Parameters
    ----------
    names : str
        ``mapped``: other names fail at once. ``resolver``: all names are asked for, except Chromium's own.
    addresses : mapping
        The IPv4 address of each name of the site, perhaps with a port that replaces the URL's.
    """
    if names == "mapped":
        rules = [*(f"MAP {name} {address}" for name, address in addresses.items()), "MAP * ~NOTFOUND"]
    else:
        rules = [f"MAP {name} ~NOTFOUND" for name in _NAMES_OF_CHROMIUM if name not in addresses]
    return [f"--host-resolver-rules={', '.join(rules)}"]


_PORT = 53
_TTL_S = 300
_STUB = {
    "resolv.conf": "nameserver {address}\n",
    "hosts": "127.0.0.1 localhost {client}\n",
    "nsswitch.conf": "hosts: files files dns\n",
}
"""The files of a stub resolver in /etc, with glibc's defaults (5 s, 2 attempts); curl looks up the client's own name.

With `files` twice, Chromium leaves lookups to glibc (its net/dns/dns_config_service_linux.cc: kMultipleFiles): it uses
neither its own stub resolver, whose times differ, nor DNS over HTTPS.
"""
_MOUNT = """for name in resolv.conf hosts nsswitch.conf; do mount --bind "$1/$name" "/etc/$name" || exit; done
user=$2; shift 2; exec unshare --map-user="$user" --map-group="$user" -- "$@"
"""


class NameResolver(RunningServer):
    """A running dnsmasq, and the programs on other hosts that ask it.

    Parameters
    ----------
    process, log
        As for `RunningServer`.
    folder : pathlib.Path
        Where the files of its stub resolvers are.
    """

    def __init__(self, process: Process, log: Path, folder: Path) -> None:
        super().__init__("dnsmasq", process, log)
        self._folder = folder

    def asked_by(self, argv: Sequence[str]) -> list[str]:
        """Return the command of a confined program that asks it for all names; the program may read its folder.

        The program is in a mount namespace of its own, where files for stub resolvers are mounted over those in /etc.
        A user namespace allows that; in a second one the program has the user of confined programs again.
        """
        user = str(confined_user())
        outer = [find("unshare"), "--map-root-user", "--mount", "--", "sh", "-c", _MOUNT, "sh"]
        return [*outer, str(self._folder), user, *argv]

    def check_client(self, client: Host) -> None:
        """Run a program on a host as `asked_by` says, without a query.

        Raises
        ------
        WavebedError
            If the machine does not allow it.
        """
        needs = Confined(read=[self._folder])
        done = client.run(self.asked_by(["true"]), capture_output=True, timeout=LIMITS.answer_s, confined=needs)
        if done.returncode != 0:
            words = done.stderr.strip().splitlines()
            raise WavebedError(
                'names: "resolver" takes a user namespace with resolv.conf, hosts and nsswitch.conf in /etc: '
                f"{words[-1] if words else f'status {done.returncode}'}"
            )


def start_resolver(server: Host, client: Host, address: str, names: Mapping[str, str], folder: Path) -> NameResolver:
    """Start dnsmasq and wait, without sending a packet, until it listens by UDP and TCP.

    Parameters
    ----------
    server, client : Host
        Its host, which already has `address`, and the host of the programs that ask it.
    address : str
        IPv4 address on which it listens.
    names : mapping
        The IPv4 address of each name; no other name exists.
    folder : pathlib.Path
        Existing folder for its configuration, its log, and the files of stub resolvers.

    Raises
    ------
    MachineError
        If it is not installed.
    WavebedError
        If it does not start, or the client cannot use it.
    """
    configuration = folder / "dnsmasq.conf"
    configuration.write_text(resolver_configuration(address, names), encoding="utf-8")
    for name, text in _STUB.items():
        (folder / name).write_text(text.format(address=address, client=client.name), encoding="utf-8")
    log = folder / "dnsmasq.log"
    with create(log) as output:
        argv = [find("dnsmasq"), f"--conf-file={configuration}"]
        process = server.start(argv, stdout=output, stderr=output, confined=Confined(write=[folder]))
    resolver = NameResolver(process, log, folder)
    try:
        resolver.wait_until_bound(server, _PORT)
        resolver.wait_for_ports(server, [_PORT])
        resolver.check_client(client)
    except BaseException:
        resolver.stop()
        raise
    return resolver


def resolver_configuration(address: str, names: Mapping[str, str]) -> str:
    """Return the configuration of a dnsmasq that knows some names, asks nobody, and stays in one process."""
    lines = [
        "no-daemon",
        "bind-interfaces",
        f"listen-address={address}",
        f"port={_PORT}",
        "no-hosts",
        "no-resolv",
        "local=/#/",
        f"local-ttl={_TTL_S}",
        "log-queries",
        *(f"host-record={name},{at}" for name, at in names.items()),
    ]
    return "".join(f"{line}\n" for line in lines)


def add_addresses(host: Host, addresses: Iterable[str]) -> None:
    """Give a host IPv4 addresses, which are routed to it already.

    Raises
    ------
    subprocess.CalledProcessError, subprocess.TimeoutExpired
        If it does not take them.
    """
    commands = "".join(f"address add {address}/32 dev lo\n" for address in addresses)
    argv, needs = ["ip", "-batch", "-"], Confined(capabilities=("net_admin",))
    host.run(argv, input=commands, check=True, timeout=LIMITS.answer_s, confined=needs)
