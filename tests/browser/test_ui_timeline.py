"""The timeline and the faults of the live page in a real browser, on played laboratories."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from tests.browser.test_report_in_chromium import CONTRASTS, LEAST_CONTRAST
from tests.page_checks import CLIPPED, until
from tests.played_lab import PlayedLab, played
from tests.ui_client import page_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page
    from tests.ui_client import Client

    from wavebed.config.data import Json

COUNT = """() => {
  window.written = 0;
  const { set, get } = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value");
  const count = (value) => { window.written += 1; return value; };
  Object.defineProperty(HTMLInputElement.prototype, "value", { get, set(value) { set.call(this, count(value)); } });
  for (const id of ["timeline", "faults"]) {
    new MutationObserver((changes) => { window.written += changes.length; })
      .observe(document.getElementById(id), { subtree: true, childList: true, attributes: true, characterData: true });
  }
}"""
"""Counts every change of the two sections."""


@pytest.fixture
def lab() -> PlayedLab:
    return PlayedLab("walk", timed=True)


@pytest.fixture
def client(lab: PlayedLab, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    with played(monkeypatch, lab), page_server() as found:
        yield found


def visit(browser: Browser, client: Client, scheme: str = "light", width: int = 1280) -> Page:
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
    page.on("pageerror", lambda error: pytest.fail(str(error)))
    page.goto(f"http://{client.host}/?token={client.token}", timeout=60_000)
    page.wait_for_selector('tr[data-link="hop0.up"] td.delivered:has-text("Mbit/s")')
    page.wait_for_selector("tr button:not([disabled])")
    return page


def asked(lab: PlayedLab, what: str) -> list[dict[str, Json]]:
    return [{key: value for key, value in request.items() if key != "do"} for request in lab.asked
            if request["do"] == what]  # fmt: skip


def wait_until_asked(page: Page, lab: PlayedLab, action: str) -> None:
    """Wait for a request: two that are under way may come in either order."""
    deadline = time.monotonic() + 60
    while action not in [request["action"] for request in asked(lab, "timeline")]:
        assert time.monotonic() < deadline, action
        page.wait_for_timeout(20)


def click_bar(page: Page, share: float, beside_px: float = 0) -> None:
    """Click at a share of the bar, once it stays in its place: parts of the page that come in move it at first."""
    bar = page.locator("#timeline .bar")
    width, height = bar.evaluate("bar => [bar.getBoundingClientRect().width, bar.getBoundingClientRect().height]")
    bar.click(position={"x": width * share + beside_px, "y": height / 2})


def wait_for_looks(page: Page, count: int) -> None:
    """Wait until the page has looked at the whole state so many times."""
    for _ in range(count):
        with page.expect_response(lambda response: response.url.endswith("/maps")):  # its second question
            pass


def test_the_bar_shows_each_stretch_at_its_times_and_the_present_position(
    browser: Browser, client: Client, lab: PlayedLab
) -> None:
    page = visit(browser, client)
    assert lab.timeline is not None
    for request in ({"action": "pause"}, {"action": "seek", "stretch": None, "position_ns": 5_000_000_000}):
        lab.timeline.obey({**request})  # a page that is drawn late shows the same
    until(page, "document.querySelector('#timeline .readout').textContent === 'home, 0:05 of 1:00, paused'")
    until(page, "Math.abs(Number(document.querySelector('#timeline .position').value) - 5) < 0.2")
    shares = page.evaluate("""() => [...document.querySelectorAll("#timeline .stretch")].map((bar) => {
      const [own, all] = [bar.getBoundingClientRect(), bar.parentElement.getBoundingClientRect()];
      return [(own.left - all.left) / all.width, own.width / all.width].map((share) => Math.round(share * 60));
    })""")
    assert shares == [[0, 20], [20, 10], [30, 30]]
    assert page.locator("#timeline .names button").all_inner_texts() == ["home", "lift", "street"]
    assert page.locator("#timeline [aria-current]").inner_text() == "home"
    lab.timeline.obey({"action": "play"})
    until(page, "Number(document.querySelector('#timeline .position').value) > 5.5")
    page.close()


def test_a_click_goes_to_a_time_and_to_a_stretch(browser: Browser, client: Client, lab: PlayedLab) -> None:
    assert lab.timeline is not None
    lab.timeline.obey({"action": "pause"})  # a page that is drawn late shows the same
    page = visit(browser, client)
    until(page, "document.querySelector('#timeline .readout').textContent === 'home, 0:00 of 1:00, paused'")
    click_bar(page, 0.75)
    until(page, "document.querySelector('#timeline [aria-current]').textContent === 'street'")
    page.get_by_role("button", name="lift").click()
    until(page, "document.querySelector('#timeline .readout').textContent === 'lift, 0:20 of 1:00, paused'")
    click_bar(page, 1, -1)
    until(page, "document.querySelector('#timeline .readout').textContent === 'street, 0:59 of 1:00, paused'")
    first, second, third = asked(lab, "timeline")
    assert (first["stretch"], second) == (None, {"action": "seek", "stretch": "lift", "position_ns": 0})
    assert first["position_ns"] == pytest.approx(45e9, abs=0.3e9)
    assert isinstance(third["position_ns"], int)
    assert 59e9 < third["position_ns"] < 60e9, "the end itself is no position"
    page.close()


def test_time_stands_still_goes_on_at_another_speed_and_begins_again(
    browser: Browser, client: Client, lab: PlayedLab
) -> None:
    page = visit(browser, client)
    page.get_by_role("button", name="Pause the timeline").click()
    page.get_by_role("button", name="Play the timeline").wait_for()
    until(page, "document.querySelector('#timeline .readout').textContent.endsWith(', paused')")
    page.get_by_role("button", name="Play the timeline").click()
    page.get_by_role("button", name="Pause the timeline").wait_for()
    page.get_by_role("combobox", name="speed").select_option("2")
    wait_until_asked(page, lab, "speed")
    page.get_by_role("button", name="Loop").click()
    page.wait_for_selector("#timeline .loop[aria-pressed=true]")
    assert asked(lab, "timeline") == [
        {"action": "pause"}, {"action": "play"}, {"action": "speed", "permille": 2000}, {"action": "loop", "on": True},
    ]  # fmt: skip
    page.close()


def test_the_button_does_what_it_says_and_a_look_that_began_before_an_action_changes_nothing(
    browser: Browser, client: Client
) -> None:
    page = visit(browser, client)
    found = page.evaluate("""async () => {
      const { Timeline } = await import("/timeline.js");
      const [section, dialog] = ["timeline", "stretch"].map((id) => document.getElementById(id).cloneNode(true));
      document.body.append(section, dialog);
      const sent = [];
      const answers = [];
      window.fetch = (_, { body }) => {
        sent.push(JSON.parse(body).action);
        return new Promise((answer) => answers.push(answer));
      };
      const at = (playing) => ({ position_ns: 5e9, duration_ns: 60e9, stretch: "home", playing, ended: false, speed: 1,
        loop: false, stretches: [{ name: "home", start_ns: 0 }] });
      const timeline = new Timeline(section, dialog, () => {});
      const press = () => section.querySelector(".play").click();
      const says = () => section.querySelector(".play").textContent;
      const told = [];
      timeline.show("walk", at(true));
      const before = timeline.asked;
      press();
      timeline.looked("walk", at(true), before);
      const during = timeline.asked;
      answers[0]({ ok: true, json: async () => at(false) });
      await new Promise((next) => setTimeout(next));
      told.push(says());
      for (const asked of [before, during]) timeline.looked("walk", at(true), asked);
      told.push(says());
      timeline.move({ position_s: 5, stretch: "home", playing: true, speed: 1 });
      press();
      timeline.looked("walk", at(true), timeline.asked);
      told.push(says());
      return { sent, told };
    }""")
    assert found == {"sent": ["pause", "play"], "told": ["Play", "Play", "Pause"]}
    page.close()


def test_what_another_terminal_does_is_shown(browser: Browser, client: Client, lab: PlayedLab) -> None:
    page = visit(browser, client)
    assert lab.timeline is not None
    for request in ({"action": "pause"}, {"action": "seek", "stretch": "street", "position_ns": 0}):
        lab.timeline.obey({**request})
    lab.timeline.obey({"action": "speed", "permille": 3500})
    until(page, "document.querySelector('#timeline .readout').textContent === 'street, 0:30 of 1:00, paused'")
    until(page, "document.querySelector('#timeline .speed').value === '3.5'")
    lab.timeline.obey({"action": "loop", "on": True})
    page.wait_for_selector("#timeline .loop[aria-pressed=true]")
    page.close()


def test_a_value_of_a_stretch_is_changed_and_a_wrong_one_is_told(
    browser: Browser, client: Client, lab: PlayedLab
) -> None:
    page = visit(browser, client)
    page.get_by_role("button", name="Change a stretch").click()
    dialog = page.locator("#stretch")
    dialog.get_by_label("Stretch").select_option("lift")
    dialog.get_by_label("Direction").select_option("down")
    dialog.get_by_label("Rate").fill("1")
    dialog.get_by_role("button", name="Apply").click()
    until(page, "document.querySelector('#stretch .error').textContent")
    assert "lift.down-rate: '1' has no unit" in dialog.locator(".error").inner_text()
    dialog.get_by_label("Rate").fill("1mbit")
    dialog.get_by_label("Rate").press("Enter")
    dialog.wait_for(state="hidden")
    assert page.locator("#said").inner_text() == "lift: down-rate 1mbit"
    assert asked(lab, "timeline") == [
        {"action": "edit", "stretch": "lift", "direction": "down", "key": "rate_bps", "value": 1_000_000}
    ]
    page.close()


def test_faults_come_at_a_button_for_all_links_or_one(browser: Browser, client: Client, lab: PlayedLab) -> None:
    page = visit(browser, client)
    faults = page.locator("#faults")
    faults.get_by_role("button", name="Outage", exact=True).click()
    until(page, "document.querySelector('#said').textContent === 'all links: outage 2s'")
    faults.get_by_role("combobox", name="on", exact=True).select_option("hop0.down")
    faults.get_by_role("combobox", name="buffer").select_option("lost")
    faults.get_by_role("button", name="Handover").click()
    until(page, "document.querySelector('#said').textContent === 'hop0.down: handover 50ms:lose'")
    faults.get_by_role("textbox", name="down for").fill("2s")
    faults.get_by_role("button", name="Flap").click()
    until(page, "document.querySelector('#faults .error').textContent.includes('down for a part of the period')")
    faults.get_by_role("textbox", name="down for").fill("")
    faults.get_by_role("button", name="Flap").click()
    until(page, "document.querySelector('#said').textContent === 'hop0.down: flap 5:1s'")
    assert faults.locator(".error").inner_text() == ""
    faults.get_by_role("button", name="End outage").click()
    until(page, "document.querySelector('#said').textContent === 'hop0.down: no outage'")
    assert asked(lab, "set") == [
        {"link": None, "key": "outage_ns", "value": 2_000_000_000},
        {"link": "hop0.down", "key": "handover", "value": {"for_ns": 50_000_000, "handling": "lose"}},
        {"link": "hop0.down", "key": "flap",
         "value": {"times": 5, "period_ns": 1_000_000_000, "down_ns": 500_000_000}},
        {"link": "hop0.down", "key": "outage_ns", "value": 0},
    ]  # fmt: skip
    page.close()


def test_only_what_a_laboratory_offers_is_shown(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    fixed = PlayedLab("fixed")
    fixed.takes = []
    with played(monkeypatch, PlayedLab("all", timed=True), fixed, PlayedLab("plain")), page_server() as client:
        page = visit(browser, client)
        page.locator("#timeline").wait_for()
        assert page.get_by_role("button", name="Handover").is_visible()
        page.select_option("#lab", "plain")
        page.locator("#timeline").wait_for(state="hidden")
        page.get_by_role("button", name="Outage", exact=True).wait_for()
        assert not page.get_by_role("button", name="Handover").is_visible()
        page.select_option("#lab", "fixed")
        page.wait_for_selector("#change-all[disabled]")
        assert not page.locator("#faults").is_visible()
        assert not page.locator("#timeline").is_visible()
        page.close()


def test_nothing_is_drawn_anew_that_has_not_changed(browser: Browser, client: Client) -> None:
    page = visit(browser, client)
    page.get_by_role("button", name="Pause the timeline").click()
    until(page, "document.querySelector('#timeline .readout').textContent.endsWith(', paused')")
    wait_for_looks(page, 2)  # one of them was under way, perhaps
    page.evaluate(COUNT)
    wait_for_looks(page, 2)
    assert page.evaluate("window.written") == 0
    page.get_by_role("button", name="Play the timeline").click()
    until(page, "window.written > 0")
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 390, 1280])
def test_timeline_and_faults_can_be_read_on_every_screen(
    browser: Browser, client: Client, width: int, scheme: str
) -> None:
    page = visit(browser, client, scheme, width)
    page.locator("#faults").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(CLIPPED) == []
    assert [each for each in page.evaluate(CONTRASTS) if each["contrast"] < LEAST_CONTRAST] == []
    page.get_by_role("button", name="Change a stretch").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()
