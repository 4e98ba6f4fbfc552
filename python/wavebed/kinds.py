"""The kinds of folders of results: what is done with each, whichever product of this repository wrote it.

`wavebed.load`, ``wavebed report``, ``wavebed compare`` and ``wavebed doctor`` reach the forwarding test only through
`result_kind`. The module of a kind is imported when such a folder is met.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib import import_module
from typing import TYPE_CHECKING, ClassVar, NamedTuple, cast

from wavebed.store.records import Kind, kind_of, read_run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from wavebed.compare.find import RunComparison
    from wavebed.compare.samples import Folder


class ComparedFolders(NamedTuple):
    """A comparison in each form, and the name of its JSON output."""

    output: str
    text: Callable[[], str]
    json: Callable[[], object]
    csv: Callable[[], str]
    page: Callable[[], str]
    markdown: Callable[[], str] | None = None


class ResultKind(ABC):
    """One kind of folder.

    Attributes
    ----------
    title : str
        For messages: "a forwarding test".
    programs : mapping of str to str
        Programs that are started to get such results, and the options that start them.
    """

    title: ClassVar[str]
    programs: ClassVar[Mapping[str, str]] = {}

    def parts(self, folder: Path) -> list[Path]:
        """Return the folders to compare: this one, or those in it."""
        return [folder]

    @abstractmethod
    def load(self, folder: Path) -> object:
        """Return the results, for `wavebed.load`."""

    @abstractmethod
    def write_report(self, folder: Path, file: Path | None) -> Path:
        """Write the page, by default into the folder; return its path."""

    @abstractmethod
    def read_samples(self, folder: Path, name: str) -> Folder:
        """Return the values of each metric."""

    def compare(self, folders: Sequence[Path], margins: Sequence[str]) -> ComparedFolders:
        """Compare folders with the first: a verdict on each metric."""
        return compared_by_metric(self.compare_metrics(folders, margins))

    def compare_metrics(
        self, folders: Sequence[Path], margins: Sequence[str], *, explore: bool = True
    ) -> RunComparison:
        """Return the verdicts on metrics beside the first folder."""
        from wavebed.compare.find import compare_folders

        short = [folder.resolve().name for folder in folders]
        names = short if len(set(short)) == len(short) else [str(folder) for folder in folders]
        found = [self.read_samples(folder, name) for folder, name in zip(folders, names, strict=True)]
        return compare_folders(found, margins, explore=explore)


def compared_by_metric(comparison: RunComparison) -> ComparedFolders:
    """Return each form of a comparison of metrics."""
    from wavebed.compare.page import comparison_page
    from wavebed.compare.text import comparison_csv, comparison_json, comparison_text

    return ComparedFolders(
        "compare",
        lambda: comparison_text(comparison),
        lambda: comparison_json(comparison),
        lambda: comparison_csv(comparison),
        lambda: comparison_page(comparison),
    )


class RunOfScenario(ResultKind):
    """A run, or a campaign."""

    title = "a run of a scenario"

    def load(self, folder: Path) -> object:
        """Return a `Run`."""
        from wavebed.store.load import load_run

        return load_run(folder)

    def write_report(self, folder: Path, file: Path | None) -> Path:
        """Write the report of a campaign, if it is one."""
        if read_run(folder).campaign is not None:
            from wavebed.campaign.report import write_campaign_report

            return write_campaign_report(folder, file)
        from wavebed.report.build import write_report

        return write_report(folder, file)

    def read_samples(self, folder: Path, name: str) -> Folder:
        """Read the metrics of the trials."""
        from wavebed.compare.samples import read_samples

        return read_samples(folder, name)


KINDS: Mapping[Kind, str] = {
    "run": "wavebed.kinds:RunOfScenario",
    "forward": "wavebed.forward.kind:ForwardingTest",
    "reproduction": "wavebed.reproduce.small_packets_kind:ReproductionKind",
}
"""The class of each kind."""


def result_kind(name: Kind) -> ResultKind:
    """Return a kind by its name."""
    module, _, attribute = KINDS[name].partition(":")
    return cast("type[ResultKind]", getattr(import_module(module), attribute))()


def kind_at(folder: Path) -> ResultKind:
    """Return the kind of a folder of results.

    Raises
    ------
    UserError
        If it has no results, or its ``run.json`` cannot be read.
    """
    return result_kind(kind_of(folder))
