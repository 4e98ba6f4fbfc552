"""Runs inside a sandbox: the live page of a bridge with sixteen devices, one of them behind a street canyon.

Prints the row of each device, and takes a picture if a file is named.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from bridge_agent import NAME, at, bridge, build
from playwright.sync_api import sync_playwright
from tests.ui_client import page_server

from wavebed.lab.tools import find
from wavebed.ui.command import Options

DEVICES = 16
FIRST = 10
"""The last number of the first device's address."""
SEND = """
import socket, sys, time
far = [(f"10.77.0.{last}", 9) for last in range(int(sys.argv[1]), int(sys.argv[2]))]
stream = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
due = time.monotonic()
while True:
    for number, address in enumerate(far):
        for _ in range(1 + number % 4):
            stream.sendto(bytes(1172), address)
    due += 0.01
    time.sleep(max(0, due - time.monotonic()))
"""
"""Sends each device 1 to 4 datagrams of 1200 bytes each 10 ms, 0.96 to 3.84 Mbit/s, round robin."""
RADIO = '[[path.hop]]\nname = "radio"\nkind = "radio"\nscene = "street-canyon-bus"\n'
ROWS = """[...document.querySelectorAll("#devices tbody tr")].map((row) => [row.dataset.device,
  ...[...row.cells].slice(1).map((cell) => cell.textContent)])"""


def main() -> None:
    """Show the page for some seconds."""
    folder, seconds, *picture = sys.argv[1:]
    words = []
    for number in range(DEVICES):
        file = Path(folder) / f"{number}.toml"
        # The third of each four gets 2.88 Mbit/s over a link of 2.5: its queue fills.
        file.write_text(RADIO if number == 0 else f'[path]\nrate = "{(5, 5, 2.5, 8)[number % 4]}mbit"\ndelay = "5ms"\n')
        words += ["--devices", f"phone-{number + 1}@10.77.0.{FIRST + number}={file}"]
    build()
    at("phone", "sysctl", "-qw", "net.ipv4.icmp_ratelimit=0")
    for number in range(DEVICES):
        at("phone", "ip", "addr", "add", f"10.77.0.{FIRST + number}/24", "dev", "eth0")
    send = [sys.executable, "-c", SEND, str(FIRST), str(FIRST + DEVICES)]
    with (
        bridge("--delay", "1ms", *words),
        subprocess.Popen(["ip", "netns", "exec", "router", *send]) as sender,
        page_server(Options(lab=NAME)) as client,
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=find("chromium"), args=["--no-sandbox"]) as browser,
    ):
        page = browser.new_page(viewport={"width": 1280, "height": 1000})
        page.goto(f"http://{client.host}/?token={client.token}")
        page.wait_for_selector('tr[data-device="phone-16"] td.down:has-text("Mbit/s")')
        page.wait_for_timeout(float(seconds) * 1000)
        print(json.dumps({"rows": page.evaluate(ROWS), "summary": page.locator("#all-links summary").inner_text()}))
        if picture:
            page.screenshot(path=picture[0])
        sender.kill()


if __name__ == "__main__":
    main()
