"""Secrets stand in nothing that is stored or shown, and a repetition asks for them."""

from __future__ import annotations

import ast
import gzip
import json
import time
import tomllib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from tests.result_folders import open_run, write_run
from tests.unit.test_run_write import run_record, trial_record

import wavebed
from wavebed.cli import main
from wavebed.errors import UserError
from wavebed.report.build import write_report
from wavebed.run.executor.carrier import needed_files
from wavebed.run.folder import design_in
from wavebed.run.resolve import read_spec
from wavebed.run.scenario import plan_of_spec, read_plan
from wavebed.secret import HIDDEN, redacted, redacted_json, redacted_line, redacted_toml, redacted_value, restored
from wavebed.spec.trial import WorkloadSpec
from wavebed.store.disk import new_partial
from wavebed.store.folder import write_trial
from wavebed.store.journal import Journal, RunEnded
from wavebed.workload.model import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.config.data import Json
    from wavebed.run.scenario import Plan

SECRET = "hunter2hunter2"
TEXTS = [
    f"curl -H 'Authorization: Bearer {SECRET}' host",
    f'Authorization: Digest username="me", response="{SECRET}"',
    f"http://me:{SECRET}@host/x",
    f"me:{SECRET}@host/x",
    f"https://host/?api_key={SECRET}&x=1",
    f"https://host/?X-Amz-Signature={SECRET}",
    f"wget --http-password {SECRET} host",
    f"mysql --password '{SECRET} x'",
    f"curl -u me:{SECRET} host",
    f"curl -ume:{SECRET} host",
    f"program --proxy-user me:{SECRET}",
    f"TOKEN={SECRET} program",
    f"PGPASSWORD={SECRET} psql",
    f"AWS_SECRET_ACCESS_KEY='{SECRET} x' aws",
    f'{{"password": "{SECRET}"}}',
    f'{{\\"password\\": \\"{SECRET}\\"}}',
    f"password = {SECRET}",
    f"X-Api-Key: {SECRET}",
    f"a bearer {SECRET} of it",
    f"-----BEGIN EC PRIVATE KEY-----\n{SECRET}\n-----END EC PRIVATE KEY-----",
    f"-----BEGIN OpenVPN Static key V1-----\n{SECRET}\n-----END OpenVPN Static key V1-----",
]
LINES = [
    ["wget", "--password", SECRET],
    ["curl", "-u", f"me:{SECRET}"],
    ["curl", "--user", f"me:{SECRET}"],
    ["program", "--api-token", SECRET],
    ["env", f"DB_PASS={SECRET}", "program"],
]


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_is_told_without_its_secret_and_told_again_alike(text: str) -> None:
    told = redacted(text)
    assert SECRET not in told
    assert HIDDEN in told
    assert redacted(told) == told


@pytest.mark.parametrize("words", LINES, ids=" ".join)
def test_words_are_told_without_their_secret_and_told_again_alike(words: Sequence[str]) -> None:
    told = redacted_line(words)
    assert SECRET not in " ".join(told)
    assert redacted_line(told) == told


@pytest.mark.parametrize(
    "text",
    [
        "TOKEN bucket of 1 mbit",
        "date -u +%H:%M",
        "ssh://root@host",
        "mail a@b.example about it",
        "path.rate.token-bucket=1mbit",
        "PWD=/home/me program",
        "the passing of tokens",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redacted(text) == text
    assert redacted_line(text.split()) == text.split()


def test_the_rest_of_a_shells_command_stays() -> None:
    assert redacted(f"TOKEN={SECRET} curl host; sleep 1") == f"TOKEN={HIDDEN} curl host; sleep 1"


@pytest.mark.parametrize(
    "piece",
    ["://", "token", "token=", "token=\"'", "--", "-.-", "-a 'x", "-token \"'", "@", "a:b@", "curl -u ", " bearer "],
)
def test_a_hostile_text_takes_linear_time(piece: str) -> None:
    text = piece * (1_000_000 // len(piece)) + " token @ curl"
    began_s = time.process_time()
    redacted(text)
    assert time.process_time() - began_s < 60  # quadratic time would be hours


SCENARIO = f"""
title = "fetching" # TOKEN={SECRET}
[path]
rate = "10mbit"
[[workload]]
kind = "command"
name = "fetch"
run = ["curl", "-H", "Authorization: Bearer {SECRET}", "http://me:{SECRET}@server/", "--password", "{SECRET}"]
[[treatment]]
name = "as-is"
[[treatment]]
name = "other"
set = {{ 'workload.fetch.run' = ["curl", "--token={SECRET}"] }}
"""


def test_a_copy_of_a_scenario_is_the_scenario_without_its_secrets() -> None:
    copy = redacted_toml(SCENARIO)
    assert SECRET not in copy
    assert tomllib.loads(copy) == redacted_value(tomllib.loads(SCENARIO))
    assert redacted_toml(copy) == copy
    plain = "title = 'x' # kept\n[path]\n"
    assert redacted_toml(plain) == plain


def test_a_copy_holds_every_kind_of_value() -> None:
    text = "pin-token = 5\nx = [1, 2.5, true, 1979-05-27T07:32:00Z, inf]\n"
    text += '[a."b c"]\nd = {e = "\\u007f\\\\\\"\\n"}\nf = {}\n'
    told = tomllib.loads(text) | {"pin-token": HIDDEN}
    assert tomllib.loads(redacted_toml(text)) == told


def planted(folder: Path) -> None:
    """Write a folder of results in every part of which somebody wrote secrets."""
    record = run_record()
    record.title = f"token={SECRET}"
    record.overrides = {"workload.fetch.token": SECRET, "workload.fetch.run": ["x", "--password", SECRET]}
    record.command_line = ["wavebed", "run", *(word for line in LINES for word in line), *TEXTS]
    record.workloads = [{"name": "file", "kind": "command", "settings": {"run": ["curl", *TEXTS]}}]
    record.treatments = [{"name": "cubic", "set": {"workload.fetch.secret": SECRET}}]
    open_run(folder, record, SCENARIO, {"campaign.toml": SCENARIO})
    with Journal() as journal:
        journal.open(folder)
        journal.emit(RunEnded(trials=1, stopped=TEXTS[0]))
    trial = trial_record()
    workload, *_ = trial.workloads
    asked: list[Json] = [*TEXTS]
    outcome = Outcome(status="failed", reason=f"curl: http://me:{SECRET}@host: gone", details={"asked": asked})
    options: dict[str, Json] = {"run": ["curl", "-u", f"me:{SECRET}", *TEXTS]}
    trial = replace(
        trial,
        reasons=TEXTS[:3],
        workloads=[replace(workload, outcome=outcome)],
        resolved={"title": TEXTS[2], "workloads": [{"name": "file", "options": options}], "network": {}},
    )
    write_trial(folder, new_partial(folder, "0001-cubic", "x", ()), trial)
    record.trials = []
    write_run(folder, record)


def told(folder: Path) -> dict[str, bytes]:
    files = {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    return {name: gzip.decompress(data) if name.endswith(".gz") else data for name, data in files.items()}


def test_no_byte_of_a_folder_of_results_tells_a_secret(tmp_path: Path) -> None:
    planted(tmp_path / "run")
    found = told(tmp_path / "run")
    assert {"run.json", "scenario.toml", "campaign.toml", "journal.jsonl"} <= found.keys()
    assert {name for name, data in found.items() if SECRET.encode() in data} == set()
    assert all(HIDDEN.encode() in found[name] for name in ("run.json", "scenario.toml", "journal.jsonl"))


def test_a_page_of_a_folder_that_an_earlier_version_wrote_tells_no_secret(tmp_path: Path) -> None:
    planted(tmp_path)
    (tmp_path / "scenario.toml").write_text(SCENARIO)
    run = json.loads((tmp_path / "run.json").read_text())
    run["command_line"] += ["--token", SECRET]
    run["overrides"] = {"workload.fetch.token": SECRET}
    (tmp_path / "run.json").write_text(json.dumps(run))
    (file,) = tmp_path.glob("trials/*/spec.json")
    file.write_text(json.dumps({"workloads": [{"options": {"token": SECRET}}]}))
    page = write_report(tmp_path)
    assert HIDDEN in page.read_text()
    assert SECRET not in page.read_text()


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    file = tmp_path / "s.toml"
    file.write_text(SCENARIO)
    return file


def test_the_copy_of_a_scenario_names_the_variable_of_each_secret(
    scenario: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario.write_text(redacted_toml(SCENARIO))
    assert main(["run", str(scenario)]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "workload.fetch.run.3: a secret was left out" in told
    assert "'Authorization: ***' by the environment variable WAVEBED_SECRET_WORKLOAD_FETCH_RUN_3" in told
    name = "WAVEBED_SECRET_WORKLOAD_FETCH_RUN"
    monkeypatch.setenv(f"{name}_3", f"Authorization: Bearer {SECRET}")
    monkeypatch.setenv(f"{name}_4", f"http://me:{SECRET}@elsewhere/")
    monkeypatch.setenv(f"{name}_6", SECRET)
    monkeypatch.setenv("WAVEBED_SECRET_TREATMENT_OTHER_SET_WORKLOAD_FETCH_RUN_2", f"--token={SECRET}")
    with pytest.raises(UserError, match=f"{name}_4 differs in more than the secret"):
        read_plan(scenario)
    monkeypatch.setenv(f"{name}_4", f"http://me:{SECRET}@server/")
    given = read_plan(scenario)
    scenario.write_text(SCENARIO)
    assert options(given) == options(read_plan(scenario))


def options(plan: Plan) -> list[object]:
    return [workload.options for treatment in plan.treatments for workload in treatment.workloads]


def test_a_specification_is_repeated_with_its_secret_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "s.toml").write_text(
        f'[path]\n[[workload]]\nkind = "command"\nname = "fetch"\nrun = ["curl", "--token", "{SECRET}", "server"]\n'
    )
    assert main(["resolve", str(tmp_path / "s.toml"), "-o", str(tmp_path / "spec.json")]) == 0
    file = tmp_path / "spec.json"
    file.write_bytes(redacted_json(file.read_bytes()))
    with pytest.raises(UserError, match="by the environment variable WAVEBED_SECRET_WORKLOAD_FETCH_RUN_3"):
        plan_of_spec(read_spec(file), file)
    monkeypatch.setenv("WAVEBED_SECRET_WORKLOAD_FETCH_RUN_3", SECRET)
    (treatment,) = plan_of_spec(read_spec(file), file).treatments
    assert f"--token {SECRET} server" in " ".join(treatment.workloads[0].options.run)


def test_stars_of_the_user_are_no_secret() -> None:
    value = {"run": ["grep", "a***b", "**", "markdown ***bold***"], "count": 3}
    assert restored(value, "workload.x") == value


def test_a_run_with_secrets_goes_on_in_its_folder(scenario: Path, tmp_path: Path) -> None:
    plan = read_plan(scenario, overrides={"workload.fetch.limit": "5s"})
    record = run_record()
    record.seed, record.blocks, record.overrides = plan.seed, plan.trials, dict(plan.overrides)  # type: ignore[arg-type]
    record.workloads = list(plan.tables)
    record.treatments = [{"name": each.name, "set": dict(each.changes)} for each in plan.treatments]  # type: ignore[arg-type]
    open_run(tmp_path / "run", record, plan.text)
    with pytest.raises(UserError, match="its trials would differ"):  # it got as far as the versions of programs
        design_in(tmp_path / "run", plan)
    scenario.write_text(SCENARIO.replace("10mbit", "11mbit"))
    with pytest.raises(UserError, match="its scenario differs"):
        design_in(tmp_path / "run", read_plan(scenario, overrides={"workload.fetch.limit": "5s"}))


def test_a_block_with_a_secret_is_not_sent(tmp_path: Path) -> None:
    asked: dict[str, Json] = {"run": ["curl", "--token", SECRET]}
    spec = WorkloadSpec("fetch", "command", 0, None, 1, "server", "client", asked)
    with pytest.raises(UserError, match="workload fetch: has a secret, which is not sent to workers"):
        list(needed_files(SimpleNamespace(patterns=[], workloads=[spec]), tmp_path))  # type: ignore[arg-type]


PACKAGE = Path(wavebed.__file__).parent
WITHOUT = {
    "reproduce": "figures and shipped studies",
    "fit": "figures of a place",
    "league": "figures of trials, and names of recordings",
    "export": "from records that were written without secrets",
    "cli/record.py": "figures of a judgement",
    "cli/specification.py": "types",
    "ui": "figures of a laboratory",
    "cli/channel.py": "shipped scenes",
    "radio": "shipped presets",
    "page": "compiled templates, without values",
    "output.py": "texts of TOML: a caller that writes them takes the secrets out",
    "report/build.py": "from records that are read without secrets",
    "forward/port.py": "a message to the peer, which needs the token",
    "workload": "content of a trial, and inputs of its programs",
    "cli/site.py": "the structure of a page, which has no text of it",
    "remedy": "inputs of programs, which are removed",
    "run/resolve.py": "the map of a scene; networks go to the engine's check alone",
    "run/bundle.py": "records without secrets; a file that may hold one is left out",
    "run/executor/guests.py": "what a guest runs, in a folder that is removed with it",
    "run/executor/inside.py": "names and sizes of packed trials",
    "virtual": "what a guest starts, and the hash of its kernel",
}
"""What writes JSON that holds no text of a user."""


def modules(*marks: str) -> list[tuple[str, ast.Module]]:
    """Return the modules whose text has all of these."""
    files = {str(file.relative_to(PACKAGE)): file.read_text(encoding="utf-8") for file in sorted(PACKAGE.rglob("*.py"))}
    return [(name, ast.parse(text)) for name, text in files.items() if all(mark in text for mark in marks)]


def test_only_one_module_makes_the_command_line_of_a_record() -> None:
    found = [
        name
        for name, tree in modules("sys.argv", '"wavebed"')
        for node in ast.walk(tree)
        if isinstance(node, ast.List | ast.Tuple)
        and "sys.argv" in ast.unparse(node)
        and "'wavebed'" in ast.unparse(node)
    ]
    assert found == ["secret.py"]


def test_each_module_that_stores_json_of_a_user_takes_the_secrets_out() -> None:
    writers = {"write_output", "replace_file", "replacing", "write_text", "write_bytes"}
    bare = []
    for name, tree in modules("json"):
        calls = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
        stores = any(call.rpartition(".")[2] in writers for call in calls) or "os.write" in calls
        makes = {"json.dumps", "json.encode", "msgspec.json.encode"} & calls
        redacts = any(call.startswith("redacted_") for call in calls)
        if (
            stores
            and makes
            and not redacts
            and not any(name == each or name.startswith(f"{each}/") for each in WITHOUT)
        ):
            bare.append(name)
    assert not bare, f"{bare}: let `wavebed.secret` take the secrets out, or say above why there are none"
