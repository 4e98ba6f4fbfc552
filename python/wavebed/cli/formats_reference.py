"""Write the reference page of file formats and their versions: ``python -m wavebed.cli.formats_reference FILE``."""

from __future__ import annotations

import sys

from wavebed.formats import FORMATS
from wavebed.output import write_output

__all__ = ["formats_page"]

_HEAD = """# File formats and their versions

This page is made from the program: `python -m wavebed.cli.formats_reference docs/reference/formats.md`.

## Rules
- A version rises when a reader of the version before could not read a file, or would read another meaning. A new key, column or
  event that an older reader may leave out is no new version.
- A key never changes its meaning. It gets a new name, and the old one is read as before: in a file that people write for one
  release, with a note on standard error; in a file that wavebed wrote as long as its version is read.
- Every version since the first release is read, and converted while it is read. No command converts files in their place, because no
  version needs it: there is no `wavebed migrate`. What was measured is never rewritten.
- A file of a newer version is refused in one line, with exit status 2: `run.json: is of schema 2; this wavebed reads schema 1: install a newer
  wavebed`. So is a file without its version.
- `tests/samples` has a file of each version. Each is read in the tests, and the same file with a newer version is refused.

## Files that wavebed writes and reads again
"""
_TAIL = """
`journal.jsonl` has one event in each line. A line that is no event of this version is refused by its number. `metrics.parquet` is made again
from `trial.json`. A folder of `wavebed reproduce` has campaigns and forwarding tests; its `study.json` or `reproduction.json` says which, and is
read by `--resume` only. A recording (`wavebed record`) is patterns and scenarios; nothing reads its `recording.json` or `judgement.json` but people
and their programs.

A run goes on (`--resume`) with the wavebed that began it: another version is a changed input, which `--accept-changes` accepts.

## Files that people write
Scenarios, campaigns, scenes, timelines, sites (TOML) and the configuration of `wavebed-edge` have no version. Their keys are
the version: an unknown key, so also one of a newer wavebed, is refused in one line with the file, the key and the keys that there
are. `wavebed schema NAME` prints the JSON Schema of each that this wavebed reads.

## Between the programs of one version
| format | version | another version |
|---|---|---|
| [the laboratory file](../development/laboratory-file.md) and [the bridge file](../development/bridge-file.md), from `wavebed` to `wavebed-core` | `version` 1 | refused: programs and package are of one installation |
| the CSV files of the engine, from which the tables of `series/` are made | the schema of the results | refused if a column differs |
| [the protocol of the agent](../development/agent-protocol.md) on other hosts | `version` 1 | refused by the agent, which is copied to the host by the same wavebed |
| [the protocol between two testers](../development/port-protocol.md) of a forwarding test | `version` in its first message | refused by the server |

## Only written
The output of `--json`, tables (CSV, Markdown, LaTeX), JUnit XML, pictures and reports are made for people and other programs. Keys and columns are added,
and not renamed or removed within a release series. Exports follow the formats of others: flent 4, qlog (current and 0.3),
Perfetto, pcapng, Prometheus text 0.0.4.

## Only read
[Traces of others](trace-formats.md) and recordings of web pages (HAR 1.2) are read as their authors define them.
"""


def formats_page() -> str:
    """Return the page."""
    lines = ["| files | names | version is in | written | read | described in |", "|---|---|---|---|---|---|"]
    for form in FORMATS:
        read = ", ".join(str(version) for version in form.reads)
        cells = (form.name, form.files, form.key, str(form.version), read, f"[{form.page}]({form.page})")
        lines.append(f"| {' | '.join(cells)} |")
    return _HEAD + "\n".join(lines) + "\n" + _TAIL


if __name__ == "__main__":
    write_output(sys.argv[1], formats_page(), "FILE")
