"""`voice`: packets at the interval of a codec in both directions, rated by the E-model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar

from wavebed.config.table import Key
from wavebed.config.values import seconds, word
from wavebed.errors import WavebedError
from wavebed.lab.tools import Program
from wavebed.workload.emodel import CODECS, LOSS_MOST, VERSION, Codec, Rating, burst_ratio
from wavebed.workload.irtt import LEAST_LENGTH, irtt_client, irtt_server, read_irtt
from wavebed.workload.latency_process import Prober, ProbingOptions, ProbingWorkload, Watch, start_server
from wavebed.workload.latency_windows import answered_or_lost, loads_of, window_of
from wavebed.workload.model import Metric, Outcome, Series, Session
from wavebed.workload.one_way import on_one_clock
from wavebed.workload.percentiles import percentile
from wavebed.workload.voice_packets import Packet, best_rated, direction_of, jitter_ms, rated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wavebed.config.data import Json
    from wavebed.workload.keys import Common
    from wavebed.workload.model import Schedule, Span, TrialContext

__all__ = ["Voice"]

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
        self._watch = Watch(context.clock, workload.options.duration_s, workload.tail_s)
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
    packets: Sequence[Packet], name: str, codec: Codec, buffer_ms: float, loads: Sequence[Span]
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
