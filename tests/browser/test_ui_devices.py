"""The rows of devices of a bridge, readable on a wide and a narrow screen in both schemes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.page_checks import CLIPPED, until
from tests.played_lab import PlayedLab, played
from tests.ui_client import page_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page
    from tests.ui_client import Client

OUTAGES = """() => Array.from(document.querySelectorAll("tr[data-device]:has(td.radio[data-state])"), (row) => [
    row.querySelector("td.radio").dataset.state, row.querySelector("td.outage").innerText])"""
"""The state of each device's radio, and what is told of its outages."""


@pytest.fixture
def client() -> Iterator[Client]:
    with pytest.MonkeyPatch.context() as patch:
        lab = PlayedLab("bridge", 1, past_s=20.0, devices=16)
        with played(patch, lab), page_server() as found:
            yield found


def visit(browser: Browser, client: Client, scheme: str = "light", width: int = 1280) -> Page:
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
    page.goto(f"http://{client.host}/?token={client.token}", timeout=60_000)
    page.wait_for_selector('tr[data-device="device-16"] td.up:has-text("bit/s")')
    return page


def test_a_device_has_both_rates_queue_round_trip_radio_and_outage(browser: Browser, client: Client) -> None:
    page = visit(browser, client)
    page.wait_for_timeout(1500)
    rows = page.locator("#devices tbody tr")
    assert rows.count() == 17
    assert rows.last.locator("th").inner_text() == "all others"
    row = page.locator('tr[data-device="device-1"]')
    assert 6.5 < float(row.locator("td.down").inner_text().removesuffix(" Mbit/s")) < 7.9, "link 2: 7.2 Mbit/s"
    assert 6 < float(row.locator("td.up").inner_text().removesuffix(" Mbit/s")) < 7.5, "link 3: 6.8 Mbit/s"
    assert row.locator("td.round-trip").inner_text() == "16.0 ms", "two delays of 5 ms, waits of 2.8 and 3.2 ms"
    told = page.evaluate(OUTAGES)  # at one moment: the states of radios change meanwhile
    assert [text for state, text in told if state == "outage"] == ["now"] * 4
    lasted = [text for state, text in told if state != "outage"]
    assert len(lasted) == 13
    assert all(text.endswith(" s") and 0 < float(text.removesuffix(" s")) < 13 for text in lasted), lasted
    page.close()


def test_links_are_folded_away_and_a_device_hides_the_lines_of_all_of_its_links(
    browser: Browser, client: Client
) -> None:
    page = visit(browser, client)
    assert not page.locator('tr[data-link="device-3.radio.up"]').is_visible()
    page.get_by_role("checkbox", name="Show device-3 in the charts").uncheck()
    page.get_by_text("All 34 links").click()
    boxes = [page.get_by_role("checkbox", name=f"Show device-3.radio.{way} in the charts") for way in ("down", "up")]
    assert [box.is_checked() for box in boxes] == [False, False]
    chart = page.locator("#chart-wait .u-over")
    chart.scroll_into_view_if_needed()
    chart.hover()
    until(page, "document.querySelector('#chart-wait .readout').textContent.includes('device-4.radio.up')")
    assert "device-3." not in page.locator("#chart-wait .readout").inner_text()
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_no_text_of_sixteen_devices_is_cut_and_nothing_scrolls_sideways(
    browser: Browser, client: Client, width: int, scheme: str
) -> None:
    page = visit(browser, client, scheme, width)
    page.get_by_text("All 34 links").click()
    page.wait_for_selector("tr button:not([disabled])")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(CLIPPED) == []
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_cell_shows_slots_and_fairness_and_a_round_trip_for_each_device(browser: Browser, scheme: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        lab = PlayedLab("cell", 1, past_s=10.0, cell=3)
        with played(patch, lab), page_server() as client:
            page = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
            page.goto(f"http://{client.host}/?token={client.token}", timeout=60_000)
            page.wait_for_selector('tr[data-device="phone-3"] td.up:has-text("bit/s")')
            shown = {}
            for kind in ("slots-down", "fairness", "transit"):
                chart = page.locator(f"#chart-{kind} .u-over")
                chart.scroll_into_view_if_needed()
                box = chart.bounding_box()
                assert box is not None
                page.mouse.move(box["x"] + box["width"] * 0.97, box["y"] + box["height"] / 2)
                until(page, f"document.querySelector('#chart-{kind} .readout').textContent.includes('s: ')")
                shown[kind] = page.locator(f"#chart-{kind} .readout").inner_text()
            row = page.locator('tr[data-device="phone-1"] td.round-trip').inner_text()
            page.close()
    # Rates of links 2, 4 and 6: 7.2, 6.4 and 5.6 Mbit/s; of 3, 5 and 7: 6.8, 6.0 and 5.2 Mbit/s.
    assert "downlink 0.99 · uplink 0.988" in shown["fairness"], shown
    assert all(f"phone-{number} " in shown["slots-down"] for number in (1, 2, 3)), shown
    assert "server-phone-3.up 4.00 ms" in shown["transit"], shown
    assert "round trip" not in shown["transit"], "the sum over all devices is the round trip of none"
    assert row == "30.4 ms", "four delays of 5 ms, waits of 2.0, 2.4, 2.8 and 3.2 ms"
