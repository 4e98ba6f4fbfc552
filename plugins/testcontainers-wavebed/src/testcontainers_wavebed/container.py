"""The gateway container, and the HTTP API of ``wavebed ui`` inside."""

from __future__ import annotations

import json
import time
from typing import Any, Self, TypeVar

from testcontainers.core.container import DockerContainer
from testcontainers.core.exceptions import ContainerStartException

_Container = TypeVar("_Container", bound=DockerContainer)

NAME = "gateway"
"""The laboratory's name in the API."""
PORT = 18_666
"""Of the API, on the loopback that containers behind the path share."""
PATIENCE_S = 60.0
_LOOK_S = 0.2
_HEADER = "/tmp/wavebed-header"  # noqa: S108 - in the container, for root alone
_START = f"""
umask 077
token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \\n')
printf %s "$token" > /tmp/wavebed-token
printf 'Authorization: Bearer %s' "$token" > {_HEADER}
wavebed ui --listen 127.0.0.1:{PORT} --token-file /tmp/wavebed-token >/dev/null 2>/tmp/wavebed-ui.log &
exec wavebed gateway --name {NAME} "$@"
"""


class RefusedError(Exception):
    """The API refused a request: one line."""


class WavebedContainer(DockerContainer):
    """The gateway: a container whose network is behind an emulated path.

    Parameters
    ----------
    *options : str
        Options of ``wavebed gateway``, such as ``"--scene", "street-canyon-bus"``.
    image : str
        The image of the gateway.
    **kwargs : object
        As for `testcontainers.core.container.DockerContainer`.
    """

    def __init__(self, *options: str, image: str = "wavebed-gateway", **kwargs: Any) -> None:
        given = {
            "entrypoint": ["/bin/sh", "-c", _START, "wavebed"],
            "user": "0",
            "cap_add": ["NET_ADMIN", "NET_RAW"],
        }
        super().__init__(image, command=list(options), **given | kwargs)  # type: ignore[arg-type]

    def start(self) -> Self:
        """Start the gateway and return when the path is there.

        Raises
        ------
        ContainerStartException
            If it ends first, with what it printed.
        """
        super().start()
        end_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                self.show()
            except Exception as error:
                if time.monotonic() > end_s or not self._is_running():
                    line = self._printed() or str(error)
                    self.stop()
                    raise ContainerStartException(f"wavebed gateway: {line}") from error
            else:
                return self
            time.sleep(_LOOK_S)

    def behind(self, container: _Container) -> _Container:
        """Put a container that is not started yet behind the path, and return it. Expose its ports at this one."""
        network = {"network_mode": f"container:{self.get_container_id()}"}
        return container.with_kwargs(**container._kwargs | network)  # noqa: SLF001 - with_kwargs forgets the others

    def show(self) -> dict[str, Any]:
        """Return the counters and conditions of the links: ``LabState`` of the API."""
        return self._ask("GET", "")

    def set(self, link: str | None = None, **changes: str) -> None:
        """Change the path while it runs.

        Parameters
        ----------
        link : str, optional
            The name of a link, such as ``radio.down``; by default every link that takes the change.
        **changes : str
            ``Change`` of the API, such as ``rate``, ``delay``, ``loss``, ``outage``; values as in ``wavebed ctl``.

        Raises
        ------
        RefusedError
            If a value is wrong, or no link takes it.
        """
        self._ask("PATCH", "/links" if link is None else f"/links/{link}", changes)

    def timeline(self, action: str, value: str | None = None) -> dict[str, Any]:
        """Play, pause or seek the timeline, and return its state: ``TimelineAction`` of the API."""
        return self._ask("POST", "/timeline", {"action": action, "value": value})

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send a request from inside the container: one from outside would take the path."""
        argv = ["curl", "-sS", "--max-time", f"{PATIENCE_S:g}", "--noproxy", "*", "-H", f"@{_HEADER}", "-X", method]
        if body is not None:
            argv += ["-H", "Content-Type: application/json", "-d", json.dumps(body)]
        status, output = self.exec([*argv, f"http://127.0.0.1:{PORT}/api/labs/{NAME}{path}"])
        try:
            answer = json.loads(output)
        except ValueError:
            raise RefusedError(output.decode(errors="replace").strip() or f"curl ended with status {status}") from None
        if "error" in answer:
            raise RefusedError(answer["error"])
        return dict(answer)

    def _is_running(self) -> bool:
        container = self.get_wrapped_container()
        container.reload()
        return bool(container.status == "running")

    def _printed(self) -> str:
        return " ".join(part.decode(errors="replace").strip() for part in self.get_logs()).strip()
