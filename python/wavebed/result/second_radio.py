"""Metrics of a client with two radios, from the series of one trial. Formulas: docs/models/transport-metrics.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavebed.spec.network import second_leg
from wavebed.workload.model import Metric

if TYPE_CHECKING:
    from wavebed.result.course import Tables
    from wavebed.spec.types import Network

__all__ = ["second_radio_links", "second_radio_metrics"]

_SIDES = ("down", "up")


def second_radio_links(network: Network) -> list[str]:
    """Return the names of the links of the client's second radio; none without one."""
    leg = second_leg(network)
    return [] if leg is None else [f"{hop.name}.{side}" for hop in leg.hops for side in _SIDES]


def second_radio_metrics(tables: Tables, network: Network) -> list[Metric]:
    """Return the bytes that each radio of the client delivered, and the fraction of the second one.

    Parameters
    ----------
    tables : mapping of str to pyarrow.Table
        From `wavebed.result.tables.write_tables`.
    network : Network
        That of the trial.

    Returns
    -------
    list of Metric
        None without a second radio.
    """
    second = second_leg(network)
    if second is None:
        return []
    first = network.legs[len(network.hosts) - 2]
    delivered = _delivered_bytes(tables)
    found = []
    for side in _SIDES:
        # The last link of each leg in this direction: what it delivers reaches the next host.
        place = -1 if side == "down" else 0
        links = [f"{leg.hops[place].name}.{side}" for leg in (first, second)]
        counts = [delivered.get(link, 0) for link in links]
        source = "IP bytes delivered by the link, repetitions too"
        found += [
            Metric(f"delivered {link}", count / 1e6, "MB", "neither", source)
            for link, count in zip(links, counts, strict=True)
        ]
        share = 100 * counts[1] / sum(counts) if sum(counts) else None
        found.append(Metric(f"share of second radio {side}", share, "%", "neither", f"delivered {links[1]} / both"))
    return found


def _delivered_bytes(tables: Tables) -> dict[str, int]:
    links = tables["links"].group_by("link").aggregate([("delivered_bytes", "sum")])
    return dict(zip(links["link"].to_pylist(), links["delivered_bytes_sum"].to_pylist(), strict=True))
