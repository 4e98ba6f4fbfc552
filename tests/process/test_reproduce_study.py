"""A study is campaigns, and each published figure has a verdict beside ours."""

from __future__ import annotations

import io
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from tests.outputs import checked
from tests.unit.test_reproduce_study import measured, study  # noqa: F401

from wavebed.campaign.read import campaign_file, read_campaign
from wavebed.campaign.report.pictures import CellCourse
from wavebed.reproduce.studies import STUDIES, OverTime, Study, read_study
from wavebed.reproduce.study import BegunStudy, begin, begun_in, campaigns_of, results_of, run_study
from wavebed.reproduce.study_page import write_study_page
from wavebed.reproduce.study_picture import pictures_of
from wavebed.reproduce.study_text import study_json, study_text
from wavebed.run.progress import Live


@pytest.mark.parametrize("name", STUDIES)
def test_predictions_stand_as_they_were_committed(name: str) -> None:
    """The commit that a prediction names has it word for word."""
    way = f"python/wavebed/reproduce/studied/{name}.toml"
    root = Path(__file__).parents[2]
    for each in read_study(name).hypothesis:
        if not each.commit:
            continue
        shown = subprocess.run(
            ["git", "show", f"{each.commit}:{way}"], cwd=root, capture_output=True, check=False, text=True
        )
        if shown.returncode != 0 and not _has_history(root):
            pytest.skip("no history here: a shallow clone, or none")
        then = msgspec.toml.decode(shown.stdout, type=Study)
        assert msgspec.structs.replace(each, commit="") in [
            msgspec.structs.replace(one, commit="") for one in then.hypothesis
        ]


def _has_history(root: Path) -> bool:
    told = subprocess.run(
        ["git", "rev-parse", "--is-shallow-repository"], cwd=root, capture_output=True, check=False, text=True
    )
    return told.stdout.strip() == "false"


def reproduced(folder: Path, *, quick: bool) -> None:
    begun = BegunStudy("kau-e5g", quick, every_part=not quick)
    begin(folder, begun)
    run_study(campaigns_of(begun), folder, [], Live("wavebed reproduce", io.StringIO()), accept=False)


def test_a_quick_study_decides_nothing(study: Study, tmp_path: Path) -> None:
    reproduced(tmp_path / "out", quick=True)
    (part,) = results_of(study, tmp_path / "out")
    assert len(part.beside) == 52
    assert {each.verdict for each in part.beside} == {"one trial only"}
    assert "52 published figures: 52 one trial only" in study_text([part])
    page = write_study_page(BegunStudy("kau-e5g", True), study, [part], tmp_path / "out").read_text()
    assert "in virtual time" not in page
    virtual = BegunStudy("kau-e5g", True, time="virtual")
    assert "in virtual time" in write_study_page(virtual, study, [part], tmp_path / "out").read_text()
    assert "A quick run is a first look" in page
    assert page.count("<img ") == 5
    markdown = (tmp_path / "out/report.md").read_text()
    links = re.findall(r"^!\[.*\]\((pictures/.*\.svg)\)$", markdown, re.MULTILINE)
    assert links == [
        f"pictures/kau-e5g-downloads-{level}.svg" for level in ("scene-1", "scene-2", "scene-3", "scene-4", "lte")
    ]
    assert all((tmp_path / "out" / link).read_text().startswith("<?xml") for link in links)


def test_a_full_study_is_judged_figure_by_figure_and_goes_on(study: Study, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    reproduced(folder, quick=False)
    assert begun_in(folder, "kau-e5g") == BegunStudy("kau-e5g", False, every_part=True)
    again = campaigns_of(BegunStudy("kau-e5g", False, every_part=True))
    run_study(again, folder, [], Live("wavebed", io.StringIO()), accept=False)
    (part,) = results_of(study, folder)
    first = [each for each in part.beside if each.published.levels == {"scene": "scene-1", "start": "0s"}]
    assert [each.verdict for each in first] == ["reproduced"] * 4
    strange = [each for each in part.beside if each.published.value == 14]
    assert [each.verdict for each in strange] == ["not reproduced"]
    told = checked("reproduce-study", {**study_json([part]), "folder": str(folder), "report": "page.html"})
    assert told["downloads"][0]["trials"] == 6
    page = write_study_page(BegunStudy("kau-e5g", False), study, [part], folder).read_text()
    for line in part.results.run.trials:
        assert f"downloads/trials/{line.folder}/" in page


def test_a_part_of_which_nothing_was_published_shows_our_medians(study: Study, tmp_path: Path) -> None:
    reproduced(tmp_path / "out", quick=True)
    unpublished = msgspec.structs.replace(study.part[0], figures="none", metrics=["goodput"])
    study = msgspec.structs.replace(study, part=[unpublished])
    parts = results_of(study, tmp_path / "out")
    title, _, head, *cells = study_text(parts).splitlines()
    assert title == unpublished.title
    assert head.split("  ")[-2:] == ["download: goodput, Mbit/s", "n"]
    *_, goodput, trials = cells[0].split()
    assert 240 < float(goodput) < 290
    assert trials == "1"
    page = write_study_page(BegunStudy("kau-e5g", True), study, parts, tmp_path / "out")
    assert 'Nothing was published. <a href="downloads/report.html">' in page.read_text()
    assert "Nothing was published. These are our medians." in page.with_suffix(".md").read_text()


def test_series_of_the_named_cells_are_drawn_over_time(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reproduced(tmp_path / "out", quick=True)
    (part,) = results_of(study, tmp_path / "out")
    asked: list[list[str]] = []

    def read(_results: object, cells: list[str], titles: list[str]) -> list[CellCourse]:
        asked.append(cells)
        values = {cell: np.ones((1, 3)) for cell in cells}
        return [CellCourse(title, "Mbit/s", np.arange(3.0), values) for title in titles]

    monkeypatch.setattr("wavebed.reproduce.study_picture.courses", read)
    wanted = (OverTime("bulk: goodput", {"scene": ["scene-2"]}), OverTime("bulk: goodput", {"start": ["0s"]}))
    changed = replace(part, part=msgspec.structs.replace(part.part, over_time=wanted))
    names = [picture.name for picture in pictures_of(changed)]
    assert names[-2:] == ["downloads-time-1", "downloads-time-2"]
    assert asked[0] == ["scene-2-0s", "scene-2-1s", "scene-2-2s"]
    assert all(cell.endswith("-0s") for cell in asked[1])


def test_every_part_has_the_blocks_of_its_campaign() -> None:
    every = campaigns_of(BegunStudy("kau-e5g", False, every_part=True))
    assert [part for part, _ in every] == list(read_study("kau-e5g").part)
    for part, campaign in every:
        assert campaign.plan.trials == read_campaign(campaign_file(part.campaign)).plan.trials
    usual = {part.name: campaign.plan.trials for part, campaign in campaigns_of(BegunStudy("kau-e5g", False))}
    assert (usual["web"], "early" in usual) == (12, False)
    ((_, named),) = campaigns_of(BegunStudy("kau-e5g", False, ("early",)))
    assert named.plan.trials == 6


def test_a_resume_adds_blocks(study: Study, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    reproduced(folder, quick=True)
    more = campaigns_of(BegunStudy("kau-e5g", True, ("downloads",), 3))
    run_study(more, folder, [], Live("wavebed", io.StringIO()), accept=False)
    (part,) = results_of(study, folder)
    assert {each.ours.count for each in part.beside} == {3}
