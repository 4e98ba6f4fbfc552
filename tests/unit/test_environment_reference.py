"""The reference page of environment variables has every one that a program reads or sets."""

from __future__ import annotations

import re
from pathlib import Path

from wavebed.cli.references import VARIABLES, environment_page

ROOT = Path(__file__).resolve().parents[2]
SOURCES = (("python/wavebed", "*.py"), ("crates", "src/**/*.rs"), ("plugins", "src/**/*.py"))
NAME = re.compile(r"\bWAVEBED_[A-Z0-9]+(?:_[A-Z0-9]+)*\b")


def test_the_page_has_every_variable_of_the_sources_and_no_other() -> None:
    files = [file for folder, pattern in SOURCES for file in (ROOT / folder).rglob(pattern)]
    assert len(files) > 100
    # Tests of a crate stand at the end of its files.
    texts = [file.read_text(encoding="utf-8").partition("#[cfg(test)]")[0] for file in files]
    listed = {each.name for each in VARIABLES if each.name.startswith("WAVEBED_")}
    elsewhere = [text for text, file in zip(texts, files, strict=True) if file.stem != "references"]
    assert {name for text in elsewhere for name in NAME.findall(text)} == listed


def test_each_variable_stands_once() -> None:
    names = [each.name for each in VARIABLES]
    assert len(set(names)) == len(names)


def test_the_page_is_up_to_date_and_in_the_navigation() -> None:
    page = "docs/reference/environment.md"
    stored = (ROOT / page).read_text(encoding="utf-8")
    assert stored == environment_page(), f"run: python -m wavebed.cli.references {page}"
    assert "reference/environment.md" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
