"""Where the hosts of a scenario are: what is accepted, and the line for what is not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from wavebed.errors import UserError
from wavebed.run.expected import plan_text
from wavebed.run.scenario import read_plan
from wavebed.spec.lab import HostsLab, NamespacesLab

if TYPE_CHECKING:
    from wavebed.run.scenario import Plan

ROOT = Path(__file__).parents[2]
BULK = '[[workload]]\nkind = "bulk"\nduration = "10s"\n'


def plan(folder: Path, lab: str, path: str = "", workloads: str = BULK) -> Plan:
    file = folder / "s.toml"
    file.write_text(f"[lab]\n{lab}\n[path]\n{path}\n{workloads}")
    return read_plan(file)


def test_without_a_backend_the_hosts_are_emulated(tmp_path: Path) -> None:
    assert plan(tmp_path, "").treatments[0].lab == NamespacesLab()


def test_the_client_is_this_machine_by_default(tmp_path: Path) -> None:
    lab = plan(tmp_path, 'backend = "hosts"\nserver = "ssh://ada@server:2222"').treatments[0].lab
    assert lab == HostsLab("ssh://ada@server:2222", "local")


def test_a_treatment_cannot_change_the_hosts_by_a_wrong_key(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"lab\.sever: unknown key"):
        plan(tmp_path, 'sever = "ssh://x"')


@pytest.mark.parametrize(
    ("lab", "path", "workloads", "line"),
    [
        ('backend = "hosts"', "", BULK, r"lab\.server: is missing"),
        ('server = "ssh://x"', "", BULK, r'lab\.server: is for real hosts: remove it, or write backend = "hosts"'),
        ('backend = "hosts"\nserver = "x"', "", BULK, r"lab\.server: 'x' is not a host"),
        ('backend = "hosts"\nserver = "ssh://a:b@x"', "", BULK, r"lab\.server: has a password"),
        ('backend = "hosts"\nserver = "ssh://-oProxyCommand=x"', "", BULK, r"a name that is none of a host"),
        ('backend = "hosts"\nserver = "ssh://x:99999"', "", BULK, r"no port from 1 to 65535"),
        ('backend = "hosts"\nserver = "local"', "", BULK, r"lab\.server-address: is missing"),
        ('backend = "hosts"\nserver = "ssh://x"\nclient = "ssh://x"', "", BULK, r"lab\.client: is the server too"),
        ('backend = "hosts"\nserver = "ssh://x"\nserver-address = "x"', "", BULK, r"is not an IPv4 address"),
        ('backend = "hosts"\nserver = "ssh://x"', 'rate = "1mbit"', BULK, r"path: .*nothing is emulated"),
        ('backend = "hosts"\nserver = "ssh://x"', 'loss = "1%"', BULK, r"path: .*nothing is emulated"),
        (
            'backend = "hosts"\nserver = "ssh://x"',
            "",
            '[[workload]]\nkind = "web"\nsite = "google"\nnames = "resolver"\n',
            r'workload\.web: .*lacks a DNS server of its own: write names = "mapped"',
        ),
        (
            'backend = "hosts"\nserver = "ssh://x"',
            "",
            '[[workload]]\nkind = "command"\nrun = "nc {client} 1"\n',
            r"workload\.command: .*leave \{client\} out",
        ),
    ],
)
def test_what_does_not_fit_real_hosts_is_refused(
    tmp_path: Path, lab: str, path: str, workloads: str, line: str
) -> None:
    with pytest.raises(UserError, match=line):
        plan(tmp_path, lab, path, workloads)


def test_the_data_volume_is_estimated_from_the_expected_rate(tmp_path: Path) -> None:
    lab = 'backend = "hosts"\nserver = "ssh://x"\nexpected-rate = "100mbit"\ndata-limit = "200mb"'
    text = plan_text(plan(tmp_path, lab))
    assert "about 132mb of data, at most 200mb in each trial" in text


def test_without_an_expected_rate_there_is_no_estimate(tmp_path: Path) -> None:
    assert "data" not in plan_text(plan(tmp_path, 'backend = "hosts"\nserver = "ssh://x"'))


def test_the_shipped_design_of_bbr_5g_compares_cubic_and_bbr_over_real_hosts() -> None:
    shipped = read_plan(ROOT / "scenarios" / "real" / "bbr-5g.toml", overrides={"lab.server": "ssh://ada@server"})
    assert [treatment.name for treatment in shipped.treatments] == ["cubic", "bbr"]
    assert all(
        isinstance(treatment.lab, HostsLab) and treatment.lab.server == "ssh://ada@server"
        for treatment in shipped.treatments
    )
    assert shipped.trials == 3
    assert "of data, at most 3gb in each trial" in plan_text(shipped)
