"""The Chinese pages say what the English ones say: the same commands, numbers and pictures, and one word for a term."""

from __future__ import annotations

import re

import pytest
from tests.docs.blocks import ROOT, pages
from tests.docs.languages import Pair, code, numbers, pairs, pictures

CHINESE = [page for page in pages() if page.startswith("docs/zh/")]
PAIRS = [pair for page in CHINESE for pair in pairs(page)]
OWN = {"docs/zh/glossary.md"}
"""Pages that translate no other."""


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair.page}-{pair.original}")
def test_a_chinese_page_has_the_commands_and_files_of_the_english_one(pair: Pair) -> None:
    assert code(pair.chinese) == code(pair.english)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair.page}-{pair.original}")
def test_a_chinese_page_has_the_numbers_of_the_english_one(pair: Pair) -> None:
    ours, theirs = numbers(pair.chinese), numbers(pair.english)
    assert (ours - theirs, theirs - ours) == ({}, {}), "more in Chinese, more in English"


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair.page}-{pair.original}")
def test_a_chinese_page_has_the_pictures_of_the_english_one(pair: Pair) -> None:
    assert pictures(pair.chinese) == pictures(pair.english)


def test_every_chinese_page_names_its_original() -> None:
    assert {pair.page for pair in PAIRS} == set(CHINESE) - OWN


def test_terms_are_those_of_the_glossary() -> None:
    _, _, glossary = (ROOT / "docs/zh/glossary.md").read_text(encoding="utf-8").partition("|---|")
    rejected = dict(re.findall(r"^\| [^|]+ \| ([^|]+) \| [^|]* \| ([^|]+) \|$", glossary, re.MULTILINE))
    found = [
        f"{page}: {word}: write {term}"
        for page in CHINESE
        if page not in OWN
        for term, words in rejected.items()
        for word in re.split(r"[、，]", words)
        if word.strip()
        and re.fullmatch(r"[\u4e00-\u9fff]+", word.strip())
        and word.strip() in (ROOT / page).read_text(encoding="utf-8")
    ]
    assert found == []


def test_a_changed_number_or_command_is_found() -> None:
    text = "Rate 5 Mbit/s.\n\n```sh\nwavebed doctor   # check\n```\n"
    assert numbers(text) != numbers(text.replace("5", "6"))
    assert code(text) == code(text.replace("check", "检查"))
    assert code(text) != code(text.replace("doctor", "demo"))
