"""Phones that a browser emulates."""

from __future__ import annotations

import json
from contextlib import suppress
from importlib.metadata import version
from typing import TYPE_CHECKING, cast

from wavebed.config.problems import Problem, choose
from wavebed.errors import UserError
from wavebed.output import replacing

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from wavebed.config.data import Json

__all__ = ["device_options"]


def device_options(name: str, workload: str, cache: Path) -> Mapping[str, Json]:
    """Return Playwright's description of a device, as options of a context.

    Parameters
    ----------
    cache : Path
        Keeps the descriptions of this version of Playwright, which only its driver, a program of Node, tells.

    Raises
    ------
    UserError
        If it has none of this name.
    """
    devices = _devices(cache / f"devices-{version('playwright')}.json")
    try:
        device = devices[choose(name, devices)]
    except Problem as problem:
        raise UserError(f"workload {workload}: device: {problem}") from None
    return {key: value for key, value in device.items() if key != "default_browser_type"}


def _devices(file: Path) -> Mapping[str, Mapping[str, Json]]:
    """Return the descriptions of all devices; keep them in a file."""
    with suppress(OSError, ValueError):
        return cast("Mapping[str, Mapping[str, Json]]", json.loads(file.read_bytes()))

    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        devices = cast("Mapping[str, Mapping[str, Json]]", playwright.devices)
    with suppress(OSError), replacing(file) as kept:
        kept.write(json.dumps(devices).encode())
    return devices
