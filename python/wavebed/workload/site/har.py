"""Import a page from a recording of its requests (HAR 1.2)."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import quote, urljoin, urlsplit

from wavebed.config.problems import Problem, described
from wavebed.errors import UserError
from wavebed.foreign import read_bytes
from wavebed.workload.site.filler import filler
from wavebed.workload.site.kinds import ending, kind_of_type
from wavebed.workload.site.model import Origin, Site, SiteObject

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from wavebed.workload.site.model import Scheme

__all__ = ["import_har", "read_har", "stripped"]

MAX_BYTES = 200_000_000
"""Of the file, and of all bodies together, recorded and made up."""
MAX_ENTRIES = 5000
MAX_URI_LENGTH = 2000
"""Longest path with query; servers take it as one word of their configuration."""
MAX_FILLER_BYTES = 100_000_000
_HOST = re.compile(r"[a-z0-9]([a-z0-9_-]{0,62})(\.[a-z0-9_-]{1,63})*", re.ASCII)
_READ = ("status", "redirectURL", "bodySize", "content")
_READ_OF_CONTENT = ("mimeType", "size", "text", "encoding")
_OF_NGINX = (444, 499)
"""nginx's internal codes for closed connections."""
_KEEP_IN_URI = "".join(chr(code) for code in range(0x21, 0x7F))
_Table: TypeAlias = "Mapping[str, object]"


@dataclass(frozen=True, slots=True)
class _Address:
    scheme: Scheme
    host: str
    uri: str


@dataclass(frozen=True, slots=True)
class _Answer:
    address: _Address
    status: int
    location: str
    content_type: str
    body: bytes | None
    size: int
    wire_bytes: int


def import_har(file: Path, data: bytes, folder: Path) -> Site:
    """Write the bodies of a recording into `folder`, and return its site.

    File names are numbers, so they do not depend on the content of the recording.

    Raises
    ------
    UserError
        If it is not a recording of a page.
    """
    left_out: Counter[str] = Counter()
    try:
        answers = _chosen(_entries(data), left_out)
    except Problem as problem:
        raise UserError(f"{file}: {problem}") from None
    hosts = list(dict.fromkeys(answer.address.host for answer in answers))
    if sum(map(_bytes_of, answers)) > MAX_BYTES:
        raise UserError(f"{file}: its bodies are larger than {MAX_BYTES} bytes together: name a recording of one page")
    objects = tuple(_write(answer, number, folder, left_out) for number, answer in enumerate(answers, 1))
    first = answers[0].address
    others = sum(answer.address.scheme != first.scheme for answer in answers)
    if others:
        left_out[f"requests by another scheme than {first.scheme}: all are served by one"] = others
    return Site(
        name=file.stem,
        title=f"{first.host}{first.uri}",
        source=f"{file.name}: a recording (HAR)",
        first=first.uri,
        origins=tuple(Origin(host, host) for host in hosts),
        objects=objects,
        scheme=first.scheme,
        notes=tuple(f"{what}: {count}" for what, count in sorted(left_out.items())),
        recorded=True,
    )


def stripped(data: bytes) -> bytes:
    """Return a recording with nothing in it but what `import_har` reads: no headers, no cookies, no posted data.

    Raises
    ------
    Problem
        If it is no recording.
    """
    return json.dumps({"log": {"entries": [_stripped(entry) for entry in _entries(data)]}}).encode()


def _stripped(entry: _Table) -> _Table:
    request, response = (entry.get(side) for side in ("request", "response"))
    if not isinstance(request, dict) or request.get("method") != "GET":
        return {"request": {"method": "other"}, "response": {}}
    kept = {key: value for key, value in response.items() if key in _READ} if isinstance(response, dict) else {}
    content = kept.get("content")
    if isinstance(content, dict):
        kept["content"] = {key: value for key, value in content.items() if key in _READ_OF_CONTENT}
    return {"request": {"method": "GET", "url": request.get("url")}, "response": kept}


def _entries(data: bytes) -> list[_Table]:
    try:
        document: object = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Problem(f"is not JSON: {error}: write a recording as browsers save it (HAR 1.2)") from None
    log = _table(document, "the document").get("log")
    entries = _table(log, "log").get("entries")
    if not isinstance(entries, list):
        raise Problem(f"{described(entries)} is not an array: write a recording (HAR 1.2)", "log.entries")
    if len(entries) > MAX_ENTRIES:
        raise Problem(f"has {len(entries)} entries: write at most {MAX_ENTRIES}", "log.entries")
    return [_table(entry, f"log.entries.{index}") for index, entry in enumerate(entries)]


def _table(value: object, key: str) -> _Table:
    if not isinstance(value, dict):
        raise Problem(f"{described(value)} is not an object: write a recording (HAR 1.2)", key)
    return value


def _chosen(entries: list[_Table], left_out: Counter[str]) -> list[_Answer]:
    """Return the answers that can be served, one for each address; the first is that of the page."""
    found: dict[tuple[str, str], _Answer] = {}
    for answer in _answers(entries, left_out):
        key = (answer.address.host, answer.address.uri)
        if key in found:
            left_out["further requests of an address, answered as the first"] += 1
        else:
            found[key] = answer
    answers = list(found.values())
    for index, answer in enumerate(answers):
        if answer.location or kind_of_type(answer.content_type) == "html":
            return answers[index:] + answers[:index]
    raise Problem("has no document (text/html) that can be served: record the load of a page", "log.entries")


def _answers(entries: list[_Table], left_out: Counter[str]) -> Iterator[_Answer]:
    for index, entry in enumerate(entries):
        key = f"log.entries.{index}"
        request = _table(entry.get("request"), f"{key}.request")
        response = _table(entry.get("response"), f"{key}.response")
        if request.get("method") != "GET":
            left_out["requests left out that are not GET"] += 1
            continue
        address = _address(request.get("url"))
        if isinstance(address, str):
            left_out[address] += 1
            continue
        status = response.get("status")
        if isinstance(status, bool) or not isinstance(status, int) or not 200 <= status <= 599:
            left_out["requests left out that had no answer"] += 1
            continue
        location = _location(response, request) if status in {301, 302, 303, 307, 308} else ""
        target = _address(location) if location else ""
        if isinstance(target, _Address) and (target.host, target.uri) == (address.host, address.uri):
            left_out["redirects left out that change nothing but the scheme"] += 1
            continue
        yield _answer(address, _served(status, location), location, response, key)


def _served(status: int, location: str) -> int:
    """Return the status of the answer here; every server can send it with any body."""
    if status in _OF_NGINX:
        return 400
    if location or status == 204 or status >= 400:
        return status
    # 206: all of it is given. 304: the browser had it already; here it does not.
    return 200


def _address(url: object) -> _Address | str:
    """Return where a request goes, or why it cannot be served."""
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        host = (parts.hostname or "").lower()
    except ValueError:
        return "requests left out whose URL is not one"
    if parts.scheme not in {"http", "https"}:
        return "requests left out that are not HTTP"
    if not _HOST.fullmatch(host) or len(host) > 253:
        return "requests left out whose host has no name"
    uri = quote(parts.path or "/", safe=_KEEP_IN_URI) + (
        f"?{quote(parts.query, safe=_KEEP_IN_URI)}" if parts.query else ""
    )
    if len(uri) > MAX_URI_LENGTH:
        return f"requests left out whose URL is longer than {MAX_URI_LENGTH} characters"
    return _Address("https" if parts.scheme == "https" else "http", host, uri)


def _location(response: _Table, request: _Table) -> str:
    """Return the target of a redirect as an absolute URL; empty without one."""
    given = response.get("redirectURL")
    try:
        url = urljoin(str(request.get("url")), given) if isinstance(given, str) and given else ""
    except ValueError:
        return ""
    return quote(url, safe=_KEEP_IN_URI)[: 2 * MAX_URI_LENGTH]


def _answer(address: _Address, status: int, location: str, response: _Table, key: str) -> _Answer:
    content = _table(response.get("content", {}), f"{key}.response.content")
    given = content.get("mimeType")
    content_type = given if isinstance(given, str) and re.fullmatch(r"[\x21-\x7e][\x20-\x7e]{0,200}", given) else ""
    text = content.get("text")
    body: bytes | None = None
    if location or status == 204:
        body = b""
    elif isinstance(text, str) and content.get("encoding") == "base64":
        try:
            body = base64.b64decode(text, validate=False)
        except (binascii.Error, ValueError):
            raise Problem("is not base64: record the page again", f"{key}.response.content.text") from None
    elif _count(content.get("size")) == 0 or (isinstance(text, str) and text):
        body = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else b""
        # The recorder has decoded it.
        content_type = re.sub(r"charset=[^;\s]*", "charset=utf-8", content_type, flags=re.IGNORECASE)
    wire_bytes = max(_count(response.get("bodySize")), 0)
    size = wire_bytes or max(_count(content.get("size")), 0)
    return _Answer(address, status, location, content_type or "application/octet-stream", body, size, wire_bytes)


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else -1


def _bytes_of(answer: _Answer) -> int:
    """Return the size of the answer's body."""
    return min(answer.size, MAX_FILLER_BYTES) if answer.body is None else len(answer.body)


def _write(answer: _Answer, number: int, folder: Path, left_out: Counter[str]) -> SiteObject:
    kind, content_type, body = kind_of_type(answer.content_type), answer.content_type, answer.body
    if body is None and answer.size == 0:
        body = b""
        left_out["bodies that are empty here: neither they nor their size were recorded"] += 1
    elif body is None:
        content_type, body = filler(kind, content_type, _bytes_of(answer), f"{answer.address.host}{answer.address.uri}")
        left_out["bodies that were not recorded, replaced by ones of that size and kind"] += 1
    elif 0 < answer.wire_bytes < len(body):
        left_out["bytes more than were on the wire, for nothing is compressed"] += len(body) - answer.wire_bytes
    file = "" if answer.location or answer.status == 204 else f"{number:05}.{ending(content_type)}"
    (folder / answer.address.host).mkdir(exist_ok=True)
    if file:
        (folder / answer.address.host / file).write_bytes(body)
    return SiteObject(
        origin=answer.address.host,
        path=answer.address.uri,
        file=file,
        bytes=len(body),
        kind=kind,
        content_type=content_type,
        status=answer.status,
        location=answer.location,
    )


def read_har(file: Path) -> bytes:
    """Return the content of a recording's file.

    Raises
    ------
    UserError
        If it cannot be read.
    """
    return read_bytes(file, "name a recording of one page", most=MAX_BYTES)
