"""The documentation stays short: what people wrote by hand has a limit, generated pages count for nothing."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tests.docs.blocks import ROOT

MOST_WORDS = 77_000
"""70 000 for one device behind one radio; 3 000 for cells of devices, with their validation and two uses."""
MOST_README_LINES = 120
GENERATED = {
    "docs/development/tested-commands.md",
    *(
        f"docs/reference/{name}.md"
        for name in ("api", "command-line", "environment", "formats", "outputs", "python", "scenario", "scene", "site")
    ),
}
"""Pages that a program writes."""
_GENERATED_PART = re.compile(
    r"<!-- modules: written by .*?<!-- end of modules -->|<!-- table by .*?<!-- end of table -->", re.DOTALL
)
_OTHERS = {"dist", "node_modules", "runs", "target"}
"""Folders without pages of the repository."""


def pages_by_hand() -> list[Path]:
    """Return every Markdown file of the repository that people write."""
    found = []
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [
            name for name in folders if name not in _OTHERS and (not name.startswith(".") or name == ".github")
        ]
        found += [Path(folder, name) for name in files if name.endswith(".md")]
    return [file for file in sorted(found) if file.relative_to(ROOT).as_posix() not in GENERATED]


def words(file: Path) -> int:
    """Return the number of words of a page, as `wc -w` counts, without its generated parts."""
    return len(_GENERATED_PART.sub("", file.read_text(encoding="utf-8")).split())


def test_the_pages_by_hand_have_no_more_words_than_a_reader_takes() -> None:
    assert all((ROOT / page).exists() for page in GENERATED)
    found = {file.relative_to(ROOT).as_posix(): words(file) for file in pages_by_hand()}
    longest = sorted(found, key=lambda page: -found[page])[:20]
    total = sum(found.values())
    told = ", ".join(f"{page} {found[page]}" for page in longest)
    assert total <= MOST_WORDS, f"{total} words; the longest pages: {told}"


def test_readme_is_read_in_one_sitting() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").count("\n")
    assert lines <= MOST_README_LINES
