"""Import a page from a recording of its requests (HAR 1.2)."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from wavebed.config.problems import Problem
from wavebed.errors import UserError
from wavebed.foreign import read_bytes
from wavebed.workload.site.filler import filler
from wavebed.workload.site.har_choice import choose
from wavebed.workload.site.har_entries import page_order, read_entries, read_log
from wavebed.workload.site.kinds import ending, kind_of_type
from wavebed.workload.site.model import Origin, Site, SiteObject

if TYPE_CHECKING:
    from pathlib import Path

    from wavebed.workload.site.har_choice import Answer
    from wavebed.workload.site.har_entries import Entry

__all__ = ["import_har", "read_har"]

MAX_BYTES = 200_000_000
"""Of the file, and of all bodies together, recorded and made up."""
MAX_FILLER_BYTES = 100_000_000
_OF_NGINX = (444, 499)
"""nginx's internal codes for closed connections."""
_CHARSET = re.compile(r"charset=[^;\s]*", re.IGNORECASE)


def import_har(file: Path, data: bytes, folder: Path) -> Site:
    """Write the bodies of a recording into `folder`, and return its site.

    File names are numbers, so they do not depend on the content of the recording.

    Raises
    ------
    UserError
        If it is not a recording of a page.
    """
    notes: Counter[str] = Counter()
    try:
        log = read_log(data)
        recording = choose(read_entries(log, notes), page_order(log), notes)
    except Problem as problem:
        raise UserError(f"{file}: {problem}") from None
    answers = recording.answers
    hosts = list(dict.fromkeys(answer.address.host for answer in answers))
    if sum(map(_bytes_of, answers)) > MAX_BYTES:
        raise UserError(f"{file}: its bodies are larger than {MAX_BYTES} bytes together: name a recording of one page")
    objects = tuple(_write(answer, number, folder, notes) for number, answer in enumerate(answers, 1))
    first, scheme = answers[0].address, recording.scheme
    others = sum(answer.address.scheme != scheme for answer in answers)
    if others:
        notes[f"requests by another scheme than {scheme}: all are served by one"] = others
    return Site(
        name=file.stem,
        title=f"{first.host}{first.uri}",
        source=f"{file.name}: a recording (HAR)",
        first=first.uri,
        origins=tuple(Origin(host, host) for host in hosts),
        objects=objects,
        scheme=scheme,
        notes=tuple(f"{what}: {count}" for what, count in sorted(notes.items())),
        recorded=True,
    )


def _served(entry: Entry) -> int:
    """Return the status of the answer here; every server can send it with any body."""
    if entry.status in _OF_NGINX:
        return 400
    if entry.location or entry.status == 204 or entry.failed:
        return entry.status
    # 206: all of it is given. 304: the browser had it already; here it does not.
    return 200


def _bytes_of(answer: Answer) -> int:
    """Return the size of the answer's body."""
    body = answer.body.data
    return min(answer.entry.size, MAX_FILLER_BYTES) if body is None else len(body)


def _write(answer: Answer, number: int, folder: Path, notes: Counter[str]) -> SiteObject:
    address, entry, body, content_type = answer.address, answer.entry, answer.body.data, answer.entry.content_type
    kind = kind_of_type(content_type)
    if answer.body.is_text:
        content_type = _CHARSET.sub("charset=utf-8", content_type)
    if body is None and entry.size == 0:
        body = b""
        notes["bodies served empty, because neither body nor size was recorded"] += 1
    elif body is None:
        content_type, body = filler(kind, content_type, _bytes_of(answer), f"{address.host}{address.uri}")
        notes["bodies that were not recorded, replaced by ones of that size and kind"] += 1
    elif 0 < entry.wire_bytes < len(body):
        notes["bytes more than were on the wire, for nothing is compressed"] += len(body) - entry.wire_bytes
    file = "" if entry.location or entry.status == 204 else f"{number:05}.{ending(content_type)}"
    (folder / address.host).mkdir(exist_ok=True)
    if file:
        (folder / address.host / file).write_bytes(body)
    return SiteObject(
        origin=address.host,
        path=address.uri,
        file=file,
        bytes=len(body),
        kind=kind,
        content_type=content_type,
        status=_served(entry),
        location=entry.location,
    )


def read_har(file: Path) -> bytes:
    """Return the content of a recording's file.

    Raises
    ------
    UserError
        If it cannot be read.
    """
    return read_bytes(file, "name a recording of one page", most=MAX_BYTES)
