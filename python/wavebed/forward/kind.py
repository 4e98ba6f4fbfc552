"""The forwarding test as the rest of wavebed reaches it: what is done with its folders, and the programs it starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from wavebed.errors import UserError
from wavebed.kinds import ComparedFolders, ResultKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from wavebed.compare.samples import Folder
    from wavebed.forward.read import ForwardRun

__all__ = ["ForwardingTest"]


class ForwardingTest(ResultKind):
    """A folder of ``wavebed forward``."""

    title = "a forwarding test"
    programs: ClassVar[Mapping[str, str]] = {
        "ip": "--dut",
        "taskset": "--dut",
        "nft": "--dut nat, --dut shaped",
        "iperf3": "--with iperf3",
        "ssh": "--cpu ssh://",
        "snmpget": "--cpu snmp://",
    }

    def load(self, folder: Path) -> ForwardRun:
        """Open the findings and the trials."""
        from wavebed.forward.read import read_forward

        return read_forward(folder)

    def write_report(self, folder: Path, file: Path | None) -> Path:
        """Write the page of the device."""
        from wavebed.forward.report import write_forward_report

        return write_forward_report(folder, file)

    def compare(self, folders: Sequence[Path], margins: Sequence[str]) -> ComparedFolders:
        """Rank the devices."""
        from wavebed.forward.report.compare import comparison_page
        from wavebed.forward.table_text import comparison_text
        from wavebed.forward.tables import compare, comparison_csv, comparison_json

        if margins:
            raise UserError("--margin: forwarding tests take it with --baseline only: write --baseline DIR DIR")
        found = compare([self.load(folder).result for folder in folders])
        return ComparedFolders(
            "compare-forward",
            lambda: comparison_text(found),
            lambda: comparison_json(found),
            lambda: comparison_csv(found),
            lambda: comparison_page(found),
        )

    def read_samples(self, folder: Path, name: str) -> Folder:
        """Return the rates of the repeats under overload."""
        from wavebed.forward.samples import forward_samples

        return forward_samples(self.load(folder), name)
