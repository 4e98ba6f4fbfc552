"""The E-model of ITU-T G.107 (12/2011) for narrowband voice over packets: from delay and loss to R and MOS.

All parameters except delay, codec and packet loss have the default values of G.107, clause 7.7; there is no echo
(Idte = Idle = 0) and no advantage factor (A = 0).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import log2
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np

from wavebed.config.table import Key
from wavebed.config.values import seconds, word
from wavebed.errors import WavebedError
from wavebed.lab.tools import Program
from wavebed.workload.model import Metric, Outcome, Series, Session
from wavebed.workload.parsers import LEAST_LENGTH, irtt_client, irtt_server, read_irtt
from wavebed.workload.probing import (
    LEAST_PROBES,
    Prober,
    ProbeWatch,
    ProbingOptions,
    ProbingWorkload,
    answered_or_lost,
    loads_of,
    on_one_clock,
    percentile,
    start_server,
    window_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from wavebed.config.data import Json
    from wavebed.workload.model import Common, Schedule, TimeSpan, TrialContext
    from wavebed.workload.probing import EchoProbe


VERSION = "ITU-T G.107 (12/2011)"
DEFAULT_R = 93.2
"""R of G.107 with all its default values: Ro - Is."""

_LOUD_DELAY_MS = 100.0
_BURST_LEAST, _BURST_MOST = 1.0, 8.0
"""The range that G.107 permits for BurstR."""

LOSS_MOST = 20.0
"""The largest packet loss, in per cent, that G.107 permits."""


@dataclass(frozen=True, slots=True)
class Codec:
    """A codec with one packet interval.

    Parameters
    ----------
    title : str
        Its name.
    payload_bytes : int
        Bytes of speech in a packet.
    interval_ms : float
        Duration of speech in a packet.
    lookahead_ms : float
        Look-ahead of the encoder.
    impairment, robustness : float
        Ie and Bpl of ITU-T G.113, appendix I.
    """

    title: str
    payload_bytes: int
    interval_ms: float
    lookahead_ms: float
    impairment: float
    robustness: float

    @property
    def delay_ms(self) -> float:
        """Delay before sending: packet interval and look-ahead, without processing."""
        return self.interval_ms + self.lookahead_ms


CODECS = {
    "g711": Codec("G.711 with packet loss concealment (appendix I)", 160, 20.0, 0.0, 0.0, 25.1),
    "g711-without-plc": Codec("G.711 without packet loss concealment", 160, 20.0, 0.0, 0.0, 4.3),
    "g729a": Codec("G.729A with voice activity detection's Ie and Bpl", 20, 20.0, 5.0, 11.0, 19.0),
}
"""The codecs by their names in scenarios."""


@dataclass(frozen=True, slots=True)
class Rating:
    """The rating of one direction of a call.

    Parameters
    ----------
    r : float
        Transmission rating, from 0 to 100.
    mos : float
        Mean opinion score, estimated for conversation (MOS-CQE), from 1 to 4.5.
    delay_impairment, loss_impairment : float
        Idd and Ie,eff.
    loss_percent : float
        Packet loss of the rating.
    """

    r: float
    mos: float
    delay_impairment: float
    loss_impairment: float
    loss_percent: float


def delay_impairment(delay_ms: float) -> float:
    """Return Idd for the absolute one-way delay, mouth to ear (clause 7.4)."""
    if delay_ms <= _LOUD_DELAY_MS:
        return 0.0
    x = log2(delay_ms / _LOUD_DELAY_MS)
    return float(25 * ((1 + x**6) ** (1 / 6) - 3 * (1 + (x / 3) ** 6) ** (1 / 6) + 2))


def loss_impairment(codec: Codec, loss_percent: float, burst: float) -> float:
    """Return Ie,eff (clause 7.5)."""
    if loss_percent == 0:
        return codec.impairment
    return codec.impairment + (95 - codec.impairment) * loss_percent / (loss_percent / burst + codec.robustness)


def burst_ratio(lost: Sequence[bool] | NDArray[np.bool_]) -> float:
    """Return BurstR: the mean length of runs of lost packets / that under random loss, 1/(1-p).

    It is clipped to the range from 1 to 8 of G.107. It is 1 if no packet or every packet was lost.
    """
    flags = np.asarray(lost, dtype=bool)
    gone = int(np.count_nonzero(flags))
    if gone in (0, len(flags)):
        return _BURST_LEAST
    runs = int(flags[0]) + int(np.count_nonzero(flags[1:] & ~flags[:-1]))
    ratio = gone / runs * (1 - gone / len(flags))
    return min(max(ratio, _BURST_LEAST), _BURST_MOST)


def mos(r: float) -> float:
    """Return MOS-CQE (annex B)."""
    if r <= 0:
        return 1.0
    if r >= 100:
        return 4.5
    return max(1.0, 1 + 0.035 * r + r * (r - 60) * (100 - r) * 7e-6)


def rate(codec: Codec, delay_ms: float, loss_percent: float, burst: float = 1.0) -> Rating:
    """Rate one direction of a call.

    Parameters
    ----------
    delay_ms : float
        From mouth to ear.
    loss_percent : float
        Packets not played, from 0 to 100.
    burst : float
        BurstR.
    """
    by_delay = delay_impairment(delay_ms)
    by_loss = loss_impairment(codec, loss_percent, burst)
    r = min(100.0, max(0.0, DEFAULT_R - by_delay - by_loss))
    return Rating(r, mos(r), by_delay, by_loss, loss_percent)


_GAIN = 1 / 16


@dataclass(frozen=True, slots=True)
class Packet:
    """One packet.

    Parameters
    ----------
    sent_s : float
        Time of sending by the client (of the request, for an answer), seconds since time zero.
    delay_ms : float or None
        One-way delay, if known.
    lost, late : bool
        Whether it did not arrive, or arrived after its playout time.
    """

    sent_s: float
    delay_ms: float | None
    lost: bool
    late: bool


def direction_of(probes: Sequence[EchoProbe], name: str, buffer_ms: float) -> list[Packet]:
    """Return the packets of a direction, ``up`` or ``down``.

    The server answers packets that arrive, so a packet lost upwards has none downwards. A packet lost in an unknown
    direction counts as lost upwards. A packet that arrived but has no answer has an unknown delay and counts as played.
    """
    if name == "up":
        taken = [(probe.sent_s, probe.up_ms, probe.lost in ("up", "somewhere")) for probe in probes]
    else:
        taken = [(probe.sent_s, probe.down_ms, probe.lost == "down") for probe in probes if probe.lost in ("", "down")]
    least_ms = min((delay_ms for _, delay_ms, _ in taken if delay_ms is not None), default=0.0)
    return [
        Packet(sent_s, delay_ms, lost, late=delay_ms is not None and delay_ms > least_ms + buffer_ms)
        for sent_s, delay_ms, lost in taken
    ]


def jitter_ms(packets: Sequence[Packet]) -> float | None:
    """Return the mean of J, RFC 3550, section 6.4.1, over the received packets: J += (|D| - J)/16."""
    delays = [packet.delay_ms for packet in packets if packet.delay_ms is not None]
    estimate, total = 0.0, 0.0
    for before_ms, now_ms in pairwise(delays):
        estimate += (abs(now_ms - before_ms) - estimate) * _GAIN
        total += estimate
    return total / (len(delays) - 1) if len(delays) > 1 else None


def rated(packets: Sequence[Packet], codec: Codec, ear_ms: float | None) -> Rating | None:
    """Rate packets with a mouth-to-ear delay of `ear_ms`; ``None`` for fewer than 20."""
    if len(packets) < LEAST_PROBES or ear_ms is None:
        return None
    return _rate(codec, ear_ms, np.array([packet.lost or packet.late for packet in packets]))


def best_rated(packets: Sequence[Packet], codec: Codec) -> Rating | None:
    """Rate packets with their best fixed playout delay, independent of the configured buffer.

    Every percentile of their delays is tried. An adaptive buffer can be better if the delay changes slowly.
    """
    lost = np.array([packet.lost for packet in packets], dtype=bool)
    delays = np.array([np.nan if packet.delay_ms is None else packet.delay_ms for packet in packets])
    if len(packets) < LEAST_PROBES or bool(np.isnan(delays).all()):
        return None
    playouts_ms = map(float, np.nanpercentile(delays, np.arange(101)))
    ratings = [_rate(codec, codec.delay_ms + ms, lost | (delays > ms)) for ms in playouts_ms]
    return max(ratings, key=lambda rating: rating.r)


def _rate(codec: Codec, ear_ms: float, gone: NDArray[np.bool_]) -> Rating:
    return rate(codec, ear_ms, 100 * float(gone.mean()), burst_ratio(gone))


_RTP_BYTES, _HEADER_BYTES = 12, 42
_DIRECTIONS = ("down", "up")


class VoiceOptions(ProbingOptions, frozen=True, kw_only=True):
    """The keys of a voice flow."""

    codec: Annotated[str, Key(word(*CODECS), "codec: packet interval and size, Ie and Bpl")] = "g711"
    jitter_buffer_s: Annotated[
        float, Key(seconds(0, 1), "playout delay after the least delay; a later packet is lost as late")
    ] = 0.06


class Voice(ProbingWorkload[VoiceOptions]):
    """A voice flow, rated by a planning model."""

    kind: ClassVar[str] = "voice"
    summary: ClassVar[str] = "voice packets both ways by irtt, rated by the E-model"
    options_type = VoiceOptions
    programs: ClassVar[Sequence[Program]] = (Program("irtt"),)

    def __init__(self, common: Common, options: VoiceOptions) -> None:
        super().__init__(common, options)
        self.codec = CODECS[options.codec]
        self.buffer_ms = options.jitter_buffer_s * 1e3

    def expected_bytes(self, rate_bps: float, others_s: float) -> float:
        """Return the packets of both directions with Ethernet's headers."""
        del rate_bps
        duration_s = self.options.duration_s or others_s
        return 2 * (_HEADER_BYTES + self.packet_bytes) * duration_s / (self.codec.interval_ms / 1e3)

    @property
    def packet_bytes(self) -> int:
        """Bytes of UDP payload of a packet."""
        return max(LEAST_LENGTH, self.codec.payload_bytes + _RTP_BYTES)

    def known_metrics(self) -> list[Metric]:
        """Return its metrics without values."""
        return [each for name in _DIRECTIONS for each in _metrics([], name, self.codec, self.buffer_ms, [])]

    def open(self, context: TrialContext) -> Session:
        """Start the server, which answers every packet with one of the same size."""
        start_server(
            "irtt-server", context.server, irtt_server(context.server, context.port), context.port, context.folder
        )
        return VoiceSession(self, context)


class VoiceSession(Session):
    """A voice flow in one trial."""

    def __init__(self, workload: Voice, context: TrialContext) -> None:
        self._workload = workload
        self._context = context
        self._watch = ProbeWatch(context.clock, workload.options.duration_s, workload.tail_s)
        self._file = context.folder / "irtt.json"
        self._end_s = 0.0

    def run(self) -> None:
        """Send until the end of the duration or `stop`."""
        context, codec = self._context, self._workload.codec
        length = self._workload.packet_bytes
        command = irtt_client(context.client, context.server, context.port, codec.interval_ms / 1e3, length, self._file)
        try:
            self._end_s = self._watch.keep([Prober("irtt", context.client, command, context.folder, writes=True)])
        except WavebedError:
            self._end_s = context.clock.now_s()
            raise

    def stop(self) -> None:
        """Stop after the tail."""
        self._watch.stop()

    def report(self, schedule: Schedule) -> Outcome:
        """Rate both directions: the whole flow, and its parts on the idle and on the loaded path."""
        if not self._file.exists():
            return Outcome("failed", "irtt left no result: it never reached its server, or was killed")
        found = answered_or_lost(read_irtt(self._file, self._context.client), self._end_s)
        probes, of_clocks = on_one_clock(found, self._context.server, self._context.client)
        loads, workload = loads_of(schedule), self._workload
        metrics: list[Metric] = []
        series: list[Series] = []
        details: dict[str, Json] = {
            "codec": workload.codec.title,
            "jitter buffer ms": workload.buffer_ms,
            **of_clocks,
        }
        for name in _DIRECTIONS:
            packets = direction_of(probes, name, workload.buffer_ms)
            metrics.extend(_metrics(packets, name, workload.codec, workload.buffer_ms, loads))
            time_s = [packet.sent_s for packet in packets]
            series.append(Series(f"one-way delay {name}", "ms", time_s, [packet.delay_ms for packet in packets]))
            lost = [packet.lost or packet.late for packet in packets]
            known = _knows_late(packets)
            details[name] = {
                "packets": len(packets),
                "lost or late": sum(lost) if known else None,
                "BurstR": burst_ratio(lost) if known else None,
            }
        stopped = self._watch.stopped_early
        return Outcome(
            status="partial" if stopped else "ok",
            reason="stopped before its duration was over" if stopped else "",
            metrics=metrics,
            series=series,
            details=details,
        )


def _knows_late(packets: Sequence[Packet]) -> bool:
    """Return whether the delays of packets are known: between hosts whose clocks differ too much they are not."""
    return any(packet.delay_ms is not None for packet in packets) or all(packet.lost for packet in packets)


def _metrics(
    packets: Sequence[Packet], name: str, codec: Codec, buffer_ms: float, loads: Sequence[TimeSpan]
) -> list[Metric]:
    delays = [packet.delay_ms for packet in packets if packet.delay_ms is not None]
    ear_ms = codec.delay_ms + min(delays) + buffer_ms if delays else None
    flow = "UDP by irtt, both ends on one clock or within a known error"
    metrics = [
        Metric(f"one-way delay {name} p{rank}", percentile(delays, rank), "ms", "lower", f"{flow}; linear percentile")
        for rank in (50, 95)
    ]
    metrics += [
        _percentage(f"packet loss {name}", [packet.lost for packet in packets], f"lost packets; {flow}"),
        _percentage(
            f"late {name}",
            [packet.late for packet in packets if _knows_late(packets)],
            f"packets with a delay of more than the flow's least delay + {buffer_ms:g} ms (the jitter buffer)",
        ),
        Metric(
            f"jitter {name}", jitter_ms(packets), "ms", "lower", "mean of the interarrival jitter J of RFC 3550, 6.4.1"
        ),
        Metric(
            f"mouth-to-ear delay {name}",
            ear_ms,
            "ms",
            "lower",
            f"least one-way delay + jitter buffer {buffer_ms:g} ms + packet and look-ahead {codec.delay_ms:g} ms",
        ),
    ]
    for label in ("", " idle", " loaded"):
        part = [packet for packet in packets if not label or window_of(packet.sent_s, loads) == label.strip()]
        text = f"fixed jitter buffer of {buffer_ms:g} ms"
        metrics.extend(_rated(f"{name}{label}", rated(part, codec, ear_ms), codec, text))
        text = "the fixed jitter buffer with the largest R for these packets, known afterwards"
        metrics.extend(_rated(f"{name}{label} best buffer", best_rated(part, codec), codec, text))
    return metrics


def _rated(label: str, rating: Rating | None, codec: Codec, buffer: str) -> list[Metric]:
    formula = "93.2 - Idd(mouth to ear) - Ie,eff(lost or late, BurstR)"
    text = f"{VERSION}, defaults, no echo, {codec.title}: {formula}; {buffer}; valid for losses up to {LOSS_MOST:g} %"
    return [
        Metric(f"R factor {label}", None if rating is None else rating.r, "", "higher", text),
        Metric(f"MOS {label}", None if rating is None else rating.mos, "", "higher", f"MOS-CQE of annex B; {text}"),
    ]


def _percentage(name: str, flags: Sequence[bool], definition: str) -> Metric:
    return Metric(name, 100 * sum(flags) / len(flags) if flags else None, "%", "lower", definition)
