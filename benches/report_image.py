"""Take the picture of a report's first screen for the documentation.

Usage: python benches/report_image.py runs/demo/report.html docs/images/report.png
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benches.live_page_images import compress
from playwright.sync_api import sync_playwright

from wavebed.lab.tools import find

SCREEN = {"width": 1080, "height": 760}


def main() -> None:
    """Take it."""
    page_file, picture, parts = Path(sys.argv[1]).resolve(), Path(sys.argv[2]), sys.argv[3:]
    with (
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=find("chromium"), args=["--no-sandbox"]) as browser,
    ):
        page = browser.new_page(viewport=SCREEN, color_scheme="light")  # type: ignore[arg-type]
        page.goto(page_file.as_uri())
        page.wait_for_timeout(2000)
        if parts:
            page.add_style_tag(content=".controls { position: static !important; }")  # else it covers the part
            page.locator(parts[0]).first.screenshot(path=picture)
        else:
            page.screenshot(path=picture)
    compress(picture)


if __name__ == "__main__":
    main()
