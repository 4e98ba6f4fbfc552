"""Recordings of pages on arbitrary text: files in their folder and a site, or one line, never anything else."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from unittest import mock

from wavebed.errors import UserError
from wavebed.workload.site import har
from wavebed.workload.site.har import import_har
from wavebed.workload.site.har_entries import stripped

FOLDER = Path(tempfile.mkdtemp(prefix="wavebed-fuzz-"))
MOST_BYTES = 100_000
"""Larger bodies are refused here, so that the time goes into reading rather than into making them up."""


@mock.patch.object(har, "MAX_BYTES", MOST_BYTES)
def test_one_input(data: bytes) -> None:
    made, again = FOLDER / "made", FOLDER / "again"
    for folder in (made, again):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    try:
        site = import_har(FOLDER / "page.har", data, made)
    except UserError as error:
        assert "\n" not in str(error).strip(), "one line"
        return
    assert {entry.name for entry in FOLDER.iterdir()} == {"made", "again"}, "nothing is written elsewhere"
    assert {entry.origin for entry in site.objects} == {origin.name for origin in site.origins}
    assert import_har(FOLDER / "page.har", stripped(data), again) == site, (
        "what is kept of a recording is the same site"
    )
