"""The checks of a trial: each compares counters, and refuses the trial with a reason and a remedy.

A trial counts only when no check refuses it. A refusal is not an error of the device: the numbers of this trial would
not be true.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from wavebed.forward.model import InterfaceCounters, PlainValue, Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from wavebed.forward.frames import Layout
    from wavebed.forward.model import Ceiling, FrameCounters, PortInfo, Sent

NS = 1_000_000_000

CEILING_FRACTION = 0.9
"""Above this fraction of the tester's own rate, a figure may be the tester's."""
OVERLOAD_LOSS = 0.01
"""A device that loses or refuses less of all that the tester can send was not overloaded, whatever the ceiling was."""
RATE_KEPT_FRACTION = 0.995
"""A sender that stays below has not offered the asked rate: half of the 1 % within which a found rate must be."""
LATE_SLACK_NS = 2_000_000
LATE_SLACK_FRACTION = 0.05
LATE_SLACK_LEAST_NS = 100_000
"""The last frame of a short trial may be late by one time slice of another process, but by no more than the twentieth
part of the trial: a burst that takes longer is none. Less than a tenth of a millisecond is not late."""
LATE_BATCHES_FRACTION = 0.1
"""More batches than these late by over 100 us: the rate was kept on average only, by pauses and bursts. A device loses
of bursts what it would have carried, and cannot make up for pauses. Where nothing was lost it had a harder task than
was asked, and the trial counts."""
FOREIGN_FRACTION = 0.001
FOREIGN_FLOOR = 100
FOREIGN_PER_S = 20
"""Frames that are not the test's: address resolution of some hundred neighbours, spanning tree, a chatty device."""
OWN_PER_S = 10
OWN_FLOOR = 20
"""Frames that this machine's kernel sends of itself: router solicitation, multicast listeners, its own neighbours."""
NO_FRAMES_S = 0.1
NO_FRAMES_GAPS = 20
"""A first or last gap above either limit means that the trial was cut off."""
COLLAPSE_LOSS = 0.9
COLLAPSE_FRACTION = 0.5
"""A device that loses nine of ten frames may forward nothing for half the trial: it has no time left beside looking at
frames that come in (overload collapse; Mogul and Ramakrishnan, 1997). That is its rate, and no restart."""
GAP_S = 0.9
"""No frame for this long amid a trial: two looks at the counter, half a second apart, that find nothing new."""


class Totals(PlainValue, frozen=True):
    """Counters of a port around a trial.

    The frame counters of a trial do not start at the very moment at which the interface's counters are read, so the
    interface's counters are read before and after.

    Parameters
    ----------
    outer : (Counters, Counters)
        Before the trial started, after its frame counters were read.
    inner : (Counters, Counters)
        After the trial started, before its frame counters were read.
    """

    outer: tuple[InterfaceCounters, InterfaceCounters]
    inner: tuple[InterfaceCounters, InterfaceCounters]

    def grown(self, read: Callable[[InterfaceCounters], int]) -> tuple[int, int]:
        """Return by how much a counter grew during the trial: at least, at most."""
        return read(self.inner[1]) - read(self.inner[0]), read(self.outer[1]) - read(self.outer[0])


class TrialEvidence(PlainValue, frozen=True):
    """All that is known of a trial once its traffic has stopped.

    Parameters
    ----------
    names : (str, str)
        The sending and the receiving port.
    arriving_sizes : tuple of int
        Frame sizes that may arrive.
    planned : int or None
        Frames that should have been sent; ``None``: as many as possible.
    looks : sequence of (int, int)
        Time and frames counted so far, before the first was sent and every half second since.
    tx_is_veth : bool
        The far end of the sending port is the device itself, so that the device loses frames dropped between.
    """

    names: tuple[str, str]
    arriving_sizes: tuple[int, ...]
    offered_pps: float | None
    planned: int | None
    sent: Sent
    counters: FrameCounters
    tx: Totals
    rx: Totals
    ceiling: Ceiling
    took_s: float
    looks: Sequence[tuple[int, int]] = ()
    tx_is_veth: bool = False

    @property
    def blocked(self) -> int:
        """Frames that never left this machine; frames that the device's own port drops have left."""
        if self.tx_is_veth:
            return 0
        _, taken = self.tx.grown(lambda c: c.tx_packets)
        return min(self.pushed_back, max(0, self.sent.frames - taken))

    @property
    def pushed_back(self) -> int:
        """Frames that found no room at the sending port; some senders try them again, so that none is lost."""
        _, dropped = self.tx.grown(lambda c: c.tx_dropped + c.tx_errors)
        return max(self.sent.refused, dropped)

    @property
    def left(self) -> int:
        """Frames that left for the device."""
        return max(0, self.sent.frames - self.blocked)

    @property
    def lost(self) -> int:
        """Frames that left and did not arrive."""
        return max(0, self.left - self.counters.unique)

    @property
    def test_frames(self) -> int:
        """Frames of this trial that were counted, however often they came."""
        counters = self.counters
        return counters.unique + counters.duplicates + counters.stale + counters.damaged

    @property
    def counted(self) -> int:
        """All frames that were counted, and those that the receiver knows to have lost."""
        counters = self.counters
        return self.test_frames + counters.other_trial + counters.foreign + counters.receiver_lost


def difference(before: InterfaceCounters, after: InterfaceCounters) -> InterfaceCounters:
    """Return by how much every counter grew; ``up`` is from `after`."""
    counted = [name for name in InterfaceCounters.__struct_fields__ if name not in ("up", "driver")]
    grown = {name: getattr(after, name) - getattr(before, name) for name in counted}
    driver = {key: count - before.driver.get(key, 0) for key, count in after.driver.items()}
    return replace(after, **grown, driver=driver)


# Before a run ---------------------------------------------------------------------------------------------------------

SPLITS: Mapping[str, str] = {
    "tx-udp-segmentation": "64 UDP datagrams can leave as one super-packet, which counts as one frame",
    "tx-gso-list": "a list of UDP datagrams can leave as one super-packet",
}
"""Harmful where frames are sent. TCP's segmentation is not: test frames are UDP."""

MERGES: Mapping[str, str] = {
    "rx-udp-gro-forwarding": "UDP frames are joined to super-packets before they are counted",
    "rx-gro-list": "UDP frames are chained to super-packets before they are counted",
    "rx-gro-hw": "the interface joins frames before the kernel sees them",
    "rx-lro": "the interface joins frames before the kernel sees them",
}
"""Harmful where frames are counted. Plain ``rx-gro`` joins UDP only for a socket that asked for it (UDP_GRO) or with
one of these, and a virtual interface needs it to take live frames, so it may stay on."""


def check_offloads(port: PortInfo, *, sends: bool) -> list[Refusal]:
    """Refuse features at which many frames count as one at this port."""
    harmful = {name: why for name, why in (SPLITS if sends else MERGES).items() if port.offloads.get(name, False)}
    free = [name for name in harmful if name not in port.fixed]
    refusals = [
        Refusal(
            "offload",
            f"{name} is on at {port.interface}: {why}",
            f"this interface cannot turn {name} off: use another one",
        )
        for name, why in harmful.items()
        if name in port.fixed
    ]
    if free:
        reasons = "; ".join(f"{name} is on at {port.interface}: {harmful[name]}" for name in free)
        switches = " ".join(f"{name} off" for name in free)
        refusals.append(Refusal("offload", reasons, f"ethtool -K {port.interface} {switches}"))
    return refusals


def check_ports(tx: PortInfo, rx: PortInfo) -> list[Refusal]:
    """Refuse ports between which no true number can be found, before a frame is sent."""
    refusals = []
    for port in (tx, rx):
        if not port.up or not port.carrier:
            state = "down" if not port.up else "up without a carrier"
            remedy = f"ip link set {port.interface} up" if not port.up else "connect the device and switch it on"
            refusals.append(Refusal("port_down", f"{port.interface} is {state}", remedy))
    if rx.xdp:
        refusals.append(
            Refusal(
                "port_down",
                f"another XDP program is attached to {rx.interface} and takes frames before they are counted",
                f"ip link set {rx.interface} xdp off",
            )
        )
    return refusals + check_offloads(tx, sends=True) + check_offloads(rx, sends=False)


def check_mtu(layout: Layout, sizes_bytes: Sequence[int], tx: PortInfo, rx: PortInfo) -> list[Refusal]:
    """Refuse frames that do not fit the MTU of a port."""
    refusals = []
    longest = max(sizes_bytes)
    arriving = max(layout.arriving_sizes(sizes_bytes))
    for port, size, tags in ((tx, longest, layout.tags), (rx, arriving, layout.arriving)):
        need = layout.payload_of_link(size, tags)
        if need > port.mtu:
            refusals.append(
                Refusal(
                    "mtu",
                    f"a frame of {size} bytes needs an MTU of {need}, and {port.interface} has {port.mtu}",
                    f"ip link set {port.interface} mtu {need}, or leave this size out",
                )
            )
    return refusals


# After a trial --------------------------------------------------------------------------------------------------------


def gap_s(looks: Sequence[tuple[int, int]]) -> float:
    """Return for how long at least nothing new arrived between two frames, in seconds.

    Parameters
    ----------
    looks : sequence of (int, int)
        Time in nanoseconds and frames so far, beginning before the first frame was sent. The time before the
        first and after the last frame is left out.
    """
    longest = 0
    since_ns, count = looks[0] if looks else (0, 0)
    seen_ns, started = since_ns, False
    for time_ns, frames in looks[1:]:
        if frames != count:
            if started:
                longest = max(longest, seen_ns - since_ns)
            since_ns, count, started = time_ns, frames, True
        seen_ns = time_ns
    return longest / NS


def _ports_stayed(e: TrialEvidence) -> Iterator[Refusal]:
    ports = list(zip(e.names, (e.tx.outer, e.rx.outer), strict=True))
    down = [name for name, (_, after) in ports if not after.up]
    for name in down:
        yield Refusal("port_down", f"{name} went down during the trial", f"ip link set {name} up")
    if down:  # which takes the carrier of the other port along
        return
    for name, (before, after) in ports:
        changes = after.carrier_changes - before.carrier_changes
        if changes:
            reason = f"the carrier of {name} changed {changes} times during the trial"
            yield Refusal("reboot", reason, "look whether the device restarted or a cable is loose")


def _stayed_alive(e: TrialEvidence) -> Iterator[Refusal]:
    if not e.counters.unique or e.counters.first_ns is None or e.counters.last_ns is None:
        return
    remedy = "look whether the device restarted, or whether something stopped it"
    cut_s = e.took_s - (e.counters.last_ns - e.counters.first_ns) / NS
    allowed_s = max(NO_FRAMES_S, NO_FRAMES_GAPS * e.took_s / e.counters.unique)
    if e.counters.unique < (1 - COLLAPSE_LOSS) * e.sent.frames:
        allowed_s = max(allowed_s, COLLAPSE_FRACTION * e.took_s)
    gap = gap_s(e.looks)
    if cut_s > allowed_s and e.lost:  # a restart loses frames; where none was lost, some came late
        reason = f"nothing arrived for {cut_s:.2f} s at the beginning or the end of {e.took_s:.2f} s"
        yield Refusal("reboot", reason, remedy)
    elif gap > max(GAP_S, allowed_s):
        yield Refusal("reboot", f"nothing arrived for {gap:.1f} s amid the trial", remedy)


def _arrived(e: TrialEvidence) -> Iterator[Refusal]:
    if e.sent.frames == 0:
        yield Refusal("no_frames", f"{e.names[0]} sent nothing", "`wavebed doctor` says what this machine can send")
    elif not e.test_frames:
        yield Refusal(
            "no_frames",
            f"none of {e.sent.frames} frames arrived at {e.names[1]}",
            "check the device's addresses, routes and packet filter, and that the ports are not exchanged",
        )


def _sizes(e: TrialEvidence) -> Iterator[Refusal]:
    expected = set(e.arriving_sizes)
    longer = {size: count for size, count in e.counters.sizes.items() if size > max(expected)}
    other = {size: count for size, count in e.counters.sizes.items() if size not in expected and size not in longer}
    sent = ", ".join(str(size) for size in sorted(expected))
    if longer:
        size, count = max(longer.items())
        yield Refusal(
            "super_packets",
            f"{sum(longer.values())} frames larger than any that was sent ({sent} bytes) arrived, {count} of them"
            f" with {size} bytes: frames were joined on the way",
            f"ethtool -K {e.names[1]} rx-udp-gro-forwarding off rx-gro-list off; the same at the device's ports",
        )
    if other:
        size, count = max(other.items(), key=lambda item: item[1])
        yield Refusal(
            "mtu" if size < max(expected) else "super_packets",
            f"{sum(other.values())} frames of sizes that were never sent ({sent} bytes) arrived, {count} of them"
            f" with {size} bytes: frames were cut on the way",
            "check the MTU of the device's ports",
        )
    if e.counters.damaged and not longer and not other:
        yield Refusal(
            "unaccounted",
            f"{e.counters.damaged} frames arrived with a number that was never sent",
            "look for a second tester, or a device that changes payloads",
        )


def _once(e: TrialEvidence) -> Iterator[Refusal]:
    if e.counters.duplicates:
        yield Refusal(
            "duplicates",
            f"{e.counters.duplicates} of {e.sent.frames} frames arrived more than once",
            "look for a loop, a mirror port or two paths between the ports",
        )


def _flood(e: TrialEvidence) -> Iterator[Refusal]:
    foreign = e.counters.foreign + e.counters.other_trial
    allowed = max(FOREIGN_FLOOR + FOREIGN_PER_S * e.took_s, FOREIGN_FRACTION * e.sent.frames)
    if foreign > allowed:
        yield Refusal(
            "flood",
            f"{foreign} frames arrived at {e.names[1]} that are not of this trial; {allowed:.0f} are allowed",
            "take everything but the tester off the device, and look which frames it sends of itself",
        )
    elif e.test_frames > e.sent.frames and not e.counters.duplicates:
        yield Refusal("flood", f"{e.test_frames} frames arrived and {e.sent.frames} were sent", "look for a loop")


def _kept_rate(e: TrialEvidence) -> Iterator[Refusal]:
    if e.offered_pps is None or e.planned is None or not e.sent.frames:
        return
    remedy = "offer less, or give the tester a processor of its own"
    intended_ns = (e.planned - 1) / e.offered_pps * NS
    slack_ns = max(LATE_SLACK_LEAST_NS, min(LATE_SLACK_NS, LATE_SLACK_FRACTION * intended_ns))
    fraction = e.sent.late_batches / e.sent.batches if e.sent.batches else 0.0
    if e.sent.frames < e.planned:
        yield Refusal("late", f"only {e.sent.frames} of {e.planned} frames could be sent in time", remedy)
    elif e.sent.took_ns > intended_ns / RATE_KEPT_FRACTION + slack_ns:
        real = (e.planned - 1) / e.sent.took_ns * NS
        yield Refusal("late", f"{real:.0f} frames/s were sent instead of {e.offered_pps:.0f}", remedy)
    elif e.lost and fraction > LATE_BATCHES_FRACTION:
        yield Refusal(
            "late",
            f"{fraction:.0%} of the frames left more than 0.1 ms late, at worst {e.sent.late_max_ns / 1e6:.1f} ms:"
            f" the rate was kept by bursts, which may be why {e.lost} were lost",
            remedy,
        )


def _tester_limit(e: TrialEvidence) -> Iterator[Refusal]:
    limited = "the tester, not the device, was the limit:"
    received = e.counters.unique / e.took_s if e.took_s > 0 else 0.0
    name, rate = max(("received", received), ("offered", e.offered_pps or 0.0), key=lambda item: item[1])
    if rate > CEILING_FRACTION * e.ceiling.pps:
        yield Refusal(
            "tester_limit",
            f"{limited} {rate:.0f} frames/s {name} is above 90 % of the {e.ceiling.pps:.0f} that the tester reaches by"
            " itself",
            "offer less, or use a faster tester",
        )
    elif e.offered_pps is None and e.sent.frames and e.lost + e.pushed_back < OVERLOAD_LOSS * e.sent.frames:
        yield Refusal(
            "tester_limit",
            f"{limited} of the {received:.0f} frames/s that it could send, {e.lost / e.sent.frames:.2%} were lost",
            "use a faster tester, or give the ports a processor of their own",
        )
    remedy = "offer less, or give the receiving port a processor of its own"
    if e.counters.receiver_lost:
        yield Refusal("tester_limit", f"{limited} its receiver lost {e.counters.receiver_lost} frames", remedy)
    dropped = _dropped_at_receiver(e)
    if dropped and e.lost:
        yield Refusal("tester_limit", f"{limited} {dropped} frames were dropped at {e.names[1]} itself", remedy)
    if e.blocked and e.offered_pps is not None:  # as fast as it goes: the interface says when
        reason = f"{limited} {e.names[0]} refused {e.blocked} of {e.sent.frames} frames"
        yield Refusal("tester_limit", reason, "offer less than the link carries")


def _dropped_at_receiver(e: TrialEvidence) -> int:
    """Return the test frames that the receiving interface dropped."""
    _, dropped = e.rx.grown(lambda c: c.rx_dropped + c.rx_errors + c.rx_missed)
    return max(0, dropped - e.counters.foreign)


def _accounted(e: TrialEvidence) -> Iterator[Refusal]:
    """Compare the frame counters with the counters of the interfaces.

    Counters of a veth pair (Linux 6.18, found by experiment): a frame is in ``tx_packets`` of one end and
    ``rx_packets`` of the other once the receiving end has taken it, also when an XDP program then drops it. A frame
    that the ring between them has no room for is in ``tx_dropped`` of the sending end; if it was redirected there
    (live frames), it is in ``rx_dropped`` of the receiving end as well, and its sender is not told; a packet socket is
    told. Live frames to an end without NAPI are in no counter at all, which is found here.
    """
    left_least, left_most = e.tx.grown(lambda c: c.tx_packets)
    _, dropped = e.tx.grown(lambda c: c.tx_dropped + c.tx_errors)  # again for each try, with AF_XDP
    known = left_most + max(dropped, e.sent.refused)
    answered, _ = e.tx.grown(lambda c: c.rx_packets)
    own = OWN_FLOOR + round(OWN_PER_S * e.took_s) + max(0, answered)
    sent = f"{e.sent.frames} frames were sent and {e.names[0]} counted"
    if known < e.sent.frames:
        yield Refusal("unaccounted", f"{sent} {known}", "choose another way to send (--sender)")
    elif left_least > e.sent.frames + own:
        yield Refusal(
            "unaccounted",
            f"{sent} {left_least}: something else sends there",
            "end the other program that uses the port",
        )
    came_least, came_most = e.rx.grown(lambda c: c.rx_packets)
    if not came_least <= e.counted <= came_most:
        yield Refusal(
            "unaccounted",
            f"{e.names[1]} counted {came_most} frames and its receiver {e.counted}",
            "choose another way to receive (--receiver): not every driver counts frames that XDP takes",
        )
    if e.counters.stale:
        yield Refusal(
            "unaccounted",
            f"{e.counters.stale} frames came so late that nobody knows whether they had come before",
            "look for the cause of so much reordering",
        )


CHECKS: tuple[Callable[[TrialEvidence], Iterator[Refusal]], ...] = (
    _ports_stayed,
    _arrived,
    _sizes,
    _once,
    _flood,
    _stayed_alive,
    _tester_limit,
    _kept_rate,
    _accounted,
)
"""The check that explains most comes first: a port that went down also leaves frames unaccounted."""


def check_trial(evidence: TrialEvidence) -> tuple[Refusal, ...]:
    """Return the refusals of a trial; it counts if there are none."""
    return tuple(refusal for check in CHECKS for refusal in check(evidence))
