"""Two hosts that ssh joins: namespaces, with a known path between them."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import wavebed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from wavebed.lab.protocol import Process
    from wavebed.path.lab import Laboratory

SERVER_BESIDE, CLIENT_BESIDE = "192.0.2.1", "192.0.2.2"
"""Addresses on the cable beside the path under test."""
SERVE = """set -e
key=$(mktemp /run/host-key.XXXXXX)
cat "$2" > "$key"
mount --bind "$1" /root
shift 2
memory=$1
shift
if [ -n "$memory" ]; then mount -t tmpfs -o size="$memory" tmpfs /tmp; fi
for program in "$@"; do mount --bind /dev/null "$program"; done
exec $WITH dropbear -F -E -s -m -W 1000000 -r "$key" -p 22
"""
"""Homes of the host, and /tmp if it has a size, are its own."""
OTHER_TIME = "unshare --time --fork --monotonic 5000"
"""Before a program: its CLOCK_MONOTONIC is that of another machine."""


class TwoHosts(NamedTuple):
    """A laboratory whose server runs an ssh server, and the variables with which the client reaches it."""

    lab: Laboratory
    variables: Mapping[str, str]
    sshd: Process

    def wavebed(self, words: Sequence[str], limit_s: float = 90.0) -> subprocess.CompletedProcess[str]:
        """Run wavebed on the client."""
        return self.lab.client.run(
            [sys.executable, "-m", "wavebed", *words], capture_output=True, timeout=limit_s, env=self.variables
        )

    @property
    def server_address(self) -> str:
        """The server's address on the path under test."""
        found = self.lab.client.run(["getent", "ahostsv4", "server"], capture_output=True).stdout
        return str(found.split()[0])

    def join_beside(self) -> str:
        """Join the hosts by a cable beside the path under test, and return the server's address on it."""
        other = self.lab.client.start(["sleep", "60"])
        ip = ["ip", "link", "add", "beside", "type", "veth", "peer", "name", "beside", "netns", str(other.pid)]
        self.lab.server.run(ip, check=True)
        for host, address in ((self.lab.server, SERVER_BESIDE), (self.lab.client, CLIENT_BESIDE)):
            host.run(["ip", "address", "add", f"{address}/24", "dev", "beside"], check=True)
            host.run(["ip", "link", "set", "beside", "up"], check=True)
        other.kill()
        return SERVER_BESIDE


@contextmanager
def two_hosts(
    folder: Path, *, memory: str = "1g", hidden: Sequence[str] = (), also_client: bool = False, **path: object
) -> Iterator[TwoHosts]:
    """Join two hosts by a path with these options of ``wavebed shell``.

    Parameters
    ----------
    memory : str
        Size of the server's /tmp.
    hidden : sequence of str
        Programs that the server does not have.
    also_client : bool
        Whether the client runs an ssh server too, with another CLOCK_MONOTONIC than this machine.
    """
    home, key, host_key, temporary = folder / "home", folder / "key", folder / "host-key", folder / "tmp"
    temporary.mkdir()
    (home / ".ssh").mkdir(parents=True, mode=0o700)
    home.chmod(0o700)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    subprocess.run(["dropbearkey", "-t", "ed25519", "-f", host_key], check=True, capture_output=True)
    (home / ".ssh" / "authorized_keys").write_text(key.with_suffix(".pub").read_text())
    options = f"-F none -i {key} -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
    variables = {
        **os.environ,
        "WAVEBED_SSH": f"ssh {options}",
        "WAVEBED_CACHE": str(folder / "cache"),
        "TMPDIR": str(temporary),
    }
    with wavebed.Path.of(**path).up() as lab, (folder / "sshd.log").open("w") as log:
        serve = ["sh", "-c", SERVE, "sh", str(home), str(host_key)]
        sshd = lab.server.start([*serve, memory, *hidden], stdout=log, stderr=log)
        lab.server.wait_for_port(22, 60.0)
        if also_client:
            lab.client.start([*serve, ""], stdout=log, stderr=log, env={**os.environ, "WITH": OTHER_TIME})
            lab.client.wait_for_port(22, 60.0)
        yield TwoHosts(lab, variables, sshd)
