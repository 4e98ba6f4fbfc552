"""The scripts of a release: what is added to a wheel, the audit, lock files, bills of materials and versions."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "scripts"


def run(*argv: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if name != "WAVEBED_ADVISORIES"}
    return subprocess.run(
        [str(word) for word in argv],
        cwd=ROOT,
        env=inherited | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """Return a wheel to which a program, a page and a bill were added."""
    source = tmp_path / "example-1.0-py3-none-any.whl"
    with zipfile.ZipFile(source, "w") as made:
        made.writestr("example/__init__.py", "")
        made.writestr("example-1.0.dist-info/METADATA", "Name: example\n")
        made.writestr("example-1.0.dist-info/RECORD", "")
    (tmp_path / "program").write_text("#!/bin/sh\n")
    (tmp_path / "made").mkdir()
    places = ("scripts/program", "data/share/man/man1/program.1", "sboms/program.cdx.json")
    additions = [f"{place}={tmp_path / 'program'}" for place in places]
    done = run(sys.executable, SCRIPTS / "add_to_wheel.py", source, tmp_path / "made", *additions)
    assert done.returncode == 0, done.stderr
    return tmp_path / "made" / source.name


def test_what_is_added_to_a_wheel_is_where_an_installer_looks_for_it(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as made:
        modes = {entry.filename: oct(entry.external_attr >> 16) for entry in made.infolist()}
    assert modes["example-1.0.data/scripts/program"] == "0o100755"
    assert modes["example-1.0.data/data/share/man/man1/program.1"] == "0o100644"
    assert modes["example-1.0.dist-info/sboms/program.cdx.json"] == "0o100644"


def test_the_record_of_a_wheel_has_every_file_with_its_digest(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as made:
        rows = {row[0]: row[1:] for row in csv.reader(io.StringIO(made.read("example-1.0.dist-info/RECORD").decode()))}
        for name in made.namelist():
            digest = base64.urlsafe_b64encode(hashlib.sha256(made.read(name)).digest()).rstrip(b"=").decode()
            own = name.endswith("/RECORD")
            assert rows.pop(name) == (["", ""] if own else [f"sha256={digest}", str(len(made.read(name)))])
    assert rows == {}


OK = {"cargo-deny": "exit 0", "pip-audit": """echo '{"dependencies": [{"name": "a", "version": "1", "vulns": []}]}'"""}
FAULT = '{"dependencies": [{"name": "a", "version": "1", "vulns": [{"id": "PYSEC-1", "fix_versions": ["2"]}]}]}'
UNKNOWN = '{"dependencies": [{"name": "a", "skip_reason": "Dependency not found on PyPI"}]}'
NO_DATABASE = 'case "$*" in *advisories*) echo "failed to fetch advisory database" >&2; exit 1 ;; esac'


def audit(folder: Path, programs: Mapping[str, str], **environment: str) -> tuple[int, str, str]:
    for name, body in (OK | programs).items():
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o755)
    done = run(sys.executable, SCRIPTS / "audit.py", folder, **environment)
    return done.returncode, done.stdout, done.stderr


def test_an_audit_without_faults_says_so(tmp_path: Path) -> None:
    status, said, _ = audit(tmp_path, {})
    assert status == 0
    assert said.splitlines() == [
        "audit: licences, origins and bans of crates: ok",
        "audit: known faults of crates: none",
        "audit: known faults of Python packages: none",
    ]


@pytest.mark.parametrize(
    ("programs", "said"),
    [
        ({"cargo-deny": NO_DATABASE}, "known faults of crates: not checked: the RustSec database cannot be reached"),
        ({"pip-audit": f"echo '{UNKNOWN}'"}, "known faults of Python packages: not checked: the database"),
        ({"pip-audit": "echo ConnectionError >&2; exit 1"}, "Python packages: not checked: the database"),
    ],
)
def test_a_database_that_cannot_be_reached_is_told_and_an_error_where_it_is_required(
    programs: dict[str, str], said: str, tmp_path: Path
) -> None:
    status, told, _ = audit(tmp_path, programs)
    assert (status, said in told) == (0, True)
    status, told, _ = audit(tmp_path, programs, WAVEBED_ADVISORIES="required")
    assert (status, said in told) == (1, True)


@pytest.mark.parametrize(
    ("programs", "said"),
    [
        ({"cargo-deny": 'case "$*" in *licenses*) echo GPL >&2; exit 1 ;; esac'}, "GPL"),
        ({"cargo-deny": 'case "$*" in *advisories*) echo RUSTSEC-1 >&2; exit 1 ;; esac'}, "RUSTSEC-1"),
        ({"pip-audit": f"echo '{FAULT}'; exit 1"}, "a 1: PYSEC-1 (corrected in 2)"),
    ],
)
def test_a_fault_ends_an_audit_with_status_1(programs: dict[str, str], said: str, tmp_path: Path) -> None:
    status, _, told = audit(tmp_path, programs)
    assert status == 1
    assert said in told


def _grouped(groups: Mapping[str, list[str | dict[str, str]]], name: str) -> list[str]:
    """Return the requirements of a group, with those of the groups that it includes."""
    return [
        each
        for entry in groups[name]
        for each in ([entry] if isinstance(entry, str) else _grouped(groups, entry["include-group"]))
    ]


def test_the_lock_files_have_every_tool_with_hashes() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    base, groups = project["project"], project["dependency-groups"]
    wanted = {
        "tools": [*_grouped(groups, "tools"), *base["dependencies"], *base["optional-dependencies"]["all"]],
        "release": groups["release"],
    }
    for group, requirements in wanted.items():
        text = (ROOT / f"requirements-{group}.txt").read_text()
        entries = re.findall(r"^([A-Za-z0-9._-]+)==.*\\\n    --hash=sha256:", text, re.MULTILINE)
        assert len(entries) == len(re.findall(r"^\S+==", text, re.MULTILINE)), "each with a hash"
        names = {re.match(r"[A-Za-z0-9._-]+", each)[0].lower() for each in requirements}  # type: ignore[index]
        assert names <= {each.lower() for each in entries}, "run: make lock"


def test_a_bill_of_materials_names_crates_by_their_checksums_and_no_folder() -> None:
    done = run(sys.executable, SCRIPTS / "crates_sbom.py", "wavebed-agent")
    assert done.returncode == 0, done.stderr
    bill = json.loads(done.stdout)
    own = {each["name"] for each in bill["components"] if "hashes" not in each}
    assert own == {"wavebed-link", "wavebed-os", "wavebed-packet", "wavebed-path", "wavebed-probe"}
    assert {"rustix", "serde_json"} <= {each["name"] for each in bill["components"]}
    assert "proptest" not in done.stdout, "of tests only"
    assert {each["ref"] for each in bill["dependencies"]} == {
        bill["metadata"]["component"]["bom-ref"],
        *(each["bom-ref"] for each in bill["components"]),
    }
    assert "file:" not in done.stdout
    assert str(ROOT) not in done.stdout


def test_a_tag_of_another_version_is_refused() -> None:
    done = run(SCRIPTS / "check-version", "v99.0.0")
    assert done.returncode == 2
    assert re.fullmatch(r"Cargo\.toml: has version \S+, not 99\.0\.0\n", done.stderr)


def test_workflows_run_scripts_and_targets_that_there_are() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    found = 0
    for file in (ROOT / ".github/workflows").glob("*.yml"):
        jobs = yaml.safe_load(file.read_text())["jobs"].values()
        for line in "\n".join(step.get("run", "") for job in jobs for step in job["steps"]).splitlines():
            for script in re.findall(r"(?:^|\s)((?:scripts/|\.ci/)\S+)", line):
                assert (ROOT / script).exists(), (file.name, script)
                found += 1
            for words in re.findall(r"(?:^|\s)make ([a-z -]+)", line):
                assert set(words.split()) <= targets, (file.name, words)
                found += 1
    assert found >= 7


def test_actions_and_the_base_image_are_named_by_hashes() -> None:
    files = [ROOT / "action.yml", *(ROOT / ".github/workflows").glob("*.yml")]
    used = [found for file in files for found in re.findall(r"uses: (\S+)", file.read_text()) if found != "./"]
    assert len(used) > 20
    assert [each for each in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", each)] == []
    container = (ROOT / "packaging/container/Containerfile").read_text()
    (base,) = re.findall(r"^ARG BASE=(\S+)", container, re.MULTILINE)
    assert re.fullmatch(r"\S+@sha256:[0-9a-f]{64}", base)
    assert "--require-hashes --requirement /tmp/wheels/requirements-container.txt" in container


def test_the_citation_has_the_version_of_the_package_and_no_person() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["cff-version"] == "1.2.0"
    assert {"title", "message", "authors", "license"} <= citation.keys()
    assert citation["authors"] == [{"name": "wavebed maintainers"}]
    assert f'__version__ = "{citation["version"]}"' in (ROOT / "python/wavebed/__init__.py").read_text()


def test_forms_of_issues_ask_named_questions_of_known_kinds() -> None:
    forms = [file for file in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml") if file.stem != "config"]
    assert len(forms) == 3
    for file in forms:
        form = yaml.safe_load(file.read_text())
        assert form.keys() == {"name", "description", "labels", "body"}, file.name
        asked = [each for each in form["body"] if each["type"] != "markdown"]
        assert all(each["type"] in {"textarea", "input", "dropdown"} and each["attributes"]["label"] for each in asked)
        names = [each["id"] for each in asked]
        assert len(set(names)) == len(names)
        assert any(each.get("validations", {}).get("required") for each in asked), file.name


def test_the_name_of_the_owner_is_in_one_place_of_the_release() -> None:
    workflow = (ROOT / ".github/workflows/release.yml").read_text()
    assert workflow.count("github.repository") == 1
    assert yaml.safe_load(workflow)["env"] == {"REPOSITORY": "${{ github.repository }}"}


def test_a_release_writes_its_address_into_what_it_publishes(tmp_path: Path) -> None:
    for name in ("README.md", "pyproject.toml", "CITATION.cff"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "scripts").mkdir()
    shutil.copy(SCRIPTS / "name-repository", tmp_path / "scripts")
    (tmp_path / "docs").mkdir()
    page = tmp_path / "docs/ci.md"
    page.write_text("uses: OWNER/wavebed@v1\nimage: ghcr.io/OWNER/wavebed:latest\n[a](b.md)\n")
    assert run(tmp_path / "scripts/name-repository", "no owner", "v1.2.3").returncode == 2
    done = run(tmp_path / "scripts/name-repository", "Some-One/waves", "v1.2.3")
    assert done.returncode == 0, done.stderr
    assert page.read_text() == "uses: Some-One/waves@v1\nimage: ghcr.io/some-one/waves:latest\n[a](b.md)\n"
    urls = tomllib.loads((tmp_path / "pyproject.toml").read_text())["project"]["urls"]
    assert urls["Source"] == "https://github.com/Some-One/waves"
    assert yaml.safe_load((tmp_path / "CITATION.cff").read_text())["repository-code"] == urls["Source"]
    readme = (tmp_path / "README.md").read_text()
    assert "OWNER/" not in readme
    assert re.findall(r"\]\((?!https?:|#)[^)]*\)", readme) == [], "the package index shows no relative link"
    assert "](https://github.com/Some-One/waves/blob/v1.2.3/docs/" in readme


def test_a_fix_of_an_older_release_takes_no_name_from_the_newest(tmp_path: Path) -> None:
    remote = tmp_path / "remote"
    git = ["git", "-C", remote, "-c", "user.name=a", "-c", "user.email=a@localhost"]
    subprocess.run(["git", "init", "--quiet", remote], check=True)
    subprocess.run([*git, "commit", "--quiet", "--allow-empty", "--message", "first"], check=True)
    for tag in ("v0.9.0", "v0.10.0", "v0.9.1", "v1.0.0", "v1", "v2.0.0rc1"):
        subprocess.run([*git, "tag", tag], check=True)

    def is_newest(*words: str | Path) -> bool:
        return run(SCRIPTS / "is-newest", words[0], remote, *words[1:]).returncode == 0

    assert is_newest("v1.0.0")
    assert is_newest("v1.0.0", "v1")
    assert is_newest("v0.10.0", "v0")
    assert not is_newest("v0.10.0")
    assert not is_newest("v0.9.1", "v0")


def test_the_notes_of_a_release_are_its_part_of_the_changelog() -> None:
    version = re.findall(r"^## ([\d.]+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[0]
    done = run(SCRIPTS / "release-notes", f"v{version}")
    assert done.stdout.startswith(f"## {version}")
    assert done.stdout.count("\n## ") == 0
    missing = run(SCRIPTS / "release-notes", "v99.0.0")
    assert (missing.returncode, missing.stderr) == (2, "CHANGELOG.md: has nothing on 99.0.0\n")


def test_documents_are_published_by_version_and_the_newest_is_the_latest(tmp_path: Path) -> None:
    remote = tmp_path / "remote.git"
    subprocess.run(["git", "init", "--quiet", "--bare", remote], check=True)
    site = tmp_path / "site"
    site.mkdir()

    def publish(version: str, text: str) -> subprocess.CompletedProcess[str]:
        (site / "index.html").write_text(text)
        return run(SCRIPTS / "publish-docs", site, version, remote)

    def shown(name: str) -> str:
        git = ["git", "--git-dir", remote, "show", f"gh-pages:{name}"]
        return subprocess.run(git, capture_output=True, text=True, check=True).stdout

    assert publish("v0.9.0", "nine").stdout == "published: 0.9.0\n"
    assert publish("v0.10.0", "ten").stdout == "published: 0.10.0 0.9.0\n"
    assert publish("v0.9.1", "a fix of an older one").stdout == "published: 0.10.0 0.9.1 0.9.0\n"
    assert (shown("0.9.0/index.html"), shown("latest/index.html")) == ("nine", "ten")
    assert [(each["version"], each["aliases"]) for each in json.loads(shown("versions.json"))] == [
        ("0.10.0", ["latest"]),
        ("0.9.1", []),
        ("0.9.0", []),
    ]
    assert "url=latest/" in shown("index.html")
    assert publish("v0.10.0", "ten").stdout == "0.10.0: is published already\n"
    assert publish("v0.10.0", "ten, corrected").returncode == 0
    assert shown("latest/index.html") == "ten, corrected"
    assert publish("main", "no version").returncode == 2
    assert run(SCRIPTS / "publish-docs", site, "v1.0.0", tmp_path / "nowhere").returncode != 0
