"""Fetch what a test's own server shows, as soon as it listens."""

from __future__ import annotations

import time
import urllib.request


def content(address: str, within_s: float) -> bytes:
    """Return what is at an address as soon as something listens."""
    end = time.monotonic() + within_s
    while True:
        try:
            with urllib.request.urlopen(address, timeout=within_s) as answer:
                return bytes(answer.read())
        except OSError:
            assert time.monotonic() < end, address
            time.sleep(0.05)
