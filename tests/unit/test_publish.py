"""Published ports and the certificate of HTTPS: what the options mean, and which programs trust what."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from wavebed.config.problems import Problem
from wavebed.errors import UserError
from wavebed.foreign import MAX_BYTES
from wavebed.path.publish import PublishedPort, https_relay, read_port, read_published
from wavebed.workload.serve import trust
from wavebed.workload.serve.model import Certificate

if TYPE_CHECKING:
    from pathlib import Path

HOSTS = ("server", "client")
OWN = "-----BEGIN CERTIFICATE-----\nown\n-----END CERTIFICATE-----\n"
KEY = "-----BEGIN PRIVATE KEY-----\nsecret\n-----END PRIVATE KEY-----\n"


@pytest.mark.parametrize(
    ("text", "published"),
    [
        ("3000", PublishedPort(3000, "client", 3000)),
        ("server:3000", PublishedPort(3000, "server", 3000)),
        ("4000:3000", PublishedPort(4000, "client", 3000)),
        ("4000:server:3000", PublishedPort(4000, "server", 3000)),
    ],
)
def test_a_port_is_the_clients_and_has_the_same_number_outside_unless_it_is_written(
    text: str, published: PublishedPort
) -> None:
    assert read_published(text, HOSTS) == published


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("web", "'web' is no port: write PORT, HOST:PORT or OUTSIDE:HOST:PORT, such as 3000:client:3000"),
        ("edge:3000", "'edge:3000': there is no host 'edge': write server or client"),
        ("70000", "'70000': a port is a number from 1 to 65535"),
        ("0:3000", "'0:3000': a port is a number from 1 to 65535"),
    ],
)
def test_a_wrong_port_is_refused_with_one_that_works(text: str, said: str) -> None:
    with pytest.raises(Problem) as refused:
        read_published(text, HOSTS)
    assert str(refused.value) == said


def test_the_port_of_https_is_not_the_relays_own(tmp_path: Path) -> None:
    assert read_port("3000") == 3000
    with pytest.raises(Problem, match="443 is the port of the relay itself"):
        read_port("443")
    with pytest.raises(Problem, match="is no port: write a number from 1 to 65535"):
        read_port("9" * 5000)
    assert https_relay(3000, tmp_path)[-2:] == ("--to", "3000")


@pytest.fixture
def certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Certificate:
    system = tmp_path / "system.crt"
    system.write_text("the system's\n")
    monkeypatch.setattr(trust, "_SYSTEM", (tmp_path / "none", system))
    file = tmp_path / "cache" / "own.pem"
    file.parent.mkdir()
    file.write_text(KEY + OWN)
    return Certificate(file, "c3BraQ==")


def test_programs_trust_the_certificate_and_what_the_system_trusts(certificate: Certificate, tmp_path: Path) -> None:
    variables = trust.trusting_environment(certificate, {})
    bundles = {variables[name] for name in trust.BUNDLES}
    assert len(bundles) == 1
    assert (tmp_path / bundles.pop()).read_text() == OWN + "the system's\n"
    assert variables["WAVEBED_SPKI"] == "c3BraQ=="


def test_the_key_is_in_no_file_that_others_read(certificate: Certificate) -> None:
    variables = trust.trusting_environment(certificate, {})
    assert variables["WAVEBED_CERTIFICATE"] == str(certificate.file)
    for file in certificate.file.parent.glob("*.crt"):
        assert "PRIVATE KEY" not in file.read_text()


def test_a_bundle_that_cannot_be_read_is_one_line(certificate: Certificate, tmp_path: Path) -> None:
    large = tmp_path / "large.crt"
    with large.open("wb") as stream:
        stream.truncate(MAX_BYTES + 1)
    with pytest.raises(UserError, match="name a file with certificates, or unset the variable"):
        trust.trusting_environment(certificate, {"SSL_CERT_FILE": str(large)})


def test_bundles_that_the_user_names_are_trusted_too_and_stay_as_they_are(
    certificate: Certificate, tmp_path: Path
) -> None:
    mine = tmp_path / "mine.crt"
    mine.write_text("mine")
    variables = trust.trusting_environment(certificate, {"SSL_CERT_FILE": str(mine), "CURL_CA_BUNDLE": str(mine)})
    assert (tmp_path / variables["SSL_CERT_FILE"]).read_text() == OWN + "mine\n"
    assert mine.read_text() == "mine"
    both = trust.trusting_environment(certificate, {"NODE_EXTRA_CA_CERTS": str(mine)})
    assert (tmp_path / both["SSL_CERT_FILE"]).read_text() == OWN + "the system's\nmine\n"
