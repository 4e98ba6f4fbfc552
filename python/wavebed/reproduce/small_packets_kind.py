"""The reproduction of small packets as the rest of wavebed reaches it: its folder, and what ``--json`` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from wavebed.errors import UserError
from wavebed.extras import require
from wavebed.forward.comparison import ForwardCompareOutput
from wavebed.kinds import ResultKind
from wavebed.result.names import DEVICES_FOLDER

if TYPE_CHECKING:
    from pathlib import Path
    from typing import NoReturn


class ReproductionKind(ResultKind):
    """A folder of ``wavebed reproduce small-packets``."""

    title = "a reproduction"

    def parts(self, folder: Path) -> list[Path]:
        """Return the folders of the devices."""
        return sorted((folder / DEVICES_FOLDER).iterdir())

    def load(self, folder: Path) -> NoReturn:
        """Refuse: each device has results of its own."""
        raise UserError(
            f"{folder}: holds several forwarding tests: name one of the folders in {folder / DEVICES_FOLDER}"
        )

    def write_report(self, folder: Path, file: Path | None) -> Path:
        """Write the page that compares the devices."""
        require("forward", "the report of a reproduction")
        from wavebed.reproduce.small_packets_write import write_reproduction_report

        return write_reproduction_report(folder, file)

    def read_samples(self, folder: Path, _name: str) -> NoReturn:
        """Refuse: each device has metrics of its own."""
        raise UserError(f"{folder}: is a reproduction: name the folder of one device in it")


class PublishedCpu(Struct, forbid_unknown_fields=True):
    """A row of the first published table."""

    test: str
    rate: str
    cpu_share: float


class PublishedRates(Struct, forbid_unknown_fields=True):
    """A row of the second published table."""

    device: str
    processor: str
    throughput_mbps: float
    throughput_rank: int
    small_mpps: float
    small_rank: int


class PublishedTables(Struct, forbid_unknown_fields=True):
    """The published tables."""

    source: str
    table_1: list[PublishedCpu]
    table_2: list[PublishedRates]


class SmallPacketsOutput(Struct, forbid_unknown_fields=True):
    """The study of small packets, repeated; `iperf3` is what that program said of each device."""

    measured: ForwardCompareOutput
    blocks: list[list[str]]
    iperf3: dict[str, Any]
    published: PublishedTables
    seed: int
    folder: str
    report: str
