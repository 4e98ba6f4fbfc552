"""Talk to a program with a browser that runs on a host of the laboratory: ready, go, result."""

from __future__ import annotations

import json
import os
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from wavebed.errors import WavebedError
from wavebed.lab.confine import Confined, module_path, program_files
from wavebed.workload.browser.far import FarBrowser
from wavebed.workload.programs import create, end_within, last_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from wavebed.config.data import Json
    from wavebed.lab.protocol import Host, Process
    from wavebed.workload.serve import NameResolver


LOOK_EVERY_S = 0.25
READY_S = 50.0
"""Time to start a browser. Playwright itself waits for 30 s, after Python has loaded its packages."""
STOP_GRACE_S = 4.0
CLOSE_GRACE_S = 1.0
"""How long its browser has to end by itself, and to remove its profile."""
FAR_CLOSE_GRACE_S = 2.0


class BrowserAgent:
    """A module run by ``python -m`` on a host; `wavebed.workload.browser.agent` is its other end.

    Parameters
    ----------
    host : Host
        Where it runs.
    module : str
        The module.
    settings : mapping
        Its first message; JSON.
    folder : pathlib.Path
        Writable folder; its standard error goes to ``MODULE.log`` there.
    read : sequence of pathlib.Path
        What it reads, if that may be in a home or a temporary folder.
    resolver : NameResolver, optional
        What it asks for names.
    """

    def __init__(
        self,
        host: Host,
        module: str,
        settings: Mapping[str, Json],
        folder: Path,
        read: Sequence[Path] = (),
        resolver: NameResolver | None = None,
    ) -> None:
        self._name = module.rpartition(".")[2]
        self._log = folder / f"{self._name}.log"
        their_input, self._input = os.pipe2(os.O_CLOEXEC)
        self._output, their_output = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._output, False)
        self._rest = b""
        self.sandbox = "unknown"
        """``on``, or ``off`` and why: whether pages are in the sandbox of the browser."""
        self._lock = threading.Lock()
        self._clock = host.clock
        self._far: FarBrowser | None = None
        try:
            with create(self._log) as log:
                # Without -P, modules would be looked for in the working folder first.
                argv = [sys.executable, "-P", "-m", module]
                if host.is_far:
                    self._far = FarBrowser(host, read)
                    own = self._far.settings()
                    self._process: Process = self._far.start(argv, their_input, their_output, log)
                else:
                    own = {"chromium": host.program("chromium")}
                    self._process = host.start(
                        argv if resolver is None else resolver.asked_by(argv),
                        stdin=their_input,
                        stdout=their_output,
                        stderr=log,
                        env={"PYTHONPATH": os.pathsep.join(module_path())},
                        confined=Confined(read=[*program_files(str(own["chromium"])), *read], write=[folder]),
                    )
        except BaseException:
            os.close(self._input)
            os.close(self._output)
            if self._far is not None:
                self._far.close()
            raise
        finally:
            os.close(their_input)
            os.close(their_output)
        self.tell({**own, **settings})

    def tell(self, message: Mapping[str, Json]) -> None:
        """Send a message. If the program has ended, `hear` reports it. After `close` nothing is sent."""
        line = json.dumps(message).encode() + b"\n"
        with self._lock, suppress(OSError):
            while line and self._input >= 0:
                line = line[os.write(self._input, line) :]

    def hear(self, timeout_s: float) -> dict[str, Json]:
        """Return its next message.

        Raises
        ------
        TimeoutError
            If none came in time.
        WavebedError
            If it failed or ended; the line is its own.
        """
        end_s = self._clock.monotonic_s() + timeout_s
        while b"\n" not in self._rest:
            left_s = end_s - self._clock.monotonic_s()
            if left_s <= 0 or not self._clock.wait_readable(self._output, left_s):
                raise TimeoutError(f"{self._name} said nothing for {timeout_s:g} s")
            data = os.read(self._output, 1 << 16)
            if not data:
                raise WavebedError(f"{self._name} ended: {self._last_words()}")
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        message = cast("dict[str, Json]", json.loads(line))
        if "error" in message:
            raise WavebedError(f"{self._name}: {message['error']}")
        return message

    def result(self, asked: threading.Event, needed: Callable[[], str | None]) -> dict[str, Json]:
        """Wait for its last message; send ``{"stop": true}`` when `asked` is set or `needed` returns a line.

        Parameters
        ----------
        needed : callable
            Asked four times a second for a line about what has failed.

        Raises
        ------
        WavebedError
            If it failed or ended; the line is its own. Or if it does not answer within 4 s of being told.
        """
        end_s: float | None = None
        while end_s is None or self._clock.monotonic_s() < end_s:
            with suppress(TimeoutError):
                return self.hear(LOOK_EVERY_S)
            if end_s is None and (asked.is_set() or needed() is not None):
                self.tell({"stop": True})
                end_s = self._clock.monotonic_s() + STOP_GRACE_S
        raise WavebedError(f"{self._name} did not stop in time: its record is lost")

    def await_ready(self, timeout_s: float = READY_S) -> None:
        """Wait until its browser is up.

        Raises
        ------
        WavebedError
            If it does not come up.
        """
        try:
            self.sandbox = str(self.hear(timeout_s)["sandbox"])
            self.hear(timeout_s)
        except TimeoutError as error:
            raise WavebedError(f"{self._name}: the browser is not up: {error}") from None

    def close(self) -> None:
        """End it, if it has not ended by itself."""
        with self._lock:
            if self._input >= 0:
                os.close(self._input)
                self._input = -1
                os.close(self._output)
        end_within(self._process, CLOSE_GRACE_S if self._far is None else FAR_CLOSE_GRACE_S)
        if self._far is not None:
            self._far.close()

    def _last_words(self) -> str:
        return last_line(self._log) or "it said nothing"
