"""The forwarding test as the rest of wavebed reaches it: what is done with its folders, and the programs it starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from wavebed.errors import UserError
from wavebed.kinds import ComparedFolders, ResultKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from wavebed.compare.samples import Folder, Key
    from wavebed.forward.folder import ForwardRun


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
        from wavebed.forward.folder import read_forward

        return read_forward(folder)

    def write_report(self, folder: Path, file: Path | None) -> Path:
        """Write the page of the device."""
        from wavebed.forward.report import write_forward_report

        return write_forward_report(folder, file)

    def compare(self, folders: Sequence[Path], margins: Sequence[str]) -> ComparedFolders:
        """Rank the devices."""
        from wavebed.forward.comparison import compare, comparison_csv, comparison_json, comparison_text
        from wavebed.forward.report.compare import comparison_page

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
        """Return the rates of the repeats under overload; refused repeats are not counted."""
        import numpy as np

        from wavebed.compare.find import ONLY
        from wavebed.compare.samples import Folder, MetricSeries, Sample
        from wavebed.workload.model import Metric

        run = self.load(folder)
        metric = Metric("received", None, "frames/s", "higher", "received frames over the time of sending")
        result = run.result
        series: dict[Key, MetricSeries] = {}
        lost, made = 0, 0
        machine = {what: str(told) for what, told in result.machine.items()}
        facts = {
            "kind of device": result.kind,
            "link": "not known" if result.link_mbps is None else f"{result.link_mbps:g}",
        }
        for test in result.overload:
            trials = [result.trials[place] for place in test.trials]
            counted = np.array([trial.received_pps for trial in trials if trial.verdict == "valid"])
            lost, made = lost + len(trials) - len(counted), made + len(trials)
            facts[f"frames of {test.name}"] = " ".join(map(str, test.sizes_bytes))
            if len(counted):
                series[test.name, metric.name] = MetricSeries(
                    test.name, metric, {ONLY: Sample(counted, np.empty(0, np.int64))}
                )
        return Folder(
            path=run.folder,
            name=name,
            facts={**facts, **machine, **run.record.versions},
            inputs=frozenset(),
            treatments=[ONLY],
            lost={ONLY: (lost, made)},
            seeds=frozenset(),
            unreadable=0,
            has_ended=not any(refusal.code == "interrupted" for refusal in result.refusals),
            campaign=None,
            series=series,
        )
