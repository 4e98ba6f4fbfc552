"""Speak with ``wavebed mcp DIR`` by the client of the official SDK, and print what it answered as JSON."""

from __future__ import annotations

import asyncio
import json
import os
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

TOML = 'title = "t"\n[path]\nrate = "20mbit"\n[[workload]]\nkind = "latency"\nduration = "2s"\n'


async def _main(folder: str) -> None:
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "wavebed", "mcp", folder], env={"PYTHONPATH": os.environ["PYTHONPATH"]}
    )
    async with stdio_client(server) as streams, ClientSession(*streams) as session:
        begun = await session.initialize()
        tools = (await session.list_tools()).tools
        found = await session.call_tool("list", {})
        resolved = await session.call_tool("resolve", {"toml": TOML, "set": {"path.delay": "7ms"}, "seed": 4})
        refused = await session.call_tool("resolve", {"toml": TOML.replace("latency", "command")})
        missing = await session.call_tool("explain", {"run": "none"})
        await session.send_ping()
    told = {
        "server": begun.model_dump(by_alias=True)["serverInfo"]["name"],
        "tools": sorted(tool.name for tool in tools),
        "list": found.model_dump(by_alias=True),
        "resolved": resolved.model_dump(by_alias=True),
        "refused": refused.model_dump(by_alias=True),
        "missing": missing.model_dump(by_alias=True),
    }
    print(json.dumps(told))


asyncio.run(_main(sys.argv[1]))
