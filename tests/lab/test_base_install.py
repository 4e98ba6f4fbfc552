"""An installation without extras: a new environment with the packages that are always installed, and no others."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
import venv
from importlib.metadata import distribution
from pathlib import Path

import pytest

import wavebed
from wavebed._core import find_core

ROOT = Path(__file__).parents[2]
TRACE = ROOT / "scenarios" / "patterns" / "kau-e5g-1.csv"


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the interpreter of the new environment."""
    folder = tmp_path_factory.mktemp("base")
    venv.create(folder, symlinks=True)
    site = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for name in needed(project["dependencies"]):
        package = distribution(name)
        for top in {file.parts[0] for file in package.files or [] if file.parts[0] != ".."}:
            (site / top).symlink_to(str(package.locate_file(top)))
    (site / "wavebed.pth").write_text(str(Path(wavebed.__file__).parents[1]))
    (folder / "bin" / "wavebed-core").symlink_to(find_core())
    return folder / "bin" / "python"


def needed(requirements: list[str]) -> set[str]:
    """Return the packages that these requirements name, and those that they bring."""
    names = {re.match(r"[A-Za-z0-9._-]+", one)[0] for one in requirements if "extra ==" not in one}  # type: ignore[index]
    brought = [one for name in names for one in distribution(name).requires or []]
    return names | (needed(brought) if brought else set())


def run(python: Path, folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [str(python), *argv], cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def test_the_environment_has_no_package_of_an_extra(python: Path, tmp_path: Path) -> None:
    done = run(python, tmp_path, "-m", "wavebed", "doctor", "--json")
    extras = {check["name"]: check for check in json.loads(done.stdout)["extras"]}
    assert extras["wavebed[web]"]["found"] == (
        "not installed: Pillow, fonttools, Jinja2, Matplotlib, Playwright, pandas, PyArrow"
    )
    assert extras["wavebed[forward]"]["remedy"] == "pip install 'wavebed[forward]'"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--help", "usage: wavebed"),
        ("shell --rate 10mbit --delay 1ms -- echo across", "across"),
        ("ctl", ""),
        ("channel street-canyon-bus", "nlos"),
        ("channel street-canyon-bus -o bus.csv", ""),
        (f"trace info {TRACE}", "mean rate"),
        ("resolve demo", '"hosts"'),
        ("resolve bbr-5g-ping -o spec.json", ""),
        ("schema", '"$defs"'),
    ],
)
def test_it_works_without_extras(words: str, said: str, python: Path, tmp_path: Path) -> None:
    done = run(python, tmp_path, "-m", "wavebed", *words.split())
    assert done.returncode == 0, done.stderr
    assert said in done.stdout


def test_a_laboratory_in_python_works_without_extras(python: Path, tmp_path: Path) -> None:
    scenario = ROOT / "scenarios" / "kau-e5g-1.toml"
    script = (
        f"import wavebed\nwith wavebed.Path.load({str(scenario)!r}).up() as lab:"
        " print(lab.client.run(['true']).returncode)"
    )
    done = run(python, tmp_path, "-c", script)
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr


def test_a_page_names_the_extra(python: Path, tmp_path: Path) -> None:
    done = run(python, tmp_path, "-m", "wavebed", "trace", "plot", str(TRACE), "-o", "trace.html")
    line = "wavebed trace: a plot as HTML needs Jinja2: pip install 'wavebed[report]'\n"
    assert (done.returncode, done.stderr) == (3, line)
    assert not (tmp_path / "trace.html").exists()


def test_a_run_names_the_extra(python: Path, tmp_path: Path) -> None:
    done = run(python, tmp_path, "-m", "wavebed", "run", "demo", "-o", "out")
    line = (
        "wavebed run: a folder of results needs Jinja2, Matplotlib, pandas and PyArrow: pip install 'wavebed[report]'"
    )
    assert (done.returncode, done.stderr.splitlines()[-1]) == (3, line)
    assert not (tmp_path / "out").exists()
