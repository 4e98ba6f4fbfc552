"""The certificate of the laboratory's web servers: self-signed, made once by openssl, in the cache."""

from __future__ import annotations

import base64
import hashlib
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wavebed.errors import MachineError
from wavebed.lab.tools import find, in_guest
from wavebed.workload.drafts import drafted

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Certificate", "make_certificate"]

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
