"""The study cas-mmwave from made-up trials: segments, bounds, sweeps without numbers, and changes."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from tests.outputs import checked

from wavebed.reproduce.judge import Steady, steady_of
from wavebed.reproduce.studies import read_study
from wavebed.reproduce.study import BegunStudy, PartResults, begin, campaigns_of, models_table, results_of, run_study
from wavebed.reproduce.study_page import write_study_page
from wavebed.reproduce.study_text import study_json, study_text
from wavebed.result.model import TrialRecord, WorkloadRecord
from wavebed.run.design import expected_s
from wavebed.run.progress import Live
from wavebed.spec.trial import encode_spec, load_spec
from wavebed.workload.model import Metric, Outcome, TimeSpan

if TYPE_CHECKING:
    from pathlib import Path

    from wavebed.run.design import Slot
    from wavebed.run.resolve import Resolved

GOODPUT = {"wired": 120.0, "wireless": 90.0, "end-to-end": 2.0}
FLOWS = 16
SECONDS = 900


def measured(slot: Slot, resolved: Resolved, partial: Path, _look: object, of_machine: object) -> TrialRecord:
    """Take the place of `run_trial`: 16 flows have 16 times the goodput of one, a blocked beam a fifth."""
    (partial / "raw" / "out.txt").write_text("raw")
    (partial / "spec.json").write_bytes(encode_spec(resolved.spec))
    cell = slot.treatment.name
    names = [] if "end" in cell or "wire" in cell else ["free", "blocked"]
    (segment,) = [name for name in GOODPUT if cell.endswith(name)] or ["end-to-end"]
    value = GOODPUT[segment] * (FLOWS if cell.startswith("flows-16") else 1)
    workloads = [bulk("bulk", value)]
    if names:
        workloads = [bulk("free", 3000), bulk("blocked", 3000 if cell == "none" else 600)]
    head = (slot.folder, slot.block, cell, slot.seed, "", 0.1, "valid", [])
    return TrialRecord(*head, [], workloads, attempt=slot.attempt)


def bulk(name: str, goodput: float) -> WorkloadRecord:
    outcome = Outcome(metrics=[Metric("goodput", goodput, "Mbit/s", "higher")])
    return WorkloadRecord(name, "bulk", TimeSpan(0, 1, False), outcome)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("study") / "out"
    begun = BegunStudy("cas-mmwave", True)
    begin(made, begun)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WAVEBED_LOCK", str(made.parent / "lock"))
        patch.setattr("wavebed.run.runner.run_trial", measured)
        patch.setattr("wavebed.run.runner.prepare", lambda *_: None)
        patch.setattr("wavebed.reproduce.study.write_campaign_report", lambda _: None)
        run_study(campaigns_of(begun), made, [], Live("wavebed", io.StringIO()), accept=False)
    return made


@pytest.fixture
def parts(folder: Path) -> dict[str, PartResults]:
    return {part.part.name: part for part in results_of(read_study("cas-mmwave"), folder)}


def test_a_quick_run_has_what_was_promised_in_time() -> None:
    campaigns = {part.name: campaign for part, campaign in campaigns_of(BegunStudy("cas-mmwave", True))}
    cells = {name: list(campaign.levels.values()) for name, campaign in campaigns.items()}
    assert len({levels["change"] for levels in cells["figure-5"]}) == 6, "one flow, 16 flows, and four changes more"
    assert len({levels["delay"] for levels in cells["delay"]}) == 3
    assert len({levels["loss-percent"] for levels in cells["loss"]}) == 3
    treatments = [each for campaign in campaigns.values() for each in campaign.plan.treatments]
    assert sum(map(expected_s, treatments)) < SECONDS


def test_many_flows_that_come_closer_explain(parts: dict[str, PartResults]) -> None:
    found = {each.hypothesis.level: each for each in parts["figure-5"].tried}
    assert found["flows-16"].found == "closer"
    assert found["flows-16"].counts == (0, 3)
    assert (found["flows-16"].inside, found["flows-16"].outside) == (1, 0), "32 beside 30"
    assert found["radio-2500mbit"].found == "no change"


def test_a_ratio_above_ten_is_within_at_every_delay(parts: dict[str, PartResults]) -> None:
    ratios = parts["delay"].beside
    assert [each.ours.estimate for each in ratios] == [60.0] * 3
    assert all(each.within for each in ratios)
    assert all(each.within for each in parts["beam"].beside)


def test_cells_without_a_number_are_shown_too(parts: dict[str, PartResults], folder: Path) -> None:
    told = study_text(list(parts.values()))
    assert "Loss of the wireless hop, figures 9 to 11: no number was published" in told
    page = write_study_page(BegunStudy("cas-mmwave", True), read_study("cas-mmwave"), list(parts.values()), folder)
    assert (
        '<th scope=row class="text">0.1</th><td class="text">wireless</td><td class="text">bulk</td>'
        in page.read_text()
    )
    assert "<td>≥ 2500</td>" in page.read_text()
    markdown = page.with_suffix(".md").read_text()
    assert "| 10ms | wired | bulk | goodput, Mbit/s | 120 | 1 |" in markdown
    assert "| cardboard | blocked | goodput, Mbit/s | 600 | 1 |" in markdown
    assert "| none | free | goodput, Mbit/s | 3000" not in markdown, "this one has a published number"
    assert "(pictures/cas-mmwave-delay-ratios.svg)" in markdown
    checked("reproduce-study", {**study_json(list(parts.values())), "folder": str(folder), "report": str(page)})


def steady(folder: Path, part: str, cell: str) -> Steady | None:
    (file,) = (folder / part / "trials").glob(f"*-{cell}/spec.json")
    return steady_of(load_spec(file, ""))


def test_models_know_the_path_between_the_hosts_of_the_transfer(folder: Path) -> None:
    assert steady(folder, "figure-5", "as-described-wired") == Steady(0.08, pytest.approx(1e-4), 10_000, 1, 1448)
    assert steady(folder, "figure-5", "as-described-wireless") == Steady(0.001, pytest.approx(0.01), None, 1, 1448)
    # 1 - 0.9999 * 0.99
    assert steady(folder, "figure-5", "flows-16-end-to-end") == Steady(0.081, pytest.approx(0.010099), 10_000, 16, 1448)
    assert steady(folder, "figure-5", "radio-2500mbit-wireless") == Steady(0.001, pytest.approx(0.01), 2500, 1, 1448)


def test_models_know_nothing_of_lost_super_packets_or_a_radio(folder: Path) -> None:
    assert steady(folder, "figure-5", "superpacket-wired") is None
    assert steady(folder, "beam", "iron") is None


def test_models_are_beside_ours(parts: dict[str, PartResults]) -> None:
    table = models_table(parts["figure-5"])
    rows = {tuple(row[:2]): tuple(map(str, row[2:])) for row in table.rows}
    assert list(table.head[5:]) == ["Mathis", "CUBIC", "PFTK", "BBR", "our goodput"]
    assert rows["as-described", "wired"] == ("0.01", "80", "1", "17.7", "23.0", "17.7", "9459", "120")
    assert rows["flows-16", "end-to-end"][2:5] == ("16", "27.9", "27.9")
    assert rows["as-described", "wireless"][6] == "–"
    assert models_table(parts["beam"]).rows == ()
