"""The shipped sites in Chromium: it asks for every object once, and paints what is said to be above the fold."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from site_browser import PHONE, visit_site
from tests.samples_by_seed import sample

from wavebed.workload.site import load_site

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("name", sample(["google", "amazon", "cnn"], 1))
def test_a_browser_asks_for_every_object_once_and_has_nothing_to_complain_about(name: str, tmp_path: Path) -> None:
    built = load_site(name, tmp_path)
    visit = visit_site(built)
    assert visit.unknown == []
    assert visit.said == []
    assert Counter(visit.asked) == Counter((entry.origin, entry.path) for entry in built.site.objects)
    assert visit.fonts == sum(entry.kind == "font" for entry in built.site.objects)
    tops = dict(visit.tops)
    main = built.site.origins[0].name
    shown = 0
    for entry in built.site.objects:
        if entry.kind != "image":
            continue
        source = entry.path if entry.origin == main else f"//{entry.origin}{entry.path}"
        if source in tops and "pixels" not in entry.path:
            assert (tops[source] < PHONE["height"]) == entry.above_fold, entry.path
            shown += 1
    assert shown > 0
