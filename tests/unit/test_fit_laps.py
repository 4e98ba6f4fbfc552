"""Which walks are fitted and which are held out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.made_up_walks import SECONDS, write_walks

from wavebed.errors import UserError
from wavebed.fit.laps import find_files, read_laps, split

FILES = [Path(f"{number}.txt") for number in range(1, 11)]


def names(files) -> list[str]:
    return [file.stem for file in files]


def test_files_are_in_the_natural_order_of_their_names(tmp_path):
    files = write_walks(tmp_path, 12)
    assert [file.name for file in find_files([tmp_path])] == [f"{number}_walking.txt" for number in range(1, 13)]
    assert find_files([*reversed(files), tmp_path]) == files


def test_hidden_files_and_folders_are_no_walks(tmp_path):
    (file,) = write_walks(tmp_path, 1)
    (tmp_path / ".hidden").write_text("1 2\n")
    (tmp_path / "more").mkdir()
    assert find_files([tmp_path]) == [file]


def test_an_empty_folder_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"has no files: name a folder of traces$"):
        find_files([tmp_path])


@pytest.mark.parametrize(
    ("rule", "held_out"),
    [
        ("every:4", ["4", "8"]),
        ("every:10", ["10"]),
        ("last:0.25", ["8", "9", "10"]),
        ("last:.1", ["10"]),
        ("none", []),
    ],
)
def test_a_rule_holds_walks_out_by_their_names_alone(rule, held_out):
    found = split(FILES, rule)
    assert names(found.held_out) == held_out
    assert names(found.fitted) == [name for name in names(FILES) if name not in held_out]


@pytest.mark.parametrize(
    "rule", ["every:0", "every", "every:x", "last:1.5", "last:2", "quarter:5", "quarter:0", "some"]
)
def test_an_unknown_rule_names_the_rules(rule):
    with pytest.raises(
        UserError, match=r"is no rule: write every:N, last:F\S+, quarter:N, files:PATH or none, as every:4"
    ):
        split(FILES, rule)


@pytest.mark.parametrize(
    ("rule", "what"), [("every:11", "no walk"), ("last:0.01", "no walk"), ("every:1", "all walks")]
)
def test_a_rule_must_leave_walks_on_both_sides(rule, what):
    with pytest.raises(UserError, match=f"--held-out {rule}: holds out {what} of 10"):
        split(FILES, rule)


def test_walks_are_judged_by_other_files(tmp_path):
    files = write_walks(tmp_path, 4)
    (tmp_path / "kept").mkdir()
    kept = write_walks(tmp_path / "kept", 2)
    found = split(files, f"files:{tmp_path / 'kept'}")
    assert (found.fitted, found.held_out) == (tuple(files), tuple(kept))
    named_twice = split(files, f"files:{tmp_path / '.' / files[1].name}")
    assert names(named_twice.fitted) == names([files[0], *files[2:]])


def test_other_files_must_exist_and_leave_walks(tmp_path):
    files = write_walks(tmp_path, 2)
    with pytest.raises(UserError, match=r"^--held-out files:\S+/none: \S+/none: no such file or directory"):
        split(files, f"files:{tmp_path / 'none'}")
    with pytest.raises(UserError, match=r"holds out all walks: name other walks to learn from$"):
        split(files, f"files:{tmp_path}")


@pytest.mark.parametrize("quarter", [1, 2, 3, 4])
def test_a_quarter_is_seen_by_one_side_only(tmp_path, quarter):
    found = split(write_walks(tmp_path, 2), f"quarter:{quarter}")
    fitted, held_out = found.fitted_laps([]), found.held_out_laps([])
    for seen, hidden in zip(fitted, held_out, strict=True):
        assert (np.isnan(seen.rates) != np.isnan(hidden.rates)).all()
        assert np.flatnonzero(~np.isnan(hidden.rates)).tolist() == list(
            range((quarter - 1) * SECONDS // 4, quarter * SECONDS // 4)
        )
        assert len(seen.parts) == (1 if quarter in (1, 4) else 2)
        assert sum(len(part) for part in seen.parts) == len(seen.known) == SECONDS * 3 // 4


def test_unusable_files_are_left_out_with_a_line_each(tmp_path):
    files = write_walks(tmp_path, 2)
    short, text = tmp_path / "3.txt", tmp_path / "4.txt"
    short.write_text("1.0\t5.0\n2.0\t6.0\n")
    text.write_text("this is no trace\n")
    notes: list[str] = []
    assert [lap.name for lap in read_laps([*files, short, text], notes)] == ["1_walking.txt", "2_walking.txt"]
    assert notes[0] == f"{short}: lasts 2 s: name walks of 60 to 100000 s: left out"
    assert notes[1].startswith(f"{text}: ")
    assert len(notes) == 2


def test_the_first_line_is_an_error_where_no_file_is_usable(tmp_path):
    file = tmp_path / "1.csv"
    file.write_text("# wavebed pattern 1\n# kind = steps\n# duration_s = 100\ntime_s,delay_s\n0,0.01\n")
    with pytest.raises(UserError, match=r"has no rate over time: name traces of rates$"):
        read_laps([file], [])


def test_a_second_is_the_mean_of_what_the_trace_has_in_it(tmp_path):
    file = tmp_path / "1.csv"
    rows = "".join(f"{second},1000000\n{second}.5,3000000\n" for second in range(60))
    file.write_text(f"# wavebed pattern 1\n# kind = steps\n# duration_s = 60.5\ntime_s,rate_bps\n{rows}60,7000000\n")
    (lap,) = read_laps([file], [])
    assert lap.rates.tolist() == [2.0] * 60
