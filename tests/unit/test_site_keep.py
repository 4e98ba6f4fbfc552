"""The site of a trial is kept beside its specification."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from wavebed.errors import UserError
from wavebed.workload.site.keep import keep_site, kept_site

if TYPE_CHECKING:
    from pathlib import Path


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


def given(kind: str, folder: Path) -> Path:
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
    name = keep_site(str(given("recording", tmp_path / "given")), tmp_path / "run")
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
