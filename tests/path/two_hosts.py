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

SERVE = """set -e
key=$(mktemp /run/host-key.XXXXXX)
cat "$2" > "$key"
mount --bind "$1" /root
mount -t tmpfs -o size="$3" tmpfs /tmp
exec dropbear -F -E -s -m -W 1000000 -r "$key" -p 22
"""
"""Homes and /tmp of the server are its own."""


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


@contextmanager
def two_hosts(folder: Path, *, memory: str = "1g", **path: object) -> Iterator[TwoHosts]:
    """Join two hosts by a path with these options of ``wavebed shell``; the server's /tmp has so much `memory`."""
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
        words = ["sh", "-c", SERVE, "sh", str(home), str(host_key), memory]
        sshd = lab.server.start(words, stdout=log, stderr=log)
        lab.server.wait_for_port(22)
        yield TwoHosts(lab, variables, sshd)
