"""Phones that a browser emulates."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from wavebed.config.problems import Problem, choose
from wavebed.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wavebed.config.data import Json

__all__ = ["device_options"]


def device_options(name: str, workload: str) -> Mapping[str, Json]:
    """Return Playwright's description of a device, as options of a context.

    Raises
    ------
    UserError
        If it has none of this name.
    """
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        devices = playwright.devices
        try:
            device = dict(devices[choose(name, devices)])
        except Problem as problem:
            raise UserError(f"workload {workload}: device: {problem}") from None
    device.pop("default_browser_type", None)
    return cast("Mapping[str, Json]", device)
