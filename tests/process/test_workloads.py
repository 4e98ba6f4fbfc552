"""What workloads use: downloads, the cache, names, certificates, web servers and programs that have a version."""

from __future__ import annotations

import base64
import errno
import hashlib
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.unit.test_workload_download import ADDRESSES, _certificate, _download, _film, download

from wavebed.errors import MachineError
from wavebed.lab import tools
from wavebed.lab.tools import find
from wavebed.workload import drafts
from wavebed.workload.serve import VirtualHost, make_certificate
from wavebed.workload.serve import model as module
from wavebed.workload.serve.names import resolver_configuration
from wavebed.workload.serve.servers import caddy_configuration, nginx_configuration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def test_only_http2_needs_a_certificate(tmp_path: Path) -> None:
    plain, secure = download(), download(protocol="h2")
    plain.prepare(tmp_path)
    assert plain.certificate is None
    secure.prepare(tmp_path)
    assert secure.certificate is not None


@pytest.mark.parametrize("make", [_download, _film, _certificate])
def test_a_full_disk_is_said_in_one_line_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None]
) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(MachineError, match="cannot be made: no space left on device"):
        make(tmp_path)
    assert [file for file in tmp_path.rglob("*") if not file.is_dir()] == []


MAKER = """
import sys, time
from pathlib import Path
from wavebed.workload.drafts import drafted_folder
with drafted_folder(Path(sys.argv[1])) as folder:
    (folder / "half").write_text("half")
    print("ready", flush=True)
    while True:  # A signal just before a sleep would wait for its end.
        time.sleep(0.05)
"""


@contextmanager
def making(parent: Path) -> Iterator[subprocess.Popen[str]]:
    """A program that makes something there, and does not come to an end."""
    command = [sys.executable, "-c", MAKER, str(parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as maker:
        try:
            assert maker.stdout is not None
            assert maker.stdout.readline() == "ready\n"
            yield maker
        finally:
            maker.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_leaves_nothing_in_the_cache(tmp_path: Path, number: signal.Signals) -> None:
    with making(tmp_path) as maker:
        maker.send_signal(number)
        maker.wait(60)
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_program_left_goes_at_the_next_use_and_what_lives_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drafts, "_SURELY_LOCKED_S", 0.0)
    with making(tmp_path) as dead:
        dead.kill()
        dead.wait()
    (left,) = tmp_path.iterdir()
    with making(tmp_path):
        (lives,) = (each for each in tmp_path.iterdir() if each != left)
        with drafts.drafted_folder(tmp_path) as folder:
            assert set(tmp_path.iterdir()) == {lives, folder}


def test_dnsmasq_accepts_its_configuration(tmp_path: Path) -> None:
    file = tmp_path / "dnsmasq.conf"
    file.write_text(resolver_configuration("198.19.1.1", ADDRESSES))
    done = subprocess.run(
        [find("dnsmasq"), "--test", f"--conf-file={file}"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "dnsmasq: syntax check OK.\n")


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


def test_a_guest_makes_its_own_certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "in_guest", lambda: True)
    monkeypatch.setattr(module, "_OF_GUEST", tmp_path / "guest")
    assert make_certificate(tmp_path / "cache", ["server"]).file.parent == tmp_path / "guest"
    assert not (tmp_path / "cache").exists()


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


def _program(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> str:
    file = folder / "strange-program"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/bin:/usr/bin")
    tools.version.cache_clear()
    return file.name


def test_a_version_is_the_first_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert tools.version(_program(tmp_path, monkeypatch, "echo strange 1.2; echo more")) == "strange 1.2"


def test_a_program_that_does_not_say_its_version_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "_VERSION_TIMEOUT_S", 0.3)
    name = _program(tmp_path, monkeypatch, "exec sleep 100000")
    assert tools.version(name) == "unknown"


def test_a_program_that_the_kernel_refuses_to_start_has_a_version_that_says_so(tmp_path: Path, monkeypatch) -> None:
    program = tmp_path / "irtt"
    program.write_bytes(b"\x7fELF")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    tools.version.cache_clear()
    assert tools.version("irtt") == "cannot be started: Exec format error"
    tools.version.cache_clear()
