"""Bundles: what they have, and what of a stranger's is refused."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

import pytest

from wavebed.cli import main
from wavebed.errors import UserError
from wavebed.result.identity import Inputs, inputs_json
from wavebed.run.bundle import is_bundle, open_bundle, write_bundle
from wavebed.spec.patterns import GIVEN

TRIAL = "0003-a"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of results with one trial, whose program opened files of the user."""
    monkeypatch.setenv("WAVEBED_CACHE", str(tmp_path / "cache"))
    home = tmp_path / "home"
    home.mkdir()
    texts = {"play.py": "print(1)\n", "notes.txt": "password = hunter2\n", "gone.txt": "x", "changed.txt": "y"}
    for name, text in texts.items():
        (home / name).write_text(text)
    files = {str(home / name): hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()}
    (home / "gone.txt").unlink()
    (home / "changed.txt").write_text("other")
    scenario = tmp_path / "s.toml"
    command = f'run = ["python3", "{home}/play.py"]\nfolder = "{home}"'
    scenario.write_text(f'[path]\nrate = "1mbit"\n[[workload]]\nkind = "command"\n{command}\n[lab]\ntime = "virtual"\n')
    trial = tmp_path / "run/trials" / TRIAL
    (trial / "raw").mkdir(parents=True)
    assert main(["resolve", str(scenario), "-o", str(trial / "spec.json")]) == 0
    (trial / "trial.json").write_text("{}")
    (trial / "raw/out.txt").write_text("result\n")
    (trial / "computing.json").write_text('{"total_ns":"00000000000000000000"}')
    (trial / "inputs.json").write_bytes(inputs_json(Inputs("1", "2", "3", {}, {"/usr/bin/python3": "0", **files})))
    return tmp_path / "run"


def test_a_bundle_has_the_trial_and_the_small_files_that_its_programs_opened(run: Path, tmp_path: Path) -> None:
    file = write_bundle(run, TRIAL, ["it was late"], ["x p50 < 1 ms"])
    assert file == run / "bundles/0003-a.tar"
    assert is_bundle(file)
    (tmp_path / "new").mkdir()
    bundle = open_bundle(file, tmp_path / "new")
    assert (bundle.trial, bundle.why, bundle.requirements) == (TRIAL, ("it was late",), ("x p50 < 1 ms",))
    assert (tmp_path / "new/trials/0003-a/raw/out.txt").read_text() == "result\n"
    assert sorted(bundle.files) == ["raw/out.txt", "spec.json", "trial.json"]
    assert (tmp_path / "new" / GIVEN / "1").read_text() == "print(1)\n"
    assert [Path(line.partition(":")[0]).name for line in bundle.left_out] == ["changed.txt", "gone.txt", "notes.txt"]
    assert "may hold a secret" in bundle.left_out[2]
    assert b"hunter2" not in file.read_bytes()
    again = write_bundle(run, TRIAL, ["it was late"], ["x p50 < 1 ms"])
    assert again == file, "a second one replaces it"


def _tar(file: Path, *entries: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(file, "w", format=tarfile.USTAR_FORMAT) as tar:
        for entry, content in entries:
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return file


def _entry(name: str, kind: bytes = tarfile.REGTYPE) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, "/etc/passwd"
    return made


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        ([(_entry("../out"), b"x")], "came as the name of a file"),
        ([(_entry("/etc/out"), b"x")], "came as the name of a file"),
        ([(_entry("link", tarfile.SYMTYPE), b"")], "is no regular file"),
        ([(_entry("hard", tarfile.LNKTYPE), b"")], "is no regular file"),
        ([(_entry("pipe", tarfile.FIFOTYPE), b"")], "is no regular file"),
        ([(_entry("one"), b"x"), (_entry("one"), b"y")], "File exists"),
        ([(_entry("one"), b"x")], "it has no bundle.json"),
        ([(_entry("bundle.json"), b"{}")], "bundle.json is malformed"),
        (
            [(_entry("bundle.json"), b'{"version":1,"trial":"../x","why":[],"requirements":[],"files":{}}')],
            "has no spec.json",
        ),
    ],
)
def test_a_strangers_bundle_that_is_none_is_refused_in_one_line(
    entries: list[tuple[tarfile.TarInfo, bytes]], why: str, tmp_path: Path
) -> None:
    file = _tar(tmp_path / "strange.tar", *entries)
    (tmp_path / "new").mkdir()
    with pytest.raises(UserError, match=r"strange.tar: is no bundle") as refused:
        open_bundle(file, tmp_path / "new")
    assert why in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "out").exists()


def test_what_is_no_tar_or_cut_off_is_refused(run: Path, tmp_path: Path) -> None:
    whole = write_bundle(run, TRIAL, [])
    for number, content in enumerate((b"x" * 2000, whole.read_bytes()[:1500], b"")):
        file = tmp_path / f"{number}.tar"
        file.write_bytes(content)
        folder = tmp_path / f"into-{number}"
        folder.mkdir()
        with pytest.raises(UserError, match="is no bundle"):
            open_bundle(file, folder)
