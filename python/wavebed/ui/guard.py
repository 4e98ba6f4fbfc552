"""The guard of the HTTP server: which requests it accepts, and which laboratories it shows."""

from __future__ import annotations

import ipaddress
import json
import re
import secrets
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING

from wavebed.errors import UserError, WavebedError
from wavebed.lab.protocol import LaboratoryGoneError
from wavebed.path.control import connect, connect_to, running
from wavebed.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from email.message import Message

    from wavebed.path.control import ControlConnection, Running


JSON = "application/json"


class RequestRefusedError(WavebedError):
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
class HttpRequest:
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
class Reply:
    """An answer: a whole body, or parts that are sent as they come."""

    status: int = 200
    kind: str = JSON
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    parts: Iterator[bytes] | None = None


def json_answer(value: object, status: int = 200) -> Reply:
    """Return an answer in JSON."""
    return Reply(status, body=json.dumps(value, ensure_ascii=False, allow_nan=False).encode() + b"\n")


SAFE = ("GET", "HEAD")
"""Methods that change nothing."""
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]]+)(?::([0-9]{1,5}))?")


class Guard:
    """The rules of one server.

    Parameters
    ----------
    address : str
        The address at which it listens.
    port : int
        Its port.
    token : Secret
        What a client must know.
    """

    def __init__(self, address: str, port: int, token: Secret) -> None:
        self._address = ipaddress.ip_address(address.partition("%")[0])
        self._port = port
        self._token = token
        self._session = Secret(secrets.token_urlsafe(32))
        self._cookie = f"wavebed-ui-{port}"  # cookies do not tell ports apart

    def check(self, request: HttpRequest) -> None:
        """Let a request pass.

        Raises
        ------
        RefusedError
            If it breaks a rule.
        """
        host = self._checked_host(request)
        origin = self._checked_origin(request, host)
        by_cookie = self._authenticate(request)
        if request.method in SAFE or not by_cookie:
            return
        if origin is None:
            raise RequestRefusedError(403, "Origin: is missing: a change by the page's cookie comes from the page")

    def cookie_for(self, request: HttpRequest) -> str | None:
        """Return the header that gives a browser the cookie, if the request has the token in its query."""
        given = request.query.get("token")
        if given is None or not self._token.is_same(given):
            return None
        return f"{self._cookie}={self._session.reveal()}; HttpOnly; SameSite=Strict; Path=/"

    def _checked_host(self, request: HttpRequest) -> str:
        named = request.headers.get_all("Host") or []
        if len(named) != 1 or not self._is_own(named[0]):
            raise RequestRefusedError(403, "Host: is not this server: use the address that wavebed ui printed")
        return named[0]

    def _is_own(self, host: str) -> bool:
        match = _HOST.fullmatch(host)
        if match is None or (match[2] or "80") != str(self._port):
            return False
        name = match[1]
        if name == "localhost":
            return self._address.is_loopback or self._address.is_unspecified
        try:
            address = ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
        except ValueError:
            return False
        # An address in the place of a name cannot be pointed elsewhere.
        return address == self._address or self._address.is_unspecified

    def _checked_origin(self, request: HttpRequest, host: str) -> str | None:
        origins = request.headers.get_all("Origin") or []
        if len(origins) > 1 or any(origin != f"http://{host}" for origin in origins):
            raise RequestRefusedError(403, "Origin: is another site")
        site = request.headers.get("Sec-Fetch-Site", "none")
        if site not in ("none", "same-origin") and not _opens_the_page(request):
            raise RequestRefusedError(403, "Sec-Fetch-Site: the request comes from another site")
        return origins[0] if origins else None

    def _authenticate(self, request: HttpRequest) -> bool:
        """Return whether the request is known by its cookie; otherwise it is by the token."""
        given = request.headers.get_all("Authorization") or []
        if given:
            scheme, _, token = given[0].partition(" ")
            if len(given) == 1 and scheme.lower() == "bearer" and self._token.is_same(token.strip()):
                return False
            raise RequestRefusedError(401, "Authorization: the token is wrong: use the one that wavebed ui printed")
        if any(self._session.is_same(value) for value in self._cookies(request)):
            return True
        if request.path == "/" and request.method in SAFE and self.cookie_for(request):
            return True
        raise RequestRefusedError(
            401, "the token is missing: open the address that wavebed ui printed, or send it as Bearer token"
        )

    def _cookies(self, request: HttpRequest) -> list[str]:
        found = []
        for line in request.headers.get_all("Cookie") or []:
            try:
                cookies = SimpleCookie(line)
            except CookieError:
                continue
            if self._cookie in cookies:
                found.append(cookies[self._cookie].value)
        return found


def _opens_the_page(request: HttpRequest) -> bool:
    """Tell whether somebody follows a link to the page, which has the token in it."""
    opens = request.headers.get("Sec-Fetch-Mode") == "navigate" and "token" in request.query
    return opens and request.path == "/" and request.method in SAFE


class Labs:
    """Running laboratories.

    Parameters
    ----------
    only : str, optional
        The name of the only one that is shown.
    """

    def __init__(self, only: str | None = None) -> None:
        self.only = only

    def running(self) -> list[Running]:
        """Return those that run now, by name."""
        found = [lab for lab in running() if self.only in (None, lab.name)]
        return sorted(found, key=lambda lab: (lab.name, lab.uid))

    def open(self, lab: Running) -> ControlConnection:
        """Return a connection to one that was listed.

        Raises
        ------
        LaboratoryGoneError
            If it has ended since.
        """
        connection = connect(lab)
        if connection is None:
            raise LaboratoryGoneError(f"laboratory {lab.name!r} has ended")
        return connection

    def connect(self, name: str) -> ControlConnection:
        """Return a connection to one.

        Raises
        ------
        RefusedError
            If none of this name runs, or it is not shown.
        """
        if self.only not in (None, name):
            raise RequestRefusedError(404, f"{name!r} is not shown here: this page is that of {self.only!r}")
        try:
            return connect_to(name)
        except UserError as error:
            raise RequestRefusedError(404, str(error)) from None
