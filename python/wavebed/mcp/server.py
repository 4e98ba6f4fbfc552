"""The server: initialize, ping, tools/list, tools/call, cancellation and progress (modelcontextprotocol.io)."""

from __future__ import annotations

import threading
import time
from typing import IO, TYPE_CHECKING, Any

import msgspec

from wavebed import __version__
from wavebed.mcp.lines import (
    INTERNAL,
    INVALID_PARAMS,
    INVALID_REQUEST,
    MOST_LINE_BYTES,
    NO_METHOD,
    PARSE_ERROR,
    Writer,
    lines,
)
from wavebed.mcp.model import ToolError
from wavebed.mcp.tools import TOOLS, Call, object_schema

if TYPE_CHECKING:
    from wavebed.config.data import Json
    from wavebed.mcp.model import Bounds, Progress
    from wavebed.mcp.tools import Tools

__all__ = ["VERSIONS", "Server"]

VERSIONS = ("2025-11-25", "2025-06-18", "2024-11-05")
"""Versions of the protocol, the newest first. That of 2025-03-26 has batches, which the others have not."""
MOST_CALLS = 4
"""Calls at one time."""
_INSTRUCTIONS = (
    "wavebed emulates 5G, mmWave and LTE paths on this machine and runs real applications over them. resolve checks a"
    " scenario, run starts it (real time, one at a time), status follows it, compare judges runs, explain says why"
    " packets were late or lost. Runs stay in the server's folder. Bounds: {trials} trials and {run_s:g} s a run,"
    " {call_s:g} s a call."
)


class Server:
    """A server over two streams.

    Parameters
    ----------
    tools : Tools
        What it offers.
    bounds : Bounds
        Its bounds, which it tells the client.
    """

    def __init__(self, tools: Tools, bounds: Bounds, reading: IO[bytes], writing: IO[bytes]) -> None:
        self._tools = tools
        self._bounds = bounds
        self._reading = reading
        self._writer = Writer(writing)
        self._lock = threading.Lock()
        self._calls: dict[str | int, threading.Event] = {}
        self._threads: list[threading.Thread] = []

    def serve(self) -> None:
        """Answer until the input ends; then end what runs."""
        try:
            for line in lines(self._reading):
                if line is None:
                    self._writer.error(None, INVALID_REQUEST, f"the message has more than {MOST_LINE_BYTES} bytes")
                else:
                    self._take(line)
        finally:
            with self._lock:
                for cancelled in self._calls.values():
                    cancelled.set()
            self._tools.close()
            for thread in self._threads:
                thread.join(1.0)

    def _take(self, line: bytes) -> None:
        try:
            message = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            self._writer.error(None, PARSE_ERROR, "the message is not JSON")
            return
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            self._writer.error(None, INVALID_REQUEST, "the message is no JSON-RPC 2.0 object")
            return
        number, method, params = message.get("id"), message.get("method"), message.get("params", {})
        if "method" not in message and ("result" in message or "error" in message):
            return  # an answer; the server asks nothing
        is_number = isinstance(number, str | int) and not isinstance(number, bool)
        if not isinstance(method, str) or not isinstance(params, dict) or ("id" in message and not is_number):
            known = number if is_number else None
            self._writer.error(known, INVALID_REQUEST, "method is a text, params an object, id a text or a number")
        elif "id" not in message:
            self._notified(method, params)
        else:
            self._asked(number, method, params)  # type: ignore[arg-type] # it was checked

    def _notified(self, method: str, params: dict[str, Any]) -> None:
        if method == "notifications/cancelled":
            number = params.get("requestId")
            with self._lock:
                cancelled = self._calls.get(number) if isinstance(number, str | int) else None
            if cancelled is not None:
                cancelled.set()

    def _asked(self, number: str | int, method: str, params: dict[str, Any]) -> None:
        match method:
            case "initialize":
                self._writer.result(number, self._introduction(params))
            case "ping":
                self._writer.result(number, {})
            case "tools/list":
                self._writer.result(number, {"tools": [_described(name) for name in TOOLS]})
            case "tools/call":
                self._call(number, params)
            case _:
                self._writer.error(number, NO_METHOD, f"there is no method {method[:100]!r}")

    def _introduction(self, params: dict[str, Any]) -> dict[str, Json]:
        asked = params.get("protocolVersion")
        return {
            "protocolVersion": asked if asked in VERSIONS else VERSIONS[0],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "wavebed", "version": __version__},
            "instructions": _INSTRUCTIONS.format_map(msgspec.to_builtins(self._bounds)),
        }

    def _call(self, number: str | int, params: dict[str, Any]) -> None:
        name = params.get("name")
        if not isinstance(name, str) or name not in TOOLS:
            self._writer.error(number, INVALID_PARAMS, f"there is no tool {str(name)[:100]!r}")
            return
        with self._lock:
            if number in self._calls:
                self._writer.error(number, INVALID_REQUEST, "a request of this id is not over")
                return
            if len(self._calls) >= MOST_CALLS:
                self._writer.result(number, _refused(f"{MOST_CALLS} calls are not over: wait for one"))
                return
            cancelled = self._calls[number] = threading.Event()
        meta = params.get("_meta")
        token = meta.get("progressToken") if isinstance(meta, dict) else None
        thread = threading.Thread(
            target=self._carry_out, args=(number, name, params.get("arguments"), token, cancelled), daemon=True
        )
        self._threads = [*(each for each in self._threads if each.is_alive()), thread]
        thread.start()

    def _carry_out(
        self, number: str | int, name: str, arguments: object, token: Json, cancelled: threading.Event
    ) -> None:
        begun_s = time.monotonic()

        def tell(progress: Progress) -> None:
            if token is not None:
                left = "" if progress.left_s is None else f", about {progress.left_s:.0f} s left"
                message = f"{progress.stored} of {progress.trials} trials{left}"
                # A progress has to grow: it is the time of the call, seconds.
                told = {"progressToken": token, "progress": round(time.monotonic() - begun_s, 3), "message": message}
                self._writer.notify("notifications/progress", told)

        try:
            answer = msgspec.to_builtins(self._tools.call(name, arguments, Call(cancelled, tell)))
            text = msgspec.json.encode(answer).decode()
            result = {"content": [{"type": "text", "text": text}], "structuredContent": answer, "isError": False}
        except ToolError as error:
            result = _refused(str(error))
        except Exception as error:  # noqa: BLE001 - the server goes on
            self._writer.error(number, INTERNAL, f"internal error: {type(error).__name__}: {error}")
            result = {}
        finally:
            with self._lock:
                del self._calls[number]
        if result and not cancelled.is_set():  # a cancelled request has no answer
            self._writer.result(number, result)


def _described(name: str) -> dict[str, Json]:
    tool = TOOLS[name]
    found: dict[str, Json] = {
        "name": name,
        "description": tool.description,
        "inputSchema": object_schema(tool.takes),
        "annotations": {"readOnlyHint": tool.reads_only, "openWorldHint": False},
    }
    if tool.answers is not None:
        found["outputSchema"] = object_schema(tool.answers)
    return found


def _refused(line: str) -> dict[str, Json]:
    return {"content": [{"type": "text", "text": line}], "isError": True}
