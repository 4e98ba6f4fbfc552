"""The tables ``[radio]`` and ``[device]``: settings of the radio stage, for the carrier of the scene."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.path.model import Queue
from wavebed.path.problems import Problem, described
from wavebed.radio.model import DeviceSettings, DirectionSettings, RadioSettings, Rlc, SlotSettings
from wavebed.units import Limit

if TYPE_CHECKING:
    from wavebed.radio.model import MacSettings
    from wavebed.scene.model import Carrier

__all__ = ["read_device", "read_radio"]


def read_radio(carrier: Carrier, table: object) -> MacSettings:
    """Return the settings of the radio stage."""
    if not isinstance(table, dict):
        raise Problem(f"{described(table)} is not a table: write [radio] on a line of its own")
    slot_ns = 1_000_000 // 2 ** (carrier.numerology or 0)
    slots = SlotSettings(slot_ns, carrier.frame, carrier.special_symbols, 0, 0, None)
    link = DirectionSettings(Queue("droptail", Limit(bytes=10**7)), None, 0, Rlc("um"), None, None, "forward")
    return RadioSettings(carrier.technology, slots, None, link, link, None)


def read_device(table: object) -> DeviceSettings:
    """Return the settings of the device's own stage."""
    if not isinstance(table, dict):
        raise Problem(f"{described(table)} is not a table: write [device] on a line of its own")
    return DeviceSettings(None, None, Queue("droptail", Limit(packets=100)))
