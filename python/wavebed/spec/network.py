"""Questions to a network: its links, its second leg, the files of its patterns; and whether the engine takes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct, json, structs

from wavebed._core import find_core
from wavebed.errors import UserError, WavebedError
from wavebed.spec.types import ConstantDelay, DelayStage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from wavebed.spec.types import Hop, Leg, Network, Stage

__all__ = [
    "MOST_SEED",
    "check_networks",
    "least_rtt_ns",
    "links",
    "pattern_files",
    "second_leg",
    "with_pattern_files",
]

MOST_SEED = 2**63 - 1
"""The largest signed integer of 64 bits, the integers of TOML and Parquet."""
_SOURCES = ("rate", "delay", "model")
"""Fields of stages that a pattern may drive."""
_Node = TypeVar("_Node", bound=Struct)


def second_leg(network: Network) -> Leg | None:
    """Return the leg of the client's second radio, which is beside the row; ``None`` without one."""
    row = len(network.hosts) - 1
    return network.legs[row] if len(network.legs) > row > 0 else None


def least_rtt_ns(leg: Leg) -> int:
    """Return the constant delays of both directions: no answer of a host returns sooner."""
    stages = [stage for hop in leg.hops for stage in (*hop.down, *hop.up)]
    delays = [stage.delay for stage in stages if isinstance(stage, DelayStage)]
    return sum(delay.delay_ns for delay in delays if isinstance(delay, ConstantDelay))


def links(network: Network) -> Iterator[tuple[str, tuple[Stage, ...]]]:
    """Yield name and stages of every link: ``radio.down``, ``radio.up``."""
    for leg in network.legs:
        for hop in leg.hops:
            yield f"{hop.name}.down", hop.down
            yield f"{hop.name}.up", hop.up


def check_networks(networks: Sequence[Network]) -> None:
    """Check what ties the values of networks together. The engine knows these rules; it reads no pattern here.

    Raises
    ------
    UserError
        If one of them breaks a rule: the link, the key and the remedy.
    WavebedError
        If ``wavebed-core`` does not answer.
    """
    import subprocess  # 3 ms of the start-up of `shell`

    lines = b"".join(json.encode(each) + b"\n" for each in networks)
    done = subprocess.run([find_core(), "check"], input=lines, capture_output=True, check=False)
    answers = done.stdout.splitlines()
    if done.returncode or len(answers) != len(networks):
        raise WavebedError(f"wavebed-core check: {done.stderr.decode(errors='replace').strip() or 'no answer'}")
    for answer in answers:
        problem = json.decode(answer)["problem"]
        if problem is not None:
            raise UserError(f"path: {problem}")


def pattern_files(network: Network) -> list[str]:
    """Return the files of all patterns, each once, in the order of the links."""
    found: dict[str, None] = {}
    for _, stages in links(network):
        for stage in stages:
            for name in _SOURCES:
                file = getattr(getattr(stage, name, None), "file", None)
                if file is not None:
                    found[file] = None
    return list(found)


def with_pattern_files(network: Network, renamed: Callable[[str], str]) -> Network:
    """Return the same network with other names of its pattern files."""

    def link(stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
        return tuple(_renamed(stage, renamed) for stage in stages)

    def hop(each: Hop) -> Hop:
        return structs.replace(each, down=link(each.down), up=link(each.up))

    legs = tuple(structs.replace(leg, hops=tuple(map(hop, leg.hops))) for leg in network.legs)
    return structs.replace(network, legs=legs)


def _renamed(stage: _Node, renamed: Callable[[str], str]) -> _Node:
    for name in _SOURCES:
        source = getattr(stage, name, None)
        file = getattr(source, "file", None)
        if isinstance(source, Struct) and file is not None:
            stage = structs.replace(stage, **{name: structs.replace(source, file=renamed(file))})
    return stage
