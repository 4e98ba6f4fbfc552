"""What a scenario would do, as JSON: ``python -m wavebed.mcp.facts``, for the server that decides whether it may.

A process of its own, since a scenario may take any time and memory to read.
"""

from __future__ import annotations

import sys
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from msgspec import Struct, field, json

from wavebed.config.data import texts_in
from wavebed.errors import WavebedError
from wavebed.foreign import read_toml
from wavebed.prepared import prepared
from wavebed.run.change import parse_change
from wavebed.run.expected import expected_s
from wavebed.run.scenario import read_plan
from wavebed.spec.lab import HostsLab

if TYPE_CHECKING:
    from wavebed.run.scenario import Plan

__all__ = ["Asked", "Facts", "answer"]

COMMAND_KIND = "command"


class Asked(Struct):
    """What is asked for."""

    scenario: str
    shipped: bool
    set: list[str]
    workloads: list[str]
    trials: int | None
    seed: int | None


class Facts(Struct):
    """What the scenario is.

    Parameters
    ----------
    refused : list of str
        What a server without ``--allow-commands`` refuses.
    error : str
        Why it cannot be read; empty if it can.
    """

    title: str = ""
    trials: int = 0
    expected_s: float = 0.0
    refused: list[str] = field(default_factory=list)
    error: str = ""


def answer(asked: Asked) -> Facts:
    """Return what a scenario would do; texts are checked before the files that they name are read."""
    try:
        changes = dict(map(parse_change, asked.set))
        given: list[object] = list(changes.values())
        if not asked.shipped:  # the shipped ones name their own files
            given.append(read_toml(asked.scenario, "name a scenario file"))
        elsewhere = [f"{text!r} names a file elsewhere" for text in texts_in(given) if _is_elsewhere(text)]
        if elsewhere:
            return Facts(refused=elsewhere)
        return _facts_of(
            read_plan(
                Path(asked.scenario), overrides=changes, only=asked.workloads, trials=asked.trials, seed=asked.seed
            )
        )
    except WavebedError as error:
        return Facts(error=str(error))


def _facts_of(plan: Plan) -> Facts:
    refused = []
    for treatment in plan.treatments:
        commands = [workload.name for workload in treatment.workloads if workload.kind == COMMAND_KIND]
        refused += [f"workload {name} runs a program" for name in commands]
        if isinstance(treatment.lab, HostsLab):
            refused.append("lab.backend is hosts")
        if getattr(treatment.path, "nat", False):
            refused.append("path.nat uses this machine's network")
    total_s = plan.trials * sum(expected_s(treatment) for treatment in plan.treatments)
    return Facts(plan.title, plan.trials * len(plan.treatments), total_s, list(dict.fromkeys(refused)))


def _is_elsewhere(text: str) -> bool:
    """Return whether a text may name a file outside the folder of the scenario."""
    return text.startswith(("/", "~")) or ".." in PurePosixPath(text).parts


if __name__ == "__main__":
    sys.stdout.buffer.write(json.encode(answer(json.decode(sys.argv[1], type=prepared(Asked)))))
