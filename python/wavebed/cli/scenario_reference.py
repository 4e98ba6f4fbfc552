"""Write the reference page of scenarios from the schema: ``python -m wavebed.cli.scenario_reference FILE``."""

from __future__ import annotations

import sys
from importlib import resources
from typing import TYPE_CHECKING

from wavebed.config.table import fields
from wavebed.output import write_output
from wavebed.path.laboratory import LEAST_LIMIT_PACKETS
from wavebed.path.tables import DEFAULT_SYSCTLS, AirTable, HostTable, LinkTable, PathTable, SegmentTable
from wavebed.run.scenario import RUN_KEYS
from wavebed.workload import KINDS, kind_of
from wavebed.workload.keys import COMMON_KEYS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from msgspec import Struct

    from wavebed.workload.keys import WorkloadKey

__all__ = ["reference_page"]


def reference_page() -> str:
    """Return the page: the prose of ``scenario_reference.md.in`` with the tables of the schema in it."""
    text = (resources.files("wavebed.cli") / "scenario_reference.md.in").read_text(encoding="utf-8")
    sysctls = "".join(f"| `{name}` | `{value}` |\n" for name, value in DEFAULT_SYSCTLS.items())
    parts = {
        "link keys": _table(LinkTable),
        "air keys": _table(AirTable),
        "path keys": _table(PathTable),
        "segment keys": _table(SegmentTable),
        "host keys": _table(HostTable),
        "run keys": _workload_table(RUN_KEYS),
        "common workload keys": _workload_table(COMMON_KEYS),
        "kinds of workloads": "\n".join(_kind(name) for name in KINDS),
        "limits": ", ".join(f"{kind} {packets} packets" for kind, packets in LEAST_LIMIT_PACKETS.items()),
        "sysctls": f"| setting | value |\n|---|---|\n{sysctls}",
    }
    for name, part in parts.items():
        text = text.replace(f"<!-- {name} -->", part)
    return text


def _table(model: type[Struct]) -> str:
    lines = ["| key | write | default | meaning |", "|---|---|---|---|"]
    for field in fields(model).values():
        write = field.write.replace("|", "\\|")
        lines.append(f"| `{field.name}` | `{write}` | {field.default_text} | {field.key.meaning} |")
    return "\n".join(lines) + "\n"


def _workload_table(keys: Sequence[WorkloadKey]) -> str:
    lines = ["| key | write | default | meaning |", "|---|---|---|---|"]
    for key in keys:
        write = key.write.replace("|", "\\|")
        default = "none" if key.default is None else f"`{_toml(key.default)}`"
        lines.append(f"| `{key.name}` | `{write}` | {default} | {key.meaning} |")
    return "\n".join(lines) + "\n"


def _toml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _kind(name: str) -> str:
    kind = kind_of(name)
    text = f"### {name}\n\n{kind.summary} See [{name}](../workloads/{name}.md).\n\n"
    return text + (_workload_table(kind.keys) if kind.keys else "")


if __name__ == "__main__":
    if len(sys.argv) == 2:
        write_output(sys.argv[1], reference_page(), "FILE")
    else:
        print(reference_page(), end="")
