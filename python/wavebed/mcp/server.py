"""The server: the tools behind the protocol of the MCP SDK (modelcontextprotocol.io), one message in each line.

The SDK knows the methods and versions of the protocol. The two streams are ours: the SDK's bound no message, leave one
that is no JSON without an answer, and hold the process after SIGTERM until the client closes them.
"""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any, Self

import anyio
import msgspec
from anyio.from_thread import BlockingPortal
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp.types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    CallToolRequestParams,
    CallToolResult,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
    jsonrpc_message_adapter,
)

from wavebed import __version__
from wavebed.mcp.processes import ToolError
from wavebed.mcp.tools import TOOLS, ToolCall, object_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.server.context import ServerRequestContext

    from wavebed.mcp.runs import RunProgress
    from wavebed.mcp.tools import ServerBounds, Tools

MOST_LINE_BYTES = 1 << 20
"""A longer message is refused."""
MOST_CALLS = 4
"""Calls at one time."""
END_S = 1.0
"""For the last answers, when the input has ended."""
_INSTRUCTIONS = (
    "wavebed emulates 5G, mmWave and LTE paths on this machine and runs real applications over them. resolve checks a"
    " scenario, run starts it (real time, one at a time), status follows it, compare judges runs, explain says why"
    " packets were late or lost. Runs stay in the server's folder. Bounds: {trials} trials and {run_s:g} s a run,"
    " {call_s:g} s a call."
)


class AgentServer:
    """A server over two streams.

    The calling thread reads, a second one is the SDK's event loop, and each call of a tool has a thread of its own.

    Parameters
    ----------
    tools : Tools
        What it offers.
    bounds : ServerBounds
        Its bounds, which it tells the client.
    """

    def __init__(self, tools: Tools, bounds: ServerBounds, reading: IO[bytes], writing: IO[bytes]) -> None:
        self._tools = tools
        self._reading = reading
        self._writer = _Writer(writing)
        self._calls: set[threading.Event] = set()
        self._protocol = Server(
            "wavebed",
            version=__version__,
            instructions=_INSTRUCTIONS.format_map(msgspec.to_builtins(bounds)),
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
        )
        self._received: MemoryObjectSendStream[SessionMessage | Exception]
        self._portal: BlockingPortal
        self._started = threading.Event()

    def serve(self) -> None:
        """Answer until the input ends; then end what runs."""
        loop = threading.Thread(target=anyio.run, args=(self._loop,), name="mcp", daemon=True)
        loop.start()
        self._started.wait()
        try:
            for line in _lines(self._reading):
                message = self._message(line)
                if message is not None:
                    self._portal.call(self._received.send, SessionMessage(message))
        finally:
            try:
                with suppress(RuntimeError):  # the loop has ended
                    self._portal.start_task_soon(self._end)
                for cancelled in list(self._calls):
                    cancelled.set()
            finally:
                self._tools.close()
            loop.join(END_S)

    async def _loop(self) -> None:
        received: MemoryObjectReceiveStream[SessionMessage | Exception]
        self._received, received = anyio.create_memory_object_stream[SessionMessage | Exception]()
        async with BlockingPortal() as self._portal:
            self._started.set()
            await self._protocol.run(received, self._writer, self._protocol.create_initialization_options())

    async def _end(self) -> None:
        """Let the SDK answer what it has received, which needs no thread; it drops the other requests."""
        await anyio.wait_all_tasks_blocked()
        await self._received.aclose()

    def _message(self, line: bytes | None) -> JSONRPCMessage | None:
        """Return the message of a line; refuse a line that has none."""
        if line is None:
            self._writer.refuse(None, INVALID_REQUEST, f"the message has more than {MOST_LINE_BYTES} bytes")
            return None
        try:
            found = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            self._writer.refuse(None, PARSE_ERROR, "the message is not JSON")
            return None
        with suppress(ValueError):
            message = jsonrpc_message_adapter.validate_python(found, by_name=False)
            if isinstance(message, JSONRPCRequest) and not self._writer.begins(message.id):
                self._writer.refuse(message.id, INVALID_REQUEST, "a request of this id is not over")
                return None
            if not isinstance(message, JSONRPCNotification) or "id" not in found:  # of another type than an id has
                return message
        number = found.get("id") if isinstance(found, dict) else None
        known = number if isinstance(number, str | int) and not isinstance(number, bool) else None
        self._writer.refuse(known, INVALID_REQUEST, "the message is no request of JSON-RPC 2.0")
        return None

    async def _list_tools(
        self, _context: ServerRequestContext[Any], _params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        return ListToolsResult(tools=[_described(name) for name in TOOLS])

    async def _call_tool(self, context: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        if params.name not in TOOLS:
            raise MCPError(code=INVALID_PARAMS, message=f"there is no tool {params.name[:100]!r}")
        if len(self._calls) >= MOST_CALLS:
            return _refused(f"{MOST_CALLS} calls are not over: wait for one")
        begun_s = time.monotonic()
        cancelled = threading.Event()

        def tell(progress: RunProgress) -> None:
            left = "" if progress.left_s is None else f", about {progress.left_s:.0f} s left"
            message = f"{progress.stored} of {progress.trials} trials{left}"
            # A progress has to grow: it is the time of the call, seconds.
            passed_s = round(time.monotonic() - begun_s, 3)
            with suppress(RuntimeError):  # the loop has ended
                self._portal.call(context.session.report_progress, passed_s, None, message)

        self._calls.add(cancelled)
        answer: Future[CallToolResult] = Future()
        answer.set_running_or_notify_cancel()
        arguments = (answer, params, ToolCall(cancelled, tell))
        threading.Thread(target=self._carry_out, args=arguments, daemon=True).start()
        try:
            return await asyncio.wrap_future(answer)
        finally:
            cancelled.set()

    def _carry_out(self, answer: Future[CallToolResult], params: CallToolRequestParams, call: ToolCall) -> None:
        """Call a tool and give its answer to the loop. The thread of the call runs this."""
        result, failure = None, None
        try:
            found = msgspec.to_builtins(self._tools.call(params.name, params.arguments, call))
            text = TextContent(type="text", text=msgspec.json.encode(found).decode())
            result = CallToolResult(content=[text], structured_content=found, is_error=False)
        except ToolError as error:
            result = _refused(str(error))
        except Exception as error:  # noqa: BLE001 - the server goes on
            message = f"internal error: {type(error).__name__}: {error}"
            failure = MCPError(code=INTERNAL_ERROR, message=message)
        self._calls.discard(call.cancelled)
        if result is None:
            answer.set_exception(failure)
        else:
            answer.set_result(result)


def _described(name: str) -> Tool:
    tool = TOOLS[name]
    return Tool(
        name=name,
        description=tool.description,
        input_schema=object_schema(tool.takes),
        output_schema=None if tool.answers is None else object_schema(tool.answers),
        annotations=ToolAnnotations(read_only_hint=tool.reads_only, open_world_hint=False),
    )


def _refused(line: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=line)], is_error=True)


def _lines(stream: IO[bytes]) -> Iterator[bytes | None]:
    """Yield each line of a stream; ``None`` for one that is too long, which is read over."""
    while line := stream.readline(MOST_LINE_BYTES + 1):
        if len(line) <= MOST_LINE_BYTES:
            if line.strip():
                yield line
            continue
        while line and not line.endswith(b"\n"):
            line = stream.readline(MOST_LINE_BYTES)
        yield None


class _Writer:
    """Writes messages, for the SDK's event loop and the reading thread; a client that has gone takes none."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._open: set[str | int] = set()

    def begins(self, number: str | int) -> bool:
        """Note a request that is not answered yet; return whether no other one has its number."""
        is_new = number not in self._open
        self._open.add(number)
        return is_new

    async def send(self, item: SessionMessage, /) -> None:
        """Write an answer or a notification."""
        if isinstance(item.message, JSONRPCResponse | JSONRPCError) and item.message.id is not None:
            self._open.discard(item.message.id)
        self._write(item.message)

    def refuse(self, number: str | int | None, code: int, message: str) -> None:
        """Refuse a request; `number` is ``None`` where it is not known."""
        self._write(JSONRPCError(jsonrpc="2.0", id=number, error=ErrorData(code=code, message=message)))

    def _write(self, message: JSONRPCMessage) -> None:
        line = message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        with self._lock:
            try:
                self._stream.write(line)
                self._stream.flush()
            except (OSError, ValueError):
                return

    async def aclose(self) -> None:
        """Do nothing: the stream is closed by its owner."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
