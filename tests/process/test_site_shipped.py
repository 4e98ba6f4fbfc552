"""Sites: those that come with the program, and those kept beside a specification."""

from __future__ import annotations

import hashlib
import io
import re
import shutil
from typing import TYPE_CHECKING

import pytest
from PIL import Image
from tests.unit.test_sites import SPEC, given_site, recording  # noqa: F401

from wavebed.workload.site import BuiltSite, load_site, shipped_sites
from wavebed.workload.site.saved import keep_site, kept_site

if TYPE_CHECKING:
    from pathlib import Path

    from wavebed.workload.site import BuiltSite


STUDY = {
    "google": (10, 1.1e6),
    "amazon": (130, 3.0e6),
    "tripadvisor": (48, 6.5e6),
    "huffpost": (114, 4.9e6),
    "cnn": (148, 10e6),
}
"""Objects and bytes of the table of kau-e5g."""
REFERENCE = re.compile(r"""(?:src=|href=|url\(|src:(?!url)|href:|fetch\()["']?([^"')>\s]+)""")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module", params=sorted(STUDY))
def built(request: pytest.FixtureRequest, cache: Path) -> BuiltSite:
    return load_site(request.param, cache)


def test_the_sites_of_the_study_are_shipped() -> None:
    assert set(STUDY) <= set(shipped_sites())


def test_a_site_has_the_objects_and_bytes_of_the_study(built: BuiltSite) -> None:
    count, size = STUDY[built.site.name]
    assert len(built.site.objects) == count
    assert built.site.bytes == pytest.approx(size, rel=0.01)
    assert "assumed" in built.site.source


def test_every_object_is_a_file_of_the_size_that_is_said_and_there_is_no_other_file(built: BuiltSite) -> None:
    files = {built.path_of(entry) for entry in built.site.objects}
    assert len(files) == len(built.site.objects)
    assert all(built.path_of(entry).stat().st_size == entry.bytes for entry in built.site.objects)
    folders = [built.folder / origin.folder for origin in built.site.origins]
    assert {file for folder in folders for file in folder.rglob("*") if file.is_file()} == files


def test_every_picture_can_be_decoded_and_no_two_are_alike(built: BuiltSite) -> None:
    colours = set()
    pictures = [entry for entry in built.site.objects if entry.kind == "image"]
    for entry in pictures:
        with Image.open(io.BytesIO(built.path_of(entry).read_bytes())) as picture:
            picture.load()
            assert (picture.format == "PNG") == (entry.content_type == "image/png")
            colours.add(picture.convert("RGB").resize((4, 4)).tobytes())
    # Single pixels may meet by chance; pictures do not.
    assert len(colours) >= 0.9 * len(pictures)


def test_every_reference_is_to_an_object_and_every_object_is_referred_to(built: BuiltSite) -> None:
    origin_of = {entry.path: entry.origin for entry in built.site.objects}
    assert len(origin_of) == len(built.site.objects), "paths are unique in the whole site"
    referred = set()
    for entry in built.site.objects:
        if entry.kind not in {"html", "css", "js"}:
            continue
        for target in REFERENCE.findall(built.path_of(entry).read_text("utf-8")):
            if target == "data:,":  # no icon
                continue
            host, slash, path = target[2:].partition("/") if target.startswith("//") else ("", "", target)
            assert host in ("", origin_of[slash + path]), target
            if entry.kind != "js" and not host:
                assert origin_of[path] == entry.origin, "it resolves against the page or style sheet itself"
            referred.add(slash + path)
    assert referred == set(origin_of) - {built.site.first}


def test_no_page_names_a_place_outside(built: BuiltSite) -> None:
    for entry in built.site.objects:
        if entry.kind in {"html", "css", "js", "json"}:
            text = built.path_of(entry).read_text("utf-8")
            assert "http:" not in text
            assert "https:" not in text


def test_the_same_specification_gives_the_same_bytes(built: BuiltSite, tmp_path: Path) -> None:
    again = load_site(built.site.name, tmp_path)
    assert again.folder != built.folder
    assert again.site == built.site
    for entry in built.site.objects:
        assert (
            hashlib.sha256(again.path_of(entry).read_bytes()).digest()
            == hashlib.sha256(built.path_of(entry).read_bytes()).digest()
        ), entry.path


def test_something_blocks_painting_and_something_is_above_the_fold(built: BuiltSite) -> None:
    assert any(entry.above_fold for entry in built.site.objects)
    if built.site.name != "google":
        assert {entry.kind for entry in built.site.objects if entry.blocking} == {"css", "js"}


def test_a_site_that_is_not_whole_is_built_again(cache: Path) -> None:
    built = load_site("google", cache)
    victim = built.path_of(built.site.objects[3])
    before = victim.read_bytes()
    victim.unlink()
    again = load_site("google", cache)
    assert again.folder == built.folder
    assert victim.read_bytes() == before
    (built.folder / ".site.json").write_text("{}")
    assert load_site("google", cache).site == built.site


def contents(built: BuiltSite) -> list[tuple[str, str, bytes]]:
    objects = built.site.objects
    return [(each.origin, each.path, built.path_of(each).read_bytes() if each.file else b"") for each in objects]


@pytest.mark.parametrize("kind", ["specification", "recording", "page", "folder"])
def test_a_kept_site_is_the_same_site_when_its_file_is_gone(kind: str, tmp_path: Path) -> None:
    file = given_site(kind, tmp_path / "given")
    before = load_site(str(file), tmp_path / "cache")
    name = keep_site(str(file), tmp_path / "run")
    assert keep_site(str(file), tmp_path / "run") == name
    shutil.rmtree(tmp_path / "given")
    shutil.move(tmp_path / "run", tmp_path / "elsewhere")
    kept = kept_site(name, tmp_path / "elsewhere")
    built = load_site(kept, tmp_path / "other cache")
    assert (contents(built), built.site.name) == (contents(before), before.site.name)
    assert keep_site(kept, tmp_path / "again") == name
