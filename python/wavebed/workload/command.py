"""Any program on the client, with an optional one on the server."""

from __future__ import annotations

import signal
import threading
from pathlib import Path as FilePath
from typing import IO, TYPE_CHECKING, Annotated

from msgspec import Struct

from wavebed.config import values
from wavebed.config.problems import Problem, described
from wavebed.config.reader import reader
from wavebed.config.table import Key
from wavebed.errors import WavebedError
from wavebed.lab.confine import Confined
from wavebed.workload.model import Metric, Outcome, Session, Workload
from wavebed.workload.parsers import KNOWN, PARSERS, parse_nothing
from wavebed.workload.programs import create, end_all, end_within, last_line, output_of, wait_for_end
from wavebed.workload.serve import RunningServer
from wavebed.workload.serve.model import START_TIMEOUT_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.config.data import Json
    from wavebed.lab.protocol import Host, Port, Process, Undelivered
    from wavebed.workload.model import Schedule, Status, TrialContext


_STOP_GRACE_S = 3.0
_LAST_WORDS_S = 1.0
_LOOK_EVERY_S = 0.2
_LOOK_SOON_S = 0.02
_QUIET_S = 0.1
"""The path is drained if it was empty for this long: a server that read the last byte may answer, or write a file."""
_PORT = "{port}"
_CLIENT = "{client}"
EXIT_STATUS, WALL_TIME, DELIVERY_TIME = "exit status", "wall time", "delivery time"


@reader(
    '["PROGRAM", "ARGUMENT"]|"LINE"',
    {"anyOf": [{"type": "string", "minLength": 1}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]},
)
def _command(value: object) -> list[str]:
    """Read a program and its arguments, or a line for the shell."""
    if isinstance(value, str):
        return ["sh", "-c", values.text(value)]
    if not isinstance(value, list) or not value:
        raise Problem(f'{described(value)} is not a command: write ["PROGRAM", "ARGUMENT"] or a line for the shell')
    for each in value:
        if not isinstance(each, str) or "\0" in each:
            raise Problem(f"{described(each)} is not text: write each argument in quotes")
    if not value[0]:
        raise Problem("has an empty name: the first text is the program")
    return list(value)


@reader('["LINE", …]', {"type": "array", "items": {"type": "string", "minLength": 1}}, list)
def _lines(value: object) -> tuple[str, ...]:
    """Read lines for the shell."""
    if not isinstance(value, list):
        raise Problem(f'{described(value)} is not an array of lines: write ["LINE", …]')
    return tuple(values.text(each) for each in value)


class CommandOptions(Struct, frozen=True, kw_only=True):
    """The keys of a command."""

    run: Annotated[list[str], Key(_command, "program on the client")]
    server_run: Annotated[list[str] | None, Key(_command, "program on the server, started before")] = None
    servers: Annotated[tuple[str, ...], Key(_lines, "further programs on the server, each a line for the shell")] = ()
    wait_for_port: Annotated[
        int | None,
        Key(
            values.number(0, 65535),
            "the trial begins when a program on the server has opened this port, TCP or UDP; 0: at once",
            absent="`{port}`, if a command on the server has it; otherwise as many new ports as programs on the server"
            " that run, at most 10 s",
        ),
    ] = None
    folder: Annotated[
        FilePath | None, Key(values.file_path, "working folder of all programs", absent="that of the raw outputs")
    ] = None
    parser: Annotated[str, Key(values.word(*PARSERS), "parser of standard output, for metrics")] = "none"
    may_be_stopped: Annotated[bool, Key(values.boolean, "whether output until its limit counts")] = False
    any_status: Annotated[
        bool, Key(values.boolean, "true: `exit status` is a metric, and no value of it is a failure")
    ] = False
    wall_time: Annotated[
        bool, Key(values.boolean, "true: `wall time` of `run` and its `delivery time` are metrics, s")
    ] = False
    drain_s: Annotated[
        float,
        Key(
            values.end_wait,
            "longest time after the end of `run` in which its last data may arrive and be read; not beside other"
            " workloads that run",
        ),
    ] = 5.0
    grace_s: Annotated[
        float,
        Key(values.end_wait, "time from SIGTERM to SIGKILL for the programs on the server"),
    ] = 5.0
    confined: Annotated[
        bool,
        Key(values.boolean, "false: runs as the user of wavebed, with that user's files, variables and privileges"),
    ] = True


class Command(Workload[CommandOptions]):
    """A program on the client, and optionally one on the server, which starts before."""

    kind = "command"
    summary = "any program, its output parsed or kept"
    options_type = CommandOptions

    @property
    def emulated_only(self) -> str:
        """What it needs that real hosts do not have; empty: nothing."""
        words = [*self.options.run, *(self.options.server_run or ()), *self.options.servers]
        has_client = any(_CLIENT in word for word in words)
        return f"an address of the client, which may be behind NAT: leave {_CLIENT} out" if has_client else ""

    @property
    def tail_s(self) -> float:
        """The grace of its servers, which end after the program."""
        return self.options.grace_s

    def expected_s(self) -> float:
        """Return its limit: the duration of the program is unknown."""
        return self.common.limit_s

    def known_metrics(self) -> list[Metric]:
        """Return the metrics of wavebed, and of a parser that names its own."""
        return [*KNOWN.get(self.options.parser, ()), *_metrics_of(self.options, None, None, None)]

    @property
    def prints_metrics(self) -> bool:
        """Whether the output names the metrics."""
        return self.options.parser not in KNOWN

    def open(self, context: TrialContext) -> Session:
        """Start the programs on the server, if any, and wait for their ports."""
        return _CommandSession(self, context)


def _wait_until_bound(servers: Sequence[RunningServer], host: Host, port: int) -> None:
    """Wait until one of several programs has opened a port, for as long as all of them run or have ended well."""
    if len(servers) == 1:
        servers[0].wait_until_bound(host, port)
        return
    end_s = host.clock.monotonic_s() + START_TIMEOUT_S
    while True:
        try:
            host.wait_for_port(port, _LOOK_EVERY_S, udp=True)
        except TimeoutError:
            failure = next((line for each in servers if (line := each.failure()) is not None), None)
            if failure is None and host.clock.monotonic_s() > end_s:
                failure = f"no program on the server opens port {port} within {START_TIMEOUT_S:g} s"
            if failure is not None:
                for each in servers:
                    each.stop()
                raise WavebedError(failure) from None
        else:
            return


def _wait_until_listening(servers: Sequence[RunningServer], host: Host, before: frozenset[Port]) -> str:
    """Wait until there are as many new open ports as servers that run; return a line if that does not happen."""
    end_s = host.clock.monotonic_s() + START_TIMEOUT_S
    while (opened := len(host.open_ports() - before)) < (running := sum(each.failure() is None for each in servers)):
        if host.clock.monotonic_s() >= end_s:
            told = f"{opened} of {running} have opened a port after {START_TIMEOUT_S:g} s"
            return f"{told}: wait-for-port = 0 waits for none"
        host.clock.sleep(_LOOK_EVERY_S if host.is_far else _LOOK_SOON_S)
    return ""


def filled_in(command: Sequence[str], context: TrialContext) -> list[str]:
    """Return a command with ``{server}``, ``{client}``, ``{port}`` and ``{seed}`` replaced.

    A laboratory of this machine replaces the hosts' own itself, by their IPv4 addresses.
    """
    hosts = {"{server}": context.server, _CLIENT: context.client}
    known = {_PORT: str(context.port), "{seed}": str(context.seed)}
    known |= {name: host.only_address for name, host in hosts.items() if host.only_address}
    result = []
    for part in command:
        text = part
        for name, value in known.items():
            text = text.replace(name, value)
        result.append(text)
    return result


def _metrics_of(
    options: CommandOptions, wall_s: float | None, delivery_s: float | None, status: int | None
) -> list[Metric]:
    """Return the metrics that no output names."""
    found = []
    if options.wall_time:
        found.append(Metric(WALL_TIME, wall_s, "s", "lower", "from the start of the program to its end"))
        definition = "from the start of the program until its last byte was acknowledged and read"
        found.append(Metric(DELIVERY_TIME, delivery_s, "s", "lower", definition))
    if options.any_status:
        found.append(Metric(EXIT_STATUS, status, "", "neither", "negative: the number of a signal"))
    return found


class _CommandSession(Session):
    def __init__(self, workload: Command, context: TrialContext) -> None:
        self._workload = workload
        self._context = context
        self._asked = threading.Event()
        self._failure: str | None = None
        self._status: int | None = None
        self._wall_s: float | None = None
        self._delivery_s: float | None = None
        self._left: Undelivered | None = None
        self._was_stopped = False
        self._not_ready = ""
        options = workload.options
        commands = [] if options.server_run is None else [options.server_run]
        commands += [["sh", "-c", line] for line in options.servers]
        has_port = any(_PORT in part for command in commands for part in command)
        port = context.port if options.wait_for_port is None and has_port else options.wait_for_port
        before = context.server.open_ports() if commands and port is None else frozenset()
        self._servers = [self._start_server(command, number) for number, command in enumerate(commands, 1)]
        if port is None:
            self._not_ready = _wait_until_listening(self._servers, context.server, before)
        elif self._servers and port > 0:
            _wait_until_bound(self._servers, context.server, port)

    def _start_server(self, command: Sequence[str], number: int) -> RunningServer:
        context = self._context
        name = "server" if number == 1 else f"server{number}"
        output, log = context.folder / f"{name}.out", context.folder / f"{name}.err"
        with create(output) as out, create(log) as errors:
            process = self._start(context.server, filled_in(command, context), out, errors)
        return RunningServer("server-run" if number == 1 else name, process, log)

    def _start(self, host: Host, argv: Sequence[str], output: IO[bytes], errors: IO[bytes]) -> Process:
        folder = self._workload.options.folder or self._context.folder
        needs = Confined(write=[self._context.folder]) if self._workload.options.confined else False
        return host.start(argv, stdout=output, stderr=errors, cwd=folder, confined=needs)

    def run(self) -> None:
        context = self._context
        argv = filled_in(self._workload.options.run, context)
        began_s = context.clock.monotonic_s()
        with create(context.folder / "stdout") as output, create(context.folder / "stderr") as errors:
            client = self._start(context.client, argv, output, errors)
        self._failure = wait_for_end(client, self._asked, self._server_failure)
        # Most measurement programs write their results on SIGINT.
        grace_s = _LAST_WORDS_S if self._failure is not None else 0.001
        self._was_stopped = not end_within(client, grace_s, signal.SIGINT, _STOP_GRACE_S)
        self._wall_s = context.clock.monotonic_s() - began_s
        self._status = client.returncode
        self._failure = self._failure or self._server_failure()
        if self._failure is None and not self._was_stopped:
            self._drain(began_s)
        end_all([server.process for server in self._servers], self._workload.options.grace_s, self._context.clock)

    def _drain(self, began_s: float) -> None:
        """Wait until all data has arrived and was read, or until the limit; keep what is left."""
        clock = self._context.clock
        end_s = clock.monotonic_s() + self._workload.options.drain_s
        empty_s: float | None = None
        while (left := self._context.undelivered()) is not None:
            now_s = clock.monotonic_s()
            if left:
                empty_s = None
                if now_s >= end_s:
                    self._left = left
                    return
            else:
                empty_s = now_s if empty_s is None else empty_s
                if now_s - empty_s >= _QUIET_S:
                    self._delivery_s = max(empty_s - began_s, self._wall_s or 0.0)
                    return
            if clock.wait(self._asked, _LOOK_SOON_S):
                return

    def _server_failure(self) -> str | None:
        """Return a line if a program on the server has failed; exit status 0 is not a failure."""
        for server in self._servers:
            line = server.failure()
            if line is not None and server.process.returncode != 0:
                return line
        return None

    def stop(self) -> None:
        self._asked.set()

    def report(self, schedule: Schedule) -> Outcome:  # noqa: ARG002 - independent of other workloads
        if self._failure is not None:
            return Outcome("failed", self._failure)
        status: Status = "ok"
        reason = ""
        if self._was_stopped:
            reason = f"stopped at its limit of {self._context.limit_s:g} s"
            if not self._workload.options.may_be_stopped:
                return Outcome("failed", f"{reason}: raise limit, or write may-be-stopped = true")
            status = "partial"
        elif self._status != 0 and not (self._workload.options.any_status and self._status is not None):
            return Outcome("failed", self._ending())
        doubts = []
        if self._left:
            limit_s = self._workload.options.drain_s
            doubts = [f"{limit_s:g} s after its end data was still on the way: {self._left}: raise drain"]
        try:
            details: dict[str, Json] = {"programs on the server": self._not_ready} if self._not_ready else {}
            return Outcome(status, reason, metrics=self._metrics(), doubts=doubts, details=details)
        except WavebedError as error:
            return Outcome("failed", str(error))

    def _ending(self) -> str:
        words = last_line(self._context.folder / "stderr") or "no message on standard error"
        how = "was not run" if self._status is None else f"ended with {self._status}"
        if self._status is not None and self._status < 0:
            how = f"was ended by signal {-self._status}"
        return f"{self._program()} {how}: {words}"

    def _program(self) -> str:
        command = self._workload.options.run
        return "the shell" if command[:2] == ["sh", "-c"] else command[0]

    def _metrics(self) -> list[Metric]:
        options = self._workload.options
        parser = PARSERS[options.parser]
        # An unparsed output can have any size.
        found = [] if parser is parse_nothing else parser(output_of(self._context.folder / "stdout"))
        return [*found, *_metrics_of(options, self._wall_s, self._delivery_s, self._status)]
