"""Variables that make programs of a laboratory trust its certificate."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from wavebed.foreign import is_file, read_text
from wavebed.workload.drafts import drafted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wavebed.workload.serve.model import Certificate

BUNDLES = (
    "SSL_CERT_FILE",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "NODE_EXTRA_CA_CERTS",
    "DENO_CERT",
)
"""OpenSSL (Python, Ruby, wget), Go and Rust read the first. Browsers and Java read none of them."""
_SYSTEM = (
    Path("/etc/ssl/certs/ca-certificates.crt"),  # Debian, Ubuntu, Arch, Alpine
    Path("/etc/pki/tls/certs/ca-bundle.crt"),  # Fedora, RHEL
    Path("/etc/ssl/ca-bundle.pem"),  # openSUSE
)
_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----\n"


def trusting_environment(certificate: Certificate, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of programs that trust a certificate beside the authorities of the system.

    Parameters
    ----------
    certificate : Certificate
        Its own authority.
    environment : mapping
        The variables until now: bundles that they name are trusted too.

    Raises
    ------
    MachineError
        If a file cannot be written beside the certificate.
    UserError
        If a bundle cannot be read.
    """
    public = _public_part(certificate.file)
    bundle = "".join((public, *(_text(file) for file in _trusted(environment))))
    own = certificate.file.with_suffix(".crt")
    # Laboratories may run at the same time, with other bundles.
    all_of_them = certificate.file.with_suffix(f".{hashlib.sha256(bundle.encode()).hexdigest()[:8]}.crt")
    for file, text in ((own, public), (all_of_them, bundle)):
        if not file.is_file() or _text(file) != text:
            with drafted(file) as draft:
                draft.write(text.encode())
    return {
        **dict.fromkeys(BUNDLES, str(all_of_them)),
        "WAVEBED_AUTHORITY": str(own),
        "WAVEBED_CERTIFICATE": str(certificate.file),
        "WAVEBED_SPKI": certificate.spki_sha256,
    }


def _trusted(environment: Mapping[str, str]) -> list[Path]:
    """Return the system's bundle, or what stands for it, and the bundles that variables name, each once."""
    named = [Path(environment[name]) for name in BUNDLES if environment.get(name)]
    system = [] if environment.get("SSL_CERT_FILE") else [file for file in _SYSTEM if file.is_file()][:1]
    return list(dict.fromkeys(file for file in (*system, *named) if is_file(file)))


def _public_part(file: Path) -> str:
    text = _text(file)
    return text[text.index(_BEGIN) :].partition(_END)[0] + _END


def _text(file: Path) -> str:
    text = read_text(file, "name a file with certificates, or unset the variable", errors="replace")
    return text if text.endswith("\n") else text + "\n"
