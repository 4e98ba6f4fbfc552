"""Another user who binds names of laboratories. Run as root, it becomes that user; a command a line, an answer each."""

from __future__ import annotations

import os
import selectors
import socket
import sys
import time

THIEF = 65534
STEAL_S = 60.0


def main() -> None:
    """Serve ``bind NAME``, ``steal NAME`` (as soon as it is free), ``bytes`` and ``release`` until the input ends.

    After ``answer TEXT``, this line answers every request.
    """
    os.setgroups([])
    os.setgid(THIEF)
    os.setuid(THIEF)
    selector = selectors.DefaultSelector()
    selector.register(sys.stdin, selectors.EVENT_READ)
    heard = answer = b""
    while True:
        # Commands come last: one of them closes the others, whose events would still be in the list.
        for key, _ in sorted(selector.select(), key=lambda event: not event[0].data):
            if key.data == "listener":
                stream = key.fileobj.accept()[0]  # type: ignore[union-attr]
                selector.register(stream, selectors.EVENT_READ, "stream")
            elif key.data == "stream":
                data = key.fileobj.recv(1 << 16)  # type: ignore[union-attr]
                heard += data
                if data and answer:
                    key.fileobj.send(answer)  # type: ignore[union-attr]
                if not data:
                    selector.unregister(key.fileobj)
            else:
                verb, _, name = (sys.stdin.readline().strip() or "end").partition(" ")
                if verb == "end":
                    return
                if verb == "bytes":
                    print(len(heard), flush=True)
                elif verb == "answer":
                    answer = name.encode() + b"\n"
                    print("ok", flush=True)
                elif verb == "release":
                    for each in [each for each in selector.get_map().values() if each.data]:
                        selector.unregister(each.fileobj)
                        each.fileobj.close()  # type: ignore[union-attr]
                    print("ok", flush=True)
                else:
                    print(bind(selector, name, STEAL_S if verb == "steal" else 0.0), flush=True)


def bind(selector: selectors.BaseSelector, name: str, within_s: float) -> str:
    """Listen on an abstract name; return ``ok`` or ``taken``."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    end = time.monotonic() + within_s
    while True:
        try:
            listener.bind(f"\0{name}")
            break
        except OSError:
            if time.monotonic() >= end:
                return "taken"
    listener.listen()
    selector.register(listener, selectors.EVENT_READ, "listener")
    return "ok"


main()
