"""The programs that the forwarding test runs, and the options for which it does."""

from __future__ import annotations

__all__ = ["PROGRAMS"]

PROGRAMS = {
    "ip": "--dut",
    "taskset": "--dut",
    "nft": "--dut nat, --dut shaped",
    "iperf3": "--with iperf3",
    "ssh": "--cpu ssh://",
    "snmpget": "--cpu snmp://",
}
