"""A set of public traces is fetched from a server on loopback: checked, limited, resumed, by a proxy."""

from __future__ import annotations

import hashlib
import io
import tarfile
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from wavebed.catalogue import model, sources
from wavebed.catalogue.model import Converter, TraceSet
from wavebed.catalogue.sources import fetch, tree_of
from wavebed.cli import main
from wavebed.errors import UserError, WavebedError
from wavebed.pattern import read_trace

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

COMMIT = "0123456789012345678901234567890123456789"
UPLINK = b"1\n2\n3\n" + b"4\n" * 30_000
LARGE = b"time,rate\n" + b"".join(b"%d,7\n" % second for second in range(2000))
POINTER = (
    f"version https://git-lfs.github.com/spec/v1\noid sha256:{hashlib.sha256(LARGE).hexdigest()}\nsize {len(LARGE)}\n"
).encode()


def blob(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def archive() -> bytes:
    """Return an archive as GitHub makes it: a commit's comment, and one folder around all."""
    packed = io.BytesIO()
    with tarfile.open(
        fileobj=packed, mode="w:gz", format=tarfile.PAX_FORMAT, pax_headers={"comment": COMMIT}
    ) as target:
        for name, data in {
            "traces/a.up": UPLINK, "traces/large.csv": POINTER, "traces/.hidden": b"", "README.md": b"Traces.\n",
        }.items():  # fmt: skip
            info = tarfile.TarInfo(f"made-{COMMIT[:7]}/{name}")
            info.size, info.mode = len(data), 0o664
            target.addfile(info, io.BytesIO(data))
    return packed.getvalue()


def zipped() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as target:
        target.writestr("inner/b.up", UPLINK)
    return packed.getvalue()


ZIP = zipped()
ENTRIES = {
    "/traces/a.up": ("100644", blob(UPLINK)), "/traces/large.csv": ("100644", blob(POINTER)),
    "/traces/.hidden": ("100644", blob(b"")),
}  # fmt: skip
CONVERT = (
    Converter(files=("*.up",), format="mahimahi"),
    Converter(files=("*.csv",), columns=("time=time:s", "rate=rate:mbit")),
)
SET = TraceSet(
    name="made", what="made-up traces", page="https://example.org/made", paper="nobody", convert=CONVERT,
    licence="CC0-1.0",
    repository="some/made", commit=COMMIT, trees={"traces": tree_of(ENTRIES, "/traces/")},
)  # fmt: skip
OF_ZIP = TraceSet(
    name="zip", what="made-up traces", page="https://example.org/zip", paper="nobody", convert=CONVERT,
    licence="CC0-1.0",
    repository="some/zip", commit=COMMIT, blobs={"data/all traces.zip": blob(ZIP)},
)  # fmt: skip


class Github:
    """A server with the files, and what was asked of it.

    Parameters
    ----------
    files : dict of str to bytes
        Content by path.
    """

    def __init__(self) -> None:
        self.files = {
            f"/some/made/archive/{COMMIT}.tar.gz": archive(),
            f"/some/made/raw/{COMMIT}/traces/large.csv": LARGE,
            f"/some/zip/raw/{COMMIT}/data/all%20traces.zip": ZIP,
        }
        self.asked: list[tuple[str, str | None]] = []
        self.breaks = 0
        """How many answers end in their middle."""
        self.tag = '"one"'
        self.leads_to: str | None = None
        self.without_length = False
        github = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                pass

            def do_GET(self) -> None:
                github.answer(self)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        path = "/" + handler.path.split("/", 3)[3] if handler.path.startswith("http://") else handler.path
        self.asked.append((handler.path, handler.headers.get("Range")))
        if self.leads_to is not None:
            handler.send_response(302)
            handler.send_header("Location", self.leads_to)
            handler.end_headers()
            return
        data = self.files.get(path)
        if data is None:
            handler.send_error(404)
            return
        begin = 0
        if handler.headers.get("Range") and handler.headers.get("If-Range") == self.tag:
            begin = int(handler.headers["Range"].removeprefix("bytes=").rstrip("-"))
            if begin >= len(data):
                handler.send_error(416)
                return
            handler.send_response(206)
            handler.send_header("Content-Range", f"bytes {begin}-{len(data) - 1}/{len(data)}")
        else:
            handler.send_response(200)
        rest = data[begin:]
        handler.send_header("ETag", self.tag)
        if not self.without_length:
            handler.send_header("Content-Length", str(len(rest)))
        handler.end_headers()
        if self.breaks:
            self.breaks -= 1
            rest = rest[: len(rest) // 2]
        handler.wfile.write(rest)


@pytest.fixture
def github(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Github]:
    found = Github()
    monkeypatch.setattr(sources, "GITHUB", found.address)
    monkeypatch.setattr(model, "trace_sets", lambda: {"made": SET, "zip": OF_ZIP})
    monkeypatch.setenv("WAVEBED_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "")
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    yield found
    found.server.shutdown()
    found.server.server_close()
    found.thread.join()


def fetched(chosen: TraceSet = SET, limit: int = 10**8) -> dict[str, bytes]:
    return {member.name: member.load() for member in fetch(chosen, limit, lambda _: None)}


def test_a_set_is_fetched_checked_and_kept(github: Github) -> None:
    assert fetched() == {"/traces/a.up": UPLINK, "/traces/large.csv": LARGE}
    assert len(github.asked) == 2
    assert fetched()["/traces/a.up"] == UPLINK
    assert len(github.asked) == 2, "the second time nothing is fetched"
    assert fetched(OF_ZIP) == {"/inner/b.up": UPLINK}


def test_the_command_fetches_and_converts(
    github: Github, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["trace", "get", "made"]) == 0
    out, err = capsys.readouterr()
    assert f"wavebed: fetching {github.address}/some/made/archive/{COMMIT}.tar.gz\n" in err
    assert "the hashes of git are as in that commit" in out
    header = dict(read_trace(tmp_path / "made/traces/a.up.csv").header)
    assert header["version"] == f"commit {COMMIT}"
    assert header["input_sha256"] == hashlib.sha256(UPLINK).hexdigest()
    assert read_trace(tmp_path / "made/traces/large.csv").period == 2000 * 10**9


@pytest.mark.parametrize("changed", ["archive", "pointed at", "file"])
def test_other_content_is_refused_and_not_kept(github: Github, changed: str, tmp_path: Path) -> None:
    chosen = OF_ZIP if changed == "file" else SET
    if changed == "archive":
        chosen = TraceSet(
            **{name: getattr(SET, name) for name in SET.__struct_fields__} | {"trees": {"traces": "0" * 40}}
        )
    if changed == "pointed at":
        github.files[f"/some/made/raw/{COMMIT}/traces/large.csv"] = LARGE[:-2] + b"9\n"
    if changed == "file":
        github.files[f"/some/zip/raw/{COMMIT}/data/all%20traces.zip"] = ZIP + b"x"
    with pytest.raises(WavebedError, match="it was removed"):
        fetched(chosen)
    kept = [file.name for file in (tmp_path / "cache").rglob("*") if file.is_file()]
    assert kept == (["archive.tar.gz"] if changed == "pointed at" else [])


def test_a_broken_transfer_goes_on_where_it_ended(github: Github) -> None:
    github.breaks = 2
    assert fetched()["/traces/a.up"] == UPLINK
    first = [begin for path, begin in github.asked if path.endswith(".tar.gz")]
    half = len(archive()) // 2
    assert first == [None, f"bytes={half}-", f"bytes={half + (len(archive()) - half) // 2}-"]


def test_a_transfer_that_always_breaks_ends_in_one_line_and_the_next_goes_on(github: Github, tmp_path: Path) -> None:
    github.breaks = 3
    with pytest.raises(WavebedError, match=r"the connection broke after .* run the same command again"):
        fetched()
    assert (tmp_path / f"cache/traces/made/{COMMIT}/archive.tar.gz.part").stat().st_size > 0
    assert fetched()["/traces/a.up"] == UPLINK
    assert github.asked[3][1] is not None


@pytest.mark.parametrize("tag", ['W/"weak"', ""])
def test_without_a_strong_tag_a_transfer_begins_again(github: Github, tag: str) -> None:
    github.breaks, github.tag = 1, tag
    assert fetched()["/traces/a.up"] == UPLINK
    assert [begin for _, begin in github.asked] == [None, None, None]


def test_a_whole_part_is_fetched_again(github: Github, tmp_path: Path) -> None:
    part = tmp_path / f"cache/traces/made/{COMMIT}/archive.tar.gz.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(archive())
    part.with_name(f"{part.name}.tag").write_text(github.tag)
    assert fetched()["/traces/a.up"] == UPLINK


def test_a_changed_file_begins_again(github: Github) -> None:
    github.breaks = 3
    with pytest.raises(WavebedError):
        fetched()
    github.tag = '"two"'
    assert fetched()["/traces/a.up"] == UPLINK


@pytest.mark.parametrize("without_length", [False, True])
def test_a_limit_holds_with_and_without_a_length(github: Github, *, without_length: bool) -> None:
    github.without_length = without_length
    with pytest.raises(UserError, match="--limit"):
        fetched(limit=100)


@pytest.mark.parametrize("leads_to", ["ftp://127.0.0.1/x", "file:///etc/passwd"])
def test_a_redirection_to_another_scheme_is_not_followed(github: Github, leads_to: str) -> None:
    github.leads_to = leads_to
    with pytest.raises(WavebedError, match=r"leads to|answers 302"):
        fetched()


def test_what_is_missing_is_one_line(github: Github) -> None:
    github.files.clear()
    with pytest.raises(WavebedError, match=r"the server answers 404 Not Found: give the files") as caught:
        fetched()
    assert caught.value.exit_status == 1


def test_a_server_that_is_not_there_is_one_line(github: Github, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "GITHUB", "http://127.0.0.1:1")
    with pytest.raises(WavebedError, match="set https_proxy if you need one"):
        fetched()
    assert github.asked == []


def test_the_proxy_of_the_environment_is_used(github: Github, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "GITHUB", "http://example.invalid")
    monkeypatch.setenv("http_proxy", github.address)
    assert fetched()["/traces/a.up"] == UPLINK
    assert github.asked[0][0] == f"http://example.invalid/some/made/archive/{COMMIT}.tar.gz"


def test_a_cache_that_cannot_be_written_is_one_line(github: Github, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    with pytest.raises(WavebedError, match=r"not a directory: name a folder that you can write with WAVEBED_CACHE"):
        fetched()
    assert github.asked == []


def test_two_commands_do_not_write_one_file(github: Github, tmp_path: Path) -> None:
    import fcntl

    part = tmp_path / f"cache/traces/made/{COMMIT}/archive.tar.gz.part"
    part.parent.mkdir(parents=True)
    with part.open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(WavebedError, match="another wavebed fetches it"):
            fetched()
    assert github.asked == []
