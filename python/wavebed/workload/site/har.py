"""Choose the document of a recorded page, and one answer for each URL."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wavebed.config.problems import Problem
from wavebed.errors import UserError
from wavebed.foreign import read_bytes
from wavebed.workload.site.content import filler
from wavebed.workload.site.har_entries import Body, is_empty, page_order, read_body, read_entries, read_log
from wavebed.workload.site.model import Site, SiteObject, SiteOrigin, ending, kind_of_type

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from wavebed.workload.site.har_entries import Address, HarEntry
    from wavebed.workload.site.model import Scheme


_SHOWN_CHARACTERS = 80
_PASSED_OVER = "pages passed over, because their document has no recorded body or is no GET"
_RELOAD = "load the page again with the browser's cache disabled, and save it as HAR with content"


@dataclass(frozen=True, slots=True)
class RecordedAnswer:
    """The entry that answers a URL, and its body."""

    address: Address
    entry: HarEntry
    body: Body


@dataclass(frozen=True, slots=True)
class HarRecording:
    """What a site serves.

    Parameters
    ----------
    answers : list of RecordedAnswer
        One for each URL; the first begins the visit: the document, or the first of the redirects to it.
    scheme : {"http", "https"}
        Scheme of the document.
    """

    answers: list[RecordedAnswer]
    scheme: Scheme


@dataclass(frozen=True, slots=True)
class _Candidate:
    """An entry that may be a document: the lowest rank is the most certain."""

    rank: int
    page: float
    index: int
    entry: HarEntry


def choose(entries: list[HarEntry], pages: list[str], counts: Counter[str]) -> HarRecording:
    """Return the answers of a page, and count the choices in `counts`.

    Parameters
    ----------
    entries : list of HarEntry
        By time.
    pages : list of str
        Ids of the recorded pages by time.
    counts : Counter
        Gets a count for each kind of choice.

    Raises
    ------
    Problem
        If there is no document, or its body was not recorded.
    """
    document = _document(entries, pages, counts)
    answers = list(_answers(entries, document, counts))
    end = next(index for index, answer in enumerate(answers) if answer.entry is document)
    start, scheme = _start(answers, end), answers[end].address.scheme
    if document.failed:
        counts["the document is an error page, status"] = document.status
    before = sum(answer.entry.order < answers[start].entry.order for answer in answers)
    if before:
        counts["URLs requested before the page, which are served too"] = before
    others = sum(answer.entry.page not in {"", document.page} for answer in answers)
    if others:
        counts["URLs of other pages in the recording, which are served too"] = others
    return HarRecording(answers[start:] + answers[:start], scheme)


def _document(entries: list[HarEntry], pages: list[str], counts: Counter[str]) -> HarEntry:
    """Return the document of the first page whose document has a body."""
    candidates = _candidates(entries, pages)
    same_url: dict[tuple[str, str] | None, list[HarEntry]] = {}
    for candidate in candidates:
        same_url.setdefault(candidate.entry.key, []).append(candidate.entry)
    missing: list[_Candidate] = []
    for first in _first_of_pages(candidates):
        if missing and first.rank > missing[0].rank:
            break
        document = _with_body(same_url.pop(first.entry.key, []), first.entry.page)
        if document is not None:
            if missing:
                counts[_PASSED_OVER] = len(missing)
            return document
        missing.append(first)
    if not missing:
        raise Problem("has no document (text/html) that can be served: record the load of a page", "log.entries")
    entry = missing[0].entry
    if entry.address is None:
        rule = "the browser requested the document with another method than GET"
        raise Problem(f"{rule}: record a page that opens by its URL", f"{entry.place}.request.method")
    url = f"{entry.address.scheme}://{entry.address.host}{entry.address.uri}"
    shown = url if len(url) <= _SHOWN_CHARACTERS else f"{url[:_SHOWN_CHARACTERS]}…"
    fault = "cannot be decoded" if _body(entry).note else "was not recorded"
    rule = f"the body of the document {shown} {fault} (status {entry.status})"
    raise Problem(f"{rule}: {_RELOAD}", f"{entry.place}.response.content")


def _candidates(entries: list[HarEntry], pages: list[str]) -> list[_Candidate]:
    order: dict[str, float] = {name: number for number, name in enumerate(pages)}
    order[""] = math.inf
    candidates = []
    for index, entry in enumerate(entries):
        page = order.setdefault(entry.page, len(order))
        if not entry.is_html or entry.loads_page is False:
            continue
        if entry.loads_page:
            candidates.append(_Candidate(0, page, index, entry))
        elif entry.status == 304 or not is_empty(entry.content):  # other empty answers are beacons
            candidates.append(_Candidate(2 if entry.failed else 1, page, index, entry))
    return candidates


def _first_of_pages(candidates: list[_Candidate]) -> Iterator[_Candidate]:
    """Yield the first candidate of each page, the most certain first."""
    seen: set[float] = set()
    for candidate in sorted(candidates, key=lambda each: (each.rank, each.page, each.index)):
        if candidate.page in seen or (seen and candidate.page == math.inf):
            continue
        seen.add(candidate.page)
        yield candidate


def _with_body(same_url: list[HarEntry], page: str) -> HarEntry | None:
    """Return the entry of a document's URL that has a body: no error if possible, of the page if possible."""
    by_preference = sorted(same_url, key=lambda entry: (entry.failed, entry.page != page))
    return next((entry for entry in by_preference if entry.address is not None and _body(entry).data), None)


def _answers(entries: list[HarEntry], document: HarEntry, counts: Counter[str]) -> Iterator[RecordedAnswer]:
    """Yield the answer of each URL, in the order of their first requests."""
    groups: dict[tuple[str, str], list[tuple[Address, HarEntry]]] = {}
    for entry in entries:
        if entry.address is not None:
            groups.setdefault(entry.address.key, []).append((entry.address, entry))
    for group in groups.values():
        answer = _best(group, document, counts)
        if len(group) > 1:
            counts["repeated requests of a URL, which get one answer"] += len(group) - 1
        if answer.entry is not group[0][1]:
            counts["URLs that get a later answer, because the first is incomplete, an error, or of another page"] += 1
        yield answer


def _best(group: list[tuple[Address, HarEntry]], document: HarEntry, counts: Counter[str]) -> RecordedAnswer:
    """Return the most complete answer; of equal ones the first, and one of the document's page before others."""
    best: RecordedAnswer | None = None
    least = math.inf
    for address, entry in sorted(group, key=lambda pair: (pair[1] is not document, pair[1].page != document.page)):
        body = _body(entry)
        if body.note:
            counts[body.note] += 1
        rank = _rank(entry, body)
        if rank < least:
            best, least = RecordedAnswer(address, entry, body), rank
        if rank == 0 or entry is document:
            break
    assert best is not None, "a group has an entry"
    return best


def _rank(entry: HarEntry, body: Body) -> int:
    """Return how incomplete an answer is.

    0: whole. 1: a part. 2: missing, size known. 3: empty, or a redirect. 4: missing, size unknown. 5 and 6: an error.
    """
    if entry.failed:
        return 5 if body.data else 6
    if body.data:
        return 1 if entry.status == 206 else 0
    if body.data is None:
        return 2 if entry.size else 4
    return 3


def _body(entry: HarEntry) -> Body:
    if entry.location or entry.status == 204:
        return Body(b"")
    body = read_body(entry.content, kind_of_type(entry.content_type))
    return Body(None) if entry.status == 304 and not body.data and not body.note else body


def _start(answers: list[RecordedAnswer], end: int) -> int:
    """Return the index of the answer that begins the visit: the first redirect on the way to the document at `end`."""
    page = answers[end].entry.page
    redirects: dict[tuple[str, str], list[int]] = {}
    for index in sorted(range(len(answers)), key=lambda index: answers[index].entry.order):
        entry = answers[index].entry
        may_load_page = entry.loads_page is not False and kind_of_type(entry.content_type) in {"html", "other"}
        if entry.target is not None and may_load_page and entry.page in {"", page}:
            redirects.setdefault(entry.target, []).append(index)
    start = end
    while True:
        to_start = redirects.get(answers[start].address.key, [])
        while to_start and answers[to_start[-1]].entry.order > answers[start].entry.order:
            to_start.pop()
        if not to_start:
            return start
        start = to_start.pop()


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
        origins=tuple(SiteOrigin(host, host) for host in hosts),
        objects=objects,
        scheme=scheme,
        notes=tuple(f"{what}: {count}" for what, count in sorted(notes.items())),
        recorded=True,
    )


def _served(entry: HarEntry) -> int:
    """Return the status of the answer here; every server can send it with any body."""
    if entry.status in _OF_NGINX:
        return 400
    if entry.location or entry.status == 204 or entry.failed:
        return entry.status
    # 206: all of it is given. 304: the browser had it already; here it does not.
    return 200


def _bytes_of(answer: RecordedAnswer) -> int:
    """Return the size of the answer's body."""
    body = answer.body.data
    return min(answer.entry.size, MAX_FILLER_BYTES) if body is None else len(body)


def _write(answer: RecordedAnswer, number: int, folder: Path, notes: Counter[str]) -> SiteObject:
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
