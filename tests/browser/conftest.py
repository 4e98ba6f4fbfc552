"""Tests in this folder share one Chromium: one process runs them all, and none starts another."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from wavebed.lab.tools import find

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, BrowserContext, Page

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
        new_context, new_page = found.new_context, found.new_page

        def patient_context(**options: Any) -> BrowserContext:
            context = new_context(**options)
            context.set_default_timeout(PATIENCE_MS)
            return context

        def patient_page(**options: Any) -> Page:
            page = new_page(**options)
            page.set_default_timeout(PATIENCE_MS)
            return page

        found.new_context, found.new_page = patient_context, patient_page  # type: ignore[method-assign]
        yield found
        found.close()
