"""Files without a known ending get their type from their content."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from wavebed.workload.site.sniff import type_of_file


def picture(form: str) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (2, 2)).save(stream, form)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("name", "data", "found"),
    [
        ("all.js", b"<html>", "text/javascript"),
        ("all.js.download", b"", "text/javascript"),
        ("all.js(1).download", b"", "text/javascript"),
        ("style(2).css", b"", "text/css"),
        ("saved_resource(1)", b"\xef\xbb\xbf\n<!-- x --><!DOCTYPE html><p>", "text/html"),
        ("js", b"!function(){return 1}();", "text/javascript"),
        ("gtm", b"\n// Copyright\n/* all */\nvar a={b:1};", "text/javascript"),
        ("loader", b"(self.webpackChunk=self.webpackChunk||[]).push([[1],{23:e=>{}}])", "text/javascript"),
        ("module", b"import {a} from './b'\nexport default a", "text/javascript"),
        ("css", b'@charset "utf-8";a{b:c}', "text/css"),
        ("css2", b"/* latin */\n@font-face {\n  font-family: 'R';\n}", "text/css"),
        ("load.php", b'a[href="x"]:not(.b) > p:hover,\n.c{color:red}', "text/css"),
        ("data", b'{"a": [1, 2]}', "application/json"),
        ("logo", b'<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"/>', "image/svg+xml"),
        ("pixel", picture("GIF"), "image/gif"),
        ("photo", picture("JPEG"), "image/jpeg"),
        ("photo", picture("PNG"), "image/png"),
        ("photo", picture("WEBP"), "image/webp"),
        ("font", b"wOF2\0\1", "font/woff2"),
        ("film", b"\0\0\0\x18ftypmp42", "video/mp4"),
        ("robots", b"nothing here", "text/plain"),
        ("blob", b"\x01\0\x02", "application/octet-stream"),
        ("empty", b"", "text/plain"),
    ],
)
def test_a_type_is_that_of_the_name_or_of_the_content(name: str, data: bytes, found: str) -> None:
    assert type_of_file(name, data) == found


@given(st.binary(max_size=200))
def test_any_content_has_a_type(data: bytes) -> None:
    assert "/" in type_of_file("x", data)
