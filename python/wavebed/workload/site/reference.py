"""Write the reference page of sites from the schema: ``python -m wavebed.workload.site.reference FILE``."""

from __future__ import annotations

import sys
from importlib import resources

from wavebed.config.table import markdown_table
from wavebed.output import write_output
from wavebed.workload.site.spec import MINIMUM_BYTES, MINIMUM_JPEG_BYTES, GroupTable, SiteTable
from wavebed.workload.site.structure import StructureGroup, StructureObject, StructureTable


def reference_page() -> str:
    """Return the page: the prose of ``reference.md.in`` with the tables of the schema in it."""
    text = (resources.files("wavebed.workload.site") / "reference.md.in").read_text(encoding="utf-8")
    least = {**MINIMUM_BYTES, "image (png)": MINIMUM_BYTES["image"], "image (jpeg)": MINIMUM_JPEG_BYTES}
    del least["image"]
    parts = {
        "site keys": markdown_table(SiteTable),
        "group keys": markdown_table(GroupTable),
        "structure keys": markdown_table(StructureTable),
        "structure objects": markdown_table(StructureObject),
        "structure groups": markdown_table(StructureGroup),
        "minimum": ", ".join(f"{kind} {size} bytes" for kind, size in least.items()),
    }
    for name, part in parts.items():
        text = text.replace(f"<!-- {name} -->", part)
    return text


if __name__ == "__main__":
    if len(sys.argv) == 2:
        write_output(sys.argv[1], reference_page(), "FILE")
    else:
        print(reference_page(), end="")
