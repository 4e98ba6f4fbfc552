"""The study's tables beside ours, as text and as sections of a page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from wavebed.forward.comparison import comparison_text
from wavebed.forward.report.device import iperf3_runs
from wavebed.page.document import section, soft, table
from wavebed.reproduce.small_packets import PUBLISHED, PUBLISHED_CPU, SOURCE
from wavebed.terminal import table_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markupsafe import Markup

    from wavebed.forward.comparison import DeviceComparison
    from wavebed.forward.result import DeviceResult

PACED = (
    "The tester offers at most 1 Gbit/s at L1, at the device's input; the ports of the devices are veth, which have no"
    " speed of their own."
)
_FORMULA = (
    "The study's formula is Mbit/s / 8 / (frame + 20), right for Mbit/s at L1; iperf3 prints payload, so Mbit/s / 8 /"
    " payload is right. Frames at the interface are counted, not computed. Nothing holds iperf3 to 1 Gbit/s."
)


def tables_text(comparison: DeviceComparison) -> str:
    """Return our tables, the study's, and the arithmetic."""
    parts = [
        f"Measured on this machine. {PACED}\n\n{comparison_text(comparison)}",
        _plain(f"Published: {SOURCE}. Table 1", _published_cpu()),
        _plain("Published: table 2", _published_rates()),
    ]
    arithmetic = arithmetic_rows([device.result for device in comparison.devices])
    if len(arithmetic) > 1:
        parts.append(_plain(f"The study's command and its arithmetic. {_FORMULA}", arithmetic))
    return "\n\n".join(parts)


def beside_sections(comparison: DeviceComparison) -> Markup:
    """Return the sections of the page that are the study's."""
    published = section(
        "published",
        "Published figures of the study",
        soft(f"{SOURCE}. Its devices are Wi-Fi routers; ours are datapaths of this machine. {PACED}"),
        _html("Table 1, published", _published_cpu()),
        _html("Table 2, published", _published_rates()),
    )
    arithmetic = arithmetic_rows([device.result for device in comparison.devices])
    if len(arithmetic) == 1:
        return published
    figures = _html("iperf3 on the same devices", arithmetic)
    return published + section("arithmetic", "The study's command and its arithmetic", soft(_FORMULA), figures)


def arithmetic_rows(results: Sequence[DeviceResult]) -> list[list[str]]:
    """Return the figures of iperf3, both conversions, and the frames counted; a heading first."""
    head = ["device", "test", "iperf3 prints Mbit/s", "the study's formula, Mpps", "right, Mpps"]
    rows = [[*head, "at the interface, Mpps", "wavebed, Mpps"]]
    for result in results:
        ours = {str(test.name): test.received for test in result.overload}
        for test, run in iperf3_runs(result).items():
            conversion = run.get("conversion")
            if not isinstance(conversion, Mapping):
                continue
            received = ours.get(test)
            rows.append(
                [
                    result.device,
                    test,
                    _digits(run["claimed_mbps"], 1),
                    _digits(conversion["study_mpps"], 4),
                    _digits(conversion["corrected_mpps"], 4),
                    "refused" if run.get("doubt") else _digits(run["pps"], 4, 1e-6),
                    "refused" if received is None else _digits(received.pps, 4, 1e-6),
                ]
            )
    return rows


def _published_cpu() -> list[list[str]]:
    return [["device", "test", "rate", "CPU"], *(["A", test, rate, f"{cpu:.0%}"] for test, rate, cpu in PUBLISHED_CPU)]


def _published_rates() -> list[list[str]]:
    rows = [["device", "processor", "throughput Mbit/s", "rank", "64 B Mpps", "rank"]]
    for one in PUBLISHED:
        small = [f"{one.small_mpps:.2f}", str(one.small_rank)]
        rows.append([one.device, one.processor, f"{one.throughput_mbps:.0f}", str(one.throughput_rank), *small])
    return rows


def _digits(value: object, digits: int, scale: float = 1.0) -> str:
    return f"{value * scale:.{digits}f}" if isinstance(value, int | float) else "–"


def _plain(title: str, rows: Sequence[Sequence[str]]) -> str:
    return f"{title}\n{table_text(rows, left=True)}"


def _html(caption: str, rows: Sequence[Sequence[str]]) -> Markup:
    return table(caption, rows[0], rows[1:])
