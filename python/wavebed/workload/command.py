"""Any program on the client, with an optional one on the server."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Annotated

from msgspec import Struct

from wavebed.config import values
from wavebed.config.problems import Problem, described
from wavebed.config.reader import reader
from wavebed.config.table import Key
from wavebed.errors import WavebedError
from wavebed.lab.confine import Confined
from wavebed.workload.model import Outcome, Session, Workload
from wavebed.workload.parsers import PARSERS, parse_nothing
from wavebed.workload.raw import create
from wavebed.workload.serve import RunningServer
from wavebed.workload.waiting import end_within, last_line, output_of, wait_for_end

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.workload.model import Metric, Schedule, Status, TrialContext

__all__ = ["Command"]

_STOP_GRACE_S = 3.0
_LAST_WORDS_S = 1.0
_PORT = "{port}"
_CLIENT = "{client}"


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


class CommandOptions(Struct, frozen=True, kw_only=True):
    """The keys of a command."""

    run: Annotated[list[str], Key(_command, "program on the client")]
    server_run: Annotated[list[str] | None, Key(_command, "program on the server, started before")] = None
    parser: Annotated[str, Key(values.word(*PARSERS), "parser of standard output, for metrics")] = "none"
    may_be_stopped: Annotated[bool, Key(values.boolean, "whether output until its limit counts")] = False
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
        words = [*self.options.run, *(self.options.server_run or ())]
        has_client = any(_CLIENT in word for word in words)
        return f"an address of the client, which may be behind NAT: leave {_CLIENT} out" if has_client else ""

    def expected_s(self) -> float:
        """Return its limit: the duration of the program is unknown."""
        return self.common.limit_s

    def open(self, context: TrialContext) -> Session:
        """Start the server's program, if any, and wait until it has opened ``{port}`` if its command has that."""
        return _CommandSession(self, context)


def filled_in(command: Sequence[str], context: TrialContext) -> list[str]:
    """Return a command with ``{server}``, ``{client}``, ``{port}`` and ``{seed}`` replaced."""
    known = {
        "{server}": context.server.name,
        _CLIENT: context.client.name,
        _PORT: str(context.port),
        "{seed}": str(context.seed),
    }
    result = []
    for part in command:
        text = part
        for name, value in known.items():
            text = text.replace(name, value)
        result.append(text)
    return result


class _CommandSession(Session):
    def __init__(self, workload: Command, context: TrialContext) -> None:
        self._workload = workload
        self._context = context
        self._asked = threading.Event()
        self._failure: str | None = None
        self._status: int | None = None
        self._was_stopped = False
        self._server: RunningServer | None = None
        command = workload.options.server_run
        if command is None:
            return
        output, log = context.folder / "server.out", context.folder / "server.err"
        with create(output) as out, create(log) as errors:
            process = context.server.start(
                filled_in(command, context), stdout=out, stderr=errors, cwd=context.folder, confined=self._needs()
            )
        self._server = RunningServer("server-run", process, log)
        if any(_PORT in part for part in command):
            self._server.wait_until_bound(context.server, context.port)

    def run(self) -> None:
        context = self._context
        argv = filled_in(self._workload.options.run, context)
        with create(context.folder / "stdout") as output, create(context.folder / "stderr") as errors:
            client = context.client.start(
                argv, stdout=output, stderr=errors, cwd=context.folder, confined=self._needs()
            )
        self._failure = wait_for_end(client, self._asked, self._server_failure)
        # Most measurement programs write their results on SIGINT.
        grace_s = _LAST_WORDS_S if self._failure is not None else 0.001
        self._was_stopped = not end_within(client, grace_s, signal.SIGINT, _STOP_GRACE_S)
        self._status = client.returncode
        self._failure = self._failure or self._server_failure()
        if self._server is not None:
            end_within(self._server.process, 0.001)

    def _needs(self) -> Confined | bool:
        return Confined(write=[self._context.folder]) if self._workload.options.confined else False

    def _server_failure(self) -> str | None:
        """Return a line if the server's program has failed; exit status 0 is not a failure."""
        if self._server is None:
            return None
        line = self._server.failure()
        return line if self._server.process.returncode != 0 else None

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
        elif self._status != 0:
            return Outcome("failed", self._ending())
        try:
            return Outcome(status, reason, metrics=self._metrics())
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
        parser = PARSERS[self._workload.options.parser]
        # An unparsed output can have any size.
        return [] if parser is parse_nothing else parser(output_of(self._context.folder / "stdout"))
