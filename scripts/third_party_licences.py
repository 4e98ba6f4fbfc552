"""Print the licences of the crates that are linked into programs: ``third_party_licences.py PACKAGE…``.

Each licence text is that of the crate's own files; equal texts stand once, with the crates that have them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

_NAMES = ("LICEN", "COPYING", "NOTICE", "UNLICENSE")


def main(programs: list[str]) -> None:
    """Print the list of crates, then the texts."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked"]
    metadata = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    wanted = [package for package, each in packages.items() if each["name"] in programs]
    if len(wanted) != len(programs):
        raise SystemExit(f"no such packages: {', '.join(programs)}")
    found = set[str]()
    while wanted:
        package = wanted.pop()
        if package not in found:
            found.add(package)
            wanted += [
                each["pkg"] for each in nodes[package]["deps"] if any(k["kind"] is None for k in each["dep_kinds"])
            ]
    texts = defaultdict(list)
    crates = sorted((packages[each] for each in found if packages[each]["source"]), key=lambda each: each["name"])
    print("Crates that are linked into the programs of this package, and their licences.\n")
    for crate in crates:
        name = f"{crate['name']} {crate['version']}"
        print(f"{name}: {crate['license']}")
        for file in sorted(Path(crate["manifest_path"]).parent.iterdir()):
            if file.name.upper().startswith(_NAMES) and file.is_file():
                texts[file.read_text(encoding="utf-8", errors="replace").strip()].append(name)
    print(
        "\nwavebed-agent is linked with the GNU C library (LGPL-2.1-or-later), statically. The sources of wavebed-agent, from which"
        "\nit can be linked with another version of that library, are those of wavebed."
    )
    for text, names in texts.items():
        print(f"\n{'-' * 100}\n{', '.join(dict.fromkeys(names))}\n\n{text}")


if __name__ == "__main__":
    main(sys.argv[1:])
