"""The web servers of the workloads, reached by real clients; imported sites are answered as they were recorded."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, get_args

import pytest

from wavebed.errors import WavebedError
from wavebed.lab.tools import find
from wavebed.path.api import Path as EmulatedPath
from wavebed.workload.serve import PROTOCOLS, Protocol, VirtualHost, make_certificate, start_web_server
from wavebed.workload.site import load_site

if TYPE_CHECKING:
    from pathlib import Path

    from wavebed.path.lab import LabHost


ADDRESS = "198.19.1.1"


def two_sites(folder: Path) -> list[VirtualHost]:
    """Return two sites on one address and port, with a page each that says its name."""
    sites = []
    for name in ("one.example", "two.example"):
        root = folder / name
        root.mkdir()
        (root / "index.html").write_text(f"<!doctype html><p>{name}")
        (root / "letter.woff2").write_bytes(bytes(100))
        sites.append(VirtualHost(name, ADDRESS, 8443, root))
    return sites


def fetched(client: LabHost, scheme: str, name: str, path: str, *options: str) -> tuple[str, dict[str, object]]:
    done = client.run(
        [
            *(find("curl"), "-sS", "--fail", "--connect-to", f"{name}:8443:{ADDRESS}:8443", *options),
            *("-w", "\n%{json}", f"{scheme}://{name}:8443/{path}"),
        ],
        capture_output=True,
        check=True,
        timeout=60,
    )
    body, _, report = done.stdout.rpartition("\n")
    return body, json.loads(report)


@pytest.mark.parametrize(
    ("protocol", "tls", "used"),
    [("http/1.1", False, "1.1"), ("http/1.1", True, "1.1"), ("h2", True, "2"), ("h3", True, "2")],
)
def test_a_client_gets_each_site_by_its_name(tmp_path: Path, protocol: Protocol, tls: bool, used: str) -> None:
    certificate = make_certificate(tmp_path, ["one.example", "two.example"]) if tls else None
    with EmulatedPath.of(delay="1ms").up() as lab:
        lab.server.run(["ip", "addr", "add", f"{ADDRESS}/32", "dev", "lo"], check=True)
        server = start_web_server(lab.server, two_sites(tmp_path), protocol, tmp_path, certificate)
        trust = [] if certificate is None else ["--cacert", str(certificate.file)]
        scheme = "https" if tls else "http"
        for name in ("one.example", "two.example"):
            body, report = fetched(lab.client, scheme, name, "", *trust)
            assert body == f"<!doctype html><p>{name}"
            assert report["http_version"] == used
        assert fetched(lab.client, scheme, "one.example", "letter.woff2", *trust)[1]["content_type"] == "font/woff2"
        server.stop()
    assert "error" not in [json.loads(line)["level"] for line in server.log.read_text().splitlines()]


def test_chromium_speaks_http3_with_caddy(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path, ["one.example", "two.example"])
    with EmulatedPath.of(delay="1ms").up() as lab:
        lab.server.run(["ip", "addr", "add", f"{ADDRESS}/32", "dev", "lo"], check=True)
        sites = two_sites(tmp_path)
        script = "<script>document.write(performance.getEntriesByType('navigation')[0].nextHopProtocol)</script>"
        (sites[0].root / "index.html").write_text(f"<!doctype html>{script}")
        server = start_web_server(lab.server, sites, "h3", tmp_path, certificate)
        done = lab.client.run(
            [
                *(find("chromium"), "--headless", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"),
                *(["--no-sandbox"] if os.geteuid() == 0 else []),
                f"--host-resolver-rules=MAP one.example {ADDRESS}",
                "--origin-to-force-quic-on=one.example:8443",
                f"--ignore-certificate-errors-spki-list={certificate.spki_sha256}",
                *("--dump-dom", "https://one.example:8443/"),
            ],
            capture_output=True,
            timeout=60,
        )
        server.stop()
    assert "<body>h3</body>" in done.stdout, done.stderr


def test_a_server_that_does_not_start_says_why(tmp_path: Path) -> None:
    sites = two_sites(tmp_path)
    certificate = make_certificate(tmp_path, ["one.example", "two.example"])
    with EmulatedPath.of().up() as lab:
        for protocol in PROTOCOLS:
            folder = tmp_path / protocol.replace("/", "-")
            folder.mkdir()
            with pytest.raises(WavebedError, match=r"(?i)(nginx|caddy) ended with 1: .*assign requested address"):
                start_web_server(lab.server, sites, protocol, folder, certificate)


def test_every_protocol_is_listed() -> None:
    assert get_args(Protocol) == PROTOCOLS


def entry(url: str, text: str = "", status: int = 200, mime: str = "text/html", to: str = "") -> dict[str, object]:
    content = {"size": len(text), "mimeType": mime, "text": text}
    return {
        "request": {"method": "GET", "url": url},
        "response": {"status": status, "redirectURL": to, "content": content, "bodySize": len(text)},
    }


@pytest.mark.parametrize("protocol", ["http/1.1", "h2", "h3"])
def test_each_recorded_answer_is_given_again(tmp_path: Path, protocol: Protocol) -> None:
    asked = {
        "/": (200, "text/html; charset=utf-8", "the page"),
        "/app.js": (200, "text/javascript", "first"),
        "/app.js?v=2": (200, "text/javascript", "second"),
        "/APP.js?v=2": (200, "text/javascript", "third"),
        '/a%20b/$x?q="{y}"&r=\\': (200, "application/x-strange", "odd"),
        "/braces?{env.HOME}": (200, "text/plain;a={env.HOME}$host", "kept"),
        "/gone.css": (404, "text/css", "not here"),
        "/empty": (500, "text/plain", ""),
        "/nothing": (204, "", ""),
    }
    entries = [
        entry(f"https://www.shop.example{path}", body, status, mime or "text/plain")
        for path, (status, mime, body) in asked.items()
    ]
    there = "https://cdn.shop.example/new?cost=$5&home={env.HOME}"
    entries.append(entry("https://www.shop.example/old", status=302, to=there))
    (tmp_path / "page.har").write_text(json.dumps({"log": {"entries": entries}}))
    built = load_site(str(tmp_path / "page.har"), tmp_path / "cache")
    origin = built.site.origins[0]
    certificate = make_certificate(tmp_path, [origin.name])
    host = VirtualHost(origin.name, ADDRESS, 8443, built.folder / origin.folder, routes=built.routes[origin.name])
    paths = [*asked, "/old", "/not-recorded"]
    with EmulatedPath.of(delay="1ms").up() as lab:
        lab.server.run(["ip", "addr", "add", f"{ADDRESS}/32", "dev", "lo"], check=True)
        server = start_web_server(lab.server, [host], protocol, tmp_path, certificate)
        options = [
            *(find("curl"), "-sS", "--globoff", "--cacert", str(certificate.file)),
            *("--connect-to", f"{origin.name}:443:{ADDRESS}:8443"),
            *("-w", "\n%{http_code}\n%{content_type}\n%{redirect_url}\n"),
        ]
        answers = {}
        for path in paths:
            url = f"https://{origin.name}{path}"
            done = lab.client.run([*options, url], capture_output=True, check=True, timeout=60)
            body, status, content_type, location = done.stdout.rsplit("\n", 4)[:4]
            answers[path] = (int(status), content_type, body, location)
        server.stop()
    for path, (status, mime, body) in asked.items():
        given = answers[path]
        assert (given[0], given[2]) == (status, body), path
        assert given[1] == mime or status == 204, path
    assert (answers["/old"][0], answers["/old"][3]) == (302, there)
    assert answers["/not-recorded"][0] == 404
