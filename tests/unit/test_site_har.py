"""Which entries of a recording become the page: its document, and one answer for each URL."""

from __future__ import annotations

import base64
import gzip
import itertools
import json
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavebed.errors import UserError
from wavebed.workload.site.har import import_har
from wavebed.workload.site.har_entries import stripped
from wavebed.workload.site.model import BuiltSite

if TYPE_CHECKING:
    from collections.abc import Sequence

Table: TypeAlias = dict[str, object]

PAGE = "https://a.example/"
HTML = "<!doctype html><link rel=stylesheet href=/a.css><p>page"
FRAME = "<!doctype html><p>frame"
RELOAD = "load the page again with the browser's cache disabled, and save it as HAR with content"
LATER = "URLs that get a later answer, because the first is incomplete, an error, or of another page: 1"
REPEATED = "repeated requests of a URL, which get one answer: 1"


def entry(
    url: str,
    text: str | None = None,
    *,
    mime: str | None = "text/html",
    status: int = 200,
    to: str = "",
    method: str = "GET",
    destination: str = "",
    at: str = "",
    content: Table | None = None,
    **more: object,
) -> Table:
    body = {} if text is None else {"text": text}
    made: Table = {
        "request": {"method": method, "url": url, "headers": [{"name": "Cookie", "value": "secret"}]},
        "response": {
            "status": status,
            "redirectURL": to,
            "content": {"size": len(text or ""), "mimeType": mime, **body, **(content or {})},
        },
        **more,
    }
    if destination:
        made["request"] = {"method": method, "url": url, "headers": [{"name": "Sec-Fetch-Dest", "value": destination}]}
    if at:
        made["startedDateTime"] = f"2024-05-01T10:00:{at}Z"
    return made


def document(**more: object) -> Table:
    return entry(PAGE, HTML, **more)  # type: ignore[arg-type]


def style(text: str | None = "p{}", **more: object) -> Table:
    return entry(f"{PAGE}a.css", text, mime="text/css", **more)  # type: ignore[arg-type]


def recording(entries: Sequence[object], pages: Sequence[object] = ()) -> bytes:
    return json.dumps({"log": {"version": "1.2", "pages": pages, "entries": entries}}).encode()


def imported(folder: Path, *entries: object, pages: Sequence[object] = ()) -> BuiltSite:
    data = recording(entries, pages)
    (folder / "given").mkdir()
    (folder / "kept").mkdir()
    built = BuiltSite(import_har(Path("page.har"), data, folder / "given"), folder / "given")
    kept = import_har(Path("page.har"), stripped(data), folder / "kept")
    assert kept == built.site, "what is kept beside a trial gives the same site"
    return built


def refusal(folder: Path, *entries: object, pages: Sequence[object] = ()) -> str:
    with pytest.raises(UserError) as caught:
        import_har(Path("page.har"), recording(entries, pages), folder)
    assert str(caught.value).isprintable()
    return str(caught.value)


def bodies(built: BuiltSite) -> dict[str, bytes]:
    return {each.path: built.path_of(each).read_bytes() if each.file else b"" for each in built.site.objects}


def notes(built: BuiltSite) -> set[str]:
    return set(built.site.notes)


@pytest.mark.parametrize(
    "first",
    [
        style(None, status=304),
        style("", status=304),
        style("busy", status=503),
        style("p{col", status=206),
        style(None, content={"size": 900}),
        style("%%%%", content={"encoding": "base64", "size": 3}),
    ],
    ids=["304", "304 with empty text", "503", "a part", "no body", "rubbish"],
)
def test_the_whole_answer_of_a_url_is_preferred_to_the_first(first: Table, tmp_path: Path) -> None:
    built = imported(tmp_path, document(), first, style())
    assert bodies(built)["/a.css"] == b"p{}"
    assert {entry.status for entry in built.site.objects} == {200}
    assert {LATER, REPEATED} <= notes(built)


def test_of_equal_answers_the_first_is_served(tmp_path: Path) -> None:
    built = imported(tmp_path, document(), style("p{a:b}"), style("p{c:d}"))
    assert bodies(built)["/a.css"] == b"p{a:b}"
    assert notes(built) == {REPEATED}


@pytest.mark.parametrize(
    "first", [entry(PAGE), entry(PAGE, ""), entry(PAGE, "<p>busy", status=503)], ids=["no body", "empty", "503"]
)
def test_the_document_is_the_answer_with_its_body(first: Table, tmp_path: Path) -> None:
    built = imported(tmp_path, first, document(), style())
    assert (built.site.first, bodies(built)["/"], built.site.objects[0].status) == ("/", HTML.encode(), 200)
    assert LATER in notes(built)


def test_a_redirected_beacon_before_the_page_does_not_begin_the_visit(tmp_path: Path) -> None:
    built = imported(
        tmp_path,
        entry("https://t.example/px", mime="image/gif", status=302, to="https://u.example/px"),
        entry("https://u.example/px", "R0lGODlh", mime="image/gif", content={"encoding": "base64"}),
        document(),
    )
    assert (built.site.title, built.site.origins[0].name) == ("a.example/", "a.example")
    assert notes(built) == {"URLs requested before the page, which are served too: 2"}


def test_a_beacon_that_redirects_to_the_page_does_not_begin_the_visit(tmp_path: Path) -> None:
    beacon = entry("https://t.example/px", mime="", status=302, to=PAGE, destination="image")
    assert imported(tmp_path, beacon, document()).site.title == "a.example/"


def test_an_empty_html_answer_before_the_page_is_a_beacon(tmp_path: Path) -> None:
    built = imported(tmp_path, entry("https://t.example/collect", ""), document())
    assert built.site.title == "a.example/"


@pytest.mark.parametrize("status", [304, 200])
def test_a_document_without_a_body_is_refused_with_a_remedy(status: int, tmp_path: Path) -> None:
    message = refusal(tmp_path, entry(PAGE, status=status), style(), entry(f"{PAGE}frame", FRAME))
    assert message == (
        f"page.har: log.entries.0.response.content: the body of the document {PAGE} was not recorded "
        f"(status {status}): {RELOAD}"
    )


def test_a_document_whose_body_has_a_size_but_no_text_is_refused(tmp_path: Path) -> None:
    assert "was not recorded (status 200)" in refusal(tmp_path, entry(PAGE, content={"size": 5000}), style())


def test_a_document_that_cannot_be_decoded_is_refused(tmp_path: Path) -> None:
    message = refusal(tmp_path, document(content={"encoding": "base64", "size": 5}), style())
    assert f"{PAGE} cannot be decoded (status 200): {RELOAD}" in message


@pytest.mark.parametrize(
    ("mime", "content"),
    [
        ("text/css", {"text": "p { } rubbish", "encoding": "base64", "size": 700}),
        ("text/css", {"text": " " * 100_000 + "!", "encoding": "base64", "size": 700}),
        ("text/css", {"text": "abc", "encoding": "base64", "size": 700}),
        ("text/css", {"text": "H4sIAAAA", "encoding": "gzip", "size": 700}),
        ("text/css", {"text": base64.b64encode(gzip.compress(b"p{}")).decode(), "encoding": "base64", "size": 700}),
        ("text/css", {"text": "p{}", "encoding": 7, "size": 700}),
        ("image/png", {"text": "\ufffdPNG\r\n\ufffd", "size": 700}),
    ],
    ids=["not base64", "spaces", "padding", "gzip", "base64 of gzip", "a number", "binary read as text"],
)
def test_a_body_that_cannot_be_decoded_is_a_missing_body(mime: str, content: Table, tmp_path: Path) -> None:
    built = imported(tmp_path, document(), entry(f"{PAGE}x", mime=mime, content=content))
    assert [each.bytes for each in built.site.objects] == [len(HTML), 700]
    assert notes(built) == {
        "bodies that cannot be decoded, which count as not recorded: 1",
        "bodies that were not recorded, replaced by ones of that size and kind: 1",
    }


def test_plain_text_of_the_recorded_size_is_served_though_it_is_marked_as_base64(tmp_path: Path) -> None:
    text = 'document.title="js"'
    script = entry(f"{PAGE}a.js", text, mime="application/javascript", content={"encoding": "base64"})
    built = imported(tmp_path, document(), script)
    assert bodies(built)["/a.js"] == text.encode()
    assert notes(built) == {"bodies marked as base64 that are plain text, served as they are: 1"}


def test_base64_may_have_line_breaks(tmp_path: Path) -> None:
    data = bytes(range(200))
    text = base64.encodebytes(data).decode().replace("\n", "\r\n")
    built = imported(tmp_path, document(), entry(f"{PAGE}x", text, mime="a/b", content={"encoding": "base64"}))
    assert bodies(built)["/x"] == data


def test_a_body_without_text_is_missing_whatever_its_size(tmp_path: Path) -> None:
    built = imported(tmp_path, document(), style(None))
    assert notes(built) == {"bodies served empty, because neither body nor size was recorded: 1"}


def test_an_empty_text_is_an_empty_body(tmp_path: Path) -> None:
    built = imported(tmp_path, document(), style(""))
    assert (bodies(built)["/a.css"], notes(built)) == (b"", set())


@pytest.mark.parametrize("content", [None, {"size": -1, "mimeType": "text/css"}], ids=["no content", "size -1"])
def test_an_unknown_size_counts_as_no_size(content: Table | None, tmp_path: Path) -> None:
    bare = {"request": {"method": "GET", "url": f"{PAGE}a.css"}, "response": {"status": 200, "content": content}}
    built = imported(tmp_path, document(content={"size": -1}), bare)
    assert bodies(built) == {"/": HTML.encode(), "/a.css": b""}
    assert notes(built) == {"bodies served empty, because neither body nor size was recorded: 1"}


def test_a_visit_begins_with_the_redirects_to_the_document(tmp_path: Path) -> None:
    built = imported(
        tmp_path,
        entry("http://a.example/", status=301, to="https://a.example/", destination="document"),
        entry("https://a.example/", status=301, to="https://www.a.example/", destination="document"),
        entry("https://www.a.example/", status=302, to="/en", destination="document"),
        entry("https://www.a.example/en", HTML, destination="document"),
        style(),
    )
    assert (built.site.title, built.site.scheme) == ("a.example/", "https")
    assert [each.status for each in built.site.objects] == [301, 302, 200, 200]
    assert notes(built) == {"redirects left out that change nothing but the scheme: 1"}


def test_a_site_has_the_scheme_of_its_document_though_a_redirect_begins_the_visit(tmp_path: Path) -> None:
    built = imported(
        tmp_path,
        entry("http://a.example/", status=301, to="https://www.a.example/"),
        entry("https://www.a.example/", HTML),
    )
    assert (built.site.title, built.site.scheme) == ("a.example/", "https")
    assert notes(built) == {"requests by another scheme than https: all are served by one: 1"}


def test_redirects_in_a_circle_end_at_the_document(tmp_path: Path) -> None:
    built = imported(
        tmp_path,
        entry(PAGE, status=302, to=f"{PAGE}consent", at="01"),
        entry(f"{PAGE}consent", status=302, to=PAGE, at="02"),
        document(at="03"),
    )
    assert (built.site.first, bodies(built)["/"]) == ("/consent", HTML.encode())


def test_a_redirect_to_the_page_after_its_load_does_not_begin_the_visit(tmp_path: Path) -> None:
    built = imported(tmp_path, document(), entry(f"{PAGE}logo", mime="", status=302, to=PAGE))
    assert built.site.first == "/"


def test_entries_are_ordered_by_their_start(tmp_path: Path) -> None:
    frame = entry(f"{PAGE}frame", FRAME, at="02.5")
    built = imported(tmp_path, frame, style("late", at="03"), style("early", at="02"), document(at="01.25"))
    assert [each.path for each in built.site.objects] == ["/", "/a.css", "/frame"]
    assert (built.site.first, bodies(built)["/a.css"]) == ("/", b"early")


@pytest.mark.parametrize("time", ["", "yesterday", None, 12, "2024-05-01", "9999-99-99T00:00:00Z"])
def test_an_entry_without_a_time_follows_the_entry_before_it(time: object, tmp_path: Path) -> None:
    entries = [document(at="01"), style("first", startedDateTime=time), style("second", at="02")]
    built = imported(tmp_path, *entries)
    assert (built.site.first, bodies(built)["/a.css"]) == ("/", b"first")


@pytest.mark.parametrize(
    "frame",
    [
        entry(f"{PAGE}frame", FRAME, destination="iframe", _resourceType="document"),
        entry(f"{PAGE}frame", FRAME, _resourceType="xhr"),
        entry(f"{PAGE}frame", FRAME),
    ],
    ids=["a frame", "a script's request", "unknown"],
)
def test_the_document_of_the_tab_is_preferred_to_html_before_it(frame: Table, tmp_path: Path) -> None:
    built = imported(tmp_path, frame, document(_resourceType="document"))
    assert built.site.first == "/"


def test_fragments_that_scripts_request_are_no_page(tmp_path: Path) -> None:
    message = refusal(tmp_path, entry(f"{PAGE}part", FRAME, _resourceType="fetch"))
    assert message == "page.har: log.entries: has no document (text/html) that can be served: record the load of a page"


def test_an_error_page_is_served_if_it_is_the_document(tmp_path: Path) -> None:
    built = imported(tmp_path, entry(PAGE, "<p>no", status=403, _resourceType="document"))
    assert built.site.objects[0].status == 403
    assert notes(built) == {"the document is an error page, status: 403"}


def test_an_error_before_the_page_is_not_the_document(tmp_path: Path) -> None:
    built = imported(tmp_path, entry("https://t.example/px", "<p>not found", status=404), document())
    assert built.site.title == "a.example/"


TWO_PAGES = (
    {"id": "page_2", "startedDateTime": "2024-05-01T10:00:09Z", "title": "second"},
    {"id": "page_1", "startedDateTime": "2024-05-01T12:00:01+02:00", "title": "first"},
)


def test_of_two_pages_the_first_by_time_is_visited(tmp_path: Path) -> None:
    built = imported(
        tmp_path,
        entry(f"{PAGE}two", FRAME, pageref="page_2"),
        style("of the second", pageref="page_2"),
        document(pageref="page_1"),
        style("of the first", pageref="page_1"),
        pages=TWO_PAGES,
    )
    assert (built.site.first, bodies(built)["/a.css"]) == ("/", b"of the first")
    assert notes(built) >= {"URLs of other pages in the recording, which are served too: 1", LATER}


def test_a_page_whose_document_has_no_body_is_passed_over(tmp_path: Path) -> None:
    built = imported(
        tmp_path,
        document(pageref="page_1", content={"text": None}),
        entry(f"{PAGE}two", HTML, pageref="page_2"),
        pages=TWO_PAGES,
    )
    assert built.site.first == "/two"
    assert "pages passed over, because their document has no recorded body or is no GET: 1" in notes(built)


def test_a_frame_does_not_replace_a_document_without_a_body(tmp_path: Path) -> None:
    entries = [
        entry(PAGE, _resourceType="document", pageref="page_1"),
        entry(f"{PAGE}frame", FRAME, pageref="page_1"),
        entry(f"{PAGE}other", FRAME),
    ]
    assert "log.entries.0.response.content: the body of the document" in refusal(tmp_path, *entries, pages=TWO_PAGES)


@pytest.mark.parametrize("pages", [None, 7, [None], [{"id": 3}], [{"id": "page_1", "startedDateTime": 5}]])
def test_odd_pages_do_not_refuse_a_recording(pages: object, tmp_path: Path) -> None:
    data = json.dumps({"log": {"pages": pages, "entries": [document(pageref="page_1"), style(pageref=4)]}}).encode()
    assert import_har(Path("page.har"), data, tmp_path).first == "/"


def test_other_methods_of_the_same_url_are_not_its_answer(tmp_path: Path) -> None:
    url = f"{PAGE}api"
    built = imported(
        tmp_path,
        document(),
        entry(url, "", mime="text/plain", method="OPTIONS", status=204, _resourceType="preflight"),
        entry(url, "posted", mime="application/json", method="POST", _resourceType="fetch"),
        entry(url, "", mime=None, method="HEAD"),
        entry("https://a.example:443", method="CONNECT", mime=None),
        entry(url, "got", mime="application/json", _resourceType="fetch"),
    )
    assert bodies(built)["/api"] == b"got"
    assert notes(built) == {"requests left out that are not GET: 4"}


def test_a_document_that_was_posted_for_is_refused(tmp_path: Path) -> None:
    posted = document(method="POST", destination="document")
    assert refusal(tmp_path, posted, entry(f"{PAGE}frame", FRAME)) == (
        "page.har: log.entries.0.request.method: the browser requested the document with another method than GET: "
        "record a page that opens by its URL"
    )


def test_a_form_that_redirects_to_the_page_is_left_out(tmp_path: Path) -> None:
    form = entry(f"{PAGE}login", method="POST", status=303, to=PAGE, destination="document")
    built = imported(tmp_path, form, document(destination="document"))
    assert built.site.first == "/"


def test_a_request_of_the_page_by_a_script_is_not_the_document(tmp_path: Path) -> None:
    data = entry(PAGE, '{"a": 1}', mime="application/json", destination="empty")
    built = imported(tmp_path, data, document(destination="document"))
    assert (bodies(built)["/"], built.site.objects[0].content_type) == (HTML.encode(), "text/html")


@pytest.mark.parametrize("response", [None, {"status": 0, "content": {"size": 0, "mimeType": "x-unknown"}}])
def test_a_request_that_was_aborted_is_answered_by_its_repetition(response: object, tmp_path: Path) -> None:
    aborted = {"request": {"method": "GET", "url": f"{PAGE}a.css"}, "response": response, "_error": "net::ERR_ABORTED"}
    built = imported(tmp_path, document(), aborted, style())
    assert bodies(built)["/a.css"] == b"p{}"
    assert notes(built) == {"requests left out that had no answer: 1"}


@pytest.mark.parametrize("url", ["data:text/html,<p>", "blob:https://a.example/1-2", "about:blank", "file:///a.html"])
def test_a_document_inside_the_browser_is_not_the_page(url: str, tmp_path: Path) -> None:
    built = imported(tmp_path, entry(url, FRAME, _resourceType="document"), document(_resourceType="document"))
    assert built.site.first == "/"
    assert notes(built) == {"requests left out that are not HTTP: 1"}


def test_what_a_service_worker_requested_again_is_served_once(tmp_path: Path) -> None:
    built = imported(
        tmp_path,
        document(_resourceType="document", pageref="page_1"),
        style(None, pageref="page_1", _resourceType="stylesheet"),
        style("p{}", _resourceType="fetch", destination="style"),
    )
    assert bodies(built) == {"/": HTML.encode(), "/a.css": b"p{}"}


@pytest.mark.parametrize("status", [200, 304])
def test_a_document_from_the_cache_with_its_body_is_served(status: int, tmp_path: Path) -> None:
    built = imported(tmp_path, document(status=status, _fromCache="disk"), style(status=304))
    assert {each.path: each.status for each in built.site.objects} == {"/": 200, "/a.css": 200}
    assert bodies(built) == {"/": HTML.encode(), "/a.css": b"p{}"}


@pytest.mark.parametrize("mime", [None, "", "x-unknown", 5])
def test_a_missing_type_follows_from_name_or_content(mime: str | None, tmp_path: Path) -> None:
    built = imported(tmp_path, entry(PAGE, HTML, mime=mime), entry(f"{PAGE}a.css?v=1", "p{}", mime=mime))
    assert [each.kind for each in built.site.objects] == ["html", "css"]
    assert notes(built) == {"answers without a type, which their name or content decides: 2"}


def test_a_recording_keeps_no_title_cookie_or_posted_url_beside_a_trial() -> None:
    posted = entry(f"{PAGE}secret", "secret", method="POST", _resourceType="document")
    kept = stripped(recording([document(), posted], [{"id": "page_1", "title": "secret"}]))
    assert b"secret" not in kept


def test_many_entries_of_one_url_and_many_pages_are_decoded_a_few_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded = itertools.count()
    decode = base64.b64decode
    monkeypatch.setattr(
        "wavebed.workload.site.har_entries.base64.b64decode", lambda text: (next(decoded), decode(text))[1]
    )
    broken = {"encoding": "base64", "size": 3}
    entries = [entry(PAGE, "abcde", pageref=f"page_{number}", content=broken) for number in range(1000)]
    assert "cannot be decoded" in refusal(tmp_path, *entries)
    assert next(decoded) <= 2 * len(entries)


odd: st.SearchStrategy[object] = st.one_of(
    st.none(), st.integers(), st.text(max_size=5), st.lists(st.none(), max_size=2), st.just({})
)
entries = st.fixed_dictionaries(
    {
        "request": st.fixed_dictionaries(
            {
                "method": st.sampled_from(["GET", "POST"]),
                "url": st.sampled_from([PAGE, f"{PAGE}a", f"{PAGE}b", "x"]),
                "headers": st.one_of(odd, st.just([{"name": "sec-fetch-dest", "value": "document"}])),
            }
        ),
        "response": st.fixed_dictionaries(
            {
                "status": st.sampled_from([0, 200, 204, 206, 302, 304, 503, "200"]),
                "redirectURL": st.one_of(odd, st.sampled_from(["/", "/a", "/b"])),
                "bodySize": odd,
                "content": st.one_of(
                    odd,
                    st.fixed_dictionaries(
                        {
                            "mimeType": st.one_of(odd, st.just("text/html")),
                            "text": st.one_of(odd, st.sampled_from(["<p>", "PHA+"])),
                            "encoding": st.one_of(odd, st.just("base64")),
                            "size": st.one_of(odd, st.integers(0, 9)),
                        }
                    ),
                ),
            }
        ),
        "pageref": st.one_of(odd, st.sampled_from(["page_1", "page_2"])),
        "startedDateTime": st.one_of(odd, st.sampled_from(["2024-05-01T10:00:09Z", "2024-05-01T10:00:01"])),
        "_resourceType": st.one_of(odd, st.sampled_from(["document", "image"])),
    }
)


@given(st.lists(entries, max_size=6), st.lists(st.one_of(odd, st.sampled_from(TWO_PAGES)), max_size=2))
def test_any_recording_is_a_page_with_a_document_or_one_line(
    tmp_path_factory: pytest.TempPathFactory, found: list[object], pages: list[object]
) -> None:
    folder = tmp_path_factory.mktemp("har")
    try:
        built = imported(folder, *found, pages=pages)
    except UserError as error:
        assert str(error).isprintable()
        assert str(error).startswith("page.har: log.")
        return
    routes = built.routes
    place, seen = (built.site.origins[0].name, built.site.first), set()
    while routes[place[0]][place[1]].location:
        assert place not in seen, "the redirects to the document end"
        seen.add(place)
        place = (place[0], routes[place[0]][place[1]].location.removeprefix("https://a.example"))
    assert routes[place[0]][place[1]].kind == "html"
    assert routes[place[0]][place[1]].bytes > 0
