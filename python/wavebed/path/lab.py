"""A running laboratory and its hosts."""

from __future__ import annotations

import os
import subprocess
import time
from typing import TYPE_CHECKING, Self

from msgspec import Struct, convert
from msgspec.structs import replace

from wavebed.config.problems import one_of
from wavebed.errors import MachineError, UserError, WavebedError
from wavebed.lab.confine import Confined, confinement_rules, hand_over
from wavebed.lab.protocol import (
    LIMITS,
    Host,
    Lab,
    LaboratoryGoneError,
    LaboratoryHungError,
    LaboratoryKilledError,
    Limits,
    MachineClock,
    Port,
    Undelivered,
)
from wavebed.lab.tools import Computing, ProgramTime
from wavebed.path.control import answer_as
from wavebed.path.core import Core, LabProcess, Pump, pipe_or
from wavebed.path.laboratory import laboratory_file
from wavebed.path.launch import clean_environment, make_folder, write_laboratory
from wavebed.path.live import apply_change, change_request, show
from wavebed.prepared import prepared

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from wavebed.config.data import Json
    from wavebed.lab.protocol import Redirect
    from wavebed.path.control import ControlConnection
    from wavebed.path.laboratory import LabPlan
    from wavebed.spec.types import Network


class LabHost(Host):
    """A host of a running laboratory.

    Parameters
    ----------
    laboratory : Laboratory
        The laboratory it belongs to.
    name : str
        ``server``, ``edge`` or ``client``, or the name of a device of a cell.
    """

    def __init__(self, laboratory: Laboratory, name: str) -> None:
        self.laboratory = laboratory
        self.name = name
        self.clock = laboratory.clock

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
        confined: bool | Confined = False,
    ) -> LabProcess:
        """Start a program on this host and return at once.

        Parameters
        ----------
        argv : sequence of str
            The program and its arguments; it is looked for in ``PATH``.
        stdin, stdout, stderr : int or file, optional
            A file or descriptor, ``subprocess.PIPE`` (read with `LabProcess.output`), ``subprocess.DEVNULL``, or
            ``None``: as this process.
        env : mapping, optional
            Its variables; by default this process's without the ones that name a proxy. A confined program has
            these on top of a few harmless ones of this process: ``PATH``, the language's, ``TZ`` and ``TERM``.
        cwd : path, optional
            Its working directory; by default as this process, and for a confined program its temporary folder.
        input : str, optional
            What it reads from standard input.
        confined : bool or Confined
            Whether it runs as a user of its own, without privileges, on a read-only file system without the
            homes, instead of as this user; and what it needs beside that.

        Raises
        ------
        UserError
            If there is no such program.
        LaboratoryGoneError
            If the laboratory has ended.
        LaboratoryHungError
            If the laboratory did not answer.
        """
        arguments = [os.fspath(argument) for argument in argv]
        if not arguments:
            raise UserError("argv: is empty: name a program")
        needs = Confined() if confined is True else confined or None
        given = {"stdin": subprocess.PIPE if input is not None else stdin, "stdout": stdout, "stderr": stderr}
        theirs: list[int] = []
        ours: dict[str, int] = {}
        connection = self.laboratory.connect()
        try:
            for name, default in (("stdin", 0), ("stdout", 1), ("stderr", 2)):
                end, our_end = pipe_or(_descriptor(given[name], default), "w" if name == "stdin" else "r")
                theirs.append(end)
                if our_end is not None:
                    ours[name] = our_end
            answer = connection.ask(self._request(arguments, env, cwd, needs), theirs)
            pid, before_ns = answer["pid"], answer.get("host_cpu_before_ns")
            assert isinstance(pid, int), "a process has a number"
            assert before_ns is None or isinstance(before_ns, str), "a time is a text"
        except BaseException:
            for end in ours.values():
                os.close(end)
            connection.close()
            raise
        finally:
            for end in theirs:
                os.close(end)
        process = LabProcess(connection, pid, arguments, self.laboratory.connect, before_ns)
        self.laboratory.adopt(process, self.workload, self.name)
        process.attach(
            {name: Pump(end, (input or "").encode() if name == "stdin" else None) for name, end in ours.items()}
        )
        return process

    def _request(
        self,
        argv: list[str],
        env: Mapping[str, str] | None,
        cwd: str | os.PathLike[str] | None,
        needs: Confined | None,
    ) -> dict[str, Json]:
        """Return what the core is asked; folders that a confined program writes to are its own from now on."""
        request: dict[str, Json] = {"do": "run", "host": self.name, "argv": list(argv)}
        if needs is None:
            directory = os.getcwd() if cwd is None else os.fspath(cwd)  # noqa: PTH109 - text is what is sent
            return request | {"env": dict(clean_environment(os.environ if env is None else env)), "cwd": directory}
        user = self.laboratory.confined_user
        if user is not None:
            for folder in needs.write:
                hand_over(folder, user)
        place = None if cwd is None else os.fspath(cwd)
        return request | {"env": dict(env or {}), "cwd": place, "confine": needs.request(argv)}

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
        confined: bool | Confined = False,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program on this host and wait for it, as `subprocess.run` does here.

        Parameters
        ----------
        argv : sequence of str
            The program and its arguments.
        capture_output : bool
            Whether to keep standard output and standard error as text; otherwise the program inherits this process's.
        timeout : float, optional
            Seconds after which the program is killed.
        check : bool
            Whether an exit status other than 0 is an error.
        env, cwd, input, confined
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
        process = self.start(argv, stdout=redirect, stderr=redirect, env=env, cwd=cwd, input=input, confined=confined)
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(self.laboratory.limits.answer_s)
            output, errors = process.output()
            raise subprocess.TimeoutExpired(process.args, timeout or 0.0, output, errors) from None
        except BaseException:
            process.kill()
            raise
        output, errors = process.output()
        if check and status != 0:
            raise subprocess.CalledProcessError(status, process.args, output, errors)
        return subprocess.CompletedProcess(process.args, status, output, errors)

    def open_ports(self) -> frozenset[Port]:
        """Return the ports of its listening TCP sockets, and of its UDP sockets without a peer."""
        with self.laboratory.connect() as connection:
            answer = connection.ask({"do": "ports", "host": self.name})
        return answer_as(self.laboratory.name, answer, _Ports).ports


class _Ports(Struct):
    ports: frozenset[Port]


def _descriptor(given: Redirect, default: int) -> int:
    if given is None:
        return default
    return given if isinstance(given, int) else given.fileno()


class Laboratory(Lab):
    """A running laboratory: leave the ``with`` statement, and everything inside ends.

    `server`, `client` and, where the path has one, `edge` are its hosts. With a cell there is no `client`, but a host
    with the name of each device. After the end `summary` holds the engine's counters, and `messages` what it printed. A
    laboratory that does not answer in time is killed, and `problem` says so.

    Parameters
    ----------
    network : Network
        Hosts and hops in a row; files of patterns are those that the engine opens.
    plan : LabPlan
        Its name and seed, and where its records go.
    descriptors : sequence of int
        The content of pattern files in memory.
    limits : Limits
        How long its answers, its start and its end may take.

    Raises
    ------
    UserError
        If a pattern is wrong.
    MachineError
        If this machine cannot run it.
    LaboratoryHungError
        If it does not start in time.
    """

    def __init__(
        self, network: Network, plan: LabPlan, descriptors: Sequence[int] = (), limits: Limits = LIMITS
    ) -> None:
        self.name = plan.name
        self.limits = limits
        self.clock = MachineClock()
        self._processes: list[LabProcess] = []
        self._of_workloads: list[tuple[str, str, LabProcess]] = []
        self.confined_user: int | None = None
        """The user that confined programs are on this machine; ``None``: the one who made the laboratory."""
        plan = replace(plan, confine=confinement_rules())
        for folder, option in ((plan.log_dir, "log"), (plan.pcap_dir, "pcap")):
            if folder is not None:
                make_folder(folder, option)
        descriptor = write_laboratory(laboratory_file(network, plan))
        try:
            self._core = Core(plan.name, descriptor, [*descriptors, descriptor], limits)
        finally:
            os.close(descriptor)
        self.messages = ""
        self.summary: dict[str, Json] | None = None
        self._hosts = {host.name: LabHost(self, host.name) for host in network.hosts}
        try:
            self._await_start()
        except BaseException:
            self.close()
            raise

    @property
    def server(self) -> LabHost:
        """The server."""
        return self.host("server")

    @property
    def client(self) -> LabHost:
        """The client."""
        return self.host("client")

    @property
    def edge(self) -> LabHost:
        """The edge host.

        Raises
        ------
        UserError
            If the path has none.
        """
        return self.host("edge")

    def host(self, name: str) -> LabHost:
        """Return a host by its name.

        Raises
        ------
        UserError
            If the path has none of this name.
        """
        if name not in self._hosts:
            if "client" in self._hosts:
                raise UserError(f"{name}: this path has no {name} host: add [path.{name}] to the scenario")
            raise UserError(f"{name}: is no host of this path: {one_of(name, self._hosts)}")
        return self._hosts[name]

    def adopt(self, process: LabProcess, workload: str = "", host: str = "") -> None:
        """Remember a process, to let go of it when the laboratory ends, whose it was, and on which host it ran."""
        self._processes = [known for known in self._processes if known.returncode is None]
        self._processes.append(process)
        if workload:
            self._of_workloads.append((workload, host, process))

    @property
    def pid(self) -> int:
        """The number of the process that holds it."""
        return self._core.pid

    @property
    def problem(self) -> str:
        """The fault of the laboratory itself: one line, or nothing."""
        return self._core.problem

    def connect(self) -> ControlConnection:
        """Return a new connection to it.

        Raises
        ------
        LaboratoryGoneError
            If it has ended.
        """
        return self._core.connect()

    def show(self) -> dict[str, Json]:
        """Return the counters of all links, as ``wavebed ctl LAB show --json`` prints them."""
        with self.connect() as connection:
            return show(connection)

    def undelivered(self) -> Undelivered:
        """Return the data on the way from program to program."""
        with self.connect() as connection:
            return convert(connection.ask({"do": "undelivered"}), prepared(Undelivered))

    def begin(self) -> int:
        """Let time begin, in a laboratory that waits, and return `zero_ns`.

        Raises
        ------
        UserError
            If time has begun already.
        """
        with self.connect() as connection:
            zero_ns = connection.ask({"do": "begin"})["zero_ns"]
        assert isinstance(zero_ns, int), "time zero is a number"
        self.clock.begin(zero_ns)
        return zero_ns

    @property
    def zero_ns(self) -> int | None:
        """Time zero on the clock of `time.monotonic_ns`; ``None`` while the laboratory waits."""
        zero_ns = self.show()["zero_ns"]
        return zero_ns if isinstance(zero_ns, int) else None

    def is_alive(self) -> bool:
        """Return whether it still runs."""
        return self._core.is_alive()

    def set(self, **changes: str) -> None:
        """Change links while they run, from now on, without losing a packet.

        Parameters
        ----------
        **changes : str
            ``rate``, ``delay``, ``loss``, ``pattern``, or a fault: ``outage``, ``flap``, ``handover``, ``rebind``;
            written as in ``wavebed ctl``. A change concerns every link that has such a stage;
            ``**{"radio.down.rate": "50mbit"}`` concerns one.

        Raises
        ------
        UserError
            If a value is wrong or no link has such a stage.
        """
        for key, value in changes.items():
            request = change_request(key, value)
            with self.connect() as connection:
                apply_change(connection, key, request)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After Ctrl-C or SIGTERM nobody waits for what a slow end would bring.
        interrupted = kind is not None and not issubclass(kind, Exception)
        self._close(self.limits.interrupted_s if interrupted else self.limits.stop_s)

    def close(self) -> None:
        """End everything inside and wait until it is gone.

        Then `summary` holds the engine's counters, and `messages` what it printed.
        """
        self._close(self.limits.stop_s)

    def _close(self, limit_s: float) -> None:
        end = time.monotonic() + limit_s
        try:
            if self._core.is_alive():
                self._stop(limit_s)
        except BaseException:
            self._core.kill()
            raise
        finally:
            self._core.end(max(0.0, end - time.monotonic()))
            self.messages = self._core.messages()
            for process in self._processes:
                process.let_go()

    def _stop(self, limit_s: float) -> None:
        try:
            with self.connect() as connection:
                summary = connection.ask({"do": "stop"}, limit_s=limit_s).get("summary")
            self.summary = summary if isinstance(summary, dict) else None
            total_ns = (self.summary or {}).pop("host_cpu_ns", None)
            self.computing = computing_of(total_ns, self._of_workloads)
        except UserError as error:
            self._core.problem = self._core.problem or str(error)
        except (LaboratoryGoneError, LaboratoryHungError):
            pass  # it is ending already, or it was killed: the core knows why

    def _await_start(self) -> None:
        end = time.monotonic() + self.limits.start_s
        try:
            with self.connect() as connection:
                shown = connection.ask({"do": "show"}, limit_s=self.limits.start_s)
            user, zero_ns = shown["confined_user"], shown["zero_ns"]
            self.confined_user = user if isinstance(user, int) else None
            if isinstance(zero_ns, int):
                self.clock.begin(zero_ns)
        except LaboratoryHungError:
            raise LaboratoryHungError(
                f"laboratory {self.name!r} did not start within {self.limits.start_s:g} s: see wavebed doctor"
            ) from None
        except LaboratoryGoneError:
            status = self._core.wait(max(0.0, end - time.monotonic()))
            raise _start_error(status, self._core.messages()) from None


def computing_of(total_ns: Json, processes: Sequence[tuple[str, str, LabProcess]]) -> Computing | None:
    """Return what the programs of a laboratory computed on the host; ``None`` if nobody counts.

    Parameters
    ----------
    total_ns : str or None
        The time of all programs.
    processes : sequence of tuple
        The workload, the host and the process of each program that was started for a workload, in order.
    """
    if not isinstance(total_ns, str):
        return None
    own = [
        ProgramTime(workload, host, process.host_cpu_before_ns, process.host_cpu_ns)
        for workload, host, process in processes
    ]
    return Computing(total_ns, tuple(own))


_KILLED = "the laboratory was killed"
"""Message of the program if its init was killed (`front.rs`)."""


def _start_error(status: int | None, messages: str) -> WavebedError:
    lines = messages.strip().splitlines() or [f"wavebed-core ended with {status}"]
    message = lines[-1].removeprefix("wavebed-core: ")
    if message == _KILLED or (status is not None and status < 0):
        return LaboratoryKilledError(_KILLED)
    if status == UserError.exit_status:
        return UserError(message)
    return MachineError(message) if status == MachineError.exit_status else LaboratoryGoneError(message)
