"""The program inside the laboratory: start Chromium by Playwright, report ready, wait for the start, play, report.

A module that is run as an agent ends with ``if __name__ == "__main__": serve(play)``. Messages are lines of JSON on
standard input and output; everything else goes to standard error. When standard input ends, so does the agent.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import sys
from typing import TYPE_CHECKING, cast

from playwright.sync_api import Error, sync_playwright

from wavebed.lab.tools import in_guest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from playwright.sync_api import Browser, Playwright

    from wavebed.config.data import Json


_FEATURES_OFF = (
    # The hosts have private addresses, to which Chromium lets a page connect only with the user's permission.
    "LocalNetworkAccessChecks",
    # WebRTC shall offer this host's addresses as they are: names by multicast DNS would not resolve in a laboratory.
    "WebRtcHideLocalIpsWithMdns",
    # Hidden pages of the address bar, in a renderer that computes as long as for a small page.
    "WebUIOmniboxAimPopup",
    "WebUIOmniboxPopup",
    # Playwright switches these off, and of several lists Chromium obeys only the last, which is this one.
    "AimEnabled",
    "AvoidCorsURLLoaderRestartOnRedirect",
    "AvoidUnnecessaryBeforeUnloadCheckSync",
    "DestroyProfileOnBrowserClose",
    "HttpsFirstBalancedModeAutoEnable",
    "HttpsUpgrades",
    "LensOverlay",
    "MediaRouter",
    "NetworkTimeServiceQuerying",
    "OptimizationHints",
    "PaintHolding",
    "PreconnectToSearch",
    "TcpPortRandomizationWin",
    "ThirdPartyStoragePartitioning",
    "msEdgeUpdateLaunchServicesPreferredVersion",
    "msForceBrowserSignIn",
)

ARGUMENTS = (
    "--disable-gpu",
    "--no-first-run",
    f"--disable-features={','.join(_FEATURES_OFF)}",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-domain-reliability",
    "--disable-client-side-phishing-detection",
    "--no-pings",
    "--mute-audio",
    "--autoplay-policy=no-user-gesture-required",
)
"""Arguments of every Chromium, which disable its own network traffic."""

GUEST_ARGUMENTS = (
    # User-Mode Linux ends a process whose filter of system calls answers by a signal.
    "--disable-seccomp-filter-sandbox",
)
"""More of them in a guest of virtual time."""

_NO_SANDBOX = "No usable sandbox"


class Conversation:
    """The agent's side of the conversation."""

    def __init__(self) -> None:
        self._heard = b""
        # Playwright's own children must not write into the conversation.
        self._output = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)

    def hear(self) -> dict[str, Json]:
        """Return the next message; end the program at the end of the input."""
        while b"\n" not in self._heard:
            data = os.read(0, 1 << 16)
            if not data:
                sys.exit(0)
            self._heard += data
        line, _, self._heard = self._heard.partition(b"\n")
        return cast("dict[str, Json]", json.loads(line))

    def is_told(self) -> bool:
        """Return whether a message, or the end of the input, can be read."""
        return b"\n" in self._heard or bool(select.select([0], [], [], 0)[0])

    def say(self, message: Mapping[str, Json]) -> None:
        """Send a message."""
        self._output.write(json.dumps(message) + "\n")
        self._output.flush()


def _launch(playwright: Playwright, settings: Mapping[str, Json]) -> tuple[Browser, str]:
    """Start the browser; return it, and why its sandbox is off if it is.

    Chromium refuses to start as root with its sandbox, and where the kernel allows no user namespaces.
    """
    arguments = [*ARGUMENTS, *cast("list[str]", settings.get("arguments", []))]
    if not settings.get("quic"):
        arguments.append("--disable-quic")
    if in_guest():
        arguments.extend(GUEST_ARGUMENTS)

    def start(*, sandbox: bool) -> Browser:
        return playwright.chromium.launch(
            executable_path=cast("str", settings["chromium"]), args=arguments, headless=True, chromium_sandbox=sandbox
        )

    if os.geteuid() == 0 and not settings.get("far"):
        return start(sandbox=False), "it runs as root here"
    try:
        return start(sandbox=True), ""
    except Error as error:
        if _NO_SANDBOX not in error.message:
            raise
        return start(sandbox=False), "this kernel allows this user no user namespace"


def serve(play: Callable[[Conversation, Browser, dict[str, Json]], Mapping[str, Json]]) -> None:
    """Run an agent: `play` gets the conversation, the browser and the settings, and returns the result.

    This function says ``{"sandbox": "on"}``, or ``off`` with the reason, when the browser is up. `play` says
    ``{"ready": true}`` by `Conversation.say` when it is ready (page made, nothing sent), waits for the word by
    `Conversation.hear`, and plays. Settings that this function reads itself: ``chromium`` (path), ``arguments``
    (more of Chromium's), ``quic`` (whether QUIC is allowed), ``far`` (if
    the browser runs on another machine, as another user: a folder here that is removed at the end).
    """
    conversation = Conversation()
    settings = conversation.hear()
    try:
        with sync_playwright() as playwright:
            browser, unprotected = _launch(playwright, settings)
            conversation.say({"sandbox": f"off: {unprotected}" if unprotected else "on"})
            conversation.say({"result": dict(play(conversation, browser, settings)), "version": browser.version})
            browser.close()
    except Error as error:
        conversation.say({"error": error.message.strip().splitlines()[0]})
        sys.exit(1)
    finally:
        if settings.get("far"):
            # Whoever started this may have been killed.
            shutil.rmtree(cast("str", settings["far"]), ignore_errors=True)
