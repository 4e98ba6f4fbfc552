"""A trial as a value: resolved once, printed, kept, read again, and refused in one line where it is wrong."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest
from tests.unit.test_spec import BUFFERS, WALK, resolved, scenario  # noqa: F401

from wavebed.cli import main
from wavebed.errors import UserError, WavebedError
from wavebed.run.resolve import read_spec
from wavebed.run.scenario import plan_of_spec, read_plan
from wavebed.spec.network import pattern_files
from wavebed.spec.patterns import StoredPatterns
from wavebed.spec.trial import decode_spec, encode_spec

if TYPE_CHECKING:
    from pathlib import Path


def test_a_specification_comes_back_as_it_went(scenario: Path) -> None:
    for spec in resolved(read_plan(scenario), None):
        assert decode_spec(encode_spec(spec), "spec.json") == spec


def test_treatments_have_their_own_options_and_blocks_their_seeds(scenario: Path) -> None:
    specs = resolved(read_plan(scenario), None)
    sizes = {spec.treatment.name: spec.workloads[0].options["size"] for spec in specs}
    assert sizes == {"small": "1mb", "large": "5mb"}
    assert [(spec.block, spec.seed) for spec in specs] == [(1, 1), (1, 1), (2, 2), (2, 2)]


def test_no_option_is_left_out(scenario: Path) -> None:
    spec = resolved(read_plan(scenario), None)[0]
    assert spec.workloads[0].options.keys() == {"size", "marks", "protocol", "names"}
    assert spec.workloads[1].options.keys() == {"probe", "interval", "duration", "tail", "rpm", "udp-size"}


def test_a_trace_is_kept_once_by_its_content_and_keeps_its_name(scenario: Path, tmp_path: Path) -> None:
    specs = resolved(read_plan(scenario), tmp_path / "out") if (tmp_path / "out").mkdir() is None else []
    (name,) = specs[0].patterns
    assert all(list(spec.patterns) == [name] for spec in specs)
    assert specs[0].patterns[name].label() == "trace walk.txt"
    (kept,) = (tmp_path / "out/patterns").iterdir()
    assert f"patterns/{kept.name}" == f"{name}.gz"
    text = gzip.decompress(kept.read_bytes())
    assert text.startswith(b"# wavebed pattern 1")
    assert len(text) == specs[0].patterns[name].bytes


def test_what_resolve_wrote_can_be_run_without_scenario_and_trace(scenario: Path, tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    folder.mkdir()
    assert (
        main(["resolve", str(scenario), "--treatment", "large", "--trial", "2", "-o", str(folder / "spec.json")]) == 0
    )
    scenario.unlink()
    (tmp_path / "walk.txt").unlink()
    moved = folder.rename(tmp_path / "moved")
    stored = read_spec(moved / "spec.json")
    assert (stored.spec.treatment.name, stored.spec.block, stored.spec.seed) == ("large", 2, 2)
    plan = plan_of_spec(stored, moved / "spec.json")
    (again,) = resolved(plan, None)
    assert again.network == stored.spec.network
    assert again.patterns == stored.spec.patterns
    assert again.workloads == stored.spec.workloads


def test_a_pattern_that_is_not_what_its_name_says_is_refused(scenario: Path, tmp_path: Path) -> None:
    (spec, *_) = resolved(read_plan(scenario), tmp_path)
    (name,) = pattern_files(spec.network)
    kept = tmp_path / f"{name}.gz"
    kept.write_bytes(gzip.compress(b"# wavebed pattern 1\n"))
    with pytest.raises(UserError, match="content does not match its name"):
        StoredPatterns([name], tmp_path)
    kept.write_bytes(b"\x1f\x8b")
    with pytest.raises(UserError, match="cannot be unpacked"):
        StoredPatterns([name], tmp_path)
    kept.unlink()
    with pytest.raises(UserError, match="keep the folder patterns beside the specification"):
        StoredPatterns([name], tmp_path)
    with pytest.raises(UserError, match="is no name of a pattern"):
        StoredPatterns(["../../etc/passwd"], tmp_path)


def test_a_full_disk_ends_in_one_line_for_patterns_that_were_kept_before_too(
    scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["resolve", str(scenario), "-o", str(tmp_path / "spec.json")]) == 0

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("wavebed.run.resolve.keep", full)
    file = tmp_path / "spec.json"
    for plan in (read_plan(scenario), plan_of_spec(read_spec(file), file)):
        with pytest.raises(WavebedError, match="no space left on device: a pattern cannot be stored"):
            resolved(plan, tmp_path)
