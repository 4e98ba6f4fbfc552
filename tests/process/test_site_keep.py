"""The site of a trial is kept beside its specification."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from tests.unit.test_site_keep import SPEC, given, recording  # noqa: F401

from wavebed.workload.site import load_site
from wavebed.workload.site.keep import keep_site, kept_site

if TYPE_CHECKING:
    from pathlib import Path

    from wavebed.workload.site import BuiltSite


def contents(built: BuiltSite) -> list[tuple[str, str, bytes]]:
    objects = built.site.objects
    return [(each.origin, each.path, built.path_of(each).read_bytes() if each.file else b"") for each in objects]


@pytest.mark.parametrize("kind", ["specification", "recording", "page", "folder"])
def test_a_kept_site_is_the_same_site_when_its_file_is_gone(kind: str, tmp_path: Path) -> None:
    file = given(kind, tmp_path / "given")
    before = load_site(str(file), tmp_path / "cache")
    name = keep_site(str(file), tmp_path / "run")
    assert keep_site(str(file), tmp_path / "run") == name
    shutil.rmtree(tmp_path / "given")
    shutil.move(tmp_path / "run", tmp_path / "elsewhere")
    kept = kept_site(name, tmp_path / "elsewhere")
    built = load_site(kept, tmp_path / "other cache")
    assert (contents(built), built.site.name) == (contents(before), before.site.name)
    assert keep_site(kept, tmp_path / "again") == name
