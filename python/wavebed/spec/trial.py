"""The specification of one trial, and its JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from wavebed.config.units import MAX_TIME_NS
from wavebed.errors import UserError
from wavebed.foreign import read_bytes
from wavebed.formats import TRIAL, require_version
from wavebed.prepared import prepared
from wavebed.spec.earlier import with_names_of_now
from wavebed.spec.lab import LabSpec, NamespacesLab
from wavebed.spec.network import MOST_SEED
from wavebed.spec.part import Part
from wavebed.spec.types import Network

if TYPE_CHECKING:
    from pathlib import Path

    from wavebed.config.data import Json
else:
    Json = Any  # what msgspec takes for any JSON value

__all__ = ["PatternOrigin", "RemedySpec", "Treatment", "TrialSpec", "WorkloadSpec", "decode_spec", "encode_spec"]
__all__ += ["load_spec"]

VERSION: Literal[1] = 1
_MOST_BYTES = 64 << 20


class PatternOrigin(Part, frozen=True, omit_defaults=True):
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


class Treatment(Part, frozen=True):
    """A treatment: a name, and the keys of the scenario that it changes."""

    name: str
    changes: dict[str, Json]


class WorkloadSpec(Part, frozen=True):
    """An application in the trial: when it runs, between which hosts, and the keys of its kind, none left out."""

    name: str
    kind: str
    start_ns: Annotated[int, Meta(ge=0, le=MAX_TIME_NS)]
    after: str | None
    limit_ns: Annotated[int, Meta(ge=0, le=MAX_TIME_NS)]
    server: str
    client: str
    options: dict[str, Json]


class RemedySpec(Part, frozen=True):
    """A remedy on a host during the trial, with the keys of its kind, none left out."""

    host: str
    kind: str
    options: dict[str, Json]


class TrialSpec(Part, frozen=True):
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
