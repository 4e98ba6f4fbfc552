"""Imported sites, answered by the real servers as they were recorded."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from wavebed.lab.tools import find
from wavebed.path.api import Path as EmulatedPath
from wavebed.workload.serve import Protocol, VirtualHost, make_certificate, start_web_server
from wavebed.workload.site import load_site

if TYPE_CHECKING:
    from pathlib import Path

ADDRESS = "198.19.1.1"


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
