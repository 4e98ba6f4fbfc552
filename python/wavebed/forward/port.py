"""Requests to a port of the tester: each has one answer within a time limit.

The conversation is described in docs/development/port-protocol.md.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Self, TypeVar

from wavebed.errors import UserError
from wavebed.forward.answers import (
    CeilingAnswer,
    Description,
    FrameCountersAnswer,
    Mac,
    Nothing,
    On,
    Probe,
    ReceiverKind,
    answer_of,
)
from wavebed.forward.model import InterfaceCounters, Sent
from wavebed.forward.plain import to_plain
from wavebed.forward.transport import Lines, LocalLines, PortGoneError, RemoteLines

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from wavebed.forward.model import (
        Binding,
        Ceiling,
        FrameCounters,
        FrameSpec,
        PortInfo,
        Span,
    )
    from wavebed.secret import Secret

__all__ = ["Port", "PortGoneError"]

NS = 1_000_000_000
_Answer = TypeVar("_Answer")

QUICK_S = 10.0
"""Limit of a request that only asks the kernel. It takes milliseconds; the machine may be busy."""
ATTACH_S = 30.0
"""Limit of a request that loads programs or makes interfaces."""
SLACK_S = 10.0
"""A request may take so much longer than the time that it asks for."""
TICK_S = 0.5
"""The caller is called so often while frames are sent."""


class Port:
    """One conversation with a port.

    Parameters
    ----------
    lines : Lines
        Its transport.

    Raises
    ------
    UserError, MachineError, WavebedError
        From every request, as the port says.
    PortGoneError
        From every request, if the port ended, vanished, or did not answer within the limit; it is ended then.
    """

    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    @classmethod
    def local(cls, interface: str, *, netns: str | None = None, core: int | None = None) -> Self:
        """Start a port on this machine.

        Parameters
        ----------
        interface : str
            Its name.
        netns : str, optional
            The named network namespace that it is in.
        core : int, optional
            The processor to stay on.

        Raises
        ------
        MachineError
            If ``wavebed-core`` cannot be started.
        """
        return cls(LocalLines.port(interface, netns=netns, core=core))

    @classmethod
    def remote(cls, host: str, port: int, interface: str, token: Secret) -> Self:
        """Connect to ``wavebed serve forward`` on another machine.

        Raises
        ------
        UserError
            If the token is wrong, or the interface is in use or does not exist.
        PortGoneError
            If nobody answers there.
        """
        return cls(RemoteLines(host, port, interface, token))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def name(self) -> str:
        """The interface, and the machine if it is another."""
        return self._lines.name

    @property
    def pid(self) -> int | None:
        """The number of the process, if it is one of this machine."""
        return self._lines.pid

    def close(self) -> None:
        """End the conversation; the port stops whatever it does and ends."""
        self._lines.close()

    def _ask(
        self,
        what: str,
        limit_s: float,
        kind: type[_Answer],
        tick: Callable[[], None] | None = None,
        /,
        **fields: object,
    ) -> _Answer:
        line = json.dumps({"do": what, **fields}, allow_nan=False)
        return answer_of(self._lines.ask(line, limit_s, tick, TICK_S), what, kind)

    def describe(self) -> PortInfo:
        """Return the description of the interface."""
        return self._ask("describe", QUICK_S, Description).info()

    def counters(self) -> InterfaceCounters:
        """Return the interface's counters now."""
        return self._ask("counters", QUICK_S, InterfaceCounters)

    def set_offload(self, name: str, *, on: bool) -> bool:
        """Set an offload feature by the kernel's name and return its state afterwards."""
        return self._ask("offload", QUICK_S, On, name=name, on=on).on

    def probe(self) -> tuple[tuple[Binding, ...], tuple[Binding, ...]]:
        """Return the ways to send and to receive, best first."""
        answer = self._ask("probe", ATTACH_S, Probe)
        return answer.senders, answer.receivers

    def answer(self, addresses: Span | None) -> None:
        """Answer ARP and neighbour discovery for these addresses from now on; `None` ends it."""
        self._ask("answer", QUICK_S, Nothing, addresses=[] if addresses is None else to_plain(addresses))

    def resolve(self, address: str, source: str, *, vlan: int | None = None, timeout_s: float = 3.0) -> str:
        """Ask for the MAC address of `address` in the name of `source`."""
        timeout_ns = round(timeout_s * NS)
        asked = {"address": address, "source": source, "timeout_ns": timeout_ns, "vlan": vlan}
        return self._ask("resolve", timeout_s + SLACK_S, Mac, **asked).mac

    def receive(self, frames: FrameSpec, trial: int, *, sample: int = 0, receiver: str | None = None) -> str:
        """Start the frame counters of a trial at zero and return the way to receive."""
        asked = {"frames": to_plain(frames), "trial": trial, "sample": sample, "receiver": receiver}
        return self._ask("receive", ATTACH_S, ReceiverKind, **asked).receiver

    def frame_counters(self) -> FrameCounters:
        """Return the frame counters so far."""
        return self._ask("frame_counters", QUICK_S, FrameCountersAnswer).frame_counters()

    def send(
        self,
        frames: FrameSpec,
        trial: int,
        count: int,
        *,
        rate_pps: float | None,
        batch: int,
        deadline_s: float,
        sender: str | None = None,
        tick: Callable[[], None] | None = None,
    ) -> Sent:
        """Send `count` frames, or as many as the time allows.

        Parameters
        ----------
        rate_pps : float or None
            Frames per second; `None`: as fast as it goes.
        batch : int
            Frames that leave together, 1 to 64.
        deadline_s : float
            When to give up, from now on.
        tick : callable, optional
            Called every half second meanwhile. An exception of it ends the port, which stops sending.
        """
        if not 1 <= batch <= 64:
            raise UserError(f"a batch of {batch} frames: give 1 to 64")
        return self._ask(
            "send",
            deadline_s + ATTACH_S,
            Sent,
            tick,
            frames=to_plain(frames),
            trial=trial,
            count=count,
            rate_pps=rate_pps,
            batch=batch,
            deadline_ns=round(deadline_s * NS),
            sender=sender,
        )

    def release(self) -> None:
        """Detach the receiver's program and close its sockets."""
        self._ask("release", QUICK_S, Nothing)

    def ceiling(
        self,
        sizes_bytes: Sequence[int],
        flows: int,
        *,
        seconds: float = 0.5,
        sender: str | None = None,
        receiver: str | None = None,
    ) -> Ceiling:
        """Return how fast this port is by itself, through a pair of interfaces of its own."""
        sizes = tuple(sizes_bytes)
        asked = {"size_bytes": sizes, "flows": flows, "seconds": seconds, "sender": sender, "receiver": receiver}
        return self._ask("ceiling", seconds + ATTACH_S, CeilingAnswer, **asked).ceiling(sizes)
