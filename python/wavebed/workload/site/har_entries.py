"""Decode the body of a HAR entry. A body that cannot be decoded is a missing body."""

from __future__ import annotations

import base64
import json
import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import quote, urljoin, urlsplit

from wavebed.config.problems import Problem, described
from wavebed.workload.site.model import UNKNOWN, kind_of_type, type_of_file

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Mapping

    from wavebed.workload.site.model import Kind, Scheme


_PLAIN = ("", "utf-8", "utf8")
_TEXT_KINDS = ("html", "css", "js", "json")
_BINARY_KINDS = ("image", "font")
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]*+={0,2}\s*+", re.ASCII)
_GZIP = b"\x1f\x8b"
"""RFC 1952, 2.3.1."""
_LOST = "\ufffd"
"""U+FFFD: the recorder decoded binary data as UTF-8, which lost bytes."""
_UNREADABLE = "bodies that cannot be decoded, which count as not recorded"
_NOT_ENCODED = "bodies marked as base64 that are plain text, served as they are"


@dataclass(frozen=True, slots=True)
class Body:
    """A recorded body.

    Parameters
    ----------
    data : bytes or None
        The body; ``None`` if it was not recorded or cannot be decoded.
    is_text : bool
        Whether the recorder stored text, so that the body is UTF-8 now.
    note : str
        The fault, for the notes of the site; empty without one.
    """

    data: bytes | None
    is_text: bool = False
    note: str = ""


def is_empty(content: Mapping[str, object]) -> bool:
    """Return whether a table ``response.content`` has an empty body: an empty ``text``, and no positive ``size``."""
    size = content.get("size")
    return content.get("text") == "" and not (isinstance(size, int) and size > 0)


def read_body(content: Mapping[str, object], kind: Kind) -> Body:
    """Return the body in a table ``response.content``; without the key ``text`` it is missing, whatever its size."""
    text, encoding = content.get("text"), content.get("encoding") or ""
    if is_empty(content):
        return Body(b"", is_text=True)
    if not isinstance(text, str) or not text:
        return Body(None)
    if not isinstance(encoding, str):
        return Body(None, note=_UNREADABLE)
    if encoding.lower() in _PLAIN:
        lost = kind in _BINARY_KINDS and _LOST in text
        return Body(None, note=_UNREADABLE) if lost else Body(_encoded(text), is_text=True)
    if encoding.lower() != "base64":
        return Body(None, note=_UNREADABLE)
    try:
        data = _decoded(text)
    except ValueError:
        # Firefox marks some text as base64.
        if kind in _TEXT_KINDS and len(plain := _encoded(text)) == content.get("size"):
            return Body(plain, is_text=True, note=_NOT_ENCODED)
        return Body(None, note=_UNREADABLE)
    if kind in _TEXT_KINDS and data.startswith(_GZIP):
        return Body(None, note=_UNREADABLE)
    return Body(data)


def _decoded(text: str) -> bytes:
    """Decode base64 with line breaks; the pattern checks a large text without a copy of it."""
    if not _BASE64.fullmatch(text):
        raise ValueError("is not base64")
    return base64.b64decode(text)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


MAX_ENTRIES = 5000
MAX_URI_LENGTH = 2000
"""Longest path with query; servers take it as one word of their configuration."""
_HOST = re.compile(r"[a-z0-9]([a-z0-9_-]{0,62})(\.[a-z0-9_-]{1,63})*", re.ASCII)
_KEEP_IN_URI = "".join(chr(code) for code in range(0x21, 0x7F))
_TYPE = re.compile(r"[\x21-\x7e][\x20-\x7e]{0,200}")
_REDIRECTS = (301, 302, 303, 307, 308)
_DESTINATION = "sec-fetch-dest"
"""Request header: ``document`` for a page, ``iframe`` for a frame (W3C Fetch Metadata)."""
_READ = ("status", "redirectURL", "bodySize", "content")
_READ_OF_CONTENT = ("mimeType", "size", "text", "encoding")
_READ_OF_ENTRY = ("startedDateTime", "pageref", "_resourceType")
_READ_OF_PAGE = ("id", "startedDateTime")
Table: TypeAlias = "Mapping[str, object]"


@dataclass(frozen=True, slots=True)
class Address:
    """The URL of a request without port and fragment."""

    scheme: Scheme
    host: str
    uri: str

    @property
    def key(self) -> tuple[str, str]:
        """Host and URI; the laboratory serves all of a site by one scheme."""
        return self.host, self.uri


@dataclass(frozen=True, slots=True)
class HarEntry:
    """An answered request.

    Parameters
    ----------
    place : str
        Key of the entry in the file, for messages: ``log.entries.3``.
    order : tuple of float and int
        Start of the request (Unix time, seconds), and index in the file. Without a time, the time of the entry before.
    page : str
        Value of ``pageref``; empty if the entry belongs to no page.
    loads_page : bool or None
        Whether the browser requested a document for a tab; ``None`` if the file does not say.
    address : Address or None
        ``None`` for methods other than GET.
    status : int
        Recorded status, 200 to 599.
    location : str
        Absolute target of a redirect; empty otherwise.
    target : tuple of str or None
        `Address.key` of a redirect's target.
    content_type : str
        Recorded type, or the type of the content if none was recorded.
    content : mapping
        The table ``response.content``.
    size : int
        Body size in bytes for a body that was not recorded; 0 if unknown.
    wire_bytes : int
        Compressed body size in bytes; 0 if unknown.
    """

    place: str
    order: tuple[float, int]
    page: str
    loads_page: bool | None
    address: Address | None
    status: int
    location: str
    target: tuple[str, str] | None
    content_type: str
    content: Table
    size: int
    wire_bytes: int

    @property
    def key(self) -> tuple[str, str] | None:
        """`Address.key`; ``None`` for methods other than GET."""
        return None if self.address is None else self.address.key

    @property
    def is_html(self) -> bool:
        """Whether the answer can be a document."""
        return not self.location and self.status != 204 and kind_of_type(self.content_type) == "html"

    @property
    def failed(self) -> bool:
        """Whether the status is an error."""
        return self.status >= 400


def read_log(data: bytes) -> Table:
    """Return the table ``log`` of a recording; its ``entries`` is a list of tables.

    Raises
    ------
    Problem
        If `data` is not a recording.
    """
    try:
        document: object = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Problem(f"is not JSON: {error}: write a recording as browsers save it (HAR 1.2)") from None
    log = _table(_table(document, "the document").get("log"), "log")
    entries = log.get("entries")
    if not isinstance(entries, list):
        raise Problem(f"{described(entries)} is not an array: write a recording (HAR 1.2)", "log.entries")
    if len(entries) > MAX_ENTRIES:
        raise Problem(f"has {len(entries)} entries: write at most {MAX_ENTRIES}", "log.entries")
    return {**log, "entries": [_table(entry, f"log.entries.{index}") for index, entry in enumerate(entries)]}


def page_order(log: Table) -> list[str]:
    """Return the ids in ``log.pages`` by start time."""
    started: dict[str, float] = {}
    time_s = -math.inf
    for page in _list(log.get("pages")):
        name = page.get("id")
        time_s = _time_s(page.get("startedDateTime"), time_s)
        if isinstance(name, str):
            started.setdefault(name, time_s)
    return sorted(started, key=started.__getitem__)


def read_entries(log: Table, counts: Counter[str]) -> list[HarEntry]:
    """Return the answered requests by time, and count the others in `counts`.

    Entries of methods other than GET are returned only if they load a page.

    Raises
    ------
    Problem
        If an entry has no request, or its response is not a table.
    """
    entries: list[HarEntry] = []
    time_s = -math.inf
    for index, table in enumerate(_list(log["entries"])):
        time_s = _time_s(table.get("startedDateTime"), time_s)
        entry = _entry(table, (time_s, index), counts)
        if entry is not None:
            entries.append(entry)
    return sorted(entries, key=lambda entry: entry.order)


def stripped(data: bytes) -> bytes:
    """Return a recording with only the keys that an import reads: no cookies, no posted data, one header.

    Raises
    ------
    Problem
        If `data` is not a recording.
    """
    log = read_log(data)
    pages = [_only(page, _READ_OF_PAGE) for page in _list(log.get("pages"))]
    return json.dumps(
        {"log": {"pages": pages, "entries": [_stripped(entry) for entry in _list(log["entries"])]}}
    ).encode()


def _stripped(entry: Table) -> Table:
    request, response = (_or_empty(entry.get(side)) for side in ("request", "response"))
    is_get = request.get("method") == "GET"
    content = _only(_or_empty(response.get("content")), _READ_OF_CONTENT if is_get else ("mimeType",))
    destination = _destination(request)
    kept: dict[str, object] = {"method": "GET", "url": request.get("url")} if is_get else {"method": "other"}
    if destination:
        kept["headers"] = [{"name": _DESTINATION, "value": destination}]
    answer = {**_only(response, _READ if is_get else ("status",)), "content": content}
    return {**_only(entry, _READ_OF_ENTRY), "request": kept, "response": answer if response else None}


def _entry(table: Table, order: tuple[float, int], counts: Counter[str]) -> HarEntry | None:
    place = f"log.entries.{order[1]}"
    request = _table(table.get("request"), f"{place}.request")
    given = table.get("response")
    response = _table({} if given is None else given, f"{place}.response")
    loads_page = _loads_page(table, request)
    address: Address | None = None
    if request.get("method") != "GET":
        counts["requests left out that are not GET"] += 1
        if not loads_page:
            return None
    else:
        read = _address(request.get("url"))
        if isinstance(read, str):
            counts[read] += 1
            return None
        address = read
    status = response.get("status")
    if isinstance(status, bool) or not isinstance(status, int) or not 200 <= status <= 599:
        if address is not None:
            counts["requests left out that had no answer"] += 1
        return None
    if address is None and status in _REDIRECTS:
        return None
    location = _location(response, request) if status in _REDIRECTS else ""
    target = _address(location) if location else ""
    if isinstance(target, Address) and address is not None and target.key == address.key:
        counts["redirects left out that change nothing but the scheme"] += 1
        return None
    page = table.get("pageref")
    content = _or_empty(response.get("content"))
    wire_bytes = max(_count(response.get("bodySize")), 0)
    return HarEntry(
        place=place,
        order=order,
        page=page if isinstance(page, str) else "",
        loads_page=loads_page,
        address=address,
        status=status,
        location=location,
        target=target.key if isinstance(target, Address) else None,
        content_type=_content_type(content, address, counts),
        content=content,
        size=wire_bytes or max(_count(content.get("size")), 0),
        wire_bytes=wire_bytes,
    )


def _loads_page(entry: Table, request: Table) -> bool | None:
    """Return whether a request is for the document of a tab; Chrome's type alone does not exclude frames."""
    destination = _destination(request)
    if destination:
        return destination == "document"
    resource = entry.get("_resourceType")
    if not isinstance(resource, str) or resource.lower() in {"", "other"}:
        return None
    return resource.lower() == "document"


def _destination(request: Table) -> str:
    for header in _list(request.get("headers")):
        name, value = header.get("name"), header.get("value")
        if isinstance(name, str) and isinstance(value, str) and name.lower() == _DESTINATION:
            return value.strip().lower()
    return ""


def _content_type(content: Table, address: Address | None, counts: Counter[str]) -> str:
    given = content.get("mimeType")
    if isinstance(given, str) and "/" in given and _TYPE.fullmatch(given):
        return given
    body = read_body(content, "other").data
    if not body or address is None:
        return UNKNOWN
    counts["answers without a type, which their name or content decides"] += 1
    return type_of_file(address.uri.partition("?")[0].rpartition("/")[2], body)


def _address(url: object) -> Address | str:
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
    return Address("https" if parts.scheme == "https" else "http", host, uri)


def _location(response: Table, request: Table) -> str:
    """Return the target of a redirect as an absolute URL; empty without one."""
    given = response.get("redirectURL")
    try:
        url = urljoin(str(request.get("url")), given) if isinstance(given, str) and given else ""
    except ValueError:
        return ""
    return quote(url, safe=_KEEP_IN_URI)[: 2 * MAX_URI_LENGTH]


def _time_s(value: object, otherwise: float) -> float:
    """Return a time of ISO 8601 as Unix time; `otherwise` if it is none. Without a zone it is UTC."""
    try:
        time = datetime.fromisoformat(value if isinstance(value, str) else "")
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return otherwise


def _table(value: object, key: str) -> Table:
    if not isinstance(value, dict):
        raise Problem(f"{described(value)} is not an object: write a recording (HAR 1.2)", key)
    return value


def _or_empty(value: object) -> Table:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Table]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _only(table: Table, keys: tuple[str, ...]) -> dict[str, object]:
    return {key: table[key] for key in keys if key in table}


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else -1
