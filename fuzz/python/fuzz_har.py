"""Recordings of pages on arbitrary text: files in their folder and a site, or one line, never anything else."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["wavebed"]):
    from wavebed.errors import UserError
    from wavebed.workload.site.har import import_har, stripped

FOLDER = Path(tempfile.mkdtemp(prefix="wavebed-fuzz-"))
MOST_BYTES = 100_000
"""Larger bodies are refused here, so that the time goes into reading rather than into making them up."""


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


def write_seed(folder: Path) -> None:
    """Write a recording of a page, a picture that was not kept, and a redirect."""
    entries = [
        {
            "request": {"method": "GET", "url": f"https://www.shop.example/{name}"},
            "response": {"status": status, "redirectURL": to, "bodySize": 4, "content": content},
        }
        for name, status, to, content in (
            ("", 200, "", {"size": 4, "mimeType": "text/html", "text": "<p>x"}),
            ("a.png", 200, "", {"size": 400, "mimeType": "image/png"}),
            ("b", 200, "", {"size": 4, "mimeType": "text/css", "text": "YWJj", "encoding": "base64"}),
            ("c", 302, "/?{x}", {"size": 0, "mimeType": ""}),
        )
    ]
    (folder / "seed").write_text(json.dumps({"log": {"version": "1.2", "entries": entries}}))


if __name__ == "__main__":
    from wavebed.workload.site import har

    har.MAX_BYTES = MOST_BYTES
    seeds = Path(tempfile.mkdtemp(prefix="wavebed-seeds-"))
    write_seed(seeds)
    sys.argv.append(str(seeds))
    atheris.Setup(sys.argv, test_one_input)
    atheris.Fuzz()
