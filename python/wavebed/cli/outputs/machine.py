"""The outputs about this machine and its programs: doctor, laboratories, web sites."""

from __future__ import annotations

from msgspec import Struct

from wavebed.cli.doctor_checks import Check
from wavebed.path.control import Running

__all__ = ["ByKind", "ByOrigin", "DoctorOutput", "KernelOutput", "LabsOutput", "SiteOutput"]


class DoctorOutput(Struct, forbid_unknown_fields=True):
    """The checks of this machine."""

    can_run: bool
    checks: list[Check]
    programs: list[Check]
    extras: list[Check]


class KernelOutput(Struct, forbid_unknown_fields=True):
    """The installed kernel of virtual time.

    Parameters
    ----------
    release : str
        What ``uname -r`` prints in a guest: the version of Linux, and a hash of source, patch and configuration.
    """

    file: str
    release: str
    sha256: str


class LabsOutput(Struct, forbid_unknown_fields=True):
    """The running laboratories."""

    laboratories: list[Running]


class ByKind(Struct, forbid_unknown_fields=True):
    """The objects of one kind."""

    kind: str
    objects: int
    bytes: int


class ByOrigin(Struct, forbid_unknown_fields=True):
    """The objects of one origin."""

    origin: str
    objects: int
    bytes: int


class SiteOutput(Struct, forbid_unknown_fields=True):
    """A web site."""

    name: str
    title: str
    source: str
    first: str
    scheme: str
    folder: str
    objects: int
    bytes: int
    by_kind: list[ByKind]
    by_origin: list[ByOrigin]
    notes: list[str]
