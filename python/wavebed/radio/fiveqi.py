"""Standardised 5QI of TS 23.501 table 5.7.4-1, from ``wavebed/radio/tables/five_qi.csv``."""

from __future__ import annotations

from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from msgspec import Struct

from wavebed.radio.carriers import read_texts

if TYPE_CHECKING:
    from collections.abc import Mapping


Resource: TypeAlias = Literal["gbr", "delay-critical-gbr", "non-gbr"]


class Characteristics(Struct, frozen=True):
    """What a 5QI promises, between UE and UPF."""

    five_qi: int
    resource: Resource
    level: int
    """Default priority level; the lowest is served first."""
    delay_budget_ns: int
    """98 % of the packets arrive within it while their flow keeps to its guaranteed rate."""
    error_rate: float
    """Upper bound of packets that are lost other than by congestion."""
    services: tuple[str, ...]


@cache
def standardised() -> Mapping[int, Characteristics]:
    """Return all standardised 5QI, in ascending order."""
    rows = [
        Characteristics(
            five_qi=int(five_qi),
            resource=cast("Resource", resource),
            level=int(level),
            delay_budget_ns=int(delay_ms) * 1_000_000,
            error_rate=float(error_rate),
            services=tuple(services.split("; ")),
        )
        for five_qi, resource, level, delay_ms, error_rate, services in zip(
            *read_texts("five_qi").values(), strict=True
        )
    ]
    return MappingProxyType({row.five_qi: row for row in sorted(rows, key=lambda row: row.five_qi)})


def characteristics(five_qi: int) -> Characteristics:
    """Return the characteristics of a 5QI.

    Raises
    ------
    ValueError
        One line: the 5QI is not standardised, and which are.
    """
    table = standardised()
    if five_qi not in table:
        choices = ", ".join(str(number) for number in table)
        raise ValueError(f"5QI {five_qi} is not standardised: write one of {choices}")
    return table[five_qi]
