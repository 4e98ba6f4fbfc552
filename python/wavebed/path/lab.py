"""A running laboratory and its hosts."""

from __future__ import annotations

import os
import subprocess
import time
from typing import IO, TYPE_CHECKING, Self

from wavebed._core import find_core
from wavebed.errors import MachineError, UserError, WavebedError
from wavebed.path.control import Connection, LaboratoryGoneError
from wavebed.path.laboratory import laboratory_file
from wavebed.path.launch import clean_environment, make_folder, write_laboratory
from wavebed.path.live import apply_change, change_request
from wavebed.path.process import LabProcess, Pump, pipe_or
from wavebed.path.traces import Traces

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from wavebed.path.laboratory import Json, LabPlan
    from wavebed.path.model import PathModel

__all__ = ["LabHost", "Laboratory"]

START_TIMEOUT_S = 20.0
STOP_TIMEOUT_S = 10.0
_STATE = 3
_LISTEN = "0A"
Redirect = int | IO[bytes] | IO[str] | None


class LabHost:
    """A host of a running laboratory.

    Parameters
    ----------
    laboratory : Laboratory
        The laboratory it belongs to.
    name : str
        ``server``, ``edge`` or ``client``.
    """

    def __init__(self, laboratory: Laboratory, name: str) -> None:
        self.laboratory = laboratory
        self.name = name

    def start(
        self,
        argv: Sequence[str | os.PathLike[str]],
        *,
        stdin: Redirect = subprocess.DEVNULL,
        stdout: Redirect = None,
        stderr: Redirect = None,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        input: str | None = None,  # noqa: A002 - as in subprocess.run
    ) -> LabProcess:
        """Start a program on this host and return at once.

        Parameters
        ----------
        argv : sequence of str
            The program and its arguments; it is looked for in ``PATH``.
        stdin, stdout, stderr : int or file, optional
            A file or descriptor, ``subprocess.PIPE`` (read with `LabProcess.output`), ``subprocess.DEVNULL``, or
            ``None`` for those of this process.
        env : mapping, optional
            Its variables; by default those of this process without the ones that name a proxy.
        cwd : path, optional
            Its working directory; by default that of this process.
        input : str, optional
            What it reads from standard input.

        Raises
        ------
        UserError
            If there is no such program.
        LaboratoryGoneError
            If the laboratory has ended.
        """
        arguments = [os.fspath(argument) for argument in argv]
        if not arguments:
            raise UserError("argv: is empty: name a program")
        given = {"stdin": subprocess.PIPE if input is not None else stdin, "stdout": stdout, "stderr": stderr}
        theirs: list[int] = []
        ours: dict[str, int] = {}
        connection = Connection(self.laboratory.name)
        try:
            for name, default in (("stdin", 0), ("stdout", 1), ("stderr", 2)):
                end, our_end = pipe_or(_descriptor(given[name], default), "w" if name == "stdin" else "r")
                theirs.append(end)
                if our_end is not None:
                    ours[name] = our_end
            answer = connection.ask(
                {
                    "do": "run",
                    "host": self.name,
                    "argv": list(arguments),
                    "env": dict(clean_environment(os.environ if env is None else env)),
                    "cwd": os.fspath(cwd) if cwd is not None else os.getcwd(),  # noqa: PTH109 - text is what is sent
                },
                theirs,
            )
            pid = answer["pid"]
            assert isinstance(pid, int), "a process has a number"
        except BaseException:
            for end in ours.values():
                os.close(end)
            connection.close()
            raise
        finally:
            for end in theirs:
                os.close(end)
        process = LabProcess(connection, pid, arguments)
        self.laboratory.adopt(process)
        process.attach(
            {name: Pump(end, (input or "").encode() if name == "stdin" else None) for name, end in ours.items()}
        )
        return process

    def run(
        self,
        argv: Sequence[str | os.PathLike[str]],
        *,
        capture_output: bool = False,
        timeout: float | None = None,
        check: bool = False,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        input: str | None = None,  # noqa: A002 - as in subprocess.run
    ) -> subprocess.CompletedProcess[str]:
        """Run a program on this host and wait for it, as `subprocess.run` does here.

        Parameters
        ----------
        argv : sequence of str
            The program and its arguments.
        capture_output : bool
            Whether to keep standard output and standard error as text; otherwise they are those of this process.
        timeout : float, optional
            Seconds after which the program is killed.
        check : bool
            Whether an exit status other than 0 is an error.
        env, cwd, input
            As in `start`.

        Raises
        ------
        subprocess.TimeoutExpired
            If it took longer than `timeout`.
        subprocess.CalledProcessError
            If `check` and the exit status is not 0.
        UserError
            If there is no such program.
        LaboratoryGoneError
            If the laboratory ended first.
        """
        redirect = subprocess.PIPE if capture_output else None
        process = self.start(argv, stdout=redirect, stderr=redirect, env=env, cwd=cwd, input=input)
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_TIMEOUT_S)
            output, errors = process.output()
            raise subprocess.TimeoutExpired(process.args, timeout or 0.0, output, errors) from None
        except BaseException:
            process.kill()
            raise
        output, errors = process.output()
        if check and status != 0:
            raise subprocess.CalledProcessError(status, process.args, output, errors)
        return subprocess.CompletedProcess(process.args, status, output, errors)

    def wait_for_port(self, port: int, timeout: float = 10.0) -> None:
        """Wait until a program on this host accepts TCP connections on `port`, without making one.

        Raises
        ------
        TimeoutError
            If none does within `timeout` seconds.
        """
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            tables = self.run(["cat", "/proc/net/tcp", "/proc/net/tcp6"], capture_output=True).stdout
            for row in map(str.split, tables.splitlines()):
                if len(row) > _STATE and row[_STATE] == _LISTEN and row[1].endswith(f":{port:04X}"):
                    return
            time.sleep(0.01)
        raise TimeoutError(f"nothing on {self.name} listens on port {port} after {timeout:g} s")


def _descriptor(given: Redirect, default: int) -> int:
    if given is None:
        return default
    return given if isinstance(given, int) else given.fileno()


class Laboratory:
    """A running laboratory: leave the ``with`` statement, and everything inside ends.

    `server`, `client` and, where the path has one, `edge` are its hosts. After the end `summary` holds the engine's
    books, and `messages` what it printed.

    Parameters
    ----------
    model : PathModel
        The path.
    plan : LabPlan
        Its name, and where its records go.

    Raises
    ------
    UserError
        If a pattern is wrong.
    MachineError
        If this machine cannot run it.
    """

    def __init__(self, model: PathModel, plan: LabPlan) -> None:
        self.name = plan.name
        self._processes: list[LabProcess] = []
        self.model = model
        for folder, option in ((plan.log_dir, "log"), (plan.pcap_dir, "pcap")):
            if folder is not None:
                make_folder(folder, option)
        traces = Traces()
        try:
            descriptor = write_laboratory(laboratory_file(model, plan, traces))
            traces.descriptors.append(descriptor)
            # The laboratory watches this pipe: however this process ends, its end of the pipe closes.
            watched, self._leash = os.pipe2(os.O_CLOEXEC)
            try:
                self._process = subprocess.Popen(
                    [find_core(), "lab", f"/proc/self/fd/{descriptor}", "--leash", str(watched)],
                    stdin=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    env=clean_environment(os.environ),
                    pass_fds=[watched, *traces.descriptors],
                    start_new_session=True,
                )
            except BaseException:
                os.close(self._leash)
                raise
            finally:
                os.close(watched)
        finally:
            traces.close()
        assert self._process.stderr is not None, "it was asked for"
        self._messages = Pump(os.dup(self._process.stderr.fileno()))
        self._process.stderr.close()
        self.messages = ""
        self.summary: dict[str, Json] | None = None
        self._hosts = {host.name: LabHost(self, host.name) for host in model.hosts}
        try:
            self._await_start()
        except BaseException:
            self.close()
            raise

    @property
    def server(self) -> LabHost:
        """The server."""
        return self._hosts["server"]

    @property
    def client(self) -> LabHost:
        """The client."""
        return self._hosts["client"]

    @property
    def edge(self) -> LabHost:
        """The edge host.

        Raises
        ------
        UserError
            If the path has none.
        """
        if "edge" not in self._hosts:
            raise UserError("edge: this path has no edge host: add [path.edge] to the scenario")
        return self._hosts["edge"]

    def adopt(self, process: LabProcess) -> None:
        """Remember a process, to let go of it when the laboratory ends."""
        self._processes = [known for known in self._processes if known.returncode is None]
        self._processes.append(process)

    def show(self) -> dict[str, Json]:
        """Return the counters of all links, as ``wavebed ctl LAB show --json`` prints them."""
        with Connection(self.name) as connection:
            return connection.ask({"do": "show"})

    def begin(self) -> int:
        """Let time begin, in a laboratory that waits, and return `zero_ns`.

        Raises
        ------
        UserError
            If time has begun already.
        """
        with Connection(self.name) as connection:
            zero_ns = connection.ask({"do": "begin"})["zero_ns"]
        assert isinstance(zero_ns, int), "time zero is a number"
        return zero_ns

    @property
    def zero_ns(self) -> int | None:
        """Time zero on the clock of `time.monotonic_ns`; ``None`` while the laboratory waits."""
        zero_ns = self.show()["zero_ns"]
        return zero_ns if isinstance(zero_ns, int) else None

    def is_alive(self) -> bool:
        """Return whether it still runs."""
        return self._process.poll() is None

    def set(self, **changes: str) -> None:
        """Change links while they run, from now on, without losing a packet.

        Parameters
        ----------
        **changes : str
            ``rate``, ``delay``, ``loss`` or ``pattern``, written as in ``wavebed ctl``. A change concerns every
            link that has such a stage; ``**{"radio.down.rate": "50mbit"}`` concerns one.

        Raises
        ------
        UserError
            If a value is wrong or no link has such a stage.
        """
        for key, value in changes.items():
            apply_change(self.name, key, change_request(key, value))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End everything inside and wait until it is gone.

        Then `summary` holds the engine's books, and `messages` what it printed.
        """
        if self._process.poll() is None:
            try:
                with Connection(self.name) as connection:
                    summary = connection.ask({"do": "stop"}).get("summary")
                self.summary = summary if isinstance(summary, dict) else None
            except WavebedError:
                pass  # it is ending already, or never began: the leash ends it
        if self._leash >= 0:
            os.close(self._leash)
            self._leash = -1
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self.messages = self._messages.result()
        for process in self._processes:
            process.let_go()

    def _await_start(self) -> None:
        end = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < end:
            try:
                with Connection(self.name) as connection:
                    # Another laboratory may have the name; ours ends then, and says so.
                    if connection.listener_pid == self._process.pid:
                        connection.ask({"do": "show"})
                        return
            except LaboratoryGoneError:
                self._process.wait(START_TIMEOUT_S)
            except UserError:
                pass  # the socket is not there yet
            try:
                status = self._process.wait(0.002)
            except subprocess.TimeoutExpired:
                continue
            raise _start_error(status, self._messages.result())
        raise MachineError(f"laboratory {self.name!r} did not start within {START_TIMEOUT_S:.0f} s: see wavebed doctor")


def _start_error(status: int, messages: str) -> WavebedError:
    lines = messages.strip().splitlines() or [f"wavebed-core ended with {status}"]
    message = lines[-1].removeprefix("wavebed-core: ")
    if status == UserError.exit_status:
        return UserError(message)
    return MachineError(message) if status == MachineError.exit_status else LaboratoryGoneError(message)
