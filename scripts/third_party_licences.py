"""Print the licences of the crates that are linked into programs: ``third_party_licences.py PACKAGE…``.

Each text is that of a crate's own files; equal texts stand once, with the crates that have them.
"""

from __future__ import annotations

import sys
from collections import defaultdict

from crates import linked_crates

_NAMES = ("LICEN", "COPYING", "NOTICE", "UNLICENSE")
_HEAD = """Crates that are linked into the programs of this package, and their licences.

wavebed-agent is linked with the GNU C library (LGPL-2.1-or-later), statically. Its own sources, from which it can be
linked with another version of that library, are those of wavebed.
"""


def main(programs: list[str]) -> None:
    """Print the list of crates, then the texts."""
    texts = defaultdict(list)
    print(_HEAD)
    for crate in linked_crates(programs).values():
        if not crate.checksum:
            continue  # of this repository
        print(f"{crate.name} {crate.version}: {crate.license}")
        for file in sorted(crate.folder.iterdir()):
            if file.name.upper().startswith(_NAMES) and file.is_file():
                texts[file.read_text(encoding="utf-8", errors="replace").strip()].append(
                    f"{crate.name} {crate.version}"
                )
    for text, names in texts.items():
        print(f"\n{'-' * 100}\n{', '.join(dict.fromkeys(names))}\n\n{text}")


if __name__ == "__main__":
    main(sys.argv[1:])
