"""Tests in this folder share one Chromium: one worker has them all (`tests/needs.py`), and none starts another."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from wavebed.lab.tools import find

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, BrowserContext

PATIENCE_MS = 120_000.0
"""Limit of each wait: a busy machine takes seconds for what takes milliseconds."""
FLAGS = [
    "--no-sandbox", "--headless", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Return the Chromium of the whole run."""
    from playwright.sync_api import sync_playwright

    variables = {**os.environ, "TMPDIR": "/tmp"}  # where Chromium puts a socket, whose path has to be short
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=find("chromium"), args=FLAGS, env=variables)
        patient = found.new_context

        def new_context(**options: Any) -> BrowserContext:
            context = patient(**options)
            context.set_default_timeout(PATIENCE_MS)
            return context

        found.new_context = new_context  # type: ignore[method-assign]
        yield found
        found.close()
