"""A suite of Playwright outside a laboratory: two browsers, one on each host, call each other.

Arguments: the endpoint of the client's browsers, the endpoint of the server's. The suite prints what it found, as JSON.
"""

from __future__ import annotations

import json
import sys
import time

from playwright.sync_api import Page, Playwright, sync_playwright

from wavebed.lab.tools import find

PATIENCE_MS = 120_000.0
GATHERED = """
  await new Promise(done => {
    const look = () => { if (window.pc.iceGatheringState === 'complete') done(); };
    window.pc.onicegatheringstatechange = look;
    look();
  });
  return window.pc.localDescription.toJSON();"""
CAMERA = "const stream = await navigator.mediaDevices.getUserMedia({video: {width: 320, height: 240}});"
OFFER = f"""async () => {{
  window.pc = new RTCPeerConnection();
  {CAMERA}
  stream.getTracks().forEach(track => window.pc.addTrack(track, stream));
  await window.pc.setLocalDescription();{GATHERED}
}}"""
ANSWER = f"""async offer => {{
  window.pc = new RTCPeerConnection();
  {CAMERA}
  await window.pc.setRemoteDescription(offer);
  stream.getTracks().forEach(track => window.pc.addTrack(track, stream));
  await window.pc.setLocalDescription();{GATHERED}
}}"""
DECODED = """async () => [...(await window.pc.getStats()).values()]
  .some(each => each.type === 'inbound-rtp' && each.framesDecoded >= 10)"""
ROUND_TRIP = """async () => [...(await window.pc.getStats()).values()]
  .find(each => each.type === 'candidate-pair' && each.currentRoundTripTime > 0)?.currentRoundTripTime"""
LAUNCH = {
    "executablePath": find("chromium"),
    "args": ["--no-sandbox", "--disable-gpu", "--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"],
}


def connected_page(playwright: Playwright, endpoint: str) -> Page:
    """Return a page of a browser behind an endpoint: these lines are all that tells the suite of the laboratory."""
    headers = {"x-playwright-launch-options": json.dumps(LAUNCH)}
    browser = playwright.chromium.connect(endpoint, headers=headers, timeout=PATIENCE_MS)
    context = browser.new_context(ignore_https_errors=True)
    context.set_default_timeout(PATIENCE_MS)
    return context.new_page()


def awaited(page: Page, function: str) -> object:
    """Return the value of an asynchronous function once it has one: Playwright's own wait ends with the promise."""
    end = time.monotonic() + PATIENCE_MS / 1e3
    while not (value := page.evaluate(function)):
        assert time.monotonic() < end, function
        page.wait_for_timeout(100)
    return value


def main() -> None:
    """Call, and print the contexts and the round trip."""
    with sync_playwright() as playwright:
        phone, peer = (connected_page(playwright, endpoint) for endpoint in sys.argv[1:3])
        phone.goto("http://server:3000/")
        plain = phone.evaluate("isSecureContext")
        for page in (phone, peer):
            page.goto("https://server/")
        secure = [page.evaluate("isSecureContext") for page in (phone, peer)]
        answer = peer.evaluate(ANSWER, phone.evaluate(OFFER))
        phone.evaluate("answer => window.pc.setRemoteDescription(answer)", answer)
        for page in (phone, peer):
            awaited(page, DECODED)
        round_trip_s = awaited(phone, ROUND_TRIP)
        print(json.dumps({"plain": plain, "secure": secure, "round_trip_s": round_trip_s}))


if __name__ == "__main__":
    main()
