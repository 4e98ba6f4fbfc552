"""A test in virtual time: pytest runs it alone in a guest, and its reports and results come out.

There this module is a plugin that writes the reports.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, cast

from wavebed.errors import WavebedError
from wavebed.virtual.guest import OUTPUT, guest_folder, last_words, run_guest
from wavebed.virtual.shell import in_this_folder

if TYPE_CHECKING:
    import pytest

__all__ = ["reports_of"]

_REPORTS, _RESULTS = "reports.jsonl", "results"
_WRITTEN = "/run/wavebed/results"
"""Where pytest writes results in the guest: in memory. Outside, files change their owner only for root."""
_FOLDERS = ("--wavebed-dir", "--wavebed-report", "--junitxml", "--junit-xml", "--basetemp", "--log-file")
_OF_PYTEST = "PYTEST_"
_OWN = ("PYTEST_CURRENT_TEST", "PYTEST_VERSION", "PYTEST_XDIST_")
"""Variables that a running pytest sets."""


def reports_of(item: pytest.Item, seed: int, results: Path) -> list[pytest.TestReport]:
    """Run a test in a guest, and return its reports.

    Parameters
    ----------
    seed : int
        Of the path, and of the guest's random numbers.
    results : pathlib.Path
        Where the folder of the test's results is copied to.

    Raises
    ------
    MachineError
        If the kernel of virtual time is not installed.
    WavebedError
        If there are no reports.
    """
    with guest_folder() as folder:
        here = item.config.invocation_params.dir
        named = [str(here), str(item.config.rootpath), *filter(None, sys.path)]
        status = run_guest(folder, in_this_folder(_command(item), here), seed, named=named)
        inside = folder.output / _RESULTS
        for each in inside.iterdir() if inside.is_dir() else ():
            shutil.copytree(each, results / each.name)
        try:
            lines = (folder.output / _REPORTS).read_text(encoding="utf-8").splitlines()
        except OSError:
            words = last_words(folder) or "it said nothing"
            raise WavebedError(f"pytest in the guest ended with {status} before the test: {words}") from None
    config = item.config
    found = [config.hook.pytest_report_from_serializable(config=config, data=json.loads(line)) for line in lines]
    return [cast("pytest.TestReport", report) for report in found]


def _command(item: pytest.Item) -> list[str]:
    """Return what runs the test with the options of this run."""
    config = item.config
    given = _without_folders([word for word in map(str, config.invocation_params.args) if word not in config.args])
    chosen = [f"--rootdir={config.rootpath}", f"--wavebed-dir={_WRITTEN}", "--wavebed-report=never"]
    if config.pluginmanager.hasplugin("xdist"):
        chosen.append("-n0")
    variables = [
        f"{name}={value}"
        for name, value in sorted(os.environ.items())
        if name.startswith(_OF_PYTEST) and not name.startswith(_OWN)
    ]
    path = os.pathsep.join(each for each in sys.path if each)
    pytest_ = [sys.executable, "-m", "pytest", *given, *chosen, "-p", __name__]
    return ["env", *variables, f"PYTHONPATH={path}", *pytest_, f"{config.rootpath}/{item.nodeid}"]


def _without_folders(words: list[str]) -> list[str]:
    """Return the words of a command line without the options that say where results go: the guest has its own."""
    found, skips = [], False
    for word in words:
        if not skips and not word.startswith(tuple(f"{option}=" for option in _FOLDERS)) and word not in _FOLDERS:
            found.append(word)
        skips = word in _FOLDERS
    return found


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write a report, in a guest."""
    assert _config is not None, "pytest configures its plugins first"
    data = _config.hook.pytest_report_to_serializable(config=_config, report=report)
    with Path(OUTPUT, _REPORTS).open("a", encoding="utf-8") as file:
        file.write(f"{json.dumps(data, default=str)}\n")


_config: pytest.Config | None = None


def pytest_configure(config: pytest.Config) -> None:
    """Keep the configuration, whose hooks make values of reports."""
    global _config  # noqa: PLW0603 - a hook with a report gets no configuration
    _config = config


def pytest_unconfigure() -> None:
    """Copy the results out of the guest."""
    if Path(_WRITTEN).is_dir():
        shutil.copytree(_WRITTEN, Path(OUTPUT, _RESULTS))
