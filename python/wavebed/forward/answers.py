"""Read the answers of a port strictly: every field of its type, none missing, none unknown."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeVar

from wavebed.errors import MachineError, UserError, WavebedError
from wavebed.forward.latency import BUCKETS, latency_of
from wavebed.forward.model import Binding, Ceiling, FrameCounters, InterfaceCounters, PortInfo, Sample, Sent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = [
    "VERSION",
    "Fields",
    "answer_of",
    "read_ceiling",
    "read_counters",
    "read_frame_counters",
    "read_info",
    "read_probe",
    "read_sent",
]

VERSION = 2

_Value = TypeVar("_Value")
_KINDS: dict[str, type[WavebedError]] = {"wrong": UserError, "cannot": MachineError, "failed": WavebedError}


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is no number")


class Fields:
    """A JSON object that is taken apart field by field.

    Raises
    ------
    WavebedError
        From every method, if the field is missing or of another kind.
    """

    def __init__(self, value: object, what: str) -> None:
        self._what = what
        if not isinstance(value, dict):
            raise self._bad("is no object")
        self._left: dict[str, object] = dict(value)

    def _bad(self, message: str) -> WavebedError:
        return WavebedError(f"the port's answer to {self._what!r} {message}: its version may differ from this one's")

    def _take(self, name: str) -> object:
        if name not in self._left:
            raise self._bad(f"has no {name!r}")
        return self._left.pop(name)

    def value(self, name: str, read: Callable[[object], _Value]) -> _Value:
        """Take a field with a function of its own, which raises `ValueError` when it does not fit."""
        value = self._take(name)
        try:
            return read(value)
        except ValueError:
            raise self._bad(f"has an impossible {name!r}") from None

    def integer(self, name: str) -> int:
        """Take a whole number, not negative."""
        return self.value(name, _integer)

    def maybe_integer(self, name: str) -> int | None:
        """Take a whole number or nothing."""
        return self.value(name, lambda value: None if value is None else _integer(value))

    def number(self, name: str) -> float:
        """Take a number, not negative."""
        return self.value(name, _number)

    def truth(self, name: str) -> bool:
        """Take true or false."""
        return self.value(name, _truth)

    def text(self, name: str) -> str:
        """Take text."""
        return self.value(name, _text)

    def maybe_text(self, name: str) -> str | None:
        """Take text or nothing."""
        return self.value(name, lambda value: None if value is None else _text(value))

    def table(self, name: str, read: Callable[[object], _Value]) -> dict[str, _Value]:
        """Take an object whose values are all of one kind."""
        return self.value(name, lambda value: {key: read(item) for key, item in _items(value)})

    def rows(self, name: str) -> list[object]:
        """Take an array."""
        return self.value(name, _rows)

    def end(self) -> None:
        """Make sure that nothing is left."""
        if self._left:
            raise self._bad(f"has an unknown {min(self._left)!r}")


def _integer(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError
    return value


def _number(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < float("inf"):
        raise ValueError
    return float(value)


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError  # noqa: TRY004 - the caller turns it into one line
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError  # noqa: TRY004 - the caller turns it into one line
    return value


def _rows(value: object) -> list[object]:
    if not isinstance(value, list):
        raise ValueError  # noqa: TRY004 - the caller turns it into one line
    return value


def _items(value: object) -> Iterable[tuple[str, object]]:
    if not isinstance(value, dict):
        raise ValueError  # noqa: TRY004 - the caller turns it into one line
    return value.items()


def answer_of(line: str, what: str) -> Fields:
    """Return the fields of the answer in `line`, or raise what it says went wrong.

    Parameters
    ----------
    line : str
        One JSON object.
    what : str
        The request, for messages.

    Raises
    ------
    UserError
        If the request was wrong.
    MachineError
        If the machine of the port cannot do it.
    WavebedError
        If it went wrong, or the line is no answer.
    """
    try:
        value: object = json.loads(line, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise WavebedError(f"the port answered {what!r} with a line that is no JSON: {line[:80]!r}") from None
    fields = Fields(value, what)
    if isinstance(value, dict) and "error" in value:
        message, kind = fields.text("error"), fields.text("kind")
        fields.end()
        raise _KINDS.get(kind, WavebedError)(message)
    answer = Fields(fields.value("ok", dict_of), what)
    fields.end()
    return answer


def dict_of(value: object) -> Mapping[str, object]:
    """Return an object as it is."""
    return dict(_items(value))


def read_info(answer: Fields) -> PortInfo:
    """Read the answer to ``describe``."""
    version = answer.integer("version")
    if version != VERSION:
        raise MachineError(
            f"the port speaks version {version} and this program version {VERSION}: install the same wavebed"
        )
    answer.integer("index")
    info = PortInfo(
        interface=answer.text("interface"),
        mac=answer.text("mac"),
        mtu=answer.integer("mtu"),
        up=answer.truth("up"),
        carrier=answer.truth("carrier"),
        carrier_changes=answer.integer("carrier_changes"),
        speed_mbps=answer.maybe_integer("speed_mbps"),
        driver=answer.maybe_text("driver"),
        addresses=answer.value("addresses", lambda value: tuple(_text(item) for item in _rows(value))),
        offloads=answer.table("offloads", _truth),
        fixed=answer.value("fixed", lambda value: frozenset(_text(item) for item in _rows(value))),
        machine=answer.text("machine"),
        cores=answer.integer("cores"),
        xdp=answer.truth("xdp"),
    )
    answer.end()
    return info


def read_counters(answer: Fields) -> InterfaceCounters:
    """Read the answer to ``counters``."""
    counters = InterfaceCounters(
        time_ns=answer.integer("time_ns"),
        rx_packets=answer.integer("rx_packets"),
        rx_bytes=answer.integer("rx_bytes"),
        rx_dropped=answer.integer("rx_dropped"),
        rx_errors=answer.integer("rx_errors"),
        rx_missed=answer.integer("rx_missed"),
        tx_packets=answer.integer("tx_packets"),
        tx_bytes=answer.integer("tx_bytes"),
        tx_dropped=answer.integer("tx_dropped"),
        tx_errors=answer.integer("tx_errors"),
        carrier_changes=answer.integer("carrier_changes"),
        up=answer.truth("up"),
        driver=answer.table("driver", _integer),
    )
    answer.end()
    return counters


def _binding(value: object) -> Binding:
    fields = Fields(value, "probe")
    binding = Binding(kind=fields.text("kind"), works=fields.truth("works"), why=fields.text("why"))
    fields.end()
    return binding


def read_probe(answer: Fields) -> tuple[tuple[Binding, ...], tuple[Binding, ...]]:
    """Read the answer to ``probe``: senders and receivers, best first."""
    senders = tuple(_binding(row) for row in answer.rows("senders"))
    receivers = tuple(_binding(row) for row in answer.rows("receivers"))
    answer.end()
    return senders, receivers


def read_sent(answer: Fields) -> Sent:
    """Read the answer to ``send``."""
    sent = Sent(
        frames=answer.integer("frames"),
        refused=answer.integer("refused"),
        took_ns=answer.integer("took_ns"),
        late_max_ns=answer.integer("late_max_ns"),
        late_batches=answer.integer("late_batches"),
        batches=answer.integer("batches"),
        sender=answer.text("sender"),
    )
    answer.end()
    return sent


def read_ceiling(answer: Fields, sizes_bytes: tuple[int, ...]) -> Ceiling:
    """Read the answer to ``ceiling``."""
    ceiling = Ceiling(
        sizes_bytes=sizes_bytes,
        pps=answer.number("pps"),
        sender=answer.text("sender"),
        receiver=answer.text("receiver"),
    )
    answer.integer("sent")
    answer.integer("received")
    answer.end()
    return ceiling


def _by_number(value: object) -> dict[int, int]:
    return {int(key): _integer(count) for key, count in _items(value)}


def _by_bucket(value: object) -> dict[int, int]:
    counts = _by_number(value)
    if any(not 0 <= index < BUCKETS for index in counts):
        raise ValueError
    return counts


def _sample(value: object) -> Sample:
    fields = Fields(value, "frame_counters")
    sample = Sample(
        time_ns=fields.integer("time_ns"), length=fields.integer("length"), data=fields.value("hex", _bytes_of)
    )
    fields.end()
    return sample


def _bytes_of(value: object) -> bytes:
    return bytes.fromhex(_text(value))


def read_frame_counters(answer: Fields) -> FrameCounters:
    """Read the answer to ``frame_counters``."""
    buckets = answer.value("latency", _by_bucket)
    least_ns, most_ns = answer.maybe_integer("latency_min_ns"), answer.maybe_integer("latency_max_ns")
    latency = None
    if least_ns is not None and most_ns is not None:
        latency = latency_of(buckets, least_ns, most_ns)
    counters = FrameCounters(
        unique=answer.integer("unique"),
        duplicates=answer.integer("duplicates"),
        stale=answer.integer("stale"),
        other_trial=answer.integer("other_trial"),
        damaged=answer.integer("damaged"),
        foreign=answer.integer("foreign"),
        reordered=answer.integer("reordered"),
        sizes=answer.value("sizes", _by_number),
        first_ns=answer.maybe_integer("first_ns"),
        last_ns=answer.maybe_integer("last_ns"),
        latency=latency,
        receiver_lost=answer.integer("receiver_lost"),
        sample=tuple(_sample(row) for row in answer.rows("sample")),
    )
    answer.end()
    return counters
