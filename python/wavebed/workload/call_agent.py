"""One end of a call: a page with a peer connection, controlled by messages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from wavebed.workload.browser.agent import Conversation, serve

if TYPE_CHECKING:
    from collections.abc import Mapping

    from playwright.sync_api import Browser, Page, Route

    from wavebed.config.data import Json

_PAGE = Path(__file__).with_name("call_page")
_ADDRESS = "https://call.invalid/"


def _answer(route: Route) -> None:
    """Serve the page from this package, without network, in a secure context."""
    name = route.request.url.removeprefix(_ADDRESS) or "call.html"
    file = _PAGE / name
    if name in ("call.html", "call.js"):
        route.fulfill(path=file)
    else:
        route.abort()


def _page(browser: Browser) -> Page:
    page = browser.new_context(permissions=["camera", "microphone"]).new_page()
    page.route("**/*", _answer)
    page.goto(_ADDRESS)
    return page


def play(conversation: Conversation, browser: Browser, settings: dict[str, Json]) -> Mapping[str, Json]:
    """Make the peer connection, exchange descriptions through the conversation, sample until the message ``finish``."""
    page = _page(browser)
    page.evaluate("settings => call.prepare(settings)", settings)
    conversation.say({"ready": True})
    while True:
        message = conversation.hear()
        do = cast("str", message["do"])
        if do == "finish":
            return cast("dict[str, Json]", page.evaluate("call.finish()"))
        conversation.say({"done": do, "value": page.evaluate(f"value => call.{do}(value)", message.get("value"))})


if __name__ == "__main__":
    serve(play)
