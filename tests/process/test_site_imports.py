"""Recordings and saved pages become sites, and write nowhere else."""

from __future__ import annotations

import base64
import io
import itertools
import json
import subprocess
import time
from typing import TYPE_CHECKING, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from wavebed.cli import main
from wavebed.errors import UserError
from wavebed.lab.tools import find
from wavebed.workload.serve import VirtualHost
from wavebed.workload.serve.servers import nginx_configuration
from wavebed.workload.site import BuiltSite, load_site

if TYPE_CHECKING:
    from pathlib import Path

Table: TypeAlias = dict[str, object]

PAGE = "https://www.shop.example/"


def answer(
    url: str, *, method: str = "GET", status: int = 200, to: str = "", wire: int = -1, **content: object
) -> Table:
    return {
        "request": {"method": method, "url": url},
        "response": {"status": status, "redirectURL": to, "bodySize": wire, "content": content},
    }


def imported(folder: Path, *entries: object) -> BuiltSite:
    (folder / "page.har").write_text(json.dumps({"log": {"version": "1.2", "entries": entries}}))
    return load_site(str(folder / "page.har"), folder / "cache")


def page(text: str = "<p>hello") -> Table:
    return answer(PAGE, mimeType="text/html; charset=iso-8859-1", text=text, size=len(text))


def test_bodies_are_kept_as_text_or_base64(tmp_path: Path) -> None:
    data = bytes(range(256))
    built = imported(
        tmp_path,
        page("<p>grün"),
        answer(
            "https://cdn.shop.example/a/b.bin?x=1#there",
            mimeType="application/x-thing",
            text=base64.b64encode(data).decode(),
            encoding="base64",
            size=256,
        ),
    )
    first, second = built.site.objects
    assert (built.site.first, [origin.name for origin in built.site.origins]) == (
        "/",
        ["www.shop.example", "cdn.shop.example"],
    )
    assert built.path_of(first).read_bytes() == "<p>grün".encode()
    assert first.content_type == "text/html; charset=utf-8"
    assert (second.path, built.path_of(second).read_bytes()) == ("/a/b.bin?x=1", data)
    assert built.routes["cdn.shop.example"]["/a/b.bin?x=1"].file == second.file
    assert (built.site.scheme, built.site.notes) == ("https", ())


def test_what_was_not_recorded_is_replaced_by_its_kind_and_size(tmp_path: Path) -> None:
    built = imported(
        tmp_path,
        page(),
        answer(PAGE + "a.webp", mimeType="image/webp", size=54321, wire=54321),
        answer(PAGE + "b.gif", mimeType="image/gif", size=43),
        answer(PAGE + "c.js", mimeType="application/javascript", size=9000, wire=3000),
        answer(PAGE + "d.woff2", mimeType="font/woff2", size=20_000),
    )
    objects = {entry.path: entry for entry in built.site.objects}
    for path in ("/a.webp", "/b.gif"):
        with Image.open(io.BytesIO(built.path_of(objects[path]).read_bytes())) as picture:
            picture.load()
    assert [objects[f"/{name}"].bytes for name in ("a.webp", "c.js", "d.woff2")] == [54321, 3000, 20_000]
    assert objects["/a.webp"].content_type == "image/jpeg"
    assert built.site.notes == ("bodies that were not recorded, replaced by ones of that size and kind: 4",)


def test_status_and_redirects_are_kept(tmp_path: Path) -> None:
    built = imported(
        tmp_path,
        answer("http://shop.example/", status=301, to="https://shop.example/"),
        answer("https://shop.example/", status=302, to="/start?a=1"),
        answer("https://shop.example/start?a=1", mimeType="text/html", text="<p>", size=3),
        answer("https://shop.example/gone.js", status=404, mimeType="text/html", text="no", size=2),
        answer("https://shop.example/kept.css", status=304, mimeType="text/css", size=500),
    )
    routes = built.routes["shop.example"]
    assert (routes["/"].status, routes["/"].location) == (302, "https://shop.example/start?a=1")
    assert (built.site.first, built.site.scheme) == ("/", "https")
    assert (routes["/gone.js"].status, routes["/kept.css"].status) == (404, 200)
    assert "redirects left out that change nothing but the scheme: 1" in built.site.notes


def test_every_status_is_one_that_nginx_can_answer_with(tmp_path: Path) -> None:
    codes = [200, 201, 202, 203, 204, 205, 206, 226, 300, 304, 400, 404, 410, 418, 444, 451, 499, 500, 503, 599]
    built = imported(
        tmp_path,
        page(),
        *(answer(f"{PAGE}{code}", status=code, mimeType="text/plain", text="x", size=1) for code in codes),
    )
    name = built.site.origins[0].name
    host = VirtualHost(name, "127.0.0.1", 18080, built.folder / name, routes=built.routes[name])
    configuration = tmp_path / "nginx.conf"
    configuration.write_text(nginx_configuration([host], tmp_path, None, http2=False))
    argv = [find("nginx"), "-t", "-e", "stderr", "-p", str(tmp_path), "-c", str(configuration)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert "syntax is ok" in done.stderr, done.stderr
    given = {code: host.routes[f"/{code}"].status for code in codes}
    assert {code: status for code, status in given.items() if code != status} == {
        **dict.fromkeys((201, 202, 203, 205, 206, 226, 300, 304), 200),
        **dict.fromkeys((444, 499), 400),
    }


def test_what_cannot_be_served_is_left_out_and_counted(tmp_path: Path) -> None:
    built = imported(
        tmp_path,
        page(),
        answer(PAGE + "send", method="POST", mimeType="text/plain", text="x", size=1),
        answer("data:text/plain,hello", mimeType="text/plain"),
        answer("https://[::1]/", mimeType="text/plain"),
        answer(PAGE + "x" * 3000, mimeType="text/plain", text="x", size=1),
        answer(PAGE + "failed", status=0, mimeType="x-unknown"),
        page("again"),
    )
    assert len(built.site.objects) == 1
    assert {note.rpartition(": ")[0] for note in built.site.notes} == {
        "requests left out that are not GET",
        "requests left out that are not HTTP",
        "requests left out whose host has no name",
        "requests left out whose URL is longer than 2000 characters",
        "requests left out that had no answer",
        "repeated requests of a URL, which get one answer",
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not JSON: .*"),
        ("[]", "the document: an array is not an object: .*"),
        ("{}", "log: None is not an object: .*"),
        ('{"log": {}}', "log.entries: None is not an array: .*"),
        ('{"log": {"entries": []}}', "log.entries: has no document .*"),
        ('{"log": {"entries": [1]}}', "log.entries.0: 1 is not an object: .*"),
        ('{"log": {"entries": [{}]}}', "log.entries.0.request: None is not an object: .*"),
        ('{"log": {"entries": [{"request": {}, "response": 1}]}}', "log.entries.0.response: 1 is not an object: .*"),
    ],
)
def test_what_is_no_recording_is_answered_by_one_line(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "bad.har").write_text(text)
    with pytest.raises(UserError, match=rf"bad\.har: {said}") as caught:
        load_site(str(tmp_path / "bad.har"), tmp_path / "cache")
    assert str(caught.value).isprintable()


HOSTILE = [
    PAGE + "../../../etc/passwd",
    PAGE + "%2e%2e/%2e%2e/etc/passwd",
    PAGE + "a\0b",
    "https://../../x",
    "https://..%2f..%2f/x",
    "https://www.shop.example\\..\\x/",
    "https://" + "a" * 300 + "/",
    "https://.hidden/",
    PAGE + "n" * 1900,
    PAGE + '";}\n http { include /etc/passwd; #',
]


@pytest.mark.parametrize("url", HOSTILE)
def test_hostile_addresses_stay_in_the_folder(url: str, tmp_path: Path) -> None:
    built = imported(tmp_path, page(), answer(url, mimeType="text/plain", text="evil", size=4))
    _stays_inside(tmp_path, built)


def test_info_shows_each_choice_among_the_entries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WAVEBED_CACHE", str(tmp_path / "cache"))
    entries = [answer(PAGE, status=503, mimeType="text/html", text="busy", size=4), page()]
    (tmp_path / "page.har").write_text(json.dumps({"log": {"entries": entries}}))
    assert main(["site", "info", str(tmp_path / "page.har")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("note: ")] == [
        "note: URLs that get a later answer, because the first is incomplete, an error, or of another page: 1",
        "note: repeated requests of a URL, which get one answer: 1",
    ]


def _stays_inside(folder: Path, built: BuiltSite) -> None:
    files = {file for file in folder.rglob("*") if file.is_file()}
    inside = {built.path_of(entry) for entry in built.site.objects if entry.file}
    assert files == inside | {built.folder / ".site.json", folder / "page.har"}
    assert all(path.isprintable() and "\n" not in path for of in built.routes.values() for path in of)


url_text = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(max_size=40),
    st.builds("https://{}/{}".format, st.text(max_size=20), st.text(max_size=40)),
    st.builds(
        "http://{}/{}".format, st.from_regex(r"[a-z.]{1,12}", fullmatch=True), st.text("./\\%2eEfF\0", max_size=30)
    ),
)
entries = st.lists(
    st.builds(
        lambda url, status, to, text, mime: answer(url, status=status, to=to, text=text, mimeType=mime, size=len(text)),
        url_text,
        st.sampled_from([0, 200, 204, 301, 404, 999]),
        url_text,
        st.text(max_size=20),
        st.one_of(st.text(max_size=20), st.sampled_from(["text/html", "image/png", "text/../../x"])),
    ),
    max_size=8,
)


@given(entries)
def test_whatever_a_recording_says_nothing_is_written_outside(
    tmp_path_factory: pytest.TempPathFactory, found: list[object]
) -> None:
    folder = tmp_path_factory.mktemp("har")
    _stays_inside(folder, imported(folder, page(), *found))


def test_a_saved_page_is_served_with_its_folder_and_says_what_is_not_there(tmp_path: Path) -> None:
    files = tmp_path / "My Page_files"
    files.mkdir()
    (files / "style sheet.css").write_text("p{background:url(https://img.other.example/a.png)}")
    (files / "a.js").write_text("1")
    (tmp_path / "secret.txt").write_text("not part of it")
    (files / "link.txt").symlink_to(tmp_path / "secret.txt")
    (tmp_path / "My Page.html").write_text(
        '<link rel="stylesheet" href="My%20Page_files/style%20sheet.css"><a href="https://elsewhere.example/">'
        '<script src="//cdn.other.example/x.js"></script>'
    )
    built = load_site(str(tmp_path / "My Page.html"), tmp_path / "cache")
    assert built.site.first == "/My%20Page.html"
    kinds = {entry.path: entry.kind for entry in built.site.objects}
    assert kinds == {
        "/My%20Page.html": "html",
        "/My%20Page_files/style%20sheet.css": "css",
        "/My%20Page_files/a.js": "js",
    }
    assert built.site.notes == (
        "hosts that it loads from and that were not saved: 2: cdn.other.example, img.other.example",
    )
    (files / "a.js").write_text("2")
    assert load_site(str(tmp_path / "My Page.html"), tmp_path / "cache").folder != built.folder


def test_a_folder_is_a_page_if_it_has_an_index(tmp_path: Path) -> None:
    folder = tmp_path / "site"
    (folder / "img").mkdir(parents=True)
    with pytest.raises(UserError, match=r"site: has no index\.html: name a saved page"):
        load_site(str(folder), tmp_path / "cache")
    (folder / "index.html").write_text("<img src=img/a.png>")
    (folder / "img" / "a.png").write_bytes(b"x")
    built = load_site(str(folder), tmp_path / "cache")
    assert [entry.path for entry in built.site.objects] == ["/index.html", "/img/a.png"]


def test_a_saved_page_does_not_lead_elsewhere_by_links(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "index.html").write_text("private")
    (tmp_path / "page.html").write_text("<p>")
    (tmp_path / "page_files").symlink_to(elsewhere)
    built = load_site(str(tmp_path / "page.html"), tmp_path / "cache")
    assert [entry.path for entry in built.site.objects] == ["/page.html"]
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "index.html").symlink_to(elsewhere / "index.html")
    with pytest.raises(UserError, match=r"has no index\.html"):
        load_site(str(tmp_path / "site"), tmp_path / "cache")


def test_the_document_itself_is_no_link(tmp_path: Path) -> None:
    (tmp_path / "secret.html").write_text("private")
    (tmp_path / "page.html").symlink_to("secret.html")
    with pytest.raises(UserError, match=r"page\.html: is a symbolic link, which is not followed"):
        load_site(str(tmp_path / "page.html"), tmp_path / "cache")


def test_a_recording_cannot_ask_for_more_than_an_import_may_be(tmp_path: Path) -> None:
    asked = [answer(f"{PAGE}{n}.js", mimeType="text/javascript", size=100_000_000) for n in range(4000)]
    with pytest.raises(UserError, match=r"page\.har: its bodies are larger than 200000000 bytes together"):
        imported(tmp_path, page(), *asked)
    assert list((tmp_path / "cache" / "sites").iterdir()) == []


def test_an_import_that_takes_too_long_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wavebed.workload.site.load.IMPORT_LIMIT_S", 0.5)
    monkeypatch.setattr("wavebed.workload.site.load.WAIT_FOR_A_SECOND", 100)  # on a machine as busy as may be
    monkeypatch.setattr("wavebed.workload.site.har.filler", lambda *_: any(itertools.repeat(False)))
    with pytest.raises(UserError, match=r"page\.har: takes longer than 0\.5 s to import"):
        imported(tmp_path, page(), answer(f"{PAGE}a.js", mimeType="text/javascript", size=1000))
    assert list((tmp_path / "cache" / "sites").iterdir()) == []


def test_an_import_that_waits_too_long_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wavebed.workload.site.load.IMPORT_LIMIT_S", 1.0)  # of its processor time
    monkeypatch.setattr("wavebed.workload.site.load.WAIT_FOR_A_SECOND", 1)
    monkeypatch.setattr("wavebed.workload.site.har.filler", lambda *_: time.sleep(60))
    with pytest.raises(UserError, match=r"page\.har: is not imported after 1 s"):
        imported(tmp_path, page(), answer(f"{PAGE}a.js", mimeType="text/javascript", size=1000))
    assert list((tmp_path / "cache" / "sites").iterdir()) == []


def test_an_import_cannot_take_all_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wavebed.workload.site.load.LEAST_MEMORY_BYTES", 64 << 20)
    (tmp_path / "page.har").write_text("[" + "[]," * 4_000_000 + "[]]")
    with pytest.raises(UserError, match=r"page\.har: takes too much memory to import"):
        load_site(str(tmp_path / "page.har"), tmp_path / "cache")


def test_a_saved_page_has_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "page.html").write_text("<p>")
    (tmp_path / "page_files").mkdir()
    with (tmp_path / "page_files" / "huge").open("wb") as huge:
        huge.truncate(200_000_001)
    with pytest.raises(UserError, match="more than 200 MB"):
        load_site(str(tmp_path / "page.html"), tmp_path / "cache")
    monkeypatch.setattr("wavebed.workload.site.saved.MAX_FOLDERS", 3)
    (tmp_path / "page_files" / "huge").unlink()
    (tmp_path / "page_files" / "a" / "b" / "c").mkdir(parents=True)
    with pytest.raises(UserError, match="more than 3 folders"):
        load_site(str(tmp_path / "page.html"), tmp_path / "cache")
