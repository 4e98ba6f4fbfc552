"""An emulated device: it is set up between the cables, says how frames reach it, and is taken down."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from wavebed.config.problems import Problem, described
from wavebed.config.units import parse_time
from wavebed.forward.layout import FLOWS, Layout
from wavebed.forward.model import Span

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from wavebed.forward.setup import EmulatedSetup

__all__ = ["Device", "Option", "Version", "count_from", "give_addresses", "whole_microseconds"]

Version = int
"""4 or 6."""

PREFIX_BITS = {4: 24, 6: 64}
INSIDE = {4: "198.18.0.{}", 6: "fd77:6176:6562::{}"}
OUTSIDE = {4: "198.18.1.{}", 6: "fd77:6176:6562:1::{}"}
"""Networks at the device's ports in0 and out0; the device is host 1 in each (RFC 2544, appendix C: 198.18.0.0/15)."""
FIRST_HOST = 2
HOSTS = 16


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a kind of device: a whole number, however it is written."""

    summary: str
    default: int
    read: Callable[[str], int]


class Device(ABC):
    """A device between the ports ``in0`` and ``out0`` of the namespace ``dut``.

    Parameters
    ----------
    values : mapping of str to int
        A value for each of `options`.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    options: ClassVar[Mapping[str, Option]] = {}

    def __init__(self, values: Mapping[str, int]) -> None:
        self.values = dict(values)

    @abstractmethod
    def set_up(self, setup: EmulatedSetup) -> None:
        """Make it forward.

        Raises
        ------
        WavebedError
            If the machine does not let it.
        """

    def tear_down(self) -> None:  # noqa: B027 - most devices go with their namespace
        """End processes and threads that do not end with the setup."""

    def layout(self, version: Version, flows: int = FLOWS) -> Layout:
        """Return the test frames that cross it, from ``tx0`` to ``rx0``: by default through a router."""
        return Layout(
            Span(INSIDE[version].format(FIRST_HOST), 1),
            Span(OUTSIDE[version].format(FIRST_HOST), HOSTS),
            next_hop=INSIDE[version].format(1),
            back_hop=OUTSIDE[version].format(1),
            flows=flows,
        )


def give_addresses(setup: EmulatedSetup) -> None:
    """Give the device's ports their addresses, from which its routes follow."""
    versions = (4, 6) if setup.has_v6 else (4,)
    setup.batch(
        [
            f"address add {network[version].format(1)}/{PREFIX_BITS[version]} dev {port.interface}"
            + (" nodad" if version == 6 else "")
            for port, network in ((setup.device_in, INSIDE), (setup.device_out, OUTSIDE))
            for version in versions
        ],
        "dut",
    )


def count_from(least: int, most: int) -> Callable[[str], int]:
    """Return a reader of whole numbers."""

    def read(text: str) -> int:
        if not text.isascii() or not text.isdecimal() or not least <= int(text) <= most:
            raise Problem(f"{described(text)} is not a whole number from {least} to {most}")
        return int(text)

    return read


def whole_microseconds(text: str) -> int:
    """Read a time as microseconds."""
    nanoseconds = parse_time(text)
    if nanoseconds % 1000:
        raise Problem(f"{described(text)} is not a whole number of microseconds")
    return nanoseconds // 1000
