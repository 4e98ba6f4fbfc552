"""Tests in this folder may import the modules beside them that make their input, and share a browser."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from wavebed.lab.tools import find

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="module")  # Playwright runs once at a time in a process, and other tests start it too
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    variables = {**os.environ, "TMPDIR": "/tmp"}  # where Chromium puts a socket, whose path has to be short
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=find("chromium"), args=["--no-sandbox"], env=variables)
        yield found
        found.close()
