"""Run a scenario from Python: ``wavebed.run``."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, cast

from wavebed.errors import UserError
from wavebed.extras import TABLES, require
from wavebed.interface.results import RunResults
from wavebed.path.api import Path, path_options, plain
from wavebed.result.names import new_folder
from wavebed.secret import redacted, redacted_table, redacted_value
from wavebed.shipped import find

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from wavebed.path.api import Setting
    from wavebed.run.scenario import Plan
    from wavebed.spec.trial import Time

_NAMELESS = {True: FilePath("path"), False: FilePath("scenario")}
"""The name of a `Path`, and of another scenario without a file, in messages and folders of results."""


def run(
    scenario: str | os.PathLike[str] | Mapping[str, Setting] | Path,
    *,
    workload: str | Mapping[str, Setting] | Sequence[str | Mapping[str, Setting]] = (),
    trials: int | None = None,
    seed: int | None = None,
    time: Time | None = None,
    output: str | os.PathLike[str] | None = None,
    changes: Mapping[str, Setting] | None = None,
    progress: bool = True,
    **settings: Setting,
) -> RunResults:
    """Run the workloads of a scenario on its path, and return the results.

    Parameters
    ----------
    scenario : path, mapping or Path
        A scenario file, the name of a shipped scenario, a scenario as a dictionary, or a `Path`.
    workload : str, mapping or sequence of these
        A table adds a workload to the scenario: ``{"kind": "bulk", "duration": "5s"}``. A text is the name
        of a workload of the scenario: the others are left out. On a `Path` without workloads it is the kind of one.
    trials : int, optional
        Trials of each treatment, each with a seed of its own.
    seed : int, optional
        Seed of the first trial.
    time : {"real", "virtual", "auto"}, optional
        This machine's time, or virtual time, in which the same seed gives the same results. By default as the scenario
        says, else ``$WAVEBED_TIME``, else real time.
    output : path, optional
        Folder of the results, new or empty; by default ``runs/NAME-TIME``.
    changes : mapping, optional
        Values by dotted key, as after ``--set``: ``{"workload.download.size": "10mb"}``.
    progress : bool
        Whether to report progress on standard error.
    **settings
        Options of the path, as for `Path`: ``rate="50mbit"``, ``queue="codel"``. They hold for every treatment.

    Returns
    -------
    RunResults
        The results. Trials that failed are in it too, each with its reasons.

    Raises
    ------
    UserError
        If the scenario or an argument is wrong; one line names it, the rule and the remedy.
    MachineError
        If a program is missing, or this machine cannot run a laboratory; ``wavebed doctor`` explains.
    MissingPackageError
        If pandas or PyArrow is not installed.

    Examples
    --------
    >>> wavebed.run("demo", trials=3)
    >>> wavebed.run(wavebed.Path(rate="50mbit", delay="20ms"), workload={"kind": "bulk", "duration": "5s"})
    """
    require("report", "a folder of results", TABLES)
    from wavebed.run.progress import Live
    from wavebed.run.runner import run_plan
    from wavebed.run.times import default_time, with_time

    options = path_options(settings)
    plan = _plan(scenario, _as_list(workload), options, trials=trials, seed=seed, overrides=dict(changes or {}))
    _check_treatments(plan, options)
    plan = with_time(plan, time, default_time("real"))
    folder = FilePath(output) if output is not None else new_folder(plan.scenario.stem)
    live = Live("wavebed.run", None if progress else io.StringIO())
    for note in plan.notes:
        live.note(f"note: {note}")
    given = {"workload": workload or None, "trials": trials, "seed": seed, "time": time, "changes": changes}
    try:
        record = run_plan(plan, folder, _command_line(scenario, {**given, **settings}), live)
    finally:
        live.clear()
    return RunResults(folder, record)


def _plan(
    scenario: str | os.PathLike[str] | Mapping[str, Setting] | Path,
    workloads: Sequence[str | Mapping[str, Setting]],
    options: Mapping[str, object],
    *,
    trials: int | None,
    seed: int | None,
    overrides: Mapping[str, object],
) -> Plan:
    from wavebed.config.problems import at
    from wavebed.config.values import number
    from wavebed.path.scenario import read_document
    from wavebed.run.scenario import MAX_TRIALS, read_plan
    from wavebed.spec.network import MOST_SEED

    document: dict[str, object] | None = None
    file = _NAMELESS[isinstance(scenario, Path)]
    if isinstance(scenario, Path):
        options = {**scenario.options, **options}
        if scenario.scenario is None:
            document, options = {"title": repr(scenario), "path": options}, {}
        else:
            file = find(scenario.scenario, "scenario")
    elif isinstance(scenario, Mapping):
        document = cast("dict[str, object]", plain(scenario))
    else:
        file = find(FilePath(scenario), "scenario")
    only: list[str] = []
    if workloads:
        document, only = _with_workloads(read_document(file) if document is None else document, workloads)
    if document is not None and not document.get("workload"):
        raise UserError('workload: there is none: add workload="bulk", or a table such as {"kind": "bulk"}')
    return read_plan(
        file,
        overrides=cast("dict[str, object]", plain(overrides)),
        overrides_are="changes",
        only=only,
        trials=None if trials is None else at("trials", number(1, MAX_TRIALS), trials),
        seed=None if seed is None else at("seed", number(0, MOST_SEED), seed),
        options=options,
        document=document,
    )


def _as_list(
    workload: str | Mapping[str, Setting] | Sequence[str | Mapping[str, Setting]],
) -> list[str | Mapping[str, Setting]]:
    return [workload] if isinstance(workload, str | Mapping) else list(workload)


def _with_workloads(
    document: dict[str, object], workloads: Sequence[str | Mapping[str, Setting]]
) -> tuple[dict[str, object], list[str]]:
    """Return the scenario with further workloads, and the names of those that are chosen; none: all."""
    before = document.get("workload", [])
    tables = [plain(each) for each in workloads if not isinstance(each, str)]
    texts = [each for each in workloads if isinstance(each, str)]
    if not before:
        return {**document, "workload": [*({"kind": each} for each in texts), *tables]}, []
    if not isinstance(before, list):
        return document, []  # the reader of the scenario says what is wrong
    known = list(map(_name, before))
    for text in texts:
        if text not in known:
            raise UserError(f"workload: {text!r} is no workload of this scenario: write one of {', '.join(known)}")
    names = list(map(_name, tables))
    return {**document, "workload": [*before, *tables]}, [*texts, *names] if texts else []


def _name(workload: object) -> str:
    """Return the name of a workload's table; the reader of the scenario says what is wrong with it."""
    return str(workload.get("name", workload.get("kind"))) if isinstance(workload, dict) else ""


def _check_treatments(plan: Plan, options: Mapping[str, object]) -> None:
    """Check that no setting makes treatments alike, which change the same key."""
    settings = {_without_direction(option): option for option in options}
    for treatment in plan.treatments:
        for change in treatment.changes:
            option = settings.get(_without_direction(change.rpartition(".")[2])) if change.startswith("path.") else None
            if option is not None:
                raise UserError(
                    f"{option.replace('-', '_')}: treatment {treatment.name} sets {change}, and this would make the"
                    " treatments alike: leave it out"
                )


def _without_direction(key: str) -> str:
    return key.removeprefix("up-").removeprefix("down-")


def _command_line(
    scenario: str | os.PathLike[str] | Mapping[str, Setting] | Path, given: Mapping[str, object]
) -> list[str]:
    """Return a command that runs the same again, without secrets."""
    if isinstance(scenario, Path):
        first = None if scenario.scenario is None else str(scenario.scenario)
        words = [*([] if first is None else [repr(first)]), *_keywords(scenario.options)]
        told = f"wavebed.Path({', '.join(words)})"
    else:
        told = repr(redacted_value(plain(scenario)))
    call = f"import wavebed; wavebed.run({', '.join([told, *_keywords(given)])})"
    return ["python3", "-c", redacted(call)]


def _keywords(given: Mapping[str, object]) -> list[str]:
    values = {key.replace("-", "_"): plain(value) for key, value in given.items() if value is not None}
    return [f"{key}={value!r}" for key, value in redacted_table(values).items()]
