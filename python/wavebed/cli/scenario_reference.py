"""Write the reference page of scenarios from the schema: ``python -m wavebed.cli.scenario_reference FILE``."""

from __future__ import annotations

import sys
from importlib import resources
from typing import TYPE_CHECKING

from wavebed import remedy
from wavebed.config.table import fields, markdown_table
from wavebed.output import write_output
from wavebed.path.laboratory import LEAST_LIMIT_PACKETS
from wavebed.path.tables import DEFAULT_SYSCTLS, AirTable, HopTable, HostTable, LinkTable, PathTable
from wavebed.radio.tables import PARTS, RadioTable, UeLimitTable, WifiTable
from wavebed.run.lab_table import LabTable
from wavebed.run.scenario import RunTable
from wavebed.spec.network import QUEUE_KINDS
from wavebed.workload import KINDS, kind_of
from wavebed.workload.model import Common

if TYPE_CHECKING:
    from msgspec import Struct

__all__ = ["reference_page"]


def reference_page() -> str:
    """Return the page: the prose of ``scenario_reference.md.in`` with the tables of the schema in it."""
    text = (resources.files("wavebed.cli") / "scenario_reference.md.in").read_text(encoding="utf-8")
    sysctls = "".join(f"| `{name}` | `{value}` |\n" for name, value in DEFAULT_SYSCTLS.items())
    parts = {
        "link keys": markdown_table(LinkTable),
        "air keys": markdown_table(AirTable),
        "radio keys": markdown_table(RadioTable, defaults=False),
        "radio parts": "\n".join(_part(name, models) for name, models in PARTS.items()),
        "kinds of queues": ", ".join(f"`{kind}`" for kind in QUEUE_KINDS),
        "queue keys": "\n".join(_queue(name) for name in QUEUE_KINDS if len(fields(QUEUE_KINDS[name])) > 1),
        "wifi keys": markdown_table(WifiTable, defaults=False),
        "ue-limit keys": markdown_table(UeLimitTable),
        "path keys": markdown_table(PathTable),
        "hop keys": markdown_table(HopTable),
        "host keys": markdown_table(HostTable),
        "kinds of remedies": "\n".join(_remedy(name) for name in remedy.KINDS),
        "lab keys": markdown_table(LabTable),
        "run keys": markdown_table(RunTable),
        "common workload keys": markdown_table(Common),
        "kinds of workloads": "\n".join(_kind(name) for name in KINDS),
        "limits": ", ".join(f"{kind} {packets} packets" for kind, packets in LEAST_LIMIT_PACKETS.items()),
        "sysctls": f"| setting | value |\n|---|---|\n{sysctls}",
    }
    for name, part in parts.items():
        text = text.replace(f"<!-- {name} -->", part)
    return text


def _part(name: str, models: tuple[type[Struct], ...]) -> str:
    return f"`{name}`:\n\n{markdown_table(*models, defaults=False)}"


def _queue(name: str) -> str:
    kind = QUEUE_KINDS[name]
    lines = markdown_table(kind).splitlines(keepends=True)
    return f"`{name}`: {kind.__doc__}\n\n{''.join(line for line in lines if not line.startswith('| `limit`'))}"


def _kind(name: str) -> str:
    kind = kind_of(name)
    text = f"### {name}\n\n{kind.summary} See [{name}](../workloads/{name}.md).\n\n"
    return text + (markdown_table(kind.options_type) if fields(kind.options_type) else "")


def _remedy(name: str) -> str:
    kind = remedy.kind_of(name)
    return f"`{name}`: {kind.summary}\n\n{markdown_table(kind.options_type)}"


if __name__ == "__main__":
    if len(sys.argv) == 2:
        write_output(sys.argv[1], reference_page(), "FILE")
    else:
        print(reference_page(), end="")
