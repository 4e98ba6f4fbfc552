"""The structure of a page: a site made from it has it, and no content or name of a page is in it."""

from __future__ import annotations

import gzip
import json
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavebed.campaign.read import read_campaign
from wavebed.cli import main
from wavebed.errors import UserError
from wavebed.shipped import find
from wavebed.workload.site import load_site
from wavebed.workload.site.load import find_site
from wavebed.workload.site.model import BuiltSite
from wavebed.workload.site.profile import recorded_structure, saved_structure
from wavebed.workload.site.saved import find_page
from wavebed.workload.site.structure import Structure, StructureObject, plain_structure, structure_of
from wavebed.workload.site.structured import StructuredSite

if TYPE_CHECKING:
    from collections.abc import Mapping

PAGES = Path(__file__).parents[2] / ".." / "shared" / "data" / "sites"


def row(number: int, kind: str = "image", size: int = 3000, **keys: object) -> dict[str, object]:
    tags = {"image": "img", "script": "script", "style": "link", "document": "iframe"}
    more: dict[str, object] = {"by": 0, "at_byte": 1000 + 200 * number, "tag": tags[kind]} if number else {}
    return {"object": number, "type": kind, "bytes": size, **more, **keys}


DOCUMENT = row(0, "document", 20_000, gzip_bytes=6000)


def made(folder: Path, *objects: Mapping[str, object], **keys: object) -> BuiltSite:
    structure = structure_of({"page": "a page", "objects": [DOCUMENT, *objects], **keys}, Path("page.json"))
    (folder / "site").mkdir()
    return BuiltSite(StructuredSite(structure).build(folder / "site"), folder / "site")


def test_each_reference_stands_at_its_byte_and_sizes_are_exact(tmp_path: Path) -> None:
    built = made(
        tmp_path,
        row(1, "style", 900, in_head=True, how=["stylesheet"]),
        row(2, "script", 5000, in_head=True, how=["async"]),
        row(3, size=40_000),
        row(4, "script", 800, how=["defer"]),
        row(5, size=43),
    )
    text = (built.folder / "www.page.example/index.html").read_bytes()
    assert len(text) == 20_000
    assert text[1200:].startswith(b"<link rel=stylesheet href=/1.css>")
    assert text[1400:].startswith(b"<script async src=/2.js></script>")
    assert text[1600:].startswith(b"<img src=/3.jpg ")
    assert text[1800:].startswith(b"<script defer src=/4.js></script>")
    assert text.index(b"<body>") < 1600
    assert [entry.bytes for entry in built.site.objects] == [20_000, 900, 5000, 40_000, 800, 43]
    assert [entry.blocking for entry in built.site.objects] == [False, True, False, False, False, False]
    assert built.site.notes == ()


def test_images_have_area_by_their_bytes_and_stand_side_by_side(tmp_path: Path) -> None:
    document = row(0, "document", 400_000, gzip_bytes=50_000)
    images = [row(1, size=40_000), row(2, size=9000), row(3, size=900_000)]
    structure = structure_of({"page": "a page", "objects": [document, *images]}, Path("page.json"))
    StructuredSite(structure).build(tmp_path)
    text = (tmp_path / "www.page.example/index.html").read_text()
    sides = [(int(width), int(height)) for width, height in re.findall(r"<img src=\S+ width=(\d+) height=(\d+)>", text)]
    areas = [width * height for width, height in sides[:2]]
    assert areas == [pytest.approx(size * 1.1 / 2.1 / 0.30, rel=0.02) for size in (40_000, 9000)]
    assert sides[2] == (980, 735)
    assert "<div" not in text
    words = sum(len(part.split()) for part in re.findall("<p>([^<]*)</p>", text))
    assert 300 <= words <= 400


def test_text_has_its_size_as_gzip_too(tmp_path: Path) -> None:
    sizes = [(60_000, 20_000), (60_000, 5000), (30_000, 18_000)]
    objects = [row(index, "script", size, gzip_bytes=packed) for index, (size, packed) in enumerate(sizes, 1)]
    built = made(tmp_path, *objects, compressed=True)
    for entry, (size, packed) in zip(built.site.objects[1:], sizes, strict=True):
        data = built.path_of(entry).read_bytes()
        assert len(data) == entry.bytes == packed
        assert len(gzip.decompress(data)) == size
        plain = built.path_of(entry).with_suffix("").read_bytes()
        assert gzip.decompress(data) == plain
        assert packed - 300 <= len(gzip.compress(plain, 6)) <= packed


def test_a_script_reveals_what_it_finds_and_computes_for_its_bytes(tmp_path: Path) -> None:
    built = made(
        tmp_path,
        row(1, "script", 10_000),
        row(2, "script", 500, by=1, at_byte=9000),
        row(3, by=2, at_byte=0),
        row(4, "style", 700, by=1, at_byte=100),
        script_ms_per_kb=2,
    )
    folder = built.folder / "www.page.example"
    assert b"performance.now()-t<20.0" in (folder / "1.js").read_bytes()
    assert b'a("script",{src:"/2.js"})' in (folder / "1.js").read_bytes()
    assert b'a("link",{rel:"stylesheet",href:"/4.css"})' in (folder / "1.js").read_bytes()
    assert b'a("img",{src:"/3.jpg"' in (folder / "2.js").read_bytes()
    assert b"/3.jpg" not in (folder / "index.html").read_bytes()


def test_a_style_has_its_fonts_and_pictures_and_the_page_shows_them(tmp_path: Path) -> None:
    built = made(
        tmp_path,
        row(1, "style", 4000, in_head=True),
        {"object": 2, "type": "font", "bytes": 12_000, "by": 1, "at_byte": 500, "host": 3},
        row(3, by=1, at_byte=900),
    )
    sheet = (built.folder / "www.page.example/1.css").read_bytes()
    assert sheet[500:].startswith(b"@font-face{font-family:f2;src:url(//h3.page.example/2.woff)}")
    assert sheet[900:].startswith(b".f3{")
    page = (built.folder / "www.page.example/index.html").read_bytes()
    assert b"<p class=f2>" in page
    assert b"<i class=f3>" in page
    assert [origin.name for origin in built.site.origins] == ["www.page.example", "h3.page.example"]


def test_a_summary_becomes_as_many_objects_and_bytes(tmp_path: Path) -> None:
    groups = [
        {"type": "document", "bytes": 20_000},
        {"type": "document", "count": 2, "bytes": 3000, "in": "document", "at": [0.8, 0.9], "tag": "iframe"},
        {"type": "style", "count": 2, "bytes": 8000, "in": "document", "at": [0.1, 0.2], "in_head": True},
        {"type": "image", "count": 7, "bytes": 70_001, "spread": 0.8, "in": "frame", "at": [0.5]},
    ]
    structure = structure_of({"page": "a page", "groups": groups}, Path("page.json"))
    assert len(structure.objects) == 12
    assert sum(each.bytes for each in structure.objects) == 101_001
    assert [each.at_byte for each in structure.objects[3:5]] == [2500, 3500]
    assert {each.by for each in structure.objects[5:]} == {1, 2}


MISTAKES: list[tuple[object, str]] = [
    ([], r"an array is not a table: write \{ … \}"),
    ({"objects": [DOCUMENT]}, r"page: is missing: write page = TEXT"),
    ({"page": "a"}, r"objects: has neither or both: write objects, or groups"),
    ({"page": "a", "objects": [DOCUMENT], "object": 1}, r"object: unknown key: did you mean 'objects'\?"),
    ({"page": "a", "objects": [row(1)]}, r"objects\.0\.object: 1 stands at place 0: number objects 0, 1, 2, …"),
    ({"page": "a", "objects": [row(0)]}, r"objects\.0: is not a document that nothing refers to: put .*"),
    ({"page": "a", "objects": [DOCUMENT, row(1, by=7)]}, r"objects\.1\.by: 7 is no other object: write a number .*"),
    (
        {"page": "a", "objects": [DOCUMENT, row(1, by=2), row(2, by=1)]},
        r"objects\.1\.by: is found by what it finds: write another object",
    ),
    ({"page": "a", "objects": [DOCUMENT, row(1, size=-1)]}, r"objects\.1\.bytes: -1 is out of range: .*"),
    ({"page": "a", "objects": [DOCUMENT, row(1, type="movie")]}, r"objects\.1\.type: 'movie' is not a choice: .*"),
    ({"page": "a", "objects": [DOCUMENT, row(1, tag="<img")]}, r"objects\.1\.tag: '<img' is not the name of .*"),
    ({"page": "a", "groups": [{"type": "image", "bytes": 3, "at": [2]}]}, r"groups\.0\.at\.0: 2 is not a fraction: .*"),
    (
        {"page": "a", "groups": [{"type": "document", "bytes": 900}, {"type": "image", "bytes": 3, "in": "style"}]},
        r"groups\.1\.in: 'style' is not above: put its group first",
    ),
]


@pytest.mark.parametrize(("document", "said"), MISTAKES, ids=range(len(MISTAKES)))
def test_a_mistake_in_a_structure_is_one_line(document: object, said: str, tmp_path: Path) -> None:
    file = tmp_path / "page.json"
    file.write_text(json.dumps(document))
    with pytest.raises(UserError) as caught:
        load_site(str(file), tmp_path / "cache")
    message = str(caught.value)
    assert message.isprintable()
    assert re.fullmatch(said, message.removeprefix(f"{file}: ")), message


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nowhere.har", r"nowhere\.har: no such file or directory: name a recording of one page"),
        ("a.txt", r"a\.txt: is no recording or saved page: name a \.har, a \.html or a folder with index\.html"),
        ("a.json", r"a\.json: is not JSON .*: name the structure of a page"),
        ("empty", r"empty: has no index\.html: name a saved page"),
    ],
)
def test_a_page_that_cannot_be_profiled_is_one_line(
    name: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("text")
    (tmp_path / "a.json").write_text("{")
    (tmp_path / "empty").mkdir()
    assert main(["site", "profile", name]) == 2
    assert re.fullmatch(rf"wavebed: {said}\n", capsys.readouterr().err)


def _kept(structure: Structure) -> list[StructureObject]:
    return sorted(structure.objects, key=lambda each: (each.at_byte or 0, each.type, each.bytes))


@given(st.data())
def test_the_profile_of_a_made_page_is_its_structure(data: st.DataObject) -> None:
    objects: list[dict[str, object]] = [row(0, "document", 30_000, gzip_bytes=9000)]
    finders = [0]
    for number in range(1, data.draw(st.integers(1, 8)) + 1):
        kind = data.draw(st.sampled_from(["image", "script", "style", "document"]))
        size = data.draw(st.integers(1500, 9000)) if kind != "image" else data.draw(st.integers(2100, 9000))
        by = data.draw(st.sampled_from(finders))
        how = data.draw(st.sampled_from([[], ["async"], ["defer"]])) if kind == "script" else []
        at = 200 + 1000 * number if by == 0 else 200 + 100 * number
        objects.append(row(number, kind, size, by=by, at_byte=at, how=["stylesheet"] if kind == "style" else how))
        if kind == "document":
            finders.append(number)
    structure = structure_of({"page": "a", "objects": objects}, Path("page.json"))
    with tempfile.TemporaryDirectory() as folder:
        StructuredSite(structure).build(Path(folder))
        found = saved_structure(find_page(Path(folder) / "www.page.example").files())
    assert [(each.type, each.bytes, each.at_byte, each.tag, each.how) for each in _kept(found)] == [
        (each.type, each.bytes, each.at_byte, each.tag, each.how) for each in _kept(structure)
    ]


SECRETS = st.lists(st.text("qxz", min_size=6, max_size=9), min_size=9, max_size=9, unique=True)


@given(SECRETS, st.sampled_from(["folder", "har"]))
def test_no_content_name_or_address_is_in_a_structure(secrets: list[str], form: str) -> None:
    title, image, style, font, script, later, host, letters, other = secrets
    page = (
        f'<!doctype html><html><head><title>{title}</title><meta name=viewport content="width=device-width">'
        f'<link rel=stylesheet href="{style}.css"><script src={script}.js class={letters}></script></head>'
        f'<body onload={other}><p>{letters}</p><img src="{image}.png?{title}" width=30 height=20 alt={other}>'
        f"<noscript><img src={later}.png></noscript><{letters}x y={title}></body></html>"
    )
    sheet = f"@font-face{{font-family:{title};src:url('{font}.woff')}}.{letters}{{color:red}}"
    files = {
        "index.html": page,
        f"{style}.css": sheet,
        f"{font}.woff": other,
        f"{image}.png": letters,
        f"{script}.js": f"var {title} = '/{later}.png'; // {other}",
        f"{later}.png": title,
    }
    with tempfile.TemporaryDirectory() as folder:
        if form == "folder":
            place = Path(folder) / "page"
            place.mkdir()
            for name, text in files.items():
                (place / name).write_text(text)
            structure = saved_structure(find_page(place).files())
        else:
            place = Path(folder) / "page.har"
            place.write_text(_recording(files, f"{host}.example", f"cdn.{host}.example", f"?{title}"))
            structure = recorded_structure(place, place.read_bytes())
    text = json.dumps(plain_structure(structure))
    assert not [secret for secret in secrets if secret in text]
    assert structure.viewport == "device"
    by = {each.type: each for each in structure.objects if each.object}
    numbers = {each.type: each.object for each in structure.objects}
    assert by["style"].by == by["script"].by == 0
    assert by["font"].by == numbers["style"]
    images = [each for each in structure.objects if each.type == "image"]
    assert {each.by for each in images} == {0, numbers["script"]}
    shown = next(each for each in images if each.by == 0)
    assert (shown.width, shown.height, shown.tag, shown.in_head) == (30, 20, "img", False)
    assert structure_of(json.loads(text), Path("page.json")).objects == structure.objects


def _recording(files: dict[str, str], host: str, other: str, query: str) -> str:
    types = {"html": "text/html", "css": "text/css", "js": "text/javascript", "woff": "font/woff", "png": "image/png"}
    entries = []
    for name, text in files.items():
        url = f"https://{host}/{'' if name == 'index.html' else name}"
        if name.endswith(".png") and "src" in files["index.html"].partition(name)[0][-8:]:
            url += query
        kind = types[name.rpartition(".")[2]]
        content = {"size": len(text), "mimeType": kind, "text": text}
        response = {"status": 200, "redirectURL": "", "bodySize": len(text) // 2, "content": content}
        entries.append({"request": {"method": "GET", "url": url}, "response": response})
    entries.append(
        {
            "request": {"method": "GET", "url": f"https://{other}/x"},
            "response": {"status": 200, "redirectURL": "", "content": {"size": 5, "mimeType": "text/plain"}},
            "_initiator": {"type": "script", "stack": {"callFrames": [{"url": entries[4]["request"]["url"]}]}},  # type: ignore[index]
        }
    )
    return json.dumps({"log": {"version": "1.2", "pages": [], "entries": entries}})


def test_a_recording_without_a_page_is_one_line() -> None:
    with pytest.raises(UserError, match=r"\Aa\.har: .*"):
        recorded_structure(Path("a.har"), b"[]")


def test_hosts_are_numbers_and_an_initiator_is_the_finder(tmp_path: Path) -> None:
    files = {"index.html": "<script src=app.js></script>", "a.css": "", "b.woff": "", "c.png": "", "app.js": "go()"}
    (tmp_path / "page.har").write_text(_recording(files, "a.example", "b.example", ""))
    structure = recorded_structure(tmp_path / "page.har", (tmp_path / "page.har").read_bytes())
    assert [each.host for each in structure.objects] == [0, 0, 0, 0, 0, 1]
    assert structure.objects[5].by == 4


def test_a_structure_of_the_study_s_pages_is_built_whole(tmp_path: Path) -> None:
    for file in sorted(PAGES.glob("bing.json")):
        built = load_site(str(file), tmp_path)
        given_bytes = sum(each["bytes"] for each in json.loads(file.read_text())["objects"])
        assert given_bytes <= built.site.bytes <= 1.001 * given_bytes
        found = saved_structure(find_page(built.folder / built.site.origins[0].folder).files())
        assert len(found.objects) == len(built.site.objects)


def test_structures_of_a_folder_take_the_place_of_summaries_by_their_name(tmp_path: Path) -> None:
    (tmp_path / "amazon.json").write_text(json.dumps({"page": "a", "objects": [DOCUMENT]}))
    campaign = read_campaign(find("kau-e5g-structure", "campaign", "campaigns"), sites=tmp_path)
    sites = {(cell.levels["site"], str(cell.changes["workload.web.site"])) for cell in campaign.cells}
    assert ("amazon", str(tmp_path / "amazon.json")) in sites
    assert ("cnn", "kau-cnn") in sites


def test_the_shipped_summaries_have_the_published_sizes() -> None:
    published = {"google": (10, 1.1), "tripadvisor": (48, 6.5), "cnn": (148, 10.0)}
    for name, (count, megabytes) in published.items():
        file = find_site(f"kau-{name}")
        structure = structure_of(json.loads(file.read_text()), file)
        assert len(structure.objects) == count
        assert sum(each.bytes for each in structure.objects) == pytest.approx(megabytes * 1e6, rel=1e-3)
