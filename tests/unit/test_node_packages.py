"""Node packages are installed by their hashes, from wherever the user's npm gets packages."""

from __future__ import annotations

import json
from importlib import resources

from wavebed.workload.video_player import VERSION

FOLDER = resources.files("wavebed.workload") / "npm"


def test_each_package_has_a_hash_and_none_an_address() -> None:
    text = (FOLDER / "package-lock.json").read_text(encoding="utf-8")
    packages = json.loads(text)["packages"]
    wanted = packages.pop("")
    assert len(packages) >= 2
    assert all(package["integrity"].startswith("sha512-") for package in packages.values())
    assert "://" not in text
    assert packages["node_modules/dashjs"]["version"] == wanted["dependencies"]["dashjs"] == VERSION


def test_the_lock_file_is_that_of_the_packages() -> None:
    wanted = json.loads((FOLDER / "package.json").read_text(encoding="utf-8"))
    locked = json.loads((FOLDER / "package-lock.json").read_text(encoding="utf-8"))["packages"][""]
    for key in ("dependencies", "devDependencies"):
        assert locked[key] == wanted[key]
