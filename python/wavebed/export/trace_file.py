"""A trace file of Perfetto: tracks, slices that are linked by flows, and counters (package ``perfetto``, Apache-2.0).

Format: https://perfetto.dev/docs/reference/synthetic-track-event; the messages are defined in
``protos/perfetto/trace/track_event`` in Perfetto's repository.
"""

from __future__ import annotations

import heapq
from operator import itemgetter
from typing import TYPE_CHECKING

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TracePacket, TrackDescriptor, TrackEvent

from wavebed.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


Value = int | float | str
"""The value of an argument of a slice."""
_SEQUENCE = 1
_FIELD_PACKET = b"\x0a"
"""Field 1 of a message ``Trace``, with a length."""


class TraceFile:
    """The events of a trace, times in nanoseconds since time zero of the trial.

    Parameters
    ----------
    most : int
        Number of events (slices, instants, values of counters) that the file may have.
    too_many : str
        The error for more.
    """

    def __init__(self, most: int, too_many: str) -> None:
        self.events = 0
        self._most = most
        self._too_many = too_many
        self._tracks: list[bytes] = []
        self._written: list[tuple[int, bytes]] = []
        self._texts: dict[str, dict[str, int]] = {"event_names": {}, "debug_annotation_names": {}}
        self._texts["debug_annotation_string_values"] = {}

    def group(self, name: str, parent: int = 0) -> int:
        """Add a track that holds others, in the order in which they are added, and return its number."""
        return self._track(TrackDescriptor(name=name, child_ordering=TrackDescriptor.EXPLICIT), parent)

    def track(self, name: str, parent: int) -> int:
        """Add a track of slices that may not overlap, and return its number."""
        return self._track(TrackDescriptor(name=name), parent)

    def counter(self, name: str, unit: str, parent: int) -> int:
        """Add a counter and return its number."""
        descriptor = TrackDescriptor(name=name)
        descriptor.counter.unit_name = unit
        return self._track(descriptor, parent)

    def _track(self, descriptor: TrackDescriptor, parent: int) -> int:
        number = len(self._tracks) + 1
        descriptor.uuid = number
        descriptor.sibling_order_rank = number
        if parent:
            descriptor.parent_uuid = parent
        packet = TracePacket(track_descriptor=descriptor, trusted_packet_sequence_id=_SEQUENCE)
        self._tracks.append(packet.SerializeToString())
        return number

    def slice(
        self,
        track: int,
        span_ns: tuple[int, int],
        name: str,
        arguments: Mapping[str, Value | None] | None = None,
        flows: Sequence[int] = (),
        ends: Sequence[int] = (),
    ) -> None:
        """Add a slice; slices of a track come in the order of time.

        Parameters
        ----------
        span_ns : (int, int)
            Begin and end.
        flows, ends : sequence of int
            Flows that go through the slice, and flows that end in it.

        Raises
        ------
        UserError
            If the file has too many events.
        """
        begin_ns, end_ns = span_ns
        self._count()
        self._event(TrackEvent.TYPE_SLICE_BEGIN, track, begin_ns, name, arguments, flows, ends)
        self._event(TrackEvent.TYPE_SLICE_END, track, end_ns)

    def instant(
        self,
        track: int,
        at_ns: int,
        name: str,
        arguments: Mapping[str, Value | None] | None = None,
        ends: Sequence[int] = (),
    ) -> None:
        """Add an instant.

        Raises
        ------
        UserError
            If the file has too many events.
        """
        self._count()
        self._event(TrackEvent.TYPE_INSTANT, track, at_ns, name, arguments, (), ends)

    def value(self, track: int, at_ns: int, value: float) -> None:
        """Add a value of a counter, which holds until the next.

        Raises
        ------
        UserError
            If the file has too many events.
        """
        self._count()
        packet = self._packet(at_ns)
        event = packet.track_event
        event.type = TrackEvent.TYPE_COUNTER
        event.track_uuid = track
        event.double_counter_value = value
        self._written.append((at_ns, packet.SerializeToString()))

    def _count(self) -> None:
        self.events += 1
        if self.events > self._most:
            raise UserError(self._too_many)

    @staticmethod
    def _packet(at_ns: int) -> TracePacket:
        return TracePacket(
            timestamp=at_ns,
            trusted_packet_sequence_id=_SEQUENCE,
            sequence_flags=TracePacket.SEQ_NEEDS_INCREMENTAL_STATE,
        )

    def _event(
        self,
        kind: int,
        track: int,
        at_ns: int,
        name: str = "",
        arguments: Mapping[str, Value | None] | None = None,
        flows: Sequence[int] = (),
        ends: Sequence[int] = (),
    ) -> None:
        packet = self._packet(at_ns)
        event = packet.track_event
        event.type = kind
        event.track_uuid = track
        if name:
            event.name_iid = self._interned("event_names", name)
        if flows:
            event.flow_ids.extend(flows)
        if ends:
            event.terminating_flow_ids.extend(ends)
        for key, value in (arguments or {}).items():
            if value is None:
                continue
            note = event.debug_annotations.add(name_iid=self._interned("debug_annotation_names", key))
            if isinstance(value, str):
                note.string_value_iid = self._interned("debug_annotation_string_values", value)
            elif isinstance(value, float):
                note.double_value = value
            else:
                note.int_value = value
        self._written.append((at_ns, packet.SerializeToString()))

    def _interned(self, kind: str, text: str) -> int:
        known = self._texts[kind]
        return known.setdefault(text, len(known) + 1)

    def content(self) -> bytes:
        """Return the file."""
        head = TracePacket(
            trusted_packet_sequence_id=_SEQUENCE,
            sequence_flags=TracePacket.SEQ_INCREMENTAL_STATE_CLEARED,
            first_packet_on_sequence=True,
        )
        for kind, known in self._texts.items():
            entries = getattr(head.interned_data, kind)
            for text, number in known.items():
                if kind == "debug_annotation_string_values":
                    entries.add(iid=number, str=text.encode())
                else:
                    entries.add(iid=number, name=text)
        # Stable: the end of a slice stays before the begin of the next one of its track.
        self._written.sort(key=itemgetter(0))
        packets = [head.SerializeToString(), *self._tracks, *(packet for _, packet in self._written)]
        return b"".join(part for packet in packets for part in (_FIELD_PACKET, _varint(len(packet)), packet))


class Lanes:
    """Tracks of one name, which Perfetto shows as one, for slices that may overlap.

    Parameters
    ----------
    trace : TraceFile
        Where they are added, on first use.
    """

    def __init__(self, trace: TraceFile, name: str, parent: int) -> None:
        self._trace = trace
        self._name = name
        self._parent = parent
        self._busy: list[tuple[int, int]] = []

    def slice(
        self,
        span_ns: tuple[int, int],
        name: str,
        arguments: Mapping[str, Value | None] | None = None,
        flows: Sequence[int] = (),
        ends: Sequence[int] = (),
    ) -> None:
        """Add a slice, on the first track that is free; slices come in the order in which they begin.

        Raises
        ------
        UserError
            If the file has too many events.
        """
        begin_ns, end_ns = span_ns
        if self._busy and self._busy[0][0] <= begin_ns:
            track = self._busy[0][1]
            heapq.heapreplace(self._busy, (end_ns, track))
        else:
            track = self._trace.track(self._name, self._parent)
            heapq.heappush(self._busy, (end_ns, track))
        self._trace.slice(track, span_ns, name, arguments, flows, ends)


def _varint(number: int) -> bytes:
    """Return a number as a varint of Protocol Buffers."""
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)
