"""The Chinese pages of the studies are written from the English ones, and a text without a translation is told."""

from __future__ import annotations

import re
import shutil
import tomllib
from typing import TYPE_CHECKING

import pytest
import study_pages
from tests.docs.blocks import ROOT
from tests.docs.languages import numbers

if TYPE_CHECKING:
    from pathlib import Path

ENGLISH = "docs/validation/kau-e5g.md"
CHINESE = "docs/zh/kau-e5g.md"


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with the pages and the catalogue, with which the program works."""
    for folder in ("docs/validation", "docs/zh"):
        (tmp_path / folder).mkdir(parents=True)
    for name in study_pages.PAGES:
        for page in (f"docs/validation/{name}.md", f"docs/zh/{name}.md"):
            shutil.copy(ROOT / page, tmp_path / page)
    shutil.copy(ROOT / study_pages.CATALOGUE, tmp_path / study_pages.CATALOGUE)
    monkeypatch.setattr(study_pages, "ROOT", tmp_path)
    return tmp_path


def change(file: Path, before: str, after: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert before in text
    file.write_text(text.replace(before, after), encoding="utf-8")


def test_the_chinese_pages_of_studies_are_written_from_the_english_ones(capsys: pytest.CaptureFixture[str]) -> None:
    status = study_pages.main(["--check"])
    assert capsys.readouterr().err == "", "run: python docs/zh/study_pages.py"
    assert status == 0


def test_an_entry_has_the_numbers_and_the_placeholders_of_its_text() -> None:
    catalogue = tomllib.loads((ROOT / study_pages.CATALOGUE).read_text(encoding="utf-8"))
    del catalogue["names"]
    place = re.compile(r"\{[#=]?(\w+)\}")
    differ = [
        english
        for entries in catalogue.values()
        for english, chinese in entries.items()
        if numbers(english) != numbers(chinese) or sorted(place.findall(english)) != sorted(place.findall(chinese))
    ]
    assert differ == []


def test_a_text_without_a_translation_is_told_and_nothing_is_written(
    copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = (copy / ENGLISH).read_text(encoding="utf-8").splitlines()
    with (copy / ENGLISH).open("a", encoding="utf-8") as page:
        page.write("\nA new sentence, of 3.\n\n| scene | a new cell |\n")
    written = (copy / CHINESE).read_bytes()
    assert study_pages.main([]) == 1
    assert capsys.readouterr().err.splitlines() == [
        f"{ENGLISH}:{len(lines) + 2}: no translation: A new sentence, of 3.",
        f"{ENGLISH}:{len(lines) + 4}: no translation: a new cell",
    ]
    assert (copy / CHINESE).read_bytes() == written


def test_numbers_that_are_counted_again_are_carried_over(copy: Path) -> None:
    change(copy / ENGLISH, "48 published figures: 41 reproduced, 4 not", "49 published figures: 45 reproduced, 1 not")
    change(copy / ENGLISH, "| 229 (207 to 280) | 0.64 | 24 | undecided", "| 331 (0.5 to 41) | 0.92 | 6 | reproduced")
    assert study_pages.main(["--check"]) == 1
    assert study_pages.main([]) == 0
    text = (copy / CHINESE).read_text(encoding="utf-8")
    assert "49 个发表的数字：45 个复现，1 个未复现，3 个未定；" in text
    assert "| 331（0.5 到 41） | 0.92 | 6 | 复现 |" in text


def test_an_entry_that_no_page_uses_and_a_page_that_was_edited_are_told(
    copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change(copy / CHINESE, "## 方法", "## 办法")
    assert study_pages.main(["--check"]) == 1
    assert capsys.readouterr().err == f"{CHINESE}: not what {study_pages.PROGRAM} writes\n"
    change(copy / study_pages.CATALOGUE, '"Method" =', '"Way" = "办法"\n"Method" =')
    assert study_pages.main([]) == 1
    assert capsys.readouterr().err == f"{study_pages.CATALOGUE}: no page has: Way\n"
