"""Take the pictures of the live page for the guide: a download behind a street canyon, on two screens, in two schemes.

Usage: python benches/live_page_images.py docs/images
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from PIL import Image
from playwright.sync_api import sync_playwright
from tests.ui_client import page_server

import wavebed
from wavebed.lab.tools import find
from wavebed.ui.command import Options

NAME = "street-canyon"
HISTORY_MS = 45_000
SCREENS = {1280: 1120, 390: 844}
MOST_BYTES = 150_000


def main() -> None:
    """Take all four."""
    folder = Path(sys.argv[1])
    with (
        wavebed.Path.of(scene="street-canyon-bus").up(name=NAME) as lab,
        page_server(Options(lab=NAME, record_to=folder.parent / "records")) as client,
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=find("chromium"), args=["--no-sandbox"]) as browser,
    ):
        lab.server.start(["iperf3", "-s", "-1"], stdout=subprocess.DEVNULL)
        lab.server.wait_for_port(5201)
        lab.client.start(["iperf3", "-c", "server", "-R", "-t", "120"], stdout=subprocess.DEVNULL)
        pages = {}
        for width, height in SCREENS.items():
            for scheme in ("light", "dark"):
                pages[width, scheme] = browser.new_page(
                    viewport={"width": width, "height": height},
                    color_scheme=scheme,  # type: ignore[arg-type]
                )
                pages[width, scheme].goto(f"http://{client.host}/?token={client.token}")
        pages[1280, "light"].wait_for_timeout(HISTORY_MS)
        for (width, scheme), page in pages.items():
            page.bring_to_front()
            page.wait_for_timeout(3000)
            file = folder / f"ui-{width}-{scheme}.png"
            page.screenshot(path=file)
            compress(file)
    (folder.parent / "records").rmdir()


def compress(file: Path) -> None:
    """Keep 256 colours, the rare ones too: the file has to be small."""
    with Image.open(file) as picture:
        picture.convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
            file, optimize=True
        )
    size = file.stat().st_size
    if size > MOST_BYTES:
        raise SystemExit(f"{file}: has {size} bytes: more than {MOST_BYTES}")
    print(f"{file}: {size} bytes")


if __name__ == "__main__":
    main()
