"""Formats of files: each version that is read has a sample that is read, and a newer version is refused in one line."""

from __future__ import annotations

import json
import re
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import wavebed
from wavebed.campaign.read import read_campaign
from wavebed.channel.placemap import load_map
from wavebed.cli.formats_reference import formats_page
from wavebed.errors import UserError
from wavebed.formats import FORMATS, FORWARD, MAP, PATTERN, RESULTS, TRIAL, Format
from wavebed.path.timeline import load_timeline
from wavebed.pattern import read_trace
from wavebed.result.read import read_trial
from wavebed.run.scenario import read_plan
from wavebed.scene import load as load_scene
from wavebed.spec.trial import load_spec
from wavebed.workload.site.spec import read_spec as read_site

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "tests" / "samples"


def unpacked(name: str, folder: Path) -> Path:
    with tarfile.open(SAMPLES / name) as packed:
        packed.extractall(folder, filter="data")
    return folder


def copied(name: str, folder: Path) -> Path:
    return Path(str((folder / name).write_bytes((SAMPLES / name).read_bytes()) and folder / name))


def read_run(folder: Path) -> object:
    run = wavebed.load(folder)
    return [read_trial(folder / "trials" / line.folder) for line in run.record.trials]


SAMPLE: dict[tuple[str, int], Callable[[Path], Path]] = {
    (RESULTS.name, 1): lambda folder: unpacked("results-1.tar.xz", folder) / "run",
    (FORWARD.name, 1): lambda folder: unpacked("results-1.tar.xz", folder) / "forward",
    (FORWARD.name, 2): lambda folder: unpacked("forward-2.tar.xz", folder) / "forward",
    (TRIAL.name, 1): lambda folder: copied("trial-1.json", folder),
    (PATTERN.name, 1): lambda folder: copied("pattern-1.csv", folder),
    (MAP.name, 1): lambda folder: copied("map-1.json", folder),
}
READ: dict[str, Callable[[Path], object]] = {
    RESULTS.name: read_run,
    FORWARD.name: lambda folder: wavebed.load(folder).arrow("trials"),
    TRIAL.name: lambda file: load_spec(file, "none"),
    PATTERN.name: read_trace,
    MAP.name: load_map,
}
VERSION = {
    RESULTS.name: r'"schema": \d+',
    FORWARD.name: r'"schema": \d+',
    TRIAL.name: r'"version": \d+',
    PATTERN.name: r"# wavebed pattern \d+",
    MAP.name: r'"wavebed-map": \d+',
}
EVERY = [pytest.param(form, version, id=f"{form.name} {version}") for form in FORMATS for version in form.reads]


def renumbered(form: Format, sample: Path, version: int) -> Path:
    """Give the file that has the version another one; return it."""
    file = sample / "run.json" if sample.is_dir() else sample
    text, changes = re.subn(
        VERSION[form.name], lambda found: re.sub(r"\d+$", str(version), found[0]), file.read_text(), 1
    )
    assert changes == 1
    file.write_text(text)
    return file


@pytest.mark.parametrize(("form", "version"), EVERY)
def test_every_version_that_is_read_has_a_sample(form: Format, version: int, tmp_path: Path) -> None:
    sample = SAMPLE[form.name, version](tmp_path)
    assert READ[form.name](sample)


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
def test_a_newer_version_is_refused_in_one_line(form: Format, tmp_path: Path) -> None:
    sample = SAMPLE[form.name, form.version](tmp_path)
    file = renumbered(form, sample, form.version + 1)
    with pytest.raises(UserError) as refused:
        READ[form.name](sample)
    line = str(refused.value)
    assert line.startswith(str(file))
    assert "\n" not in line
    assert str(form.version + 1) in line
    assert refused.value.exit_status == 2


@pytest.mark.parametrize("form", [form for form in FORMATS if form is not PATTERN], ids=lambda form: form.name)
def test_the_line_says_which_version_is_read_and_what_to_do(form: Format, tmp_path: Path) -> None:
    sample = SAMPLE[form.name, form.version](tmp_path)
    renumbered(form, sample, form.version + 1)
    with pytest.raises(UserError, match=rf"this wavebed reads \w+ {form.version}: install a newer wavebed$"):
        READ[form.name](sample)


def test_a_trial_of_a_newer_version_in_an_older_run_is_refused(tmp_path: Path) -> None:
    folder = SAMPLE[RESULTS.name, 1](tmp_path)
    file = next(folder.glob("trials/*/trial.json"))
    file.write_text(json.dumps(json.loads(file.read_text()) | {"schema": 2}))
    with pytest.raises(UserError, match=r"trial\.json: is of schema 2"):
        read_trial(file.parent)


def test_the_first_names_of_a_trial_are_read() -> None:
    network = load_spec(SAMPLES / "trial-1-first-names.json", "none").network
    assert [[hop.name for hop in leg.hops] for leg in network.legs] == [["radio"]]
    assert network.coalesce.time_ns == 125_000


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("scenario-edge-split.toml", read_plan),
        ("campaign-demo.toml", read_campaign),
        ("scene-street-canyon-bus.toml", load_scene),
        ("timeline-commute.toml", load_timeline),
        ("site-google.toml", read_site),
    ],
)
def test_files_that_people_wrote_for_an_earlier_version_are_read(name: str, read: Callable[[Path], object]) -> None:
    assert read(SAMPLES / name)


def test_the_page_of_formats_is_up_to_date() -> None:
    stored = (ROOT / "docs/reference/formats.md").read_text()
    assert stored == formats_page(), "run: python -m wavebed.cli.formats_reference docs/reference/formats.md"
