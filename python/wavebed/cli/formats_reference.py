"""Write the reference page of file formats and their versions: ``python -m wavebed.cli.formats_reference FILE``."""

from __future__ import annotations

import sys
from pathlib import Path

from wavebed.formats import FORMATS
from wavebed.output import write_output

__all__ = ["formats_page"]

_TEMPLATE = Path(__file__).with_suffix(".md.in")


def formats_page() -> str:
    """Return the page: the text beside this module, with the table of the formats."""
    lines = ["| files | names | version is in | written | read | described in |", "|---|---|---|---|---|---|"]
    for form in FORMATS:
        read = ", ".join(str(version) for version in form.reads)
        cells = (form.name, form.files, form.key, str(form.version), read, f"[{form.page}]({form.page})")
        lines.append(f"| {' | '.join(cells)} |")
    return _TEMPLATE.read_text(encoding="utf-8").replace("@FORMATS@", "\n".join(lines))


if __name__ == "__main__":
    write_output(sys.argv[1], formats_page(), "FILE")
