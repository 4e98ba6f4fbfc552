"""A server is waited for until its port is open, and ended if it never is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.unit.test_serve_bound import PORT

from wavebed.lab.limits import LIMITS
from wavebed.path.lab import LabHost

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


def lab_host(monkeypatch: pytest.MonkeyPatch, *tables: str) -> LabHost:
    """Return a host in namespaces whose sockets are first these, then those; the last stay."""
    left = list(tables)

    def run(*_: object, **__: object) -> Any:
        return SimpleNamespace(stdout=HEAD + (left.pop(0) if len(left) > 1 else left[0]))

    monkeypatch.setattr(LabHost, "run", run)
    return LabHost(cast("Any", SimpleNamespace(clock=None, limits=LIMITS)), "server")


@pytest.mark.parametrize(
    "row", ["   0: 00000000:4E20 00000000:0000 0A 0", "   0: 00000000:4E20 00000000:0000 07 0"], ids=["tcp", "udp"]
)
def test_a_port_is_open_when_a_socket_without_a_peer_has_it(monkeypatch: pytest.MonkeyPatch, row: str) -> None:
    lab_host(monkeypatch, "", row).wait_for_port(PORT, udp=True)


def test_a_connection_to_such_a_port_elsewhere_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    row = "   0: 00000000:8000 00000000:4E20 01 0\n   1: 00000000:4E20 0100007F:9000 01 0"
    with pytest.raises(TimeoutError, match=r"nothing on server listens on port 20000 after 0.05 s"):
        lab_host(monkeypatch, row).wait_for_port(PORT, 0.05, udp=True)
