"""Namespaces and kernel threads of an emulated device; the sandbox of ``wavebed-core sandbox`` holds them."""

from __future__ import annotations

import ctypes
import json
import os
import socket
import struct
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from wavebed._core import find_core
from wavebed.errors import MachineError, WavebedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PIN_VARIABLE = "WAVEBED_PIN"
"""Set by ``wavebed-core sandbox``: the descriptor on which the outside is asked to place kernel threads."""

PIN_WITHIN_S = 5.0
ANSWER_BYTES = 4096


def inside() -> bool:
    """Return whether this process runs in a sandbox."""
    return PIN_VARIABLE in os.environ


def enter(argv: Sequence[str]) -> None:
    """Start the present command again inside a sandbox, unless it runs in one.

    The process becomes the front of the sandbox and ends with the command's status: this returns only inside.

    Parameters
    ----------
    argv : sequence of str
        The words after ``wavebed`` on the command line.

    Raises
    ------
    MachineError
        If there is no ``wavebed-core``.
    """
    if inside():
        return
    core = find_core()
    sys.stdout.flush()
    sys.stderr.flush()
    # -P: no module of the working folder takes the place of an installed one.
    os.execv(core, [core, "sandbox", "--", sys.executable, "-P", "-m", "wavebed", *argv])  # noqa: S606 - no shell is wanted


def pin(napi: int, core: int, fifo: int = 0) -> None:
    """Keep a kernel thread that polls an interface on one processor.

    Parameters
    ----------
    napi : int
        The NAPI instance that it polls (see `wavebed.forward.sandbox`).
    core : int
        The processor.
    fifo : int
        Priority under SCHED_FIFO; 0 for the normal scheduler.

    Raises
    ------
    MachineError
        If this is no sandbox, or the outside refuses.
    """
    number = os.environ.get(PIN_VARIABLE, "")
    if not number.isdecimal():
        raise MachineError("kernel threads can be placed from inside a sandbox only")
    request = json.dumps({"napi": napi, "core": core, "fifo": fifo})
    try:
        with socket.socket(fileno=os.dup(int(number))) as stream:
            stream.settimeout(PIN_WITHIN_S)
            stream.sendall(request.encode() + b"\n")
            answer = json.loads(_line(stream))
    except (OSError, ValueError) as error:
        raise MachineError(f"the outside of the sandbox does not place threads: {error}") from None
    if "error" in answer:
        raise MachineError(str(answer["error"]))


def _line(stream: socket.socket) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        chunk = stream.recv(ANSWER_BYTES)
        if not chunk:
            raise ConnectionResetError("it is gone")
        line += chunk
    return line


CLONE_NEWNET = 0x40000000
NAMES = "/run/netns"
"""The folder in which iproute2 keeps them."""


@contextmanager
def within(namespace: str) -> Iterator[None]:
    """Put the calling thread into a network namespace; sockets that it opens belong there for good.

    Raises
    ------
    WavebedError
        If there is no such namespace, or it may not be entered.
    """
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            there = os.open(f"{NAMES}/{namespace}", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise WavebedError(f"network namespace {namespace}: {error.strerror}") from None
        try:
            _enter(there, namespace)
        finally:
            os.close(there)
        try:
            yield
        finally:
            _enter(home, "of the caller")
    finally:
        os.close(home)


def _enter(descriptor: int, name: str) -> None:
    # `os.setns` came with Python 3.12.
    library = ctypes.CDLL(None, use_errno=True)
    if library.setns(descriptor, CLONE_NEWNET) != 0:
        raise WavebedError(f"network namespace {name}: {os.strerror(ctypes.get_errno())}")


# Numbers of linux/netlink.h, linux/genetlink.h and linux/netdev.h.
NETLINK_GENERIC = 16
REQUEST, DUMP = 0x1, 0x300
ERROR, DONE = 2, 3
CONTROL, GET_FAMILY = 16, 3
FAMILY_ID, FAMILY_NAME = 1, 2
NAPI_GET = 11
NAPI_INTERFACE, NAPI_NUMBER = 1, 2
HEADER = struct.Struct("=IHHII")
NETLINK_ANSWER_BYTES = 65536
ANSWER_WITHIN_S = 5.0


def napi_instances(interface: str) -> list[int]:
    """Return the NAPI instances that poll an interface of the caller's network namespace; unique on the machine.

    Empty if nothing does: a veth interface is polled only with GRO, an XDP program, or threaded NAPI.

    Raises
    ------
    MachineError
        If the kernel does not tell.
    """
    index = socket.if_nametoindex(interface)
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_GENERIC) as asker:
            asker.settimeout(ANSWER_WITHIN_S)
            family = _family(asker)
            attribute = _attribute(NAPI_INTERFACE, struct.pack("=I", index))
            return [
                struct.unpack("=I", attributes[NAPI_NUMBER])[0]
                for attributes in _ask(asker, family, NAPI_GET, REQUEST | DUMP, attribute)
                if NAPI_NUMBER in attributes
            ]
    except OSError as error:
        raise MachineError(f"{interface}: its NAPI instances: {error.strerror or error}") from None


def _family(asker: socket.socket) -> int:
    name = _attribute(FAMILY_NAME, b"netdev\0")
    for attributes in _ask(asker, CONTROL, GET_FAMILY, REQUEST, name):
        number: int = struct.unpack("=H", attributes[FAMILY_ID])[0]
        return number
    raise MachineError("this kernel does not list NAPI instances (Linux 6.8 does)")


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def _ask(asker: socket.socket, family: int, command: int, flags: int, attributes: bytes) -> Iterator[dict[int, bytes]]:
    payload = struct.pack("=BBH", command, 1, 0) + attributes
    asker.sendto(HEADER.pack(HEADER.size + len(payload), family, flags, 1, 0) + payload, (0, 0))
    while True:
        answer = asker.recv(NETLINK_ANSWER_BYTES)
        place = 0
        while place < len(answer):
            length, kind, _, _, _ = HEADER.unpack_from(answer, place)
            body = answer[place + HEADER.size : place + length]
            place += -(-length // 4) * 4
            if kind == ERROR:
                number = -struct.unpack_from("=i", body)[0]
                if number:
                    raise OSError(number, f"error {number}")
                return
            if kind == DONE:
                return
            yield _attributes(body[4:])
        if not flags & DUMP:
            return


def _attributes(body: bytes) -> dict[int, bytes]:
    found = {}
    place = 0
    while place + 4 <= len(body):
        length, kind = struct.unpack_from("=HH", body, place)
        if length < 4:
            break
        found[kind & 0x3FFF] = body[place + 4 : place + length]
        place += -(-length // 4) * 4
    return found
