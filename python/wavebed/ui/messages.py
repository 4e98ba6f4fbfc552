"""Requests and answers, between the server and what it serves."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from wavebed.errors import WavebedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from email.message import Message

__all__ = ["JSON", "Answer", "RefusedError", "Request", "json_answer"]

JSON = "application/json"


class RefusedError(WavebedError):
    """A request is refused.

    Parameters
    ----------
    status : int
        The status of HTTP.
    headers : mapping, optional
        Further headers of the answer.
    """

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = dict(headers or {})
        if status == 401:
            self.headers["WWW-Authenticate"] = "Bearer"


@dataclass(frozen=True, slots=True)
class Request:
    """A request, whose body is read only when it is asked for.

    Parameters
    ----------
    path : str
        As it was sent, without the query; nothing in it is decoded.
    query : mapping
        The parameters after ``?``.
    read_body : callable
        Returns the body.
    """

    method: str
    path: str
    query: Mapping[str, str]
    headers: Message
    read_body: Callable[[], bytes]


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer: a whole body, or parts that are sent as they come."""

    status: int = 200
    kind: str = JSON
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    parts: Iterator[bytes] | None = None


def json_answer(value: object, status: int = 200) -> Answer:
    """Return an answer in JSON."""
    return Answer(status, body=json.dumps(value, ensure_ascii=False, allow_nan=False).encode() + b"\n")
