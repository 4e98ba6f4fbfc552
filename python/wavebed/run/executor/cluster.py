"""The workers of a Dask scheduler, and calls on them. Only this module and `worker` know Dask.

Every call is a task that is bound to one worker. Dask would wait for ever for a worker that is lost (distributed#7346),
so each wait ends when the caller gives the worker up.
"""

from __future__ import annotations

import itertools
import logging
import secrets
import threading
import time
from concurrent.futures import CancelledError as ClosedError
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

from wavebed.errors import MachineError, UserError
from wavebed.run.executor.worker import FailedError, LostError, answer, given_back
from wavebed.stranger import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from distributed import Future

    from wavebed.run.executor.client import Client

T = TypeVar("T")
SCHEMES = {"dask": "tcp", "dask+tls": "tls"}
LAB = "lab"
"""Each worker has one resource of this name."""
_CONNECT_S = 10.0
_LOOK_S = 0.2
_GATHER_S = 10.0
_MOST_GATHER_S = 300.0
"""The time that a piece of 8 MiB takes at 220 kbit/s."""


class Worker:
    """A worker that is connected to the scheduler.

    Parameters
    ----------
    address : str
        Of Dask.
    unfit : str
        Why it gets no blocks, if it is started otherwise than blocks need.
    """

    def __init__(self, address: str, unfit: str = "") -> None:
        self.address = address
        self.unfit = unfit
        self._beat: object = None
        self._beat_s = self._looked_s = time.monotonic()

    def beat(self, mark: object) -> None:
        """Note the scheduler's time of the last heartbeat, at each look."""
        self._looked_s = time.monotonic()
        if mark != self._beat:
            self._beat, self._beat_s = mark, self._looked_s

    @property
    def silent_s(self) -> float:
        """Seconds from its last heartbeat to the last look: how late this process is now makes no worker silent."""
        return self._looked_s - self._beat_s


class Cluster(Protocol):
    """Workers, and calls on them from any thread."""

    def workers(self) -> Mapping[str, Worker]:
        """Return the present workers by address.

        Raises
        ------
        LostError
            If the scheduler is lost.
        """

    def call(self, worker: Worker, given_up: threading.Event, function: Callable[..., T], *given: object) -> T:
        """Call a function on a worker and return its result.

        Raises
        ------
        LostError
            If the worker is lost or given up.
        FailedError
            If the function fails.
        """

    def connect(self) -> bool:
        """Connect to the scheduler, again if it was lost; return whether it answered."""

    def close(self) -> None:
        """Cancel all calls and disconnect."""


class DaskCluster:
    """The workers of a Dask scheduler.

    Parameters
    ----------
    address : str
        Of the scheduler, as Dask writes it. The certificates of ``tls://`` come from Dask's configuration.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._client: Client | None = None
        self._known: dict[str, Worker] = {}
        self._mark = secrets.token_hex(4)
        self._numbers = itertools.count()

    def connect(self) -> bool:
        """Connect to the scheduler, again if it was lost; return whether it answered.

        Raises
        ------
        MachineError
            If Dask's configuration of TLS does not fit the address.
        """
        from wavebed.run.executor.client import Client

        self.close()
        _check_tls(self._address)
        for name in ("distributed", "distributed.client", "tornado.application"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        try:
            self._client = Client(self._address, _CONNECT_S)
        except (OSError, TimeoutError):
            return False
        return True

    def close(self) -> None:
        """Cancel all calls and disconnect."""
        client, self._client = self._client, None
        self._known = {}
        if client is not None:
            with suppress(Exception):
                client.close(timeout=2)

    def workers(self) -> Mapping[str, Worker]:
        """Return the present workers by address.

        Raises
        ------
        LostError
            If the scheduler is lost.
        """
        client = self._connected()
        try:
            told = client.scheduler_info(n_workers=-1)["workers"]
        except Exception as error:  # noqa: BLE001 - whatever a broken connection leads to
            raise LostError(str(error)) from None
        for address, each in told.items():
            worker = self._known.setdefault(address, Worker(address, _unfit(each)))
            worker.beat(each["last_seen"])
        self._known = {address: self._known[address] for address in told}
        return self._known

    def call(self, worker: Worker, given_up: threading.Event, function: Callable[..., T], *given: object) -> T:
        """Call a function on a worker and return its result.

        Raises
        ------
        LostError
            If the worker is lost or given up.
        FailedError
            If the function fails.
        """
        client = self._connected()
        done = threading.Event()
        key = f"wavebed-{self._mark}-{next(self._numbers)}-{function.__name__}"
        try:
            future = client.submit(
                answer, function, *given, key=key, pure=False, workers=[worker.address], resources={LAB: 1}, retries=0
            )
            future.add_done_callback(lambda _: done.set())
        except (OSError, RuntimeError, AttributeError) as error:  # the client is closed
            raise LostError(str(error)) from None
        try:
            while not done.wait(_LOOK_S):
                if given_up.is_set() or client.is_over:
                    raise LostError(worker.address)
            return cast("T", given_back(function.__name__, _result(future, given_up, worker)))
        finally:
            with suppress(Exception):
                future.cancel(reason="over", msg="")
                future.release()

    def _connected(self) -> Client:
        if self._client is None or self._client.status != "running" or self._client.is_over:
            raise LostError(self._address)
        return self._client


def address_of(given: str) -> str:
    """Return Dask's address of a scheduler from ``dask://HOST:PORT`` or ``dask+tls://HOST:PORT``.

    Raises
    ------
    UserError
        If it is neither.
    """
    scheme, separator, place = given.partition("://")
    host, colon, port = place.rpartition(":")
    if scheme not in SCHEMES or not separator or not host or not colon or not port.isdigit():
        raise UserError(f"--executor: {given!r} is no executor: write local, dask://HOST:PORT or dask+tls://HOST:PORT")
    return f"{SCHEMES[scheme]}://{place}"


def _check_tls(address: str) -> None:
    from distributed.security import Security

    security = Security()
    if not address.startswith("tls://"):
        if security.require_encryption:
            raise MachineError("--executor: Dask's configuration requires encryption: write dask+tls://HOST:PORT")
        return
    try:
        context = security.get_connection_args("client")["ssl_context"]
    except OSError as error:  # a missing file, or one that is no certificate
        raise MachineError(f"--executor: certificates of Dask's configuration cannot be read ({error})") from None
    if context is None:
        raise MachineError("--executor: Dask's configuration of TLS lacks ca-file, client.cert or client.key: set them")


def _unfit(told: Mapping[str, object]) -> str:
    resources = cast("Mapping[str, float]", told["resources"])
    if told["nthreads"] != 1 or resources.get(LAB) != 1:
        threads = told["nthreads"]
        return (
            f"has {threads} threads and {LAB}={resources.get(LAB, 0):g}: start it with --nthreads 1 --resources {LAB}=1"
        )
    return ""


def _result(future: Future[bytes], given_up: threading.Event, worker: Worker) -> object:
    from distributed.comm.core import CommClosedError

    end_s = time.monotonic() + _MOST_GATHER_S
    while True:
        try:
            return future.result(timeout=_GATHER_S)
        except TimeoutError:
            if given_up.is_set():
                raise LostError(worker.address) from None
            if time.monotonic() > end_s:
                raise FailedError("gives no result") from None
        except (CommClosedError, ClosedError) as error:
            raise LostError(str(error)) from None
        except Exception as error:  # noqa: BLE001 - whatever came in place of a result
            raise FailedError(one_line(f"{type(error).__name__}: {error}")) from None
