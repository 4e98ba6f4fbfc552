"""What a web server serves, and the server while it runs."""

from __future__ import annotations

import base64
import hashlib
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from wavebed.errors import MachineError, WavebedError
from wavebed.lab.tools import find, in_guest
from wavebed.workload.drafts import drafted
from wavebed.workload.programs import end_within, last_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from wavebed.lab.protocol import Host, Process
    from wavebed.workload.site.model import SiteObject


Protocol: TypeAlias = Literal["http/1.1", "h2", "h3"]
PROTOCOLS: tuple[Protocol, ...] = ("http/1.1", "h2", "h3")

START_TIMEOUT_S = 10.0
_LOOK_EVERY_S = 0.2


@dataclass(frozen=True, slots=True)
class VirtualHost:
    """A site on a web server.

    Parameters
    ----------
    name : str
        The host in its addresses, without the port; several may share an address and a port.
    address : str
        IPv4 address on which it listens, or ``*`` for all IPv4 and IPv6 addresses of the host.
    port : int
        Of TCP, and of UDP for HTTP/3.
    root : pathlib.Path
        The served folder.
    headers : mapping
        Fields added to every answer, whatever its status.
    routes : mapping
        The answer to each request by its path with query; without any, every file is found under its path.
    compressed : bool
        Whether a file is sent as gzip where one with ``.gz`` at the end of its name is beside it.
    """

    name: str
    address: str
    port: int
    root: Path
    headers: Mapping[str, str] = field(default_factory=dict)
    routes: Mapping[str, SiteObject] = field(default_factory=dict)
    compressed: bool = False


class RunningServer:
    """A server program on a host of the laboratory.

    Parameters
    ----------
    name : str
        What it is called in messages.
    process : Process
        Its process; only the thread that calls the methods here may use it.
    log : pathlib.Path
        File of its output.
    """

    def __init__(self, name: str, process: Process, log: Path) -> None:
        self.name = name
        self.process = process
        self.log = log

    def failure(self) -> str | None:
        """Return a line about its end if it has ended, ``None`` while it runs."""
        status = self.process.poll()
        if status is None:
            return None
        how = f"ended with {status}" if status >= 0 else f"was ended by signal {-status}"
        return f"{self.name} {how}: {self._last_words()}"

    def wait_for_ports(self, host: Host, ports: Iterable[int]) -> None:
        """Wait until it listens on TCP ports, without making a connection.

        Raises
        ------
        WavebedError
            If it ends first, or does not listen in time.
        """
        end_s = host.clock.monotonic_s() + START_TIMEOUT_S
        missing = (self._awaited(host, port, end_s, f"does not listen on port {port}") for port in ports)
        failure = next((line for line in missing if line is not None), None) or self.failure()
        if failure is not None:
            raise WavebedError(failure)

    def wait_until_bound(self, host: Host, port: int) -> None:
        """Wait until something on the host has opened a TCP or UDP port; end it if that does not happen.

        Raises
        ------
        WavebedError
            If it ends first, or opens nothing in time.
        """
        end_s = host.clock.monotonic_s() + START_TIMEOUT_S
        late = f"does not open port {port} within {START_TIMEOUT_S:g} s"
        failure = self._awaited(host, port, end_s, late, udp=True)
        if failure is not None:
            self.stop()
            raise WavebedError(failure)

    def _awaited(self, host: Host, port: int, end_s: float, late: str, *, udp: bool = False) -> str | None:
        """Wait until a port is open; return a line if the server ends first, or it is `late`."""
        while True:
            try:
                host.wait_for_port(port, _LOOK_EVERY_S, udp=udp)
            except TimeoutError:
                failure = self.failure()
                if failure is None and host.clock.monotonic_s() > end_s:
                    failure = f"{self.name} {late}: {self._last_words()}"
                if failure is not None:
                    return failure
            else:
                return None

    def stop(self) -> None:
        """End it, if it has not ended by itself."""
        end_within(self.process, 0.001)

    def _last_words(self) -> str:
        return last_line(self.log) or "it said nothing"


class RunningServers:
    """Servers that a workload needs together; ``None`` among them are left out."""

    def __init__(self, *servers: RunningServer | None) -> None:
        self._servers = [server for server in servers if server is not None]

    def failure(self) -> str | None:
        """Return a line about the end of the first that has ended, ``None`` while all run."""
        return next((line for server in self._servers if (line := server.failure()) is not None), None)

    def stop(self) -> None:
        """End all."""
        for server in self._servers:
            server.stop()


VALID_DAYS = 3650
RENEW_DAYS = 180
_MAX_COMMON_NAME = 64
_OF_GUEST = Path("/run/certificates")
"""In memory: a guest makes its own, of its date and random numbers, so that each run has the same one."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate and its key.

    Parameters
    ----------
    file : pathlib.Path
        PEM with both, for its owner only; a server takes a copy as certificate and as key.
    spki_sha256 : str
        Base64 of the SHA-256 of its public key, for Chromium's ``--ignore-certificate-errors-spki-list``.
    """

    file: Path
    spki_sha256: str

    def curl_options(self) -> list[str]:
        """Return curl's options to accept only this certificate, by its key."""
        return ["--insecure", "--pinnedpubkey", f"sha256//{self.spki_sha256}"]


def make_certificate(cache: Path, names: Sequence[str], addresses: Sequence[str] = ()) -> Certificate:
    """Return a certificate for host names and IP addresses, from the cache if it has a valid one.

    Parameters
    ----------
    cache : pathlib.Path
        Shared by all runs; the certificate is written atomically into ``certificates`` there. A guest does not use it.
    names, addresses : sequence of str
        Its subject's alternative names; ``*.one.example`` covers the names one level below it.

    Raises
    ------
    MachineError
        If openssl is missing or fails, or the cache cannot be written.
    """
    subjects = [*(f"DNS:{name}" for name in sorted(set(names))), *(f"IP:{each}" for each in sorted(set(addresses)))]
    assert subjects, "a certificate is for somebody"
    folder = _OF_GUEST if in_guest() else cache / "certificates"
    file = folder / f"{hashlib.sha256(','.join(subjects).encode()).hexdigest()[:16]}.pem"
    if not _is_good(file):
        _make(file, subjects)
    return Certificate(file, _spki_sha256(file))


def _is_good(file: Path) -> bool:
    """Return whether the certificate exists and is valid for long enough."""
    if not file.is_file():
        return False
    seconds = str(RENEW_DAYS * 86_400)
    argv = [find("openssl"), "x509", "-in", str(file), "-noout", "-checkend", seconds]
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0


def _make(file: Path, subjects: Sequence[str]) -> None:
    with drafted(file, 0o600) as both:
        both.write(
            # The key and the certificate come through a pipe, so that no killed process leaves a key on a disk.
            _openssl(
                *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-sha256"),
                *("-days", str(VALID_DAYS), "-keyout", "/dev/stdout", "-out", "/dev/stdout"),
                *("-subj", f"/CN={subjects[0].partition(':')[2][:_MAX_COMMON_NAME]}"),
                *("-addext", f"subjectAltName={','.join(subjects)}"),
            )
        )


def _spki_sha256(file: Path) -> str:
    public = _openssl("x509", "-in", str(file), "-noout", "-pubkey").decode("ascii")
    body = "".join(line for line in public.splitlines() if not line.startswith("-----"))
    return base64.b64encode(hashlib.sha256(base64.b64decode(body)).digest()).decode("ascii")


def _openssl(*arguments: str) -> bytes:
    done = subprocess.run([find("openssl"), *arguments], capture_output=True, check=False)
    if done.returncode != 0:
        words = done.stderr.decode(errors="replace").strip().splitlines()
        raise MachineError(f"openssl {arguments[0]} failed: {words[-1] if words else 'it said nothing'}")
    return done.stdout
