"""The page of a device's forwarding test, and the page that compares devices."""

from wavebed.forward.report.build import write_forward_report as write_forward_report

__all__ = ["write_forward_report"]
