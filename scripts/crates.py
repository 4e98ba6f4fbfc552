"""The crates that are linked into a program, by cargo's own resolution: without those of build scripts and tests."""

from __future__ import annotations

import json
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Crate", "linked_crates"]


@dataclass(frozen=True)
class Crate:
    """A crate: its package identifiers it needs, and SHA-256 of its archive (empty for a crate of this repository)."""

    name: str
    version: str
    license: str
    folder: Path
    checksum: str
    needs: tuple[str, ...]

    @property
    def purl(self) -> str:
        """The package URL."""
        return f"pkg:cargo/{self.name}@{self.version}"


def linked_crates(programs: list[str]) -> dict[str, Crate]:
    """Return the programs' own crates and all that are linked into them, by package URL, sorted.

    Parameters
    ----------
    programs : list of str
        Packages of this workspace.
    """
    command = [
        "cargo",
        "metadata",
        "--format-version",
        "1",
        "--locked",
        "--filter-platform",
        "x86_64-unknown-linux-gnu",
    ]
    metadata = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    lock = tomllib.loads(Path("Cargo.lock").read_text(encoding="utf-8"))
    checksums = {(each["name"], each["version"]): each.get("checksum", "") for each in lock["package"]}
    wanted = [package for package, each in packages.items() if each["name"] in programs]
    if len(wanted) != len(programs):
        raise SystemExit(f"not all of these are packages of the workspace: {', '.join(programs)}")
    found = dict[str, Crate]()
    while wanted:
        package = packages[wanted.pop()]
        needs = [
            each["pkg"]
            for each in nodes[package["id"]]["deps"]
            if any(one["kind"] is None for one in each["dep_kinds"])
        ]
        crate = Crate(
            name=package["name"],
            version=package["version"],
            license=package["license"] or "",
            folder=Path(package["manifest_path"]).parent,
            checksum=checksums[package["name"], package["version"]],
            needs=tuple(sorted(f"pkg:cargo/{packages[each]['name']}@{packages[each]['version']}" for each in needs)),
        )
        if crate.purl not in found:
            found[crate.purl] = crate
            wanted += needs
    return dict(sorted(found.items()))
