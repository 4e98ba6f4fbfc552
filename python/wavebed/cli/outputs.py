"""What commands print with ``--json``: the name and the type of each output, from which its JSON Schema is made.

A command prints by `print_json`, with the name of its output. The tests check what is printed against the schema.
"""

from __future__ import annotations

import json
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wavebed.config.data import Json

PREFIX = "output/"
"""What the name of a schema of an output begins with."""


class Output(NamedTuple):
    """An output: the commands that print it, its meaning, and the module and the name of its type."""

    commands: str
    meaning: str
    module: str
    type: str


def _of_runs(name: str, commands: str, meaning: str) -> Output:
    return Output(commands, meaning, "wavebed.cli.outputs_of_runs", name)


def _of_channels(name: str, commands: str, meaning: str) -> Output:
    return Output(commands, meaning, "wavebed.cli.outputs_of_channels", name)


OUTPUTS: Mapping[str, Output] = {
    "run": _of_runs("RunOutput", "run, rerun, record, record --replay", "medians of the metrics of a run"),
    "campaign": _of_runs("CampaignOutput", "campaign run, demo", "answers of a campaign"),
    "campaign-plan": _of_runs("PlanOutput", "campaign plan", "cells, time and blocks of a campaign"),
    "campaign-status": _of_runs("StatusOutput", "campaign status", "progress of a run or campaign"),
    "channel": _of_channels("ChannelOutput", "channel", "states and figures of a scene or a learned map"),
    "check": _of_runs("CheckOutput", "check", "decisions on requirements"),
    "compare": _of_runs("CompareOutput", "compare", "metrics of folders beside those of the first"),
    "compare-baseline": _of_runs("BaselineOutput", "compare --baseline", "judgement against a baseline"),
    "compare-forward": Output(
        "compare, of forwarding tests", "devices, ranked", "wavebed.forward.comparison", "ForwardCompareOutput"
    ),
    "ctl-list": _of_channels("LabsOutput", "ctl", "running laboratories"),
    "ctl-netns": _of_channels("NetnsOutput", "ctl LAB netns", "network namespace of a host"),
    "ctl-show": Output("ctl LAB show", "state of a running laboratory", "wavebed.path.control", "LabState"),
    "ctl-timeline": Output("ctl LAB timeline", "state of a timeline", "wavebed.path.control", "TimelineState"),
    "doctor": _of_channels("DoctorOutput", "doctor", "what this machine can run, and the remedies"),
    "explain": Output("explain", "why packets were late or lost", "wavebed.explain.model", "Explanation"),
    "fit": _of_channels("FitOutput", "fit", "judgement of what was learned from walks"),
    "fit-replay": _of_channels("ReplayOutput", "fit --as replay", "figures of a recording under both loads"),
    "fit-handovers": _of_channels(
        "HandoversOutput", "fit --as handovers", "interruptions by handovers, and their judgement"
    ),
    "forward": Output("forward", "findings of a forwarding test", "wavebed.forward.result", "ForwardOutput"),
    "kernel": _of_channels(
        "KernelOutput", "kernel build, kernel install, kernel status", "the installed kernel of virtual time"
    ),
    "record-judge": _of_runs("JudgedOutput", "record --judge", "live beside replayed trials"),
    "report": _of_runs("ReportOutput", "report", "where the report is"),
    "reproduce-small-packets": Output(
        "reproduce small-packets", "our tables", "wavebed.reproduce.small_packets_kind", "SmallPacketsOutput"
    ),
    "reproduce-study": _of_runs("StudyOutput", "reproduce, of the other studies", "our figures"),
    "scenarios": _of_runs("ScenariosOutput", "scenarios", "shipped scenarios, and what each answers"),
    "scenarios-name": _of_runs("ScenarioOutput", "scenarios NAME", "what a scenario measures"),
    "scenes": _of_channels("ScenesOutput", "scenes", "conditions with their figures, and all other names"),
    "scenes-condition": _of_channels("ConditionOutput", "scenes NAME, of a condition", "its text and figures"),
    "scenes-name": _of_channels("NameOutput", "scenes NAME, of another name", "the keys of a hop"),
    "scenes-profile": _of_channels("ProfileOutput", "scenes 5qi-N", "the budgets of a 5QI"),
    "site-info": _of_channels("SiteOutput", "site info", "objects of a web site"),
    "trace-get": _of_channels("TraceGetOutput", "trace get", "what was fetched and converted"),
    "trace-info": _of_channels("TraceInfo", "trace info", "duration, rates and outages of a trace"),
    "trace-info-list": _of_channels("TraceInfoList", "trace info, of several files", "the same of several traces"),
    "trace-list": _of_channels("TraceListOutput", "trace list", "the catalogue of public traces"),
}


def print_json(name: str, data: object, indent: int | None = None) -> None:
    """Print an output as one JSON object.

    Parameters
    ----------
    name : str
        Its name in `OUTPUTS`.
    data : object
        JSON data, or a value of the output's type.
    indent : int, optional
        Blanks of an indent; by default the object is one line.
    """
    print(json_text(name, data, indent))


def json_text(name: str, data: object, indent: int | None = None) -> str:
    """Return an output as it is printed."""
    assert name in OUTPUTS, "every output has a schema"
    if not isinstance(data, dict):
        from msgspec import to_builtins

        data = to_builtins(data)
    return json.dumps(data, indent=indent, allow_nan=False, ensure_ascii=False)


def output_schema(name: str) -> dict[str, Json]:
    """Return the JSON Schema of an output."""
    import msgspec

    output = OUTPUTS[name]
    kind = getattr(import_module(output.module), output.type)
    found: dict[str, Json] = msgspec.json.schema(kind, schema_hook=_any)
    return found


def _any(kind: type) -> dict[str, Json]:
    """Return the schema of what another program reported, which may be anything."""
    if kind is not object:
        raise NotImplementedError
    return {"description": "as another program reported it"}
