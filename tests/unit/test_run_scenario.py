"""Scenarios of a run, and changes of their keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from wavebed.config.problems import Problem
from wavebed.errors import UserError
from wavebed.run.design import expected_s, plan_text
from wavebed.run.scenario import AS_DESCRIBED, Plan, changed, key_parts, parse_change, read_plan
from wavebed.spec.types import ConstantRate

if TYPE_CHECKING:
    from pathlib import Path


PATH = '[path]\nrate = "100mbit"\ndelay = "5ms"\n'
DOWNLOAD = '[[workload]]\nkind = "download"\nsize = "2mb"\n'


def plan(tmp_path: Path, text: str, **options: object) -> Plan:
    file = tmp_path / "s.toml"
    file.write_text(text)
    return read_plan(file, **options)  # type: ignore[arg-type]


def test_a_path_and_a_workload_are_enough(tmp_path: Path) -> None:
    found = plan(tmp_path, PATH + DOWNLOAD)
    (treatment,) = found.treatments
    assert (treatment.name, found.trials, found.seed) == (AS_DESCRIBED, 1, 1)
    assert [workload.name for workload in treatment.workloads] == ["download"]
    assert found.tables == [{"name": "download", "kind": "download", "settings": {"size": "2mb"}}]


def test_treatments_change_the_scenario_and_set_changes_all_of_them(tmp_path: Path) -> None:
    treatments = "".join(
        f'[[treatment]]\nname = "{name}"\nset = {{ "path.rate" = "{name}mbit" }}\n' for name in ("10", "20")
    )
    found = plan(
        tmp_path, PATH + DOWNLOAD + treatments, overrides={"workload.download.limit": "3s", "run.trials": 7}, seed=5
    )
    assert (found.trials, found.seed) == (7, 5)
    rates = [treatment.path.hops[0].down.rate for treatment in found.treatments]
    assert rates == [ConstantRate(10_000_000), ConstantRate(20_000_000)]
    assert [treatment.workloads[0].common.limit_s for treatment in found.treatments] == [3.0, 3.0]


def test_the_time_that_a_run_takes_follows_the_order_of_its_workloads(tmp_path: Path) -> None:
    text = PATH + "".join(
        f'[[workload]]\nkind = "bulk"\nname = "{name}"\nduration = "10s"\nstart = "1s"\n{after}'
        for name, after in (("b", 'after = "a"\n'), ("a", ""))
    )
    found = plan(tmp_path, text)
    assert expected_s(found.treatments[0]) == pytest.approx(23, abs=1.5)
    assert plan_text(found).startswith("s: 1 trial, about 2")


def test_only_the_named_workloads_run(tmp_path: Path) -> None:
    text = PATH + DOWNLOAD + '[[workload]]\nkind = "latency"\n'
    assert [each.name for each in plan(tmp_path, text, only=["download"]).treatments[0].workloads] == ["download"]
    with pytest.raises(UserError, match="--workload: 'x' is no workload of this scenario"):
        plan(tmp_path, text, only=["x"])


def test_a_scenario_names_its_primary_metric_or_gets_the_nearest_one(tmp_path: Path) -> None:
    text = f'[run]\nprimary = "download.goodput"\n{PATH}{DOWNLOAD}[[workload]]\nkind = "bulk"\nduration = "1s"\n'
    assert plan(tmp_path, text).primary == "download.goodput"
    assert plan(tmp_path, text, only=["bulk"]).primary == ""
    of_path = text.replace("download.goodput", "path.queueing delay p95 down")
    assert plan(tmp_path, of_path).primary == "path.queueing delay p95 down"
    for mistyped in ("download.godput", "godput", "web.speed index"):
        with pytest.raises(UserError, match=r"s\.toml: run\.primary: '.*' is no metric of this scenario: ") as caught:
            plan(tmp_path, text.replace("download.goodput", mistyped))
    with pytest.raises(UserError, match=r"did you mean 'download\.goodput'"):
        plan(tmp_path, text.replace("download.goodput", "download.godput"))
    assert "\n" not in str(caught.value)


def test_one_that_waits_for_one_that_is_left_out_waits_for_whom_that_one_waits(tmp_path: Path) -> None:
    text = PATH + "".join(
        f'[[workload]]\nkind = "bulk"\nname = "{name}"\nduration = "1s"\n{after}'
        for name, after in (("a", ""), ("b", 'after = "a"\n'), ("c", 'after = "b"\n'))
    )
    assert [each.common.after for each in plan(tmp_path, text).treatments[0].workloads] == [None, "a", "b"]
    assert [each.common.after for each in plan(tmp_path, text, only=["a", "c"]).treatments[0].workloads] == [None, "a"]
    assert [each.common.after for each in plan(tmp_path, text, only=["c"]).treatments[0].workloads] == [None]


def test_a_skipped_workload_runs_where_a_treatment_or_an_option_asks_for_it(tmp_path: Path) -> None:
    text = PATH + "".join(
        f'[[workload]]\nkind = "bulk"\nname = "{name}"\nduration = "1s"\n{more}'
        for name, more in (("a", ""), ("b", 'after = "a"\nskip = true\n'), ("c", 'after = "b"\n'))
    )

    def ran(**options: object) -> list[list[tuple[str, str | None]]]:
        treatments = plan(tmp_path, text + str(options.pop("more", "")), **options).treatments
        return [[(each.name, each.common.after) for each in one.workloads] for one in treatments]

    assert ran() == [[("a", None), ("c", "a")]]
    assert ran(only=["b"]) == [[("b", None)]]
    assert ran(overrides={"workload.b.skip": False, "workload.c.skip": True}) == [[("a", None), ("b", "a")]]
    levels = '[[treatment]]\nname = "without"\n[[treatment]]\nname = "with"\nset = { "workload.b.skip" = false }\n'
    assert ran(more=levels) == [[("a", None), ("c", "a")], [("a", None), ("b", "a"), ("c", "b")]]


def test_what_is_endless_goes_on_as_long_as_the_others_may(tmp_path: Path) -> None:
    text = PATH + DOWNLOAD + 'limit = "300s"\nstart = "5s"\n[[workload]]\nkind = "latency"\n'
    assert plan(tmp_path, text).treatments[0].workloads[1].common.limit_s == 305
    assert plan(tmp_path, text + 'limit = "20s"\n').treatments[0].workloads[1].common.limit_s == 20


def test_the_seed_of_the_path_is_that_of_the_first_trial_unless_the_run_has_one(tmp_path: Path) -> None:
    assert plan(tmp_path, PATH + "seed = 7\n" + DOWNLOAD).seed == 7
    assert plan(tmp_path, PATH + DOWNLOAD, overrides={"path.seed": 8}).seed == 8
    assert plan(tmp_path, PATH + "seed = 7\n" + DOWNLOAD + "[run]\nseed = 3\n").seed == 3
    assert plan(tmp_path, PATH + "seed = 7\n" + DOWNLOAD, seed=9).seed == 9


@pytest.mark.parametrize("key", ["run.trials", "run.seed", "path.seed"])
def test_a_treatment_cannot_change_what_belongs_to_the_whole_run(tmp_path: Path, key: str) -> None:
    text = PATH + DOWNLOAD + f"[[treatment]]\nname = 'a'\nset = {{ '{key}' = 2 }}\n"
    with pytest.raises(UserError, match=rf"treatment\[1\]\.set\.{key}: belongs to the whole run"):
        plan(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (PATH, "workload: is missing"),
        (PATH + "[workload]\nkind = 'download'\n", "workload: is not an array of tables"),
        (PATH + "[[workload]]\nsize = '2mb'\n", r"workload\[1\].kind: is missing: write one of bulk"),
        (PATH + "[[workload]]\nkind = 'downlod'\n", r"workload\[1\].kind: .*did you mean 'download'"),
        (PATH + "[[workload]]\nkind = 'download'\nsizes = '2mb'\n", r"workload\[1\].sizes: unknown key: did you mean"),
        (PATH + "[[workload]]\nkind = 'download'\nsize = 2\n", r"workload\[1\].size: 2 has no unit"),
        (PATH + DOWNLOAD + "limit = 'soon'\n", r"workload\[1\].limit"),
        (PATH + DOWNLOAD + DOWNLOAD, r"workload\[2\].name: 'download' is taken"),
        (PATH + DOWNLOAD + "name = 'path'\n", r"workload\[1\].name: 'path' has the figures of the path"),
        (PATH + DOWNLOAD + "skip = true\n", "workload: all are skipped: write skip = false in one of them"),
        (PATH + DOWNLOAD + "skip = 'yes'\n", r"workload\[1\].skip: 'yes' is neither true nor false"),
        (PATH + DOWNLOAD + "after = 'x'\n", "workload.download.after: 'x' is no workload here"),
        (PATH + DOWNLOAD + "after = 'download'\n", "wait for each other"),
        (PATH + DOWNLOAD + "client = 'edge'\n", "this path has no host 'edge'"),
        (PATH + "[[workload]]\nkind = 'latency'\n", "'latency' goes on until all other workloads end"),
        (PATH + DOWNLOAD + "[run]\ntrials = 0\n", "run.trials: 0 is out of range"),
        (PATH + DOWNLOAD + "[run]\ntrial = 1\n", "run.trial: unknown key: did you mean 'trials'"),
        (PATH + DOWNLOAD + "[[treatment]]\nset = {}\n", r"treatment\[1\].name: is missing"),
        (
            PATH + DOWNLOAD + "[[treatment]]\nname = 'a'\n[[treatment]]\nname = 'a'\n",
            r"treatment\[2\].name: 'a' is taken",
        ),
        (
            PATH + DOWNLOAD + "[[treatment]]\nname = 'a'\nset = { 'path.rate' = '1mbps' }\n",
            r"path.rate",
        ),
        (
            PATH + DOWNLOAD + "[[treatment]]\nname = 'a'\nset = { 'rate' = '1mbit' }\n",
            r"treatment\[1\].*rate: begins with no table",
        ),
        (
            PATH
            + DOWNLOAD
            + "[[workload]]\nkind = 'latency'\n[[workload]]\nkind = 'download'\nname = 'd'\nafter = 'latency'\n",
            "'latency' ends only with all other workloads",
        ),
        ("[run]\n", "path: is missing"),
        (PATH + "[[treatments]]\n", "treatments: unknown key: did you mean 'treatment'"),
    ],
)
def test_a_mistake_is_one_line_with_its_place(tmp_path: Path, text: str, line: str) -> None:
    with pytest.raises(UserError, match=line) as told:
        plan(tmp_path, text)
    assert "\n" not in str(told.value)
    assert "s.toml" in str(told.value)


def test_set_and_a_treatment_do_not_fight(tmp_path: Path) -> None:
    text = PATH + DOWNLOAD + "[[treatment]]\nname = 'a'\nset = { 'path.rate' = '1mbit' }\n"
    with pytest.raises(UserError, match=r"--set changes path\.rate too"):
        plan(tmp_path, text, overrides={"path.rate": "2mbit"})


DOCUMENT: dict[str, object] = {
    "path": {"rate": "1mbit", "hop": [{"name": "internet"}, {"name": "radio", "queue": "droptail:10p"}]},
    "workload": [{"kind": "download"}, {"kind": "bulk", "name": "other"}],
}


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("path.rate=50mbit", "path.rate", "50mbit"),
        ("path.seed = 3", "path.seed", 3),
        ("path.nat=true", "path.nat", True),
        ('path.rate="1gbit"', "path.rate", "1gbit"),
        ("path.queue={ kind = 'codel' }", "path.queue", {"kind": "codel"}),
        ("workload.web.site=a=b", "workload.web.site", "a=b"),
        ('path.server.sysctl."net.ipv4.tcp_ecn"=1', 'path.server.sysctl."net.ipv4.tcp_ecn"', 1),
    ],
)
def test_a_value_is_read_as_toml_where_it_is_toml(text: str, key: str, value: object) -> None:
    assert parse_change(text) == (key, value)


def test_a_key_in_quotes_is_one_part() -> None:
    assert key_parts('path.server.sysctl."net.ipv4.tcp_ecn"') == ("path", "server", "sysctl", "net.ipv4.tcp_ecn")


def test_hops_and_workloads_are_found_by_name_and_the_original_stays() -> None:
    result = changed(DOCUMENT, {"path.hop.radio.queue": "fq_codel", "workload.other.streams": 4, "run.trials": 2})
    assert result["run"] == {"trials": 2}
    path = result["path"]
    assert isinstance(path, dict)
    assert path["hop"][1]["queue"] == "fq_codel"
    workloads = result["workload"]
    assert isinstance(workloads, list)
    assert workloads[1] == {"kind": "bulk", "name": "other", "streams": 4}
    assert changed(DOCUMENT, {"workload.download.size": "2mb"})["workload"] == [
        {"kind": "download", "size": "2mb"},
        {"kind": "bulk", "name": "other"},
    ]
    assert "run" not in DOCUMENT


@pytest.mark.parametrize(
    ("key", "rule"),
    [
        ("rate", "begins with no table"),
        ("title.x", "begins with no table"),
        ("path", "begins with no table"),
        ("path..rate", "is not a key"),
        ("path.hop.lte.queue", "there is no hop 'lte': write one of internet, radio"),
        ("workload.nothing.size", "there is no workload 'nothing': write one of download, other"),
        ("workload.download", "leads to no value"),
        ("path.rate.x", "leads to no value"),
        ("path.rate.x.y", "is below a value that is no table"),
    ],
)
def test_a_key_that_leads_nowhere_is_said(key: str, rule: str) -> None:
    with pytest.raises(Problem, match=rule):
        changed(DOCUMENT, {key: 1})


@pytest.mark.parametrize("text", ["path.rate", "=1", ""])
def test_a_change_without_a_value_is_said(text: str) -> None:
    with pytest.raises(Problem, match="KEY=VALUE"):
        parse_change(text)
