"""Choose the document of a recorded page, and one answer for each URL."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wavebed.config.problems import Problem
from wavebed.workload.site.har_body import Body, is_empty, read_body
from wavebed.workload.site.kinds import kind_of_type

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator

    from wavebed.workload.site.har_entries import Address, Entry
    from wavebed.workload.site.model import Scheme

__all__ = ["Answer", "Recording", "choose"]

_SHOWN_CHARACTERS = 80
_PASSED_OVER = "pages passed over, because their document has no recorded body or is no GET"
_RELOAD = "load the page again with the browser's cache disabled, and save it as HAR with content"


@dataclass(frozen=True, slots=True)
class Answer:
    """The entry that answers a URL, and its body."""

    address: Address
    entry: Entry
    body: Body


@dataclass(frozen=True, slots=True)
class Recording:
    """What a site serves.

    Parameters
    ----------
    answers : list of Answer
        One for each URL; the first begins the visit: the document, or the first of the redirects to it.
    scheme : {"http", "https"}
        Scheme of the document.
    """

    answers: list[Answer]
    scheme: Scheme


@dataclass(frozen=True, slots=True)
class _Candidate:
    """An entry that may be a document: the lowest rank is the most certain."""

    rank: int
    page: float
    index: int
    entry: Entry


def choose(entries: list[Entry], pages: list[str], counts: Counter[str]) -> Recording:
    """Return the answers of a page, and count the choices in `counts`.

    Parameters
    ----------
    entries : list of Entry
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
    return Recording(answers[start:] + answers[:start], scheme)


def _document(entries: list[Entry], pages: list[str], counts: Counter[str]) -> Entry:
    """Return the document of the first page whose document has a body."""
    candidates = _candidates(entries, pages)
    same_url: dict[tuple[str, str] | None, list[Entry]] = {}
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


def _candidates(entries: list[Entry], pages: list[str]) -> list[_Candidate]:
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


def _with_body(same_url: list[Entry], page: str) -> Entry | None:
    """Return the entry of a document's URL that has a body: no error if possible, of the page if possible."""
    by_preference = sorted(same_url, key=lambda entry: (entry.failed, entry.page != page))
    return next((entry for entry in by_preference if entry.address is not None and _body(entry).data), None)


def _answers(entries: list[Entry], document: Entry, counts: Counter[str]) -> Iterator[Answer]:
    """Yield the answer of each URL, in the order of their first requests."""
    groups: dict[tuple[str, str], list[tuple[Address, Entry]]] = {}
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


def _best(group: list[tuple[Address, Entry]], document: Entry, counts: Counter[str]) -> Answer:
    """Return the most complete answer; of equal ones the first, and one of the document's page before others."""
    best: Answer | None = None
    least = math.inf
    for address, entry in sorted(group, key=lambda pair: (pair[1] is not document, pair[1].page != document.page)):
        body = _body(entry)
        if body.note:
            counts[body.note] += 1
        rank = _rank(entry, body)
        if rank < least:
            best, least = Answer(address, entry, body), rank
        if rank == 0 or entry is document:
            break
    assert best is not None, "a group has an entry"
    return best


def _rank(entry: Entry, body: Body) -> int:
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


def _body(entry: Entry) -> Body:
    if entry.location or entry.status == 204:
        return Body(b"")
    body = read_body(entry.content, kind_of_type(entry.content_type))
    return Body(None) if entry.status == 304 and not body.data and not body.note else body


def _start(answers: list[Answer], end: int) -> int:
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
