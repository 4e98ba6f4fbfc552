"""Sites: specifications, types of content, what is kept beside a trial, and the command."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path as FilePath
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from wavebed.cli import main
from wavebed.errors import UserError
from wavebed.workload.site import load_site
from wavebed.workload.site.model import type_of_file
from wavebed.workload.site.reference import reference_page
from wavebed.workload.site.saved import keep_site, kept_site

if TYPE_CHECKING:
    from pathlib import Path


TOP = (
    'title = "a shop"\nsource = "illustrative"\norigins = ["www.shop.example", "cdn.shop.example"]\ndocument = "20kb"\n'
)


def group(**keys: object) -> str:
    given = {"name": "things", "kind": "image", "bytes": "50kb", **keys}
    lines = [f"{key.replace('_', '-')} = {value}" for key, value in given.items() if value is not None]
    return "\n[[objects]]\n" + "\n".join(
        line if line.split(" = ")[1] in ("true", "false") or line.split(" = ")[1].isdigit() else _text(line)
        for line in lines
    )


def _text(line: str) -> str:
    key, _, value = line.partition(" = ")
    return f'{key} = "{value}"'


STYLE = group(name="style", kind="css", bytes="9kb")
MISTAKES = {
    "": r"title: is missing: write title = TEXT",
    "title = [": r"is not TOML: .*",
    TOP + "sorce = 1\n": r"sorce: unknown key: did you mean 'source'\?",
    TOP.replace('"20kb"', "20"): r'document: 20 has no unit: write text such as "64kb"',
    TOP.replace('"20kb"', '"10b"'): r"document: has 10 bytes: write at least 600b",
    TOP.replace(
        '"www.shop.example"', '"WWW shop"'
    ): r"origins\.0: 'WWW shop' is not a host name: write one in small .*",
    TOP.replace('"cdn.shop.example"', '"www.shop.example"'): r"origins\.1: .* is there twice: leave one out",
    TOP.replace('["www.shop.example", "cdn.shop.example"]', '"x"'): r"origins: 'x' is not an array of names: write .*",
    TOP + 'colour = "red"\n': r"colour: 'red' is not a colour: write one such as .*",
    TOP + 'layout = "gird"\n': r"layout: 'gird' is not a choice: did you mean 'grid'\?",
    TOP + "seed = -1\n": r"seed: -1 is out of range: write a whole number from 0 to \d+",
    TOP + "objects = 3\n": r"objects: 3 is not an array of tables: write \[\[objects\]\] above each one",
    TOP + group(name=None): r"objects\.0\.name: is missing: write name = NAME",
    TOP + group(kind="picture"): r"objects\.0\.kind: 'picture' is not a choice: write one of .*",
    TOP + group(size="1kb"): r"objects\.0\.size: unknown key: .*",
    TOP + group(bytes=None): r"objects\.0\.bytes: is missing: write bytes = \"SIZE\" for all together, .*",
    TOP + group(each="5kb"): r"objects\.0\.each: excludes bytes: leave one of them out",
    TOP + group(count=0): r"objects\.0\.count: 0 is out of range: .*",
    TOP + group(count=100): r"objects\.0\.bytes: has 50000 bytes for 100: jpeg image has at least 2000b: write 200000b",
    TOP + group(bytes=None, each="1kb"): r"objects\.0\.each: has 1000 bytes: jpeg image has at least 2000b",
    TOP + group(origin="img.shop.example"): r"objects\.0\.origin: 'img\.shop\.example' is not in origins: write it .*",
    TOP + group(needs="app"): r"objects\.0\.needs: 'app' is not above: write one of document",
    TOP + group(kind="font"): r"objects\.0\.needs: 'document' \(html\) cannot refer to font: write a group of css",
    TOP
    + STYLE
    + group(kind="json", needs="style"): r"objects\.1\.needs: 'style' \(css\) cannot refer to json: .* of js",
    TOP + group() + group(): r"objects\.1\.name: 'things' is the name of another one: write a name of its own",
    TOP + group(chain="true"): r"objects\.0\.chain: does not belong to image: leave it out",
    TOP + STYLE + group(kind="js", shape="card"): r"objects\.1\.shape: does not belong to js: leave it out",
    TOP + group(load="defer"): r"objects\.0\.load: 'defer' is not for image: write one of eager, lazy",
    TOP + group(spread="0.5"): r"objects\.0\.spread: .*",
    TOP
    + group(name="style", kind="css", bytes="200b"): r"objects 'style': 200 bytes do not hold what belongs there: .*",
    TOP + group(count=9, above_fold="true", shape="hero"): r"objects: pictures above the fold begin at \d+ px, .*",
    TOP
    + group(name="app", kind="js", bytes="9kb")
    + group(
        kind="js", needs="app", load="blocking"
    ): r"objects\.1\.load: a script that a script inserts does not block: .*",
}


@pytest.mark.parametrize("text", MISTAKES, ids=range(len(MISTAKES)))
def test_a_mistake_is_answered_by_one_line(text: str, tmp_path: Path) -> None:
    file = tmp_path / "shop.toml"
    file.write_text(text)
    with pytest.raises(UserError) as caught:
        load_site(str(file), tmp_path / "cache")
    message = str(caught.value)
    assert message.startswith(f"{file}: ")
    assert message.isprintable()
    assert re.fullmatch(MISTAKES[text], message.removeprefix(f"{file}: ")), message
    assert not list((tmp_path / "cache").rglob("*.html")), "nothing is left behind"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "nowhere",
            r"nowhere: no such file or site: write one of amazon, cnn, google, huffpost, kau-amazon, .*, tripadvisor",
        ),
        ("nowhere/x.toml", r"nowhere/x\.toml: no such file or directory: name a site's file"),
        ("nowhere.har", r"nowhere\.har: no such file or directory: name a recording"),
        ("nowhere.html", r"nowhere\.html: no such file: name a saved page"),
        ("a\0b", r".*is not a file: write its name"),
    ],
)
def test_a_site_that_does_not_exist_is_said_so(name: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=said):
        load_site(name, tmp_path)


def test_sizes_sum_exactly_and_spread_as_asked(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(
        TOP + group(count=20, bytes="999999b") + group(name="b", bytes=None, each="7kb", count=2)
    )
    built = load_site(str(tmp_path / "a.toml"), tmp_path / "cache")
    sizes = [entry.bytes for entry in built.site.objects if entry.path.startswith("/things/")]
    assert sum(sizes) == 999_999
    assert max(sizes) > 3 * min(sizes)
    assert [entry.bytes for entry in built.site.objects if entry.path.startswith("/b/")] == [7000, 7000]


def test_the_files_of_a_site_have_one_date_whenever_they_were_made(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(TOP + group(count=3))
    dates = set()
    for cache in ("first", "second"):
        built = load_site(str(tmp_path / "a.toml"), tmp_path / cache)
        dates |= {built.path_of(entry).stat().st_mtime for entry in built.site.objects if entry.file}
    assert len(dates) == 1


def test_what_finds_an_object_follows_from_the_groups(tmp_path: Path) -> None:
    text = (
        TOP
        + group(name="app", kind="js", bytes="9kb", count=2)
        + group(name="tags", kind="js", bytes="9kb", count=3, needs="app", chain="true", load="async")
        + group(needs="tags", count=4, bytes="30kb")
    )
    (tmp_path / "a.toml").write_text(text)
    found_in = {
        entry.path: entry.found_in for entry in load_site(str(tmp_path / "a.toml"), tmp_path / "c").site.objects
    }
    assert found_in["/"] == ""
    assert found_in["/app/2.js"] == "/"
    assert [found_in[f"/tags/{n}.js"] for n in (1, 2, 3)] == ["/app/1.js", "/tags/1.js", "/tags/2.js"]
    assert [found_in[f"/things/{n}.jpg"] for n in (1, 2, 3, 4)] == [f"/tags/{n}.js" for n in (1, 2, 3, 1)]


def test_a_site_of_another_seed_has_other_bytes_of_the_same_sizes_together(tmp_path: Path) -> None:
    sites = []
    for seed in (1, 2):
        (tmp_path / "a.toml").write_text(TOP + f"seed = {seed}\n" + group(count=3))
        sites.append(load_site(str(tmp_path / "a.toml"), tmp_path / "cache"))
    assert sites[0].folder != sites[1].folder
    assert sites[0].site.bytes == sites[1].site.bytes
    first = [built.path_of(built.site.objects[1]).read_bytes() for built in sites]
    assert first[0] != first[1]


def test_the_reference_page_of_sites_is_up_to_date() -> None:
    stored = (FilePath(__file__).parents[2] / "docs/reference/site.md").read_text(encoding="utf-8")
    assert stored == reference_page(), "run: python -m wavebed.workload.site.reference docs/reference/site.md"


def picture(form: str) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (2, 2)).save(stream, form)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("name", "data", "found"),
    [
        ("all.js", b"<html>", "text/javascript"),
        ("all.js.download", b"", "text/javascript"),
        ("all.js(1).download", b"", "text/javascript"),
        ("style(2).css", b"", "text/css"),
        ("saved_resource(1)", b"\xef\xbb\xbf\n<!-- x --><!DOCTYPE html><p>", "text/html"),
        ("js", b"!function(){return 1}();", "text/javascript"),
        ("gtm", b"\n// Copyright\n/* all */\nvar a={b:1};", "text/javascript"),
        ("loader", b"(self.webpackChunk=self.webpackChunk||[]).push([[1],{23:e=>{}}])", "text/javascript"),
        ("module", b"import {a} from './b'\nexport default a", "text/javascript"),
        ("css", b'@charset "utf-8";a{b:c}', "text/css"),
        ("css2", b"/* latin */\n@font-face {\n  font-family: 'R';\n}", "text/css"),
        ("load.php", b'a[href="x"]:not(.b) > p:hover,\n.c{color:red}', "text/css"),
        ("data", b'{"a": [1, 2]}', "application/json"),
        ("logo", b'<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"/>', "image/svg+xml"),
        ("pixel", picture("GIF"), "image/gif"),
        ("photo", picture("JPEG"), "image/jpeg"),
        ("photo", picture("PNG"), "image/png"),
        ("photo", picture("WEBP"), "image/webp"),
        ("font", b"wOF2\0\1", "font/woff2"),
        ("film", b"\0\0\0\x18ftypmp42", "video/mp4"),
        ("robots", b"nothing here", "text/plain"),
        ("blob", b"\x01\0\x02", "application/octet-stream"),
        ("empty", b"", "text/plain"),
    ],
)
def test_a_type_is_that_of_the_name_or_of_the_content(name: str, data: bytes, found: str) -> None:
    assert type_of_file(name, data) == found


@given(st.binary(max_size=200))
def test_any_content_has_a_type(data: bytes) -> None:
    assert "/" in type_of_file("x", data)


SPEC = 'title = "shop"\nsource = "made up"\norigins = ["www.shop.example"]\ndocument = "30kb"\n'


def recording() -> str:
    secret = [{"name": "Cookie", "value": "session=hunter2"}]
    page = {"mimeType": "text/html", "size": 4, "text": "<p>a"}
    picture = {"mimeType": "image/png", "size": 300}
    return json.dumps(
        {
            "log": {
                "creator": {"name": "hunter2"},
                "entries": [
                    {
                        "request": {"method": "GET", "url": "http://a.example/", "headers": secret, "cookies": secret},
                        "response": {"status": 200, "headers": secret, "content": page, "bodySize": 4},
                    },
                    {
                        "request": {"method": "GET", "url": "http://b.example/p.png"},
                        "response": {"status": 200, "content": picture, "bodySize": 300},
                    },
                    {
                        "request": {
                            "method": "POST",
                            "url": "http://a.example/hunter2",
                            "postData": {"text": "hunter2"},
                        },
                        "response": {"status": 200, "content": {"mimeType": "text/html", "text": "hunter2"}},
                    },
                ],
            }
        }
    )


def given_site(kind: str, folder: Path) -> Path:
    folder.mkdir()
    if kind == "specification":
        (folder / "shop.toml").write_text(SPEC)
        return folder / "shop.toml"
    if kind == "recording":
        (folder / "shop.har").write_text(recording())
        return folder / "shop.har"
    page = folder / ("index.html" if kind == "folder" else "shop.html")
    page.write_text('<img src="shop_files/a/b.png">')
    (folder / "shop_files" / "a").mkdir(parents=True)
    (folder / "shop_files" / "a" / "b.png").write_bytes(b"png")
    return folder if kind == "folder" else page


def test_what_a_recording_holds_beside_the_page_is_not_kept(tmp_path: Path) -> None:
    name = keep_site(str(given_site("recording", tmp_path / "given")), tmp_path / "run")
    assert "hunter2" not in (tmp_path / "run" / name).read_text()


def test_a_shipped_site_is_kept_by_its_name(tmp_path: Path) -> None:
    assert keep_site("cnn", tmp_path / "run") == "cnn"
    assert kept_site("cnn", tmp_path / "run") == "cnn"
    assert not (tmp_path / "run").exists()


def test_a_wrong_recording_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.har").write_text("[]")
    with pytest.raises(UserError, match=r"a\.har: the document: .* is not an object"):
        keep_site(str(tmp_path / "a.har"), tmp_path / "run")


@pytest.mark.parametrize("name", ["sites/cnn.toml", "cnn", f"sites/{'0' * 64}/..", f"sites/{'0' * 64}/a/../../b"])
def test_only_the_name_of_a_kept_site_is_looked_for_in_the_folder(name: str, tmp_path: Path) -> None:
    assert kept_site(name, tmp_path) == name


def test_info_counts_by_kind_and_origin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WAVEBED_CACHE", str(tmp_path))
    assert main(["site", "info", "google", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["objects"], said["bytes"], said["notes"]) == (10, 1_100_000, [])
    for rows in (said["by_kind"], said["by_origin"]):
        assert sum(row["objects"] for row in rows) == 10
        assert sum(row["bytes"] for row in rows) == 1_100_000
    assert said["folder"].startswith(str(tmp_path))
    assert main(["site", "info", "google"]) == 0
    assert "together" in capsys.readouterr().out


def test_a_site_that_does_not_exist_ends_with_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["site", "info", "nowhere"]) == 2
    assert capsys.readouterr().err.startswith("wavebed: nowhere: no such file or site: write one of ")
