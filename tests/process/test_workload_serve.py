"""Certificates and configurations of the workloads' web servers."""

from __future__ import annotations

import base64
import hashlib
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from wavebed.workload.serve import VirtualHost, make_certificate
from wavebed.workload.serve import certificate as module
from wavebed.workload.serve.caddy import caddy_configuration
from wavebed.workload.serve.nginx import nginx_configuration

if TYPE_CHECKING:
    import pytest


def openssl(*arguments: str) -> str:
    return subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=True).stdout


def test_a_certificate_names_all_its_subjects_and_verifies_against_itself(tmp_path: Path) -> None:
    made = make_certificate(tmp_path, ["server", "*.cdn.example"], ["198.19.1.1"])
    text = openssl("x509", "-in", str(made.file), "-noout", "-ext", "subjectAltName")
    assert "DNS:*.cdn.example, DNS:server, IP Address:198.19.1.1" in text
    openssl("verify", "-CAfile", str(made.file), "-verify_hostname", "www.cdn.example", str(made.file))
    assert made.file.stat().st_mode & 0o077 == 0


def test_the_key_belongs_to_the_certificate_and_the_pin_to_the_key(tmp_path: Path) -> None:
    made = make_certificate(tmp_path, ["server"])
    der = subprocess.run(
        ["openssl", "pkey", "-in", str(made.file), "-pubout", "-outform", "DER"], capture_output=True, check=True
    ).stdout
    assert base64.b64encode(hashlib.sha256(der).digest()).decode() == made.spki_sha256


def test_a_certificate_is_made_once_for_the_same_subjects(tmp_path: Path) -> None:
    first = make_certificate(tmp_path, ["server", "edge"])
    assert make_certificate(tmp_path, ["edge", "server", "edge"]) == first
    assert make_certificate(tmp_path, ["server"]).file != first.file
    assert len(list((tmp_path / "certificates").iterdir())) == 2


def test_a_certificate_near_its_end_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "VALID_DAYS", module.RENEW_DAYS - 1)
    old = make_certificate(tmp_path, ["server"])
    monkeypatch.setattr(module, "VALID_DAYS", module.RENEW_DAYS + 1)
    new = make_certificate(tmp_path, ["server"])
    assert new.file == old.file
    assert new.spki_sha256 != old.spki_sha256
    assert make_certificate(tmp_path, ["server"]) == new


def test_a_broken_certificate_is_made_anew(tmp_path: Path) -> None:
    made = make_certificate(tmp_path, ["server"])
    made.file.write_text("-----BEGIN NOTHING-----\n")
    assert make_certificate(tmp_path, ["server"]).spki_sha256 != made.spki_sha256


def test_nginx_accepts_its_configuration_in_a_folder_with_an_odd_name(tmp_path: Path) -> None:
    folder = tmp_path / 'a "folder" of; mine'
    folder.mkdir()
    made = make_certificate(folder, ["server"])
    for certificate, http2 in ((None, False), (made, False), (made, True)):
        configuration = folder / "nginx.conf"
        hosts = [VirtualHost(name, "127.0.0.1", 18443, folder) for name in ("one.example", "two.example")]
        configuration.write_text(nginx_configuration(hosts, folder, certificate, http2=http2))
        nginx = ["/usr/sbin/nginx", "-e", "stderr", "-p", str(folder), "-c", str(configuration), "-t"]
        done = subprocess.run(nginx, capture_output=True, text=True, check=False)
        assert "syntax is ok" in done.stderr, done.stderr


def test_nginx_writes_only_into_its_folder() -> None:
    text = nginx_configuration([VirtualHost("server", "*", 80, Path("/site"))], Path("/trial"), None, http2=False)
    written = [
        line.split() for line in text.splitlines() if "_path" in line or "_log" in line or line.startswith("pid")
    ]
    assert len(written) == 8
    assert all(line[1] in ("stderr", '"/trial";', '"/trial/nginx.pid";', '"/trial/access.log"') for line in written)
    assert "listen *:80;" in text
    assert "listen [::]:80;" in text


def test_caddy_has_one_listener_for_sites_that_share_one(tmp_path: Path) -> None:
    made = make_certificate(tmp_path, ["server"])
    hosts = [
        VirtualHost("one.example", "198.19.1.1", 443, tmp_path),
        VirtualHost("two.example", "198.19.1.1", 443, tmp_path),
        VirtualHost("three.example", "*", 8443, tmp_path),
    ]
    apps = cast("dict[str, Any]", caddy_configuration(hosts, tmp_path, made)["apps"])
    listening = {tuple(server["listen"]): len(server["routes"]) for server in apps["http"]["servers"].values()}
    assert listening == {(":8443",): 1, ("198.19.1.1:443",): 2}
