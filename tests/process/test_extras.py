"""Packages of extras: what works without them, what is said where one is missing, and who imports them."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.unit.report_example import write_example

from wavebed.cli import COMMANDS
from wavebed.errors import MachineError
from wavebed.extras import EXTRAS, PACKAGES, TABLES, require

ROOT = Path(__file__).parents[2]
TRACE = ROOT / "scenarios" / "patterns" / "kau-e5g-1.csv"
OPTIONAL = sorted({module for extra in EXTRAS.values() for module in extra.modules})

BLOCKED = """
import sys
names = set(sys.argv.pop(1).split())

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocker())
from wavebed.cli import main
sys.exit(main())
"""

LOADED = """
import sys
names = set(sys.argv.pop(1).split())
from wavebed.cli import main
try:
    status = main()
except SystemExit as ended:
    status = ended.code
print(*sorted(names & set(sys.modules)), file=sys.stderr)
sys.exit(status)
"""


def _python(script: str, modules: list[str], words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-c", script, " ".join(modules), *words]
    return subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


def _project() -> dict[str, list[str]]:
    """Return the packages of each extra as pyproject.toml has them; those that are always installed go by ``""``."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lists = {"": project["dependencies"], **project["optional-dependencies"]}
    return {name: [re.split(r"[<>=]", one)[0].lower() for one in wanted] for name, wanted in lists.items()}


def test_extras_are_those_of_the_project() -> None:
    project = _project()
    assert project.pop("") == ["msgspec", "numpy", "rich"]
    assert sorted(project.pop("all")) == sorted(PACKAGES[module].lower() for module in OPTIONAL)
    assert {name: sorted(wanted) for name, wanted in project.items()} == {
        name: sorted(PACKAGES[module].lower() for module in extra.modules) for name, extra in EXTRAS.items()
    }


def test_a_package_has_one_range_of_versions() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    everywhere = {one for wanted in project["optional-dependencies"].values() for one in wanted}
    assert everywhere == set(project["optional-dependencies"]["all"])


def test_commands_of_extras_exist() -> None:
    assert {command.split()[0] for extra in EXTRAS.values() for command in extra.commands} <= set(COMMANDS)


def test_the_line_lists_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    require("forward", "it")
    monkeypatch.setattr("wavebed.extras.find_spec", lambda _: None)
    for modules, listed in (
        (None, "MLRsearch, Jinja2, pandas and PyArrow"),
        (TABLES, "pandas and PyArrow"),
        (["PIL"], "Pillow"),
    ):
        with pytest.raises(MachineError, match=rf"^it needs {listed}: pip install 'wavebed\[forward\]'$"):
            require("forward", "it", modules)


SCENARIO = """
[path]
rate = "1mbit"
[[workload]]
kind = "web"
name = "page"
site = "google"
protocol = "h2"
"""

REFUSED = {
    "run s.toml -o out": ("pyarrow", "a folder of results needs PyArrow", "report"),
    "demo -o out": ("playwright", "workload web needs Playwright", "web"),
    "report out": ("pyarrow pandas", "a folder of results needs pandas and PyArrow", "report"),
    "export out -o x.flent.gz": ("pandas", "a folder of results needs pandas", "report"),
    "export out --format perfetto": ("perfetto", "--format perfetto needs Perfetto", "report"),
    "compare a b": ("pyarrow", "a folder of results needs PyArrow", "report"),
    "channel street-canyon-bus --plot x.png": ("matplotlib", "--plot needs Matplotlib", "report"),
    "channel street-canyon-bus --plot x.html": ("matplotlib", "--plot needs Matplotlib", "report"),
    f"trace plot {TRACE} -o x.svg": ("matplotlib", "a plot as SVG needs Matplotlib", "report"),
    f"trace plot {TRACE} -o x.html": ("jinja2", "a plot as HTML needs Jinja2", "report"),
    "site info google": ("PIL matplotlib", "a web site needs Pillow and Matplotlib", "web"),
    "forward -o out": ("MLRsearch", "the forwarding test needs MLRsearch", "forward"),
    "reproduce small-packets -o out": ("MLRsearch", "the forwarding test needs MLRsearch", "forward"),
}


@pytest.mark.parametrize("command", REFUSED)
def test_a_command_without_its_package_names_the_extra_at_once(command: str, tmp_path: Path) -> None:
    blocked, what, extra = REFUSED[command]
    (tmp_path / "s.toml").write_text(SCENARIO)
    done = _python(BLOCKED, blocked.split(), command.split(), tmp_path)
    lines = done.stderr.splitlines()
    assert lines[-1] == f"wavebed {command.split(maxsplit=1)[0]}: {what}: pip install 'wavebed[{extra}]'"
    assert (done.returncode, done.stdout) == (3, "")
    assert [path.name for path in tmp_path.iterdir()] == ["s.toml"], "nothing was begun"


@pytest.mark.parametrize("kind", ["web", "video", "call"])
def test_each_workload_in_a_browser_is_refused_by_name(kind: str, tmp_path: Path) -> None:
    site = 'site = "google"\n' if kind == "web" else ""
    (tmp_path / "s.toml").write_text(f'[path]\nrate = "1mbit"\n[[workload]]\nkind = "{kind}"\n{site}')
    done = _python(BLOCKED, ["playwright"], ["run", "s.toml", "-o", "out"], tmp_path)
    line = f"wavebed run: workload {kind} needs Playwright: pip install 'wavebed[web]'"
    assert (done.returncode, done.stderr.splitlines()[-1]) == (3, line)
    assert not (tmp_path / "out").exists()


WITHOUT = [
    "--help",
    "shell --rate 10mbit --print-laboratory -- true",
    "shell --scene street-canyon-bus --print-laboratory -- true",
    "ctl",
    "schema",
    "doctor --json",
    "resolve s.toml",
    "channel street-canyon-bus",
    "channel street-canyon-bus -o bus.csv",
    f"trace info {TRACE}",
    f"trace convert {TRACE} -o x.mahimahi --to mahimahi",
]


@pytest.mark.parametrize("command", WITHOUT)
def test_what_needs_no_extra_works_and_imports_none(command: str, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(SCENARIO)
    done = _python(LOADED, [*OPTIONAL, "polars"], command.split(), tmp_path)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (0, "")


@pytest.mark.parametrize("command", [*COMMANDS])
def test_no_command_imports_more_than_its_own_help_needs(command: str, tmp_path: Path) -> None:
    done = _python(LOADED, [*OPTIONAL, "numpy"], [command, "--help"], tmp_path)
    assert (done.returncode, done.stderr) == (0, "\n")


SHELL_NEEDS_NOT = ["numpy", "wavebed.extras", "inspect", "dataclasses", "subprocess", "tempfile", "shutil", "difflib"]


def test_a_plain_shell_starts_with_few_modules(tmp_path: Path) -> None:
    done = _python(LOADED, [*OPTIONAL, *SHELL_NEEDS_NOT], ["shell", "--rate", "1mbit", "--name", "-"], tmp_path)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (2, "")


@pytest.mark.parametrize(
    ("module", "needed"),
    [
        ("wavebed.run.runner", {"pyarrow"}),
        ("wavebed.report.build", set()),
        ("wavebed.forward.run", {"MLRsearch", "pyarrow"}),
        ("wavebed.forward.report", {"pyarrow"}),
        ("wavebed.forward.server", set()),
        ("wavebed.workload.web", set()),
        ("wavebed.workload.call", set()),
        ("wavebed.workload.video", set()),
    ],
)
def test_a_part_imports_no_package_of_another(module: str, needed: set[str], tmp_path: Path) -> None:
    script = f"import sys, {module}\nprint(*sorted(set(sys.argv[1].split()) & set(sys.modules)))"
    done = _python(script, OPTIONAL, [], tmp_path)
    assert (done.returncode, set(done.stdout.split())) == (0, needed), done.stderr


SPARED = """
import sys
from wavebed.extras import spare_pandas
spare_pandas()
import pyarrow
table = pyarrow.table([pyarrow.array([1, None]), pyarrow.array(["a", "b"])], names=["number", "text"])
assert "pandas" not in sys.modules
print(table.to_pandas().to_csv(index=False))
import pandas
print(pyarrow.Table.from_pandas(pandas.DataFrame({"number": [1, 2]})).to_pydict())
"""


def test_arrow_makes_tables_without_pandas_and_frames_later(tmp_path: Path) -> None:
    done = _python(SPARED, [], [], tmp_path)
    assert done.stdout.split() == ["number,text", "1.0,a", ",b", "{'number':", "[1,", "2]}"], done.stderr


def test_a_report_is_written_without_pandas(tmp_path: Path) -> None:
    write_example(tmp_path / "results")
    done = _python(LOADED, ["pandas", "pyarrow"], ["report", str(tmp_path / "results")], tmp_path)
    assert (done.returncode, done.stderr.split()) == (0, ["pyarrow"])


def test_reading_results_in_python_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import wavebed

    monkeypatch.setattr("wavebed.extras.find_spec", lambda _: None)
    with pytest.raises(MachineError, match=r"a folder of results needs pandas and PyArrow: pip install 'wavebed\[repo"):
        wavebed.load(tmp_path)
