"""Write the reference page of sites from the schema: ``python -m wavebed.workload.site.reference FILE``."""

from __future__ import annotations

import sys
from importlib import resources
from typing import TYPE_CHECKING

from wavebed.output import write_output
from wavebed.workload.site.spec import GROUP_KEYS, MINIMUM_BYTES, MINIMUM_JPEG_BYTES, SITE_KEYS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.workload.keys import WorkloadKey

__all__ = ["reference_page"]

_REQUIRED = {"title", "source", "origins", "document", "name", "kind"}


def reference_page() -> str:
    """Return the page: the prose of ``reference.md.in`` with the tables of the schema in it."""
    text = (resources.files("wavebed.workload.site") / "reference.md.in").read_text(encoding="utf-8")
    least = {**MINIMUM_BYTES, "image (png)": MINIMUM_BYTES["image"], "image (jpeg)": MINIMUM_JPEG_BYTES}
    del least["image"]
    parts = {
        "site keys": _table(SITE_KEYS),
        "group keys": _table(GROUP_KEYS),
        "minimum": ", ".join(f"{kind} {size} bytes" for kind, size in least.items()),
    }
    for name, part in parts.items():
        text = text.replace(f"<!-- {name} -->", part)
    return text


def _table(keys: Sequence[WorkloadKey]) -> str:
    rows = ["| key | write | default | meaning |", "| --- | --- | --- | --- |"]
    for key in keys:
        written = key.write.replace("|", "\\|")
        rows.append(f"| `{key.name}` | `{written}` | {_default(key)} | {key.meaning} |")
    return "\n".join(rows) + "\n"


def _default(key: WorkloadKey) -> str:
    if key.name in _REQUIRED:
        return "required"
    if key.default is None:
        return "see there"
    if isinstance(key.default, bool):
        return "`true`" if key.default else "`false`"
    return "none" if key.default == [] else f"`{key.default}`"


if __name__ == "__main__":
    if len(sys.argv) == 2:
        write_output(sys.argv[1], reference_page(), "FILE")
    else:
        print(reference_page(), end="")
