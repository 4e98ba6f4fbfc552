"""Questions over UDP: ``asks.py server PORT`` and ``asks.py client HOST PORT [MUTANT]``.

The client asks 100 questions, one every 20 ms, and repeats each until it is answered: after 200 ms, then after twice as
long each time, six times at most.

Mutants: ``no-retry``, ``slow-timer`` (first after 3 s), ``hasty-timer`` (every 15 ms, less than a round trip),
``no-ids`` (an answer is taken for the oldest question, whatever it answers).
"""

from __future__ import annotations

import asyncio
import socket
import struct
import sys

QUESTIONS, EVERY_S, TIMER_S, TRIES, WAIT_S = 100, 0.02, 0.2, 6, 4.0
NUMBER = struct.Struct("!I")


class Server(asyncio.DatagramProtocol):
    def connection_made(self, transport: asyncio.DatagramTransport) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, address: tuple[str, int]) -> None:
        self.transport.sendto(data, address)


class Client(asyncio.DatagramProtocol):
    def __init__(self, mutant: str) -> None:
        self.mutant = mutant
        self.asked: dict[int, float] = {}
        self.took: dict[int, float] = {}
        self.sent = self.wrong = 0
        self.loop = asyncio.get_running_loop()

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, _: tuple[str, int]) -> None:
        number = answered = NUMBER.unpack(data)[0]
        if self.mutant == "no-ids":
            number = min((each for each in self.asked if each not in self.took), default=answered)
            self.wrong += number != answered
        if number not in self.took:
            self.took[number] = self.loop.time() - self.asked[number]

    async def ask(self, number: int) -> None:
        self.asked[number] = self.loop.time()
        wait_s = {"slow-timer": 3.0, "hasty-timer": 0.015}.get(self.mutant, TIMER_S)
        for _ in range({"no-retry": 1, "hasty-timer": 100}.get(self.mutant, TRIES)):
            self.transport.sendto(NUMBER.pack(number))
            self.sent += 1
            await asyncio.sleep(wait_s)
            if number in self.took:
                return
            wait_s *= 1 if self.mutant == "hasty-timer" else 2


async def client(host: str, port: int, mutant: str) -> None:
    loop = asyncio.get_running_loop()
    _, one = await loop.create_datagram_endpoint(lambda: Client(mutant), remote_addr=(host, port))
    asking = []
    for number in range(QUESTIONS):
        asking.append(asyncio.create_task(one.ask(number)))
        await asyncio.sleep(EVERY_S)
    await asyncio.wait(asking, timeout=WAIT_S)
    times = sorted(one.took.values())
    print(f"unanswered = {100 * (1 - len(times) / QUESTIONS):.1f} %")
    print(f"longest answer = {1000 * times[-1]:.1f} ms" if times else "longest answer = - ms")
    print(f"sent per question = {one.sent / QUESTIONS:.2f}")
    print(f"wrong answers = {one.wrong}")


async def serve(port: int) -> None:
    await asyncio.get_running_loop().create_datagram_endpoint(Server, local_addr=("0.0.0.0", port))
    await asyncio.Event().wait()


if sys.argv[1] == "server":
    asyncio.run(serve(int(sys.argv[2])))
else:
    asyncio.run(client(socket.gethostbyname(sys.argv[2]), int(sys.argv[3]), (sys.argv[4:] or [""])[0]))
