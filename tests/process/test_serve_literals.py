"""What a recording says is served byte for byte: the real servers never take it for a variable of theirs."""

from __future__ import annotations

import gzip
import json
import os
import socket
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from wavebed.lab.tools import find
from wavebed.workload.serve import VirtualHost, make_certificate
from wavebed.workload.serve.servers import caddy_configuration, nginx_configuration
from wavebed.workload.site import load_site

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from wavebed.workload.serve.model import Certificate


ORIGIN = "https://www.shop.example"
TYPES = [
    "text/plain;a={env.WAVEBED_SECRET}",
    'text/plain;a="{x}"',
    "text/plain;a={",
    "text/plain;a=}",
    r"text/plain;a=\{env.WAVEBED_SECRET\}",
    r"text/plain;a=\}",
    r"text/plain;a=\\{http.request.host}\\",
    "text/plain;a=${hostname}$host$$",
    "text/plain;a='{{nested}}'",
    "text/plain;a={wavebed_status}",
]
TARGETS = [
    "https://cdn.shop.example/got?{env.WAVEBED_SECRET}",
    "https://cdn.shop.example/{x}/\\{y}?a=\"${host}\"&b='$uri'\\\\",
]


def entry(path: str, mime: str = "text/html", status: int = 200, to: str = "") -> dict[str, object]:
    content = {"size": 4, "mimeType": mime, "text": "body"}
    request = {"method": "GET", "url": f"{ORIGIN}{path}"}
    return {"request": request, "response": {"status": status, "redirectURL": to, "content": content, "bodySize": 4}}


@contextmanager
def serving(server: str, host: VirtualHost, folder: Path, certificate: Certificate) -> Iterator[None]:
    if server == "caddy":
        file = folder / "caddy.json"
        file.write_text(json.dumps(caddy_configuration([host], folder, certificate)))
        argv = [find("caddy"), "run", "--config", str(file)]
    else:
        file = folder / "nginx.conf"
        file.write_text(nginx_configuration([host], folder, certificate, http2=True))
        argv = [find("nginx"), "-e", "stderr", "-p", str(folder), "-c", str(file)]
    environment = {**os.environ, "HOME": str(folder), "WAVEBED_SECRET": "hunter2"}
    with (folder / "log").open("wb") as log, subprocess.Popen(argv, stdout=log, stderr=log, env=environment) as process:
        try:
            wait_for(host.port, process, folder / "log")
            yield
        finally:
            process.terminate()


def wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + 60
    while True:
        assert process.poll() is None, log.read_text()
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.02)
        else:
            return


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


@pytest.mark.parametrize("server", ["caddy", "nginx"])
def test_braces_dollars_quotes_and_backslashes_are_served_as_recorded(server: str, tmp_path: Path) -> None:
    folder = tmp_path / "odd {env.HOME} $host"
    folder.mkdir()
    types = {f"/t{number}?q={{env.HOME}}$host": mime for number, mime in enumerate(TYPES)}
    targets = {f"/r{number}": to for number, to in enumerate(TARGETS)}
    entries = [entry("/"), *(entry(path, mime) for path, mime in types.items())]
    entries += [entry(path, status=302, to=to) for path, to in targets.items()]
    (folder / "page.har").write_text(json.dumps({"log": {"entries": entries}}))
    built = load_site(str(folder / "page.har"), folder / "cache")
    name = built.site.origins[0].name
    certificate = make_certificate(tmp_path / "certificates", [name])
    headers = {"X-Kept": "{env.WAVEBED_SECRET} $host \\ {x}"}
    host = VirtualHost(name, "127.0.0.1", free_port(), built.folder / name, headers, built.routes[name])
    base = [find("curl"), "-sS", "--globoff", "--cacert", str(certificate.file), "-o", "/dev/null", "-D", "-"]
    base += ["--connect-to", f"{name}:443:127.0.0.1:{host.port}"]
    with serving(server, host, folder, certificate):
        for version in ("--http1.1", "--http2"):
            answers = {path: fields([*base, version, f"{ORIGIN}{path}"]) for path in (*types, *targets)}
            assert {path: answers[path]["content-type"] for path in types} == types
            assert {path: answers[path]["location"] for path in targets} == targets
            assert {answer["x-kept"] for answer in answers.values()} == {headers["X-Kept"]}
            assert "hunter2" not in str(answers)


def fields(command: list[str]) -> dict[str, str]:
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    pairs = (line.partition(": ") for line in done.stdout.splitlines() if ": " in line)
    return {key.lower(): value for key, _, value in pairs}


@pytest.mark.parametrize("server", ["caddy", "nginx"])
def test_a_compressed_site_is_sent_in_its_bytes_as_gzip(server: str, tmp_path: Path) -> None:
    objects = [
        {"object": 0, "type": "document", "bytes": 30_000, "gzip_bytes": 8000},
        {"object": 1, "type": "script", "bytes": 9000, "gzip_bytes": 2500, "by": 0, "at_byte": 500},
        {"object": 2, "type": "image", "bytes": 4000, "by": 0, "at_byte": 900},
    ]
    (tmp_path / "page.json").write_text(json.dumps({"page": "a page", "compressed": True, "objects": objects}))
    built = load_site(str(tmp_path / "page.json"), tmp_path / "cache")
    name = built.site.origins[0].name
    certificate = make_certificate(tmp_path / "certificates", [name])
    host = VirtualHost(name, "127.0.0.1", free_port(), built.folder / name, compressed=built.site.compressed)
    base = [find("curl"), "-sS", "--cacert", str(certificate.file), "-H", "Accept-Encoding: gzip", "-D", "-"]
    base += ["--connect-to", f"{name}:443:127.0.0.1:{host.port}", "-o"]
    with serving(server, host, tmp_path, certificate):
        for entry, given in zip(built.site.objects, objects, strict=True):
            body = tmp_path / "body"
            answer = fields([*base, str(body), f"https://{name}{entry.path}"])
            coded = given["type"] != "image"
            assert answer.get("content-encoding") == ("gzip" if coded else None)
            assert answer["content-type"].partition(";")[0] == entry.content_type
            assert len(body.read_bytes()) == given.get("gzip_bytes", 4000)
            plain = gzip.decompress(body.read_bytes()) if coded else body.read_bytes()
            assert len(plain) == given["bytes"]
