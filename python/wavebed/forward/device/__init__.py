"""Emulated devices: each kind is one module with one class (see `wavebed.forward.device.model`)."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

from wavebed.config.problems import Problem, at, choose, described, unknown_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wavebed.forward.device.model import Device

__all__ = ["FAULTY_KINDS", "KINDS", "device_kind", "make_device", "read_device"]

KINDS = {
    "routing": "wavebed.forward.device.routing:Routing",
    "bridge": "wavebed.forward.device.bridge:Bridge",
    "nat": "wavebed.forward.device.nat:Nat",
    "xdp": "wavebed.forward.device.xdp:Xdp",
    "relay": "wavebed.forward.device.relay:Relay",
    "shaped": "wavebed.forward.device.shaped:Shaped",
}
"""The class of each kind of device; imported when it is needed."""

FAULTY_KINDS = {
    "duplicating": "wavebed.forward.device.duplicating:Duplicating",
    "flooding": "wavebed.forward.device.flooding:Flooding",
    "rebooting": "wavebed.forward.device.rebooting:Rebooting",
}
"""Devices that do wrong, to show that the tester says so."""


def device_kind(name: str) -> type[Device]:
    """Return the class of a kind of device.

    Raises
    ------
    Problem
        If there is no such kind.
    """
    known = KINDS if name not in FAULTY_KINDS else FAULTY_KINDS
    module, _, attribute = known[choose(name, known)].partition(":")
    return cast("type[Device]", getattr(import_module(module), attribute))


def make_device(name: str, options: Mapping[str, str]) -> Device:
    """Return a device of a kind, with its options as texts.

    Raises
    ------
    Problem
        If the kind, an option or its value is wrong.
    """
    kind = device_kind(name)
    values: dict[str, int] = {}
    for key, text in options.items():
        if key not in kind.options:
            if not kind.options:
                raise Problem(f"the device {name} has no options", key)
            raise unknown_key(key, kind.options)
        values[key] = at(key, kind.options[key].read, text)
    for key, option in kind.options.items():
        values.setdefault(key, option.default)
    return kind(values)


def read_device(text: str) -> Device:
    """Return the device that a text describes: ``routing``, ``relay:delay=500us``, ``shaped:200000``.

    A value without a key is that of the kind's first option.

    Raises
    ------
    Problem
        If it describes none.
    """
    name, colon, rest = text.partition(":")
    kind = device_kind(name)
    options: dict[str, str] = {}
    for part in rest.split(",") if colon else ():
        key, equals, value = part.partition("=")
        if not equals and kind.options:
            key, value = next(iter(kind.options)), part
        if not value or key in options:
            raise Problem(f"{described(part)} is not an option: write {name}:KEY=VALUE,KEY=VALUE, each key once")
        options[key] = value
    return make_device(name, options)
