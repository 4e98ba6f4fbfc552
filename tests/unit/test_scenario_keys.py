"""Every key of a scenario is read, has its default, and reaches the laboratory file."""

from __future__ import annotations

from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

import pytest

from wavebed.cli.references import scenario_page
from wavebed.config.table import fields
from wavebed.errors import UserError
from wavebed.path.api import Path
from wavebed.path.laboratory import resolve_network
from wavebed.path.scenario import read_path
from wavebed.path.tables import AirTable, HopTable, HostTable, LinkTable, PathTable
from wavebed.path.traces import Traces

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = FilePath(__file__).resolve().parents[2]
NATIVE = "# wavebed pattern 1\n# kind = steps\n# duration_s = 2\n"
STEPS = NATIVE + "time_s,rate_bps\n0,1000000\n1,9000000000\n"
EVERYTHING = NATIVE + "time_s,rate_bps,delay_s,loss\n0,1000000,0.01,0.1\n"
OPPORTUNITIES = "# wavebed pattern 1\n# kind = opportunities\n# duration_s = 1\ntime_s,bytes\n0.001,1500\n0.002,1500\n"


@pytest.fixture
def laboratory(tmp_path: FilePath) -> Callable[[str], dict[str, Any]]:
    def read(text: str, **options: object) -> dict[str, Any]:
        (tmp_path / "steps.csv").write_text(STEPS)
        (tmp_path / "everything.csv").write_text(EVERYTHING)
        (tmp_path / "opportunities.csv").write_text(OPPORTUNITIES)
        file = tmp_path / "scenario.toml"
        file.write_text(text)
        return Path.load(file, **options).laboratory()

    return read


def links(laboratory: dict[str, Any], number: int = 0) -> tuple[list[Any], list[Any]]:
    found = [hop for leg in laboratory["network"]["legs"] for hop in leg["hops"]][number]
    return found["down"], found["up"]


def test_an_empty_path_is_one_radio_hop_without_stages(laboratory: Any) -> None:
    lab = laboratory("[path]\n")
    assert lab["network"]["legs"] == [
        {
            "from": "server",
            "to": "client",
            "hops": [{"name": "radio", "kind": "radio", "down": [], "up": []}],
        }
    ]
    assert lab["network"]["coalesce"] == {"kind": "time", "time_ns": 125_000}
    assert (lab["seed"], lab["network"]["mtu"], lab["network"]["nat"]) == (1, 1500, False)
    assert [host["name"] for host in lab["network"]["hosts"]] == ["server", "client"]
    assert [host["congestion_control"] for host in lab["network"]["hosts"]] == [None, None]


def test_a_rate_alone_gets_every_default_of_a_bottleneck(laboratory: Any) -> None:
    down, up = links(laboratory('[path]\nrate = "10mbit"\n'))
    assert (
        down
        == up
        == [
            {
                "stage": "bottleneck",
                "rate": {"kind": "constant", "rate_bps": 10_000_000},
                "queue": {"kind": "droptail", "limit": {"packets": 1000}},
                "overhead_bytes": 0,
                "unit": "packet",
                "outage": "hold",
            }
        ]
    )


def test_the_default_limit_is_the_bandwidth_delay_product_where_that_is_more(laboratory: Any) -> None:
    down, _ = links(laboratory('[path]\nrate = "10gbit"\ndelay = "5ms"\n'))
    # 10 Gbit/s x 10 ms = 12.5 MB, in packets of 1500 bytes, rounded up.
    assert down[0]["queue"]["limit"] == {"packets": 8334}


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("rate", "'5mbit'", {"kind": "constant", "rate_bps": 5_000_000}),
        (
            "rate",
            "{token-bucket = '1mbit', burst = '64kb'}",
            {"kind": "token_bucket", "rate_bps": 1_000_000, "burst_bytes": 64_000},
        ),
    ],
)
def test_rates(laboratory: Any, key: str, value: str, expected: object) -> None:
    assert links(laboratory(f"[path]\n{key} = {value}\n"))[0][0]["rate"] == expected


def test_a_sampled_rate(laboratory: Any) -> None:
    down, _ = links(laboratory('[path]\nrate = "5mbit"\nrate-mode = "sampled"\n'))
    assert down[0]["rate"] == {
        "kind": "sampled",
        "rate_bps": 5_000_000,
        "file": None,
        "end": None,
        "start_ns": None,
    }


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("'droptail:64kb'", {"kind": "droptail", "limit": {"bytes": 64_000}}),
        ("'drophead:20ms'", {"kind": "drophead", "limit": {"time_ns": 20_000_000}}),
        ("'infinite'", {"kind": "infinite"}),
        (
            "'codel:500p'",
            {
                "kind": "codel",
                "limit": {"packets": 500},
                "target_ns": 5_000_000,
                "interval_ns": 100_000_000,
                "ecn": False,
                "ce_threshold_ns": None,
            },
        ),
        (
            "'fq_codel'",
            {
                "kind": "fq_codel",
                "limit": {"packets": 10_240},
                "target_ns": 5_000_000,
                "interval_ns": 100_000_000,
                "ecn": True,
                "flows": 1024,
                "quantum_bytes": 1514,
                "ce_threshold_ns": None,
            },
        ),
        (
            "{kind='fq_codel', limit='1mb', target='1ms', interval='20ms', ecn=false, flows=64, quantum='300b'}",
            {
                "kind": "fq_codel",
                "limit": {"bytes": 1_000_000},
                "target_ns": 1_000_000,
                "interval_ns": 20_000_000,
                "ecn": False,
                "flows": 64,
                "quantum_bytes": 300,
                "ce_threshold_ns": None,
            },
        ),
        (
            "{kind='dualpi2', coupling=2, predict='10ms'}",
            {
                "kind": "dualpi2",
                "limit": {"packets": 10_000},
                "target_ns": 15_000_000,
                "rtt_max_ns": 100_000_000,
                "coupling": 2.0,
                "threshold_ns": 800_000,
                "range_ns": 400_000,
                "predict_ns": 10_000_000,
            },
        ),
    ],
)
def test_queues(laboratory: Any, value: str, expected: object) -> None:
    assert links(laboratory(f"[path]\nrate = '1mbit'\nqueue = {value}\n"))[0][0]["queue"] == expected


SLOW = NATIVE + "time_s,rate_bps\n0,100000\n0.5,0\n1,128000\n"
FALLING = NATIVE + "time_s,rate_bps\n0,9000000\n0.5,0\n1,128000\n"


def test_the_smallest_limit_that_works_is_accepted(laboratory: Any) -> None:
    for limit in ("93.75ms", "1500b", "1p"):
        laboratory(f"[path]\nrate = '128kbit'\nqueue = 'droptail:{limit}'\n")


def test_a_limit_in_time_is_judged_at_the_highest_rate_of_a_pattern(laboratory: Any, tmp_path: FilePath) -> None:
    (tmp_path / "slow.csv").write_text(SLOW)
    said = r"radio\.down: queue: a limit of 50ms .* highest rate of the pattern, 128kbit: write at least 93\.75ms$"
    with pytest.raises(UserError, match=said):
        laboratory("[path]\ntrace = 'slow.csv'\nqueue = 'droptail:50ms'\n")
    laboratory("[path]\ntrace = 'slow.csv'\nqueue = 'droptail:94ms'\n")


@pytest.mark.parametrize(
    ("rows", "limit", "notes"), [(FALLING, "50ms", 2), (FALLING, "94ms", 0), (STEPS, "50ms", 0), (FALLING, "9p", 0)]
)
def test_a_pattern_that_falls_below_what_a_limit_in_time_needs_is_noted_and_an_outage_is_not(
    tmp_path: FilePath, rows: str, limit: str, notes: int
) -> None:
    (tmp_path / "walk.csv").write_text(rows)
    traces = Traces()
    options = {"trace": str(tmp_path / "walk.csv"), "queue": f"droptail:{limit}"}
    resolve_network(read_path(None, options, traces), traces)
    assert len(traces.notes) == notes
    assert all("while the pattern's rate is below 240kbit: write a limit in packets" in note for note in traces.notes)


def test_a_limit_in_time_over_opportunities_is_judged_at_their_mean_rate(laboratory: Any) -> None:
    with pytest.raises(UserError, match="24kbit: write at least 500ms"):
        laboratory("[path]\ntrace = 'opportunities.csv'\nqueue = 'droptail:499ms'\n")
    laboratory("[path]\ntrace = 'opportunities.csv'\nqueue = 'droptail:500ms'\n")


def test_the_other_keys_of_a_bottleneck(laboratory: Any) -> None:
    text = "[path]\nrate = '1mbit'\noverhead = 24\nqueue-unit = 'superpacket'\noutage = 'drop'\n"
    stage = links(laboratory(text))[0][0]
    assert (stage["overhead_bytes"], stage["unit"], stage["outage"]) == (24, "superpacket", "drop")


@pytest.mark.parametrize(
    ("value", "delay", "reorder"),
    [
        ("'11ms'", {"kind": "constant", "delay_ns": 11_000_000}, False),
        (
            "{distribution='normal', mean='20ms', spread='5ms'}",
            {
                "kind": "distribution",
                "shape": "normal",
                "mean_ns": 20_000_000,
                "spread_ns": 5_000_000,
                "correlation": 0.0,
            },
            False,
        ),
        (
            "{distribution='pareto', mean='20ms', spread='5ms', correlation='25%', reorder=true}",
            {
                "kind": "distribution",
                "shape": "pareto",
                "mean_ns": 20_000_000,
                "spread_ns": 5_000_000,
                "correlation": 0.25,
            },
            True,
        ),
    ],
)
def test_delays(laboratory: Any, value: str, delay: object, reorder: bool) -> None:
    down, _ = links(laboratory(f"[path]\ndelay = {value}\n"))
    assert down == [{"stage": "delay", "delay": delay, "reorder": reorder, "limit_packets": None}]


UNIFORM = {"kind": "distribution", "shape": "uniform", "mean_ns": 20_000_000, "correlation": 0.0}


def test_a_jitter_is_a_uniform_delay_around_the_constant_one_in_order(laboratory: Any) -> None:
    down, up = links(laboratory("[path]\ndelay = '20ms'\njitter = '5ms'\nup-jitter = '0s'\n"))
    varying = {**UNIFORM, "spread_ns": 5_000_000}
    assert down == [{"stage": "delay", "delay": varying, "reorder": False, "limit_packets": None}]
    assert up[0]["delay"] == {"kind": "constant", "delay_ns": 20_000_000}


def test_an_option_for_the_delay_keeps_the_jitter_unless_it_varies_itself(laboratory: Any) -> None:
    text = "[path]\ndelay = '9ms'\njitter = '5ms'\n"
    assert links(laboratory(text, delay="20ms"))[0][0]["delay"] == {**UNIFORM, "spread_ns": 5_000_000}
    varying = links(laboratory(text, delay={"distribution": "normal", "mean": "20ms", "spread": "1ms"}))[0][0]["delay"]
    assert varying == {**UNIFORM, "shape": "normal", "spread_ns": 1_000_000}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("'0.5%'", {"kind": "independent", "probability": 0.005}),
        (
            "{model='gilbert-elliott', p='1%', r='20%'}",
            {"kind": "gilbert_elliott", "p": 0.01, "r": 0.2, "good_loss": 0.0, "bad_loss": 1.0},
        ),
        (
            "{model='gilbert-elliott', p='1%', r='20%', good-loss='0.1%', bad-loss='50%'}",
            {"kind": "gilbert_elliott", "p": 0.01, "r": 0.2, "good_loss": 0.001, "bad_loss": 0.5},
        ),
        (
            "{model='four-state', p13='1%', p31='30%', p23='40%', p32='50%', p14='0.1%'}",
            {"kind": "four_state", "p13": 0.01, "p31": 0.3, "p23": 0.4, "p32": 0.5, "p14": 0.001},
        ),
    ],
)
def test_losses(laboratory: Any, value: str, expected: object) -> None:
    down, _ = links(laboratory(f"[path]\nloss = {value}\nloss-unit = 'superpacket'\n"))
    assert down == [{"stage": "loss", "model": expected, "unit": "superpacket"}]


def test_patterns_of_delay_and_loss(laboratory: Any, tmp_path: FilePath) -> None:
    text = "[path]\ndelay = {pattern='everything.csv', end='stop'}\nloss = {pattern='everything.csv', start-at='1s'}\n"
    delay, loss = links(laboratory(text))[0]
    file = str(tmp_path / "everything.csv")
    assert delay["delay"] == {"kind": "pattern", "file": file, "end": "stop", "start_ns": 0}
    assert loss["model"] == {"kind": "pattern", "file": file, "end": "repeat", "start_ns": 1_000_000_000}


ALL_STAGES = """[path]
rate = '1mbit'
delay = '1ms'
loss = '1%'
duplicate = '2%'
reorder = {probability = '3%', delay = '4ms'}
corrupt = '5%'
"""


def test_stages_stand_in_the_documented_order(laboratory: Any) -> None:
    down, _ = links(laboratory(ALL_STAGES))
    order = ["bottleneck", "delay", "loss", "duplicate", "reorder", "corrupt"]
    assert [stage["stage"] for stage in down] == order
    assert down[3:] == [
        {"stage": "duplicate", "probability": 0.02},
        {"stage": "reorder", "probability": 0.03, "delay_ns": 4_000_000},
        {"stage": "corrupt", "probability": 0.05},
    ]


def test_loss_at_entry_comes_before_the_bottleneck(laboratory: Any) -> None:
    down, _ = links(laboratory(ALL_STAGES + "loss-at = 'entry'\n"))
    assert [stage["stage"] for stage in down][:2] == ["loss", "bottleneck"]


def test_a_key_for_one_direction_wins(laboratory: Any) -> None:
    down, up = links(laboratory("[path]\nup-delay = '2ms'\ndelay = '1ms'\n"))
    assert (down[0]["delay"]["delay_ns"], up[0]["delay"]["delay_ns"]) == (1_000_000, 2_000_000)


TWO_SEGMENTS = """[path]
congestion-control = 'cubic'
coalesce = 'slot'
seed = 7
mtu = 9000
[[path.hop]]
name = 'internet'
kind = 'wired'
delay = '11ms'
[[path.hop]]
name = 'air'
kind = 'radio'
rate = '1gbit'
up-rate = '100mbit'
[path.edge]
after = 'internet'
congestion-control = 'bbr'
[path.client]
sysctl = {"net.ipv4.tcp_rmem" = '1 2 3', "net.ipv4.tcp_syn_linear_timeouts" = 0}
"""


def test_three_hosts_divide_the_hops(laboratory: Any) -> None:
    lab = laboratory(TWO_SEGMENTS)
    assert [[hop["name"] for hop in leg["hops"]] for leg in lab["network"]["legs"]] == [["internet"], ["air"]]
    assert [(host["name"], host["congestion_control"]) for host in lab["network"]["hosts"]] == [
        ("server", "cubic"),
        ("edge", "bbr"),
        ("client", "cubic"),
    ]
    assert lab["network"]["hosts"][2]["sysctls"]["net.ipv4.tcp_rmem"] == "1 2 3"
    assert lab["network"]["hosts"][2]["sysctls"]["net.ipv4.tcp_syn_linear_timeouts"] == "0"
    assert lab["network"]["hosts"][0]["sysctls"]["net.ipv4.tcp_rmem"] == "4096 131072 536870912"
    assert (lab["network"]["coalesce"], lab["seed"], lab["network"]["mtu"]) == ({"kind": "slot"}, 7, 9000)


def test_options_override_the_radio_hop_in_both_directions(laboratory: Any) -> None:
    lab = laboratory(TWO_SEGMENTS, rate="10mbit", delay="1ms", seed="9", congestion_control="reno")
    assert links(lab, 0)[0][0]["delay"]["delay_ns"] == 11_000_000
    for link in links(lab, 1):
        assert link[0]["rate"]["rate_bps"] == 10_000_000
        assert link[1]["delay"]["delay_ns"] == 1_000_000
    assert lab["seed"] == 9
    assert {host["congestion_control"] for host in lab["network"]["hosts"]} == {"reno"}


def test_an_option_for_one_direction_leaves_the_other(laboratory: Any) -> None:
    down, up = links(laboratory(TWO_SEGMENTS, up_rate="3mbit"), 1)
    assert down[0]["rate"]["rate_bps"] == 1_000_000_000
    assert up[0]["rate"]["rate_bps"] == 3_000_000


def test_options_go_to_the_last_hop_where_none_is_radio(laboratory: Any) -> None:
    lab = laboratory(TWO_SEGMENTS.replace("'radio'", "'wired'"), loss="1%")
    assert [stage["stage"] for stage in links(lab, 0)[0]] == ["delay"]
    assert [stage["stage"] for stage in links(lab, 1)[0]] == ["bottleneck", "loss"]


def test_a_rate_replaces_the_trace_of_a_scenario(laboratory: Any) -> None:
    down, _ = links(laboratory("[path]\ntrace = 'steps.csv'\ntrace-end = 'stop'\n", rate="1mbit"))
    assert down[0]["rate"] == {"kind": "constant", "rate_bps": 1_000_000}


def test_with_nat_the_server_keeps_its_settings(laboratory: Any) -> None:
    lab = laboratory("[path]\nnat = true\ncongestion-control = 'bbr'\n")
    assert lab["network"]["hosts"][0] == {"name": "server", "congestion_control": None, "sysctls": {}}
    assert lab["network"]["hosts"][1]["congestion_control"] == "bbr"


def test_names_take_the_path_unless_they_are_said_to_go_beside_it(laboratory: Any) -> None:
    assert laboratory("[path]\nnat = true\n")["network"]["names"] == "path"
    assert laboratory("[path]\nnat = true\n", names="beside")["network"]["names"] == "beside"


def test_times_of_rebindings(laboratory: Any) -> None:
    assert laboratory("[path]\n")["network"]["rebind_at_ns"] == []
    assert laboratory("[path]\nrebind-at = ['1s', '1.5s']\n")["network"]["rebind_at_ns"] == [10**9, 1_500_000_000]
    assert laboratory("[path]\nrebind-at = ['1s', '1.5s']\n", **{"rebind-at": "2s"})["network"]["rebind_at_ns"] == [
        2 * 10**9
    ]
    assert laboratory("[path]\n", **{"rebind-at": "2s, 30s"})["network"]["rebind_at_ns"] == [2 * 10**9, 30 * 10**9]


def test_a_delay_has_a_limit_in_packets(laboratory: Any) -> None:
    down, _ = links(laboratory("[path]\ndelay = '11ms'\ndelay-limit = '1000p'\n"))
    assert down[0]["limit_packets"] == 1000


def test_the_study_is_what_the_paper_says() -> None:
    lab: Any = Path.load(ROOT / "scenarios/kau-e5g-1.toml").laboratory()
    internet, radio = lab["network"]["legs"][0]["hops"]
    for link in (internet["down"], internet["up"]):
        delay = {"kind": "constant", "delay_ns": 11_000_000}
        assert link == [{"stage": "delay", "delay": delay, "reorder": False, "limit_packets": None}]
    for link in (radio["down"], radio["up"]):
        assert link[0]["queue"] == {"kind": "droptail", "limit": {"packets": 1000}}
    rows = FilePath(radio["down"][0]["rate"]["file"]).read_text().splitlines()[-3:]
    assert rows == ["0,945000000,los", "2.1,318000000,nlos", "22.1,1005000000,los"]


def test_the_reference_page_is_up_to_date() -> None:
    stored = (ROOT / "docs/reference/scenario.md").read_text()
    assert stored == scenario_page(), "run: python -m wavebed.cli.references docs/reference/scenario.md"
    for keys in map(fields, (LinkTable, AirTable, PathTable, HopTable, HostTable)):
        for key in keys:
            assert f"| `{key}` |" in stored


def test_python_options_are_checked_by_name() -> None:
    with pytest.raises(UserError, match=r"delya: unknown key: did you mean 'delay'\?"):
        Path.of(delya="1ms")


def test_files_may_be_given_as_paths(tmp_path: FilePath) -> None:
    file = tmp_path / "steps.csv"
    file.write_text("# wavebed pattern 1\n# kind = steps\n# duration_s = 1\ntime_s,rate_bps\n0,1000000\n")
    assert Path.of(trace=file).model == Path.of(trace=str(file)).model
