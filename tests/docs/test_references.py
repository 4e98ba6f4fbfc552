"""Pages name files of this repository that exist."""

from __future__ import annotations

import re

from tests.docs.blocks import ROOT, pages

FILES = re.compile(
    r"`((?:benches|crates|docs|edge|fuzz|packaging|plugins|python|scripts|tests)/[\w./-]+\.(?:py|rs|toml|json|sh|md))`"
)


def test_a_page_names_only_files_that_exist() -> None:
    named = {(page, name) for page in pages() for name in FILES.findall((ROOT / page).read_text(encoding="utf-8"))}
    assert len(named) > 20
    assert [(page, name) for page, name in sorted(named) if not (ROOT / name).exists()] == []
