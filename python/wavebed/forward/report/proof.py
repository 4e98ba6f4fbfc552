"""Evidence for the figures: sizes at the receiving port, frame accounting, the tester's ceiling, offload settings."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from wavebed.forward.checks import CEILING_FRACTION
from wavebed.forward.folder import RAW_FOLDER, SAMPLE_FILE
from wavebed.forward.report.words import cell, code, frames, percent, section, table
from wavebed.forward.result import sizes_text
from wavebed.report.numbers import MISSING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wavebed.forward.model import PortInfo, Trial
    from wavebed.forward.result import DeviceResult
    from wavebed.forward.search import SizeFinding

__all__ = ["highest_rate", "proof_section"]

MOST_SIZES = 40
"""A histogram shows at most so many sizes; a flood of foreign sizes would fill the page."""


def proof_section(result: DeviceResult) -> str:
    """Return the section."""
    return section(
        "proof",
        "Proof",
        _sizes_seen(result),
        _counters(result),
        _ceilings(result),
        _back_ends(result),
        _offloads(result),
    )


def _names(result: DeviceResult) -> dict[tuple[int, ...], str]:
    return {size.sizes_bytes: sizes_text(size.name) for size in result.sizes}


def _named(names: dict[tuple[int, ...], str], sizes: tuple[int, ...]) -> str:
    if sizes in names:
        return names[sizes]
    return f"{sizes[0]} B" if len(sizes) == 1 else f"{len(sizes)} frames in turn"


def _groups(trials: Iterable[Trial]) -> dict[tuple[tuple[int, ...], str], list[Trial]]:
    """Return the trials by sizes and verdict, in order of size."""
    groups: dict[tuple[tuple[int, ...], str], list[Trial]] = {}
    for trial in sorted(trials, key=lambda trial: (len(trial.sizes_bytes), trial.sizes_bytes, bool(trial.refusals))):
        groups.setdefault((trial.sizes_bytes, trial.verdict), []).append(trial)
    return groups


def _sizes_seen(result: DeviceResult) -> str:
    names = _names(result)
    rows = []
    for (sizes, verdict), trials in _groups(result.trials).items():
        seen: dict[int, int] = {}
        for trial in trials:
            for size, count in trial.counters.sizes.items() if trial.counters is not None else ():
                seen[size] = seen.get(size, 0) + count
        total, most = sum(seen.values()), max(seen.values(), default=0)
        sent = f"<th scope=row>{escape(_named(names, sizes))}</th>{cell(verdict, kind='word ' + verdict)}"
        if not seen:
            rows.append(f"<tr>{sent}{cell(MISSING) * 3}<td></td></tr>")
        for size, count in sorted(seen.items())[:MOST_SIZES]:
            style = "t0" if size in sizes else "bad"
            bar = f'<i class="amount {style}" style="width:{100 * count / most:.2f}%"></i>'
            cells = cell(f"{size} B", "" if size in sizes else "was not sent") + cell(frames(count))
            rows.append(f"<tr>{sent}{cells}{cell(percent(count / total))}<td class=bars>{bar}</td></tr>")
    if not rows:
        return ""
    note = (
        '<p class="soft">With FCS, as they crossed the receiving interface: a super-packet counts once, with its whole'
        f" size. Some frames of each size are in {code(f'{RAW_FOLDER}/{SAMPLE_FILE}')}, without FCS (64 B shows as 60)"
        f": {code(f'tshark -r {RAW_FOLDER}/{SAMPLE_FILE} -T fields -e frame.len')}.</p>"
    )
    head = ["sent", "trials", "seen", "frames", "fraction", ""]
    return f"<h3>Frame sizes seen at the receiving port</h3>{note}{table('Frame sizes seen', head, rows, 'seen', [1])}"


def _counters(result: DeviceResult) -> str:
    """Return the frames sent, received and lost, and the counters of both interfaces."""
    names = _names(result)
    rows, open_trials = [], 0
    for (sizes, verdict), trials in _groups(result.trials).items():
        sent, received, lost = (sum(getattr(trial, key) for trial in trials) for key in ("sent", "received", "lost"))
        open_trials += sum(not trial.refusals and trial.sent != trial.received + trial.lost for trial in trials)
        other = _sum(
            None if (one := trial.counters) is None
            else one.duplicates + one.stale + one.other_trial + one.damaged + one.foreign
            for trial in trials
        )  # fmt: skip
        left = _sum(None if trial.tx is None else trial.tx.tx_packets for trial in trials)
        dropped = _sum(None if trial.tx is None else trial.tx.tx_dropped + trial.tx.tx_errors for trial in trials)
        came = _sum(None if trial.rx is None else trial.rx.rx_packets for trial in trials)
        gap = sent - received - lost
        cells = (
            str(len(trials)),
            frames(sent),
            frames(left),
            frames(dropped),
            frames(came),
            frames(received),
            frames(other),
            frames(lost),
        )
        rows.append(
            f"<tr><th scope=row>{escape(_named(names, sizes))}</th>{cell(verdict, kind='word ' + verdict)}"
            f"{''.join(cell(text) for text in cells)}{cell(frames(gap), kind='refused' if gap else '')}</tr>"
        )
    if not rows:
        return ""
    head = [
        "frame size", "trials", "how many", "sent", "left the sending interface", "dropped there",
        "came to the receiving interface", "received", "other frames", "lost", "sent − received − lost",
    ]  # fmt: skip
    told = (
        "In every trial that counts, sent = received + lost, to the frame."
        if not open_trials
        else f"In {open_trials} trials that count, sent is not received + lost."
    )
    note = (
        f'<p class="soft">{told} Received are frames of the trial, each once. Other frames are duplicates, frames of'
        " trials before, damaged ones, and foreign ones such as ARP. A virtual device drops frames at the"
        " sending interface when its queue is full: they were offered, and are lost (each try of AF_XDP counts)."
        " Interfaces also count the kernel's own packets.</p>"
    )
    return f"<h3>Frame accounting</h3>{note}{table('Frame accounting', head, rows, 'accounting', [1])}"


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def highest_rate(result: DeviceResult, size: SizeFinding) -> float | None:
    """Return the highest rate of this size that is reported."""
    rates = [goal.rate.pps for goal in size.goals if goal.rate is not None]
    rates += [
        one.received.pps for one in result.overload if one.sizes_bytes == size.sizes_bytes and one.received is not None
    ]
    return max(rates, default=None)


def _ceilings(result: DeviceResult) -> str:
    rows = []
    for size in result.sizes:
        highest = highest_rate(result, size)
        fraction = None if highest is None or not size.ceiling.pps else highest / size.ceiling.pps
        bar = "" if fraction is None else f'<i class="amount t0" style="width:{min(100 * fraction, 100):.2f}%"></i>'
        limit = f'<i class="limit" style="left:{100 * CEILING_FRACTION:g}%"></i>'
        shown = percent(fraction) if fraction is not None else "refused"
        kind = "refused" if fraction is None or fraction > CEILING_FRACTION else ""
        rows.append(
            f"<tr><th scope=row>{escape(sizes_text(size.name))}</th>{cell(frames(size.ceiling.pps))}"
            f"{cell(frames(highest))}{cell(shown, kind=kind)}"
            f"<td class=bars>{bar}{limit}</td></tr>"
        )
    if not rows:
        return ""
    note = (
        '<p class="soft">How fast the tester is by itself, without a device, and the highest rate reported. A rate'
        f" above {percent(CEILING_FRACTION)} of the ceiling (the mark) would be the tester's, not the device's, and is"
        " refused.</p>"
    )
    head = ["frame size", "tester's ceiling, pps", "highest result, pps", "of the ceiling", ""]
    return f"<h3>The tester's ceiling</h3>{note}{table('Ceiling of the tester', head, rows, 'ceiling')}"


def _back_ends(result: DeviceResult) -> str:
    rows = [
        f"<tr><th scope=row>{escape(one.kind)}</th>"
        f"{cell('used' if one.kind == result.sender else 'works' if one.works else 'does not work', kind='word')}"
        f"<td class=text>{escape(one.why)}</td></tr>"
        for one in result.probed
    ]
    told = f'<p class="soft">Sent by {code(result.sender)}, received by {code(result.receiver_kind)}.</p>'
    body = table("Ways to send", ["way to send", "here", "why"], rows, "small", [1, 2]) if rows else ""
    return f"<h3>Ways to send and receive</h3>{told}{body}"


def _offloads(result: DeviceResult) -> str:
    ports = (result.transmitter, result.receiver)
    facts = [
        f"<tr><th scope=row>{name}</th>{''.join(cell(text) for text in told)}</tr>"
        for name, told in zip(_FACTS, zip(*(_facts(port) for port in ports), strict=True), strict=True)
    ]
    head = ["", f"sending: {ports[0].interface}", f"receiving: {ports[1].interface}"]
    shared = table("The ports", head, facts, "small")
    names = sorted({name for port in ports for name in port.offloads})
    rows = [
        f"<tr><th scope=row>{escape(name)}</th>{''.join(cell(_offload(port, name)) for port in ports)}</tr>"
        for name in names
    ]
    on = [name for name in names if any(port.offloads.get(name) for port in ports) and _joins(name)]
    told = (
        f"On at a port, and able to join or cut packets: {', '.join(on)}."
        if on
        else "Nothing that joins or cuts packets is on."
    )
    body = table("Offload settings", head, rows, "small")
    return (
        f'<h3>Ports and offload settings</h3>{shared}<p class="soft">{escape(told)}</p>'
        f"<details><summary>All {len(names)} offload settings</summary>{body}</details>"
    )


_FACTS = ("driver", "MAC address", "MTU", "speed, Mbit/s", "processors", "other XDP program")


def _facts(port: PortInfo) -> tuple[str, ...]:
    speed = MISSING if port.speed_mbps is None else str(port.speed_mbps)
    return (port.driver or MISSING, port.mac, str(port.mtu), speed, str(port.cores), "yes" if port.xdp else "no")


def _offload(port: PortInfo, name: str) -> str:
    if name not in port.offloads:
        return MISSING
    return ("on" if port.offloads[name] else "off") + (", fixed" if name in port.fixed else "")


def _joins(name: str) -> bool:
    """Say whether a feature makes one packet of many, or many of one."""
    return "segmentation" in name or name in ("rx-gro", "rx-gro-hw", "rx-gro-list", "rx-lro", "tx-generic-segmentation")
