"""A resolver on a host of the laboratory, and programs that ask it over the path by the stub resolver of their system.

dnsmasq, because its package dnsmasq-base is a megabyte without a service: those of unbound, knot and BIND start one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.errors import WavebedError
from wavebed.lab.confine import Confined, confined_user
from wavebed.lab.limits import LIMITS
from wavebed.lab.tools import find
from wavebed.workload.raw import create
from wavebed.workload.serve.model import RunningServer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from wavebed.lab.protocol import Host, Process

__all__ = ["Resolver", "resolver_configuration", "start_resolver"]

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


class Resolver(RunningServer):
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


def start_resolver(server: Host, client: Host, address: str, names: Mapping[str, str], folder: Path) -> Resolver:
    """Start dnsmasq and wait, without sending a packet, until it listens by UDP and TCP.

    Parameters
    ----------
    server, client : Host
        Its host, which already has `address`, and that of the programs that ask it.
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
    resolver = Resolver(process, log, folder)
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
