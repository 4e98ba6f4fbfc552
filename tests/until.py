"""Wait for a condition of a page."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page


def until(page: Page, condition: str, timeout: float = 10_000) -> None:
    """Wait for a condition; the page's policy lets no text become a script, as `Page.wait_for_function` would."""
    end = time.monotonic() + timeout / 1000
    while not page.evaluate(condition):
        assert time.monotonic() < end, condition
        page.wait_for_timeout(20)
