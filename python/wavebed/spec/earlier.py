"""Names of earlier specifications of version 1: what the network's legs, hops and coalescing were called."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["with_names_of_now"]


def with_names_of_now(document: object) -> object:
    """Return a specification with the names of this wavebed.

    The key ``join`` of the network became ``coalesce``; its ``hops`` of ``segments`` became ``legs`` of ``hops``.
    Any other document is returned as it is.
    """
    if not isinstance(document, dict) or not isinstance(network := document.get("network"), dict):
        return document
    if "join" not in network:
        return document
    return document | {"network": dict(_network(network))}


def _network(network: dict[str, object]) -> Iterator[tuple[str, object]]:
    for key, value in network.items():
        if key == "join":
            yield "coalesce", value
        elif key == "hops" and isinstance(value, list):
            yield "legs", [_leg(each) for each in value]
        else:
            yield key, value


def _leg(hop: object) -> object:
    if not isinstance(hop, dict):
        return hop
    return {"hops" if key == "segments" else key: value for key, value in hop.items()}
