"""Samples that are played as fast as the page takes them leave page and server as large as they were.

An hour of them each 100 ms, and of the ones each 10 ms ten times what the page shows: they cost ten times as much.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.page_checks import SHOWN_S, until
from tests.played_lab import PlayedLab, played
from tests.ui_client import page_server

if TYPE_CHECKING:
    from playwright.sync_api import Browser, CDPSession, Page

MARGIN_BYTES = 2_000_000
SERVER_MARGIN_BYTES = 16_000_000
"""The same process plays the laboratory and drives the browser."""


def page_bytes(session: CDPSession) -> int:
    """Return what the page holds after a collection, with its columns of numbers."""
    session.send("HeapProfiler.collectGarbage")
    usage = session.send("Runtime.getHeapUsage")
    return int(usage["usedSize"] + usage["backingStorageSize"])


def held(session: CDPSession) -> dict[str, int]:
    """Return how much the page holds, and its server."""
    found = {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
    counts = {name: int(found[name]) for name in ("Nodes", "JSEventListeners")}
    return {"page": page_bytes(session), **counts, "server": resident_bytes()}


def least_held(page: Page, session: CDPSession, shown_s: int) -> dict[str, int]:
    """Return the least of five looks: what a message under way takes is gone at another one, and a leak is not."""
    looks = []
    for each in range(5):
        until(page, f"{SHOWN_S} >= {shown_s + each}", timeout=200_000)
        looks.append(held(session))
    return {name: min(look[name] for look in looks) for name in looks[0]}


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize(("every_ms", "after_s"), [(100, (300, 1800, 3600)), (10, (70, 300, 600))])
def test_samples_of_sixteen_links_leave_no_memory_behind(
    browser: Browser, every_ms: int, after_s: tuple[int, ...]
) -> None:
    lab = PlayedLab("long", 8, past_s=after_s[-1] + 40, bursts=True)
    with pytest.MonkeyPatch.context() as patch, played(patch, lab), page_server() as client:
        page = browser.new_page(viewport={"width": 1280, "height": 1000})
        page.goto(f"http://{client.host}/?token={client.token}", timeout=60_000)
        page.select_option("#every", str(every_ms))
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable")
        early, *later = [least_held(page, session, shown_s) for shown_s in after_s]
        assert page.locator("#lost").inner_text() == ""
        page.close()
    for late in later:
        assert late["page"] < early["page"] + MARGIN_BYTES, (early, later)
        assert late["Nodes"] <= early["Nodes"] + 200, (early, later)
        assert late["JSEventListeners"] <= early["JSEventListeners"], (early, later)
        assert late["server"] < early["server"] + SERVER_MARGIN_BYTES, (early, later)
