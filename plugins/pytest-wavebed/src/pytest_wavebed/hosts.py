"""The hosts of a test: programs and functions run on them."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from wavebed.errors import WavebedError
from wavebed.lab.tools import place_of_function
from wavebed.workload.programs import create, end_within, read_end

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from wavebed.lab.protocol import Host, Process

__all__ = ["Call", "TestHost", "variables"]

_Result = TypeVar("_Result")


class TestHost:
    """A host of a test.

    Parameters
    ----------
    host : Host
        Of the laboratory.
    folder : pathlib.Path
        For the outputs of programs, which the results keep.
    address, address6 : str
        Its addresses, IPv4 and IPv6.
    """

    __test__ = False

    def __init__(self, host: Host, folder: Path, address: str, address6: str) -> None:
        self.name = host.name
        self.address = address
        self.address6 = address6
        self._host = host
        self._folder = folder
        self._started: list[tuple[str, Path]] = []

    def start(
        self,
        argv: Sequence[str | os.PathLike[str]],
        *,
        port: int | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
    ) -> Process:
        """Start a program and return; it ends with the test. Its output is in the results, and shown if the test fails.

        Parameters
        ----------
        port : int, optional
            Wait until it, or another program of the host, has opened this port, TCP or UDP; at most 10 s.
        env, cwd
            Its variables and working folder; by default those of this process.

        Raises
        ------
        TimeoutError
            If the port is not open in time; the message has the last line of the program's output.
        UserError
            If there is no such program.
        """
        log = self._folder / f"{self.name}-{len(self._started) + 1}.log"
        self._started.append((os.fspath(argv[0]), log))
        with create(log) as file:
            process = self._host.start(argv, stdout=file, stderr=file, env=env, cwd=cwd)
        if port is not None:
            try:
                self.wait_for_port(port)
            except TimeoutError as error:
                words = read_end(log).strip().rpartition("\n")[2] or "it said nothing"
                raise TimeoutError(f"{error}; {os.fspath(argv[0])}: {words}") from None
        return process

    def run(
        self,
        argv: Sequence[str | os.PathLike[str]],
        *,
        capture_output: bool = True,
        timeout: float | None = None,
        check: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program and wait for its end, as `subprocess.run` does; its output is text."""
        return self._host.run(argv, capture_output=capture_output, timeout=timeout, check=check)

    def call(self, function: Callable[..., _Result], *args: object, timeout: float | None = None) -> _Result:
        """Call a function in a new Python process on this host, and return its result.

        Parameters
        ----------
        function : callable
            One of a module, so that the other process can import it: not a lambda, not one in another function.
        *args
            Its arguments. They and the result are pickled.
        timeout : float, optional
            Seconds after which it is ended.

        Raises
        ------
        UserError
            If the function cannot be imported there.
        TimeoutError
            If it took longer than `timeout`.
        Exception
            What the function raised.
        """
        return Call(self, function, args).result(timeout)

    def spawn(self, function: Callable[..., _Result], *args: object) -> Call[_Result]:
        """Begin a call as `call`, and return at once; it ends with the test at the latest."""
        return Call(self, function, args)

    def wait_for_port(self, port: int, timeout: float = 10.0) -> None:
        """Wait until a program on this host has opened a port, TCP or UDP, without sending a packet.

        Raises
        ------
        TimeoutError
            If none does within `timeout` seconds.
        """
        self._host.wait_for_port(port, timeout, udp=True)

    def outputs(self) -> Iterator[tuple[str, str]]:
        """Yield the name and the end of the output of each started program that said anything."""
        for program, log in self._started:
            said = read_end(log) if log.exists() else ""
            if said.strip():
                yield f"{self.name}: {program}", said

    def new_file(self, end: str) -> Path:
        """Return the name of a new file for this host."""
        return self._folder / f"{self.name}-{len(self._started) + 1}.{end}"


class Call(Generic[_Result]):
    """A function that runs in a process of its own on a host."""

    def __init__(self, host: TestHost, function: Callable[..., _Result], args: Sequence[object]) -> None:
        job, self._answer = host.new_file("call"), host.new_file("answer")
        job.write_bytes(pickle.dumps([place_of_function(function), sys.path, pickle.dumps(args)]))
        self._name = function.__qualname__
        self._process = host.start([sys.executable, "-m", "pytest_wavebed.child", job, self._answer], env=variables())

    def result(self, timeout: float | None = None) -> _Result:
        """Wait for its end and return what the function returned.

        Raises
        ------
        TimeoutError
            If it takes longer than `timeout` seconds; it has been ended.
        WavebedError
            If the process ended without an answer.
        Exception
            What the function raised.
        """
        try:
            status = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.stop()
            raise TimeoutError(f"{self._name} took longer than {timeout:g} s") from None
        if not self._answer.exists():
            raise WavebedError(f"{self._name}: its process ended with {status} and without an answer")
        answer: Any = pickle.loads(self._answer.read_bytes())  # noqa: S301 - written by the process that we started
        error, value = answer
        if error is not None:
            raise error
        result: _Result = value
        return result

    def stop(self) -> None:
        """End it: SIGTERM, and SIGKILL 2 s later."""
        end_within(self._process, 0.001)


def variables() -> dict[str, str]:
    """Return the variables of this process; the other finds this package where it is here."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
