"""Further addresses of a host that serves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.lab.confine import Confined
from wavebed.lab.limits import LIMITS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wavebed.lab.protocol import Host

__all__ = ["add_addresses"]


def add_addresses(host: Host, addresses: Iterable[str]) -> None:
    """Give a host IPv4 addresses, which are routed to it already.

    Raises
    ------
    subprocess.CalledProcessError, subprocess.TimeoutExpired
        If it does not take them.
    """
    commands = "".join(f"address add {address}/32 dev lo\n" for address in addresses)
    argv, needs = ["ip", "-batch", "-"], Confined(capabilities=("net_admin",))
    host.run(argv, input=commands, check=True, timeout=LIMITS.answer_s, confined=needs)
