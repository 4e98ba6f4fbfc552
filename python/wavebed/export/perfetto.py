"""Export a trial as a trace of Perfetto, which https://ui.perfetto.dev and its trace processor open."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from wavebed.export.course import add_connections, add_link, add_processors, add_sinr, add_workloads
from wavebed.export.packet_slices import add_packets
from wavebed.export.sinr import sinr_of_links
from wavebed.export.trace_file import TraceFile
from wavebed.output import write_output

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from wavebed.export.trial import Trial, Window

__all__ = ["MOST_EVENTS", "SUFFIX", "Exported", "export_perfetto"]

SUFFIX = ".perfetto-trace"
MOST_EVENTS = 1_000_000
"""Some 80 MB, and 16 s of processor time."""
_GZIP_LEVEL = 6


@dataclass
class Exported:
    """Content of a trace file.

    Parameters
    ----------
    events : int
        Slices, instants and values of counters.
    segments, blocks : int
        Wire segments, each once for every link, and transmissions of transport blocks.
    bytes : int
        Size of the file.
    """

    events: int = 0
    segments: int = 0
    blocks: int = 0
    bytes: int = 0


def export_perfetto(trial: Trial, file: Path, window: Window, most: int = MOST_EVENTS) -> Exported:
    """Write a part of a trial as a trace; without a packet log it has no packets.

    Parameters
    ----------
    file : pathlib.Path
        The file; compressed if its name ends with ``.gz``.
    most : int
        Number of events that it may have.

    Raises
    ------
    UserError
        If it would have more events, a table is damaged, or the file cannot be written.
    """
    start_s, end_s = window.start_ns / 1e9, window.end_ns / 1e9
    trace = TraceFile(
        most,
        f"{trial.path}: {start_s:g} s to {end_s:g} s has more than {most} events: choose a shorter part by --from and"
        " --to, or raise --most-events",
    )
    found = Exported()
    links = list(dict.fromkeys(trial.table("links")["link"].to_pylist()))
    groups = {link: trace.group(f"link {link}") for link in links}
    if trial.has_packet_log:
        packets, blocks = trial.table("packets"), trial.table("blocks")
        for number, link in enumerate(links, 1):
            of_link = _of(packets, link), _of(blocks, link)
            segments, sent = add_packets(trace, (groups[link], number), *of_link, window, trial.end_ns)
            found.segments += segments
            found.blocks += sent
    sinr = sinr_of_links(trial)
    for link, group in groups.items():
        add_link(trace, group, link, trial, window)
        add_sinr(trace, group, sinr.get(link, ()), window)
    add_workloads(trace, trial, window, links)
    add_connections(trace, trial, window)
    add_processors(trace, trial, window)
    content = trace.content()
    if file.suffix == ".gz":
        content = gzip.compress(content, _GZIP_LEVEL, mtime=0)
    write_output(file, content)
    found.events, found.bytes = trace.events, len(content)
    return found


def _of(table: pa.Table, link: str) -> pa.Table:
    return table.filter(pc.equal(table["link"], link))
