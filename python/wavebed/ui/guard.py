"""Who may ask: the rules that every request has to pass before anything of it is used.

The server stands on a machine on which browsers show pages of others. Such a page can send requests here, from a form,
a script or a name that its owner points at this address. So, in this order:

1. ``Host`` names this server by its address or as ``localhost``: no other name reaches it (DNS rebinding).
2. A request that says where it comes from (``Origin``, ``Sec-Fetch-Site``) comes from this server's own page.
3. It has the token, as ``Authorization: Bearer TOKEN``, or the cookie that the page got for it.
4. A change by the cookie says where it comes from, and has a body that no form of another site can send (JSON).
"""

from __future__ import annotations

import ipaddress
import re
import secrets
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING

from wavebed.secret import Secret
from wavebed.ui.messages import RefusedError

if TYPE_CHECKING:
    from wavebed.ui.messages import Request

__all__ = ["SAFE", "Guard"]

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

    def check(self, request: Request) -> None:
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
            raise RefusedError(403, "Origin: is missing: a change by the page's cookie comes from the page")

    def cookie_for(self, request: Request) -> str | None:
        """Return the header that gives a browser the cookie, if the request has the token in its query."""
        given = request.query.get("token")
        if given is None or not self._token.is_same(given):
            return None
        return f"{self._cookie}={self._session.reveal()}; HttpOnly; SameSite=Strict; Path=/"

    def _checked_host(self, request: Request) -> str:
        named = request.headers.get_all("Host") or []
        if len(named) != 1 or not self._is_own(named[0]):
            raise RefusedError(403, "Host: is not this server: use the address that wavebed ui printed")
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

    def _checked_origin(self, request: Request, host: str) -> str | None:
        origins = request.headers.get_all("Origin") or []
        if len(origins) > 1 or any(origin != f"http://{host}" for origin in origins):
            raise RefusedError(403, "Origin: is another site")
        site = request.headers.get("Sec-Fetch-Site", "none")
        if site not in ("none", "same-origin") and not _opens_the_page(request):
            raise RefusedError(403, "Sec-Fetch-Site: the request comes from another site")
        return origins[0] if origins else None

    def _authenticate(self, request: Request) -> bool:
        """Return whether the request is known by its cookie; otherwise it is by the token."""
        given = request.headers.get_all("Authorization") or []
        if given:
            scheme, _, token = given[0].partition(" ")
            if len(given) == 1 and scheme.lower() == "bearer" and self._token.is_same(token.strip()):
                return False
            raise RefusedError(401, "Authorization: the token is wrong: use the one that wavebed ui printed")
        if any(self._session.is_same(value) for value in self._cookies(request)):
            return True
        if request.path == "/" and request.method in SAFE and self.cookie_for(request):
            return True
        raise RefusedError(
            401, "the token is missing: open the address that wavebed ui printed, or send it as Bearer token"
        )

    def _cookies(self, request: Request) -> list[str]:
        found = []
        for line in request.headers.get_all("Cookie") or []:
            try:
                cookies = SimpleCookie(line)
            except CookieError:
                continue
            if self._cookie in cookies:
                found.append(cookies[self._cookie].value)
        return found


def _opens_the_page(request: Request) -> bool:
    """Tell whether somebody follows a link to the page, which has the token in it."""
    opens = request.headers.get("Sec-Fetch-Mode") == "navigate" and "token" in request.query
    return opens and request.path == "/" and request.method in SAFE
