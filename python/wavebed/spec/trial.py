"""Names of earlier specifications of version 1: what the network's legs, hops and coalescing were called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from wavebed.config.units import MAX_TIME_NS
from wavebed.errors import UserError
from wavebed.foreign import read_bytes
from wavebed.formats import TRIAL, require_version
from wavebed.prepared import prepared
from wavebed.spec.network import MOST_SEED
from wavebed.spec.part import SpecPart
from wavebed.spec.types import Network

if TYPE_CHECKING:
    from collections.abc import Iterator


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


Address: TypeAlias = Annotated[str, Meta(pattern=r"^(local|ssh://[^\s]+)$")]
"""``local``, or an address of ssh."""
Processor: TypeAlias = Literal["exact", "infinite", "host"]
"""A model of the processor in virtual time."""
GUEST_BYTES = (1 << 30, 64_000 << 20)
"""Least and most memory of a guest. With less, TCP has smaller buffers than on other machines; more was not tried."""
USUAL_GUEST_BYTES = 4000 << 20
"""Memory of a guest where nothing says so."""
GuestBytes: TypeAlias = Annotated[int, Meta(ge=GUEST_BYTES[0], le=GUEST_BYTES[1])]
Slower: TypeAlias = Annotated[float, Meta(ge=0.01, le=1000)]
Time: TypeAlias = Literal["auto", "real", "virtual"]
"""The time of trials as it is asked for; ``auto`` chooses before a trial is resolved."""


class NamespacesLab(SpecPart, frozen=True, tag_field="kind", tag="namespaces"):
    """Network namespaces of one machine, with the path between them.

    Parameters
    ----------
    time : str
        ``real``: the machine's; ``virtual``: a guest's.
    processor : str
        Of a guest. ``exact``: computing takes no time, and each entry into the kernel a fixed one; ``infinite``:
        neither takes time; ``host``: computing takes as long as on the host.
    slower : float
        How many times slower than the host the processor ``host`` is.
    memory_bytes : int or None
        Most memory of a guest; ``None``: `USUAL_GUEST_BYTES`.
    """

    time: Literal["real", "virtual"] = "real"
    processor: Processor = "exact"
    slower: Slower = 1.0
    memory_bytes: GuestBytes | None = None


class HostsLab(SpecPart, frozen=True, tag_field="kind", tag="hosts"):
    """Real hosts, with whatever lies between them.

    Parameters
    ----------
    server, client : str
        Where they are.
    server_address : str or None
        The server's address over the network under test; ``None``: the address at which ssh reaches it.
    expected_rate_bps : int or None
        Rate of the access, for the estimate of the data volume.
    data_limit_bytes : int or None
        Most bytes that the client may send and receive in a trial.
    server_congestion_control, client_congestion_control : str or None
        Of the connections of the trial, by a route, where the workload sets none; ``None``: the host's.
    modem : str
        What tells the state of the client's modem; ``auto``: what finds one.
    """

    server: Address
    client: Address
    server_address: str | None = None
    expected_rate_bps: Annotated[int, Meta(ge=1)] | None = None
    data_limit_bytes: Annotated[int, Meta(ge=1)] | None = None
    server_congestion_control: str | None = None
    client_congestion_control: str | None = None
    modem: Literal["auto", "none", "mmcli", "qmicli", "adb"] = "auto"


LabSpec: TypeAlias = NamespacesLab | HostsLab

IN_NAMESPACES = NamespacesLab()


def is_virtual(lab: LabSpec) -> bool:
    """Return whether a trial runs in virtual time."""
    return isinstance(lab, NamespacesLab) and lab.time == "virtual"


if TYPE_CHECKING:
    from pathlib import Path

    from wavebed.config.data import Json
else:
    Json = Any  # what msgspec takes for any JSON value


VERSION: Literal[1] = 1
_MOST_BYTES = 64 << 20


class PatternOrigin(SpecPart, frozen=True, omit_defaults=True):
    """Where a pattern comes from, for people; its file is named by its content.

    Parameters
    ----------
    source : str
        ``trace`` or ``scene``, which may be a map.
    name : str
        The file as the scenario names it, or the scene.
    bytes : int
        Size of the pattern in the native format.
    title, mode, direction : str
        Of a scene: its title; ``3gpp``, ``reference`` or ``map``; ``down`` or ``up``.
    """

    source: Literal["trace", "scene"]
    name: str
    bytes: int
    title: str = ""
    mode: str = ""
    direction: str = ""

    def label(self) -> str:
        """Return the name for people: ``scene street-canyon`` or ``trace walk.csv``."""
        return f"{self.source} {self.name.rpartition('/')[2] if self.source == 'trace' else self.name}"


class Treatment(SpecPart, frozen=True):
    """A treatment: a name, and the keys of the scenario that it changes."""

    name: str
    changes: dict[str, Json]


class WorkloadSpec(SpecPart, frozen=True):
    """An application in the trial: when it runs, between which hosts, and the keys of its kind, none left out."""

    name: str
    kind: str
    start_ns: Annotated[int, Meta(ge=0, le=MAX_TIME_NS)]
    after: str | None
    limit_ns: Annotated[int, Meta(ge=0, le=MAX_TIME_NS)]
    server: str
    client: str
    options: dict[str, Json]


class RemedySpec(SpecPart, frozen=True):
    """A remedy on a host during the trial, with the keys of its kind, none left out."""

    host: str
    kind: str
    options: dict[str, Json]


class TrialSpec(SpecPart, frozen=True):
    """One trial: everything that it depends on, resolved.

    Parameters
    ----------
    version : int
        Of this format.
    title, source : str
        What the scenario says of itself.
    block : int
        Which of the blocks of its run, from 1: all treatments of a block have one seed.
    seed : int
        Of all random processes.
    network : Network
        Every value explicit; the files of patterns are keys of `patterns`.
    patterns : mapping
        Where each pattern comes from, by its file: ``patterns/SHA256.csv``.
    remedies : tuple of RemedySpec
        In the order of their starts.
    lab : NamespacesLab or HostsLab
        Where the hosts are.
    """

    version: Literal[1]
    title: str
    source: str
    treatment: Treatment
    block: Annotated[int, Meta(ge=1)]
    seed: Annotated[int, Meta(ge=0, le=MOST_SEED)]
    network: Network
    patterns: dict[str, PatternOrigin]
    workloads: Annotated[tuple[WorkloadSpec, ...], Meta(min_length=1)]
    remedies: tuple[RemedySpec, ...] = ()
    lab: LabSpec = NamespacesLab()


def encode_spec(spec: TrialSpec) -> bytes:
    """Return the specification as JSON for people and programs."""
    return msgspec.json.format(msgspec.json.encode(spec), indent=2) + b"\n"


def decode_spec(text: bytes, name: str) -> TrialSpec:
    """Return the specification that a JSON text holds.

    Parameters
    ----------
    text : bytes
        The result of `encode_spec`.
    name : str
        The file, for messages.

    Raises
    ------
    UserError
        If it is not one; the line names the file, the key and the rule.
    """
    try:
        try:
            return msgspec.json.decode(text, type=prepared(TrialSpec))
        except msgspec.ValidationError:
            document = msgspec.json.decode(text)
            if isinstance(document, dict) and "version" in document:
                require_version(name, document["version"], TRIAL)
            return msgspec.convert(with_names_of_now(document), prepared(TrialSpec))
    except msgspec.ValidationError as error:
        rule, _, place = str(error).partition(" - at `$")
        key = place.rstrip("`").removeprefix(".") or "specification"
        raise UserError(f"{name}: {key}: {rule[:1].lower()}{rule[1:]}: see wavebed schema trial") from None
    except msgspec.DecodeError as error:
        raise UserError(f"{name}: is no JSON ({error}): name a specification of wavebed resolve") from None


def load_spec(file: Path, remedy: str) -> TrialSpec:
    """Return the specification in a file.

    Parameters
    ----------
    remedy : str
        The remedy in messages if it cannot be read.

    Raises
    ------
    UserError
        If it cannot be read or is none.
    """
    return decode_spec(read_bytes(file, remedy, most=_MOST_BYTES), str(file))
