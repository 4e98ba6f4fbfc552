"""Evidence for the figures: sizes seen, accounting of frames, ceiling, ports; every trial; how to repeat it."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

from markupsafe import Markup

from wavebed.forward.checks import CEILING_FRACTION
from wavebed.forward.folder import RAW_FOLDER, SAMPLE_FILE
from wavebed.forward.model import to_plain
from wavebed.forward.report.device import TEMPLATE
from wavebed.forward.report.words import frames, percent, us
from wavebed.forward.result import sizes_text
from wavebed.page.document import TableCell, TableRow, filled, folded, section, soft, table, titled
from wavebed.page.text import MISSING, figure

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wavebed.forward.folder import ForwardRecord
    from wavebed.forward.model import ForwardTrial, PortInfo
    from wavebed.forward.result import DeviceResult
    from wavebed.forward.search import SizeFinding

MOST_SIZES = 40
"""A histogram shows at most this many sizes; a flood of foreign sizes would fill the page."""
_TRIAL_HEAD = (
    "trial", "purpose", "frame size", "offered, pps", "sent", "received", "lost", "fraction lost", "took, s", "dupl.",
    "reord.", "foreign", "median, µs", "99th, µs", "busiest core", "verdict",
)  # fmt: skip
_PORT_FACTS = ("driver", "MAC address", "MTU", "speed, Mbit/s", "processors", "other XDP program")


def proof_section(result: DeviceResult) -> Markup:
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


def _groups(trials: Iterable[ForwardTrial]) -> dict[tuple[tuple[int, ...], str], list[ForwardTrial]]:
    """Return the trials by sizes and verdict, in order of size."""
    groups: dict[tuple[tuple[int, ...], str], list[ForwardTrial]] = {}
    for trial in sorted(trials, key=lambda trial: (len(trial.sizes_bytes), trial.sizes_bytes, bool(trial.refusals))):
        groups.setdefault((trial.sizes_bytes, trial.verdict), []).append(trial)
    return groups


def _sizes_seen(result: DeviceResult) -> Markup:
    names = _names(result)
    rows: list[TableRow] = []
    for (sizes, verdict), trials in _groups(result.trials).items():
        seen: dict[int, int] = {}
        for trial in trials:
            for size, count in trial.counters.sizes.items() if trial.counters is not None else ():
                seen[size] = seen.get(size, 0) + count
        total, most = sum(seen.values()), max(seen.values(), default=0)
        sent: list[str | TableCell] = [_named(names, sizes), TableCell(verdict, kind=f"word {verdict}")]
        if not seen:
            rows.append([*sent, MISSING, MISSING, MISSING, ""])
        for size, count in sorted(seen.items())[:MOST_SIZES]:
            bar = filled(TEMPLATE, "bar", "t0" if size in sizes else "bad", f"{100 * count / most:.2f}", "")
            named = TableCell(f"{size} B", "" if size in sizes else "was not sent")
            rows.append([*sent, named, frames(count), percent(count / total), TableCell(bar, kind="bars")])
    if not rows:
        return Markup()
    head = ["sent", "trials", "seen", "frames", "fraction", ""]
    note = filled(TEMPLATE, "sizes_note", f"{RAW_FOLDER}/{SAMPLE_FILE}")
    return titled("Frame sizes seen at the receiving port", note, table("Frame sizes seen", head, rows, "seen", [1]))


def _counters(result: DeviceResult) -> Markup:
    """Return the frames sent, received and lost, and the counters of both interfaces."""
    names = _names(result)
    rows: list[TableRow] = []
    open_trials = 0
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
        start, end = TableCell(verdict, kind=f"word {verdict}"), TableCell(frames(gap), kind="refused" if gap else "")
        rows.append([_named(names, sizes), start, *cells, end])
    if not rows:
        return Markup()
    head = [
        "frame size", "trials", "how many", "sent", "left the sending interface", "dropped there",
        "came to the receiving interface", "received", "other frames", "lost", "sent − received − lost",
    ]  # fmt: skip
    told = (
        "In every trial that counts, sent = received + lost, to the frame."
        if not open_trials
        else f"In {open_trials} trials that count, sent is not received + lost."
    )
    note = filled(TEMPLATE, "accounting_note", told)
    return titled("Frame accounting", note, table("Frame accounting", head, rows, "accounting", [1]))


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


def _ceilings(result: DeviceResult) -> Markup:
    rows: list[TableRow] = []
    for size in result.sizes:
        highest = highest_rate(result, size)
        fraction = None if highest is None or not size.ceiling.pps else highest / size.ceiling.pps
        style, wide = ("", "") if fraction is None else ("t0", f"{min(100 * fraction, 100):.2f}")
        bar = filled(TEMPLATE, "bar", style, wide, f"{100 * CEILING_FRACTION:g}")
        shown = percent(fraction) if fraction is not None else "refused"
        kind = "refused" if fraction is None or fraction > CEILING_FRACTION else ""
        rates = frames(size.ceiling.pps), frames(highest)
        rows.append([sizes_text(size.name), *rates, TableCell(shown, kind=kind), TableCell(bar, kind="bars")])
    if not rows:
        return Markup()
    note = soft(
        "How fast the tester is by itself, without a device, and the highest rate reported. A rate above"
        f" {percent(CEILING_FRACTION)} of the ceiling (the mark) would be the tester's, not the device's, and is"
        " refused."
    )
    head = ["frame size", "tester's ceiling, pps", "highest result, pps", "of the ceiling", ""]
    return titled("The tester's ceiling", note, table("Ceiling of the tester", head, rows, "ceiling"))


def _back_ends(result: DeviceResult) -> Markup:
    rows: list[TableRow] = []
    for one in result.probed:
        state = "used" if one.kind == result.sender else "works" if one.works else "does not work"
        rows.append([one.kind, TableCell(state, kind="word"), TableCell(one.why, kind="text")])
    told = filled(TEMPLATE, "used_note", result.sender, result.receiver_kind)
    body = table("Ways to send", ["way to send", "here", "why"], rows, "small", [1, 2]) if rows else ""
    return titled("Ways to send and receive", told, body)


def _offloads(result: DeviceResult) -> Markup:
    ports = (result.transmitter, result.receiver)
    facts = [[name, *told] for name, *told in zip(_PORT_FACTS, *map(_port_facts, ports), strict=True)]
    head = ["", f"sending: {ports[0].interface}", f"receiving: {ports[1].interface}"]
    names = sorted({name for port in ports for name in port.offloads})
    rows = [[name, *(_offload(port, name) for port in ports)] for name in names]
    on = [name for name in names if any(port.offloads.get(name) for port in ports) and _joins(name)]
    told = "Nothing that joins or cuts packets is on."
    if on:
        told = f"On at a port, and able to join or cut packets: {', '.join(on)}."
    settings = folded(f"All {len(names)} offload settings", table("Offload settings", head, rows, "small"))
    return titled("Ports and offload settings", table("The ports", head, facts, "small"), soft(told), settings)


def _port_facts(port: PortInfo) -> tuple[str, ...]:
    speed = MISSING if port.speed_mbps is None else str(port.speed_mbps)
    return (port.driver or MISSING, port.mac, str(port.mtu), speed, str(port.cores), "yes" if port.xdp else "no")


def _offload(port: PortInfo, name: str) -> str:
    if name not in port.offloads:
        return MISSING
    return ("on" if port.offloads[name] else "off") + (", fixed" if name in port.fixed else "")


def _joins(name: str) -> bool:
    """Say whether a feature makes one packet of many, or many of one."""
    return "segmentation" in name or name in ("rx-gro", "rx-gro-hw", "rx-gro-list", "rx-lro", "tx-generic-segmentation")


def plan_section(result: DeviceResult) -> Markup:
    """Return the section with planned and actual time."""
    if not result.plan:
        return Markup()
    rows: list[TableRow] = []
    for part in result.plan:
        late = part.took_s is not None and part.took_s > part.at_most_s
        shown = "did not run" if part.took_s is None else figure(part.took_s)
        kind = "refused" if late else ""
        rows.append(
            [part.name, figure(part.expected_s), figure(part.at_most_s), TableCell(shown, kind=kind), str(part.trials)]
        )
    planned = sum(part.expected_s for part in result.plan)
    most = sum(part.at_most_s for part in result.plan)
    took = sum(part.took_s or 0.0 for part in result.plan)
    count = sum(part.trials for part in result.plan)
    total = ["all", figure(planned), figure(most), figure(took), str(count)]
    head = ["part", "planned, s", "at most, s", "took, s", "trials"]
    body = table("Planned and actual time", head, rows, "small", total=total)
    return section("plan", "Planned and actual time", body)


def trials_section(result: DeviceResult, most: int) -> Markup:
    """Return the section with the first `most` trials, folded."""
    if not result.trials:
        return Markup()
    shown = result.trials[:most]
    names = {size.sizes_bytes: sizes_text(size.name) for size in result.sizes}
    rows = [_trial_row(place, trial, names) for place, trial in enumerate(shown)]
    refused = sum(bool(trial.refusals) for trial in result.trials)
    told = f"{len(result.trials)} trials, {refused} invalid."
    if len(shown) < len(result.trials):
        told += f" The first {len(shown)} are shown; all are in series/trials.parquet."
    body = folded("Every trial", table("Every trial", _TRIAL_HEAD, rows, "every", [1, 15]))
    return section("trials", "Trials", soft(told), body)


def _trial_row(place: int, trial: ForwardTrial, names: dict[tuple[int, ...], str]) -> list[str | TableCell]:
    counters, latency = trial.counters, None if trial.counters is None else trial.counters.latency
    counts = (None,) * 3 if counters is None else (counters.duplicates, counters.reordered, counters.foreign)
    size = names.get(trial.sizes_bytes) or "/".join(map(str, trial.sizes_bytes[:4])) + " B"
    cells = (
        size,
        "full speed" if trial.offered_pps is None else frames(trial.offered_pps),
        frames(trial.sent),
        frames(trial.received),
        frames(trial.lost),
        percent(trial.loss_ratio),
        f"{trial.took_s:.3g}",
        *map(frames, counts),
        us(None if latency is None else latency.p50_s),
        us(None if latency is None else latency.p99_s),
        percent(trial.cpu.get("busy_max")),
    )
    verdict = filled(TEMPLATE, "reasons", trial.verdict, trial.refusals)
    start, end = TableCell(trial.purpose, kind="word"), TableCell(verdict, kind=f"text {trial.verdict}")
    return [str(place), start, *cells, end]


def repeat_section(record: ForwardRecord) -> Markup:
    """Return the section: command line, seed, versions, machine, settings."""
    result = record.result
    facts = [
        ("started", result.started),
        ("seed", str(result.settings.seed)),
        ("sent by", result.sender),
        ("received by", result.receiver_kind),
        *record.versions.items(),
        *((f"machine: {name}", str(value)) for name, value in result.machine.items()),
    ]
    known = [(name, value or MISSING) for name, value in facts]
    settings = json.dumps(to_plain(result.settings), indent=1, ensure_ascii=False)
    spec = json.dumps(to_plain(result.frames), indent=1, ensure_ascii=False) if result.frames is not None else ""
    return filled(TEMPLATE, "repeat", shlex.join(record.command_line), known, settings, spec)
