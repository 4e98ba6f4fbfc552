"""Real hosts: clocks, frames of the agent, modems, and workloads."""

from __future__ import annotations

import io
import json
import random
import struct
import subprocess
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.memory_lab import MemoryLab, Program

from wavebed.errors import WavebedError
from wavebed.hosts.agent import (
    ClockBounds,
    ClockSteppedError,
    File,
    Piece,
    answer_of,
    encode_frame,
    message_of,
    read_frame,
)
from wavebed.hosts.host import AgentHost, Fetched, Sink
from wavebed.hosts.samples import ModemState, load_of, merge_samples, read_states
from wavebed.lab.protocol import MachineClock, first_ports
from wavebed.run.folder import programs
from wavebed.run.hosts import hosts_metrics, modem_events, modem_series
from wavebed.run.resolve import programs_on
from wavebed.run.scenario import read_plan
from wavebed.stranger import Budget, StrangerError
from wavebed.workload import read_workload
from wavebed.workload import web as web_module
from wavebed.workload.call import reachable
from wavebed.workload.model import TrialContext

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from wavebed.config.data import Json
    from wavebed.workload.serve import VirtualHost
    from wavebed.workload.web import Web


TOWARDS: dict[str, object] = {
    "interface": "eth0", "address": "10.0.0.1", "rx_bytes": 1, "tx_bytes": 1, "rx_packets": 1, "tx_packets": 1,
    "rx_dropped": 0, "tx_dropped": 0,
}  # fmt: skip
MS = 1_000_000
S = 1_000 * MS


def exchange(bounds: ClockBounds, at_ns: int, ahead_ns: int, there_ns: int, back_ns: int) -> None:
    """Add the answer of a clock that is ahead by this much, over a path with these delays."""
    read_ns = at_ns + there_ns + ahead_ns
    bounds.add(at_ns, read_ns, read_ns + 1000, at_ns + there_ns + 1000 + back_ns)


def test_the_error_is_half_of_the_shortest_round_trip() -> None:
    bounds = ClockBounds()
    exchange(bounds, 0, 50 * MS, 3 * MS, 9 * MS)
    exchange(bounds, 100 * MS, 50 * MS, 200_000, 200_000)
    offset_ns, error_ns = bounds.at(100 * MS)
    assert abs(offset_ns - 50 * MS) <= error_ns
    assert 200_000 <= error_ns <= 201_000


def test_an_asymmetric_path_stays_within_the_error() -> None:
    bounds = ClockBounds()
    exchange(bounds, 0, 50 * MS, 1 * MS, 30 * MS)
    offset_ns, error_ns = bounds.at(0)
    assert abs(offset_ns - 50 * MS) <= error_ns
    assert error_ns > 14 * MS


def test_a_clock_that_was_set_is_noticed() -> None:
    bounds = ClockBounds()
    exchange(bounds, 0, 0, MS, MS)
    assert bounds.is_consistent()
    exchange(bounds, S, 100 * MS, MS, MS)
    assert not bounds.is_consistent()
    with pytest.raises(ClockSteppedError):
        bounds.at(S // 2)


@given(
    drift_ppm=st.floats(-500, 500),
    first_ns=st.integers(-(10**12), 10**12),
    seed=st.integers(0, 2**32),
    at_s=st.floats(0, 60),
)
def test_the_stated_error_is_never_exceeded(drift_ppm: float, first_ns: int, seed: int, at_s: float) -> None:
    draw = random.Random(seed)
    bounds = ClockBounds()

    def ahead_ns(at_ns: int) -> int:
        return first_ns + round(drift_ppm * 1e-6 * at_ns)

    for second in range(0, 60, 2):
        there_ns, back_ns = draw.randrange(100_000, 40 * MS), draw.randrange(100_000, 40 * MS)
        asked_ns = second * S
        read_ns = asked_ns + there_ns + ahead_ns(asked_ns + there_ns)
        bounds.add(asked_ns, read_ns, read_ns, asked_ns + there_ns + back_ns)
    at_ns = round(at_s * S)
    offset_ns, error_ns = bounds.at(at_ns)
    assert abs(offset_ns - ahead_ns(at_ns)) <= error_ns + 1
    assert bounds.is_consistent()


def test_a_thousand_answers_cost_no_more_than_their_number() -> None:
    bounds = ClockBounds()
    for number in range(1000):
        exchange(bounds, number * S, 5 * MS, 100_000, 100_000)
    answers = [bounds.at(number * S // 10) for number in range(10_000)]
    assert all(abs(offset_ns - 5 * MS) <= error_ns for offset_ns, error_ns in answers)


@given(st.dictionaries(st.text(), st.integers() | st.text()), st.binary(max_size=1000))
def test_a_frame_is_read_as_it_was_written(header: dict[str, int | str], payload: bytes) -> None:
    stream = io.BytesIO(encode_frame(header, payload) * 2)
    for _ in range(2):
        frame = read_frame(stream)
        assert frame is not None
        assert (json.loads(frame[0]), frame[1]) == (header, payload)
    assert read_frame(stream) is None


@given(st.binary(min_size=1, max_size=300))
def test_any_bytes_are_frames_or_one_error(data: bytes) -> None:
    stream = io.BytesIO(data)
    try:
        while read_frame(stream) is not None:
            pass
    except StrangerError as error:
        assert "\n" not in str(error)


def test_the_greeting_of_a_login_shell_is_named_as_the_reason() -> None:
    with pytest.raises(StrangerError, match="start file of the shell"):
        read_frame(io.BytesIO(b"Welcome to this host!\n"))


@pytest.mark.parametrize("header", [b"[]", b"{", b"1"])
def test_a_header_that_is_no_object_is_refused(header: bytes) -> None:
    frame = read_frame(io.BytesIO(struct.pack("<II", len(header), 0) + header))
    assert frame is not None
    with pytest.raises(StrangerError, match="header of a frame is malformed"):
        message_of(frame[0])


@given(
    st.binary(max_size=200)
    | st.recursive(st.integers() | st.text() | st.none(), st.lists).map(json.dumps).map(str.encode)
)
def test_any_header_is_a_message_or_one_error(text: bytes) -> None:
    for read in (message_of, *(partial(answer_of, do) for do in ("hello", "clock", "run", "towards", "flows", "stop"))):
        try:
            read(text)
        except StrangerError as error:
            assert str(error).isprintable()


EVENTS: dict[str, object] = {
    "a list for a number": {"event": "output", "pid": [1], "stream": "stdout"},
    "a stream that is none": {"event": "output", "pid": 1, "stream": "x"},
    "a negative size": {"event": "file", "tag": 1, "name": "a", "bytes": -5},
    "an offset of 2^70": {"event": "piece", "tag": 1, "name": "a", "offset": 1 << 70},
    "no name": {"event": "file", "tag": 1, "bytes": 1},
    "a number for a name": {"event": "file", "tag": 1, "name": 7, "bytes": 1},
    "an unknown event": {"event": "gone"},
    "an event that is no word": {"event": 1},
    "a status of 10^30": {"event": "exit", "pid": 1, "status": 10**30},
    "an error that is no text": {"id": 1, "error": ["x"]},
    "a deep list": [[[[]]]],
}


@pytest.mark.parametrize("event", EVENTS.values(), ids=EVENTS)
def test_a_header_of_another_type_is_one_error(event: object) -> None:
    with pytest.raises(StrangerError, match=r"^the header of a frame is malformed \("):
        message_of(json.dumps(event).encode())


ANSWERS: dict[str, tuple[str, object]] = {
    "a clock of texts": ("clock", {"unix_ns": ["x", None], "monotonic_ns": [1, 2]}),
    "a clock of no number": ("clock", {"unix_ns": [float("nan")] * 2, "monotonic_ns": [1, 2]}),
    "a clock of 10^30": ("clock", {"unix_ns": [1, 2], "monotonic_ns": [10**30, 10**30]}),
    "a clock of one reading": ("clock", {"unix_ns": [1], "monotonic_ns": [1, 2]}),
    "no number of a process": ("run", {}),
    "the number of every process": ("run", {"pid": -1}),
    "an address that is an option": ("towards", TOWARDS | {"address": "-oProxyCommand=x"}),
    "counters of texts": ("towards", TOWARDS | {"rx_bytes": "1"}),
    "a port of no protocol": ("ports", {"ports": [["sctp", 80]]}),
    "a port beyond the last": ("ports", {"ports": [["tcp", 65_536]]}),
}


@pytest.mark.parametrize("told", ANSWERS.values(), ids=ANSWERS)
def test_an_answer_of_another_type_is_one_error(told: tuple[str, object]) -> None:
    do, answer = told
    with pytest.raises(StrangerError, match=rf"^the answer to {do} is malformed \("):
        answer_of(do, json.dumps(answer).encode())


class Host:
    """An agent that sends files with the names that it is told."""

    name = "server"

    def __init__(self, fetched: Fetched, files: dict[str, bytes]) -> None:
        self._fetched = fetched
        self._files = files

    def ask(self, request: dict[str, object], **limits: float) -> dict[str, object]:
        assert limits["limit_s"] > 0
        for name, content in self._files.items():
            tag = cast("int", request["tag"])
            self._fetched.hear(File(tag, name, len(content)), b"")
            self._fetched.hear(Piece(tag, name, 0), content)
        return {}


def fetch(folder: Path, files: dict[str, bytes]) -> None:
    fetched = Fetched()
    fetched.fetch(Host(fetched, files), folder, folder, 1.0)  # type: ignore[arg-type]


def test_files_arrive_in_the_folder(tmp_path: Path) -> None:
    fetch(tmp_path, {"irtt.json": json.dumps({"a": 1}).encode(), "below/x": b"y"})
    assert json.loads((tmp_path / "irtt.json").read_text()) == {"a": 1}
    assert (tmp_path / "below" / "x").read_bytes() == b"y"


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x", ""])
def test_a_name_that_leads_out_of_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    with pytest.raises(Exception, match="came as the name of a file"):
        fetch(inside, {name: b"z"})
    assert not (tmp_path / "x").exists()


def test_a_link_in_the_folder_is_not_followed(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "x").symlink_to(tmp_path / "target")
    with pytest.raises(Exception, match="inside/x"):
        fetch(inside, {"x": b"z"})
    assert not (tmp_path / "target").exists()


class Liar(Host):
    """An agent that sends what it likes."""

    def __init__(self, fetched: Fetched, *events: tuple[File | Piece, bytes]) -> None:
        super().__init__(fetched, {})
        self._events = events

    def ask(self, request: dict[str, object], **_: float) -> dict[str, object]:
        for event, payload in self._events:
            self._fetched.hear(replace(event, tag=request["tag"]), payload)
        return {}


LIES: dict[str, tuple[str, list[tuple[File | Piece, bytes]]]] = {
    "a file of 8 TiB": ("has 8796093022208 bytes", [(File(0, "a", 1 << 43), b"")]),
    "ten files of 1 GiB": ("more than 4294967296 bytes", [(File(0, f"a{i}", 1 << 30), b"") for i in range(10)]),
    "20 000 files": ("more than 10000 files", [(File(0, f"d/{i}", 0), b"") for i in range(20_000)]),
    "a piece of no file": ("more came than the file has", [(Piece(0, "a", 0), b"x")]),
    "a piece at 2^62": ("more came than the file has", [(File(0, "a", 1), b""), (Piece(0, "a", 1 << 62), b"x")]),
    "a name that acts on a terminal": ("came as the name of a file", [(File(0, "\x1b[31mx\n", 0), b"")]),
    "a name with a zero": ("came as the name of a file", [(File(0, "a\0b", 0), b"")]),
    "a name of half a character": ("came as the name of a file", [(File(0, "a\ud800", 0), b"")]),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_host_that_sends_too_much_is_told_in_one_line(lie: str, tmp_path: Path) -> None:
    why, events = LIES[lie]
    fetched = Fetched()
    with pytest.raises(WavebedError, match=why) as told:
        fetched.fetch(Liar(fetched, *events), tmp_path, tmp_path, 1.0)  # type: ignore[arg-type]
    assert str(told.value).isprintable()
    assert sum(file.stat().st_blocks for file in tmp_path.rglob("*") if file.is_file()) * 512 < 1 << 20


def test_captured_output_and_all_that_comes_in_a_trial_have_bounds() -> None:
    sink, piece = Sink("stdout", subprocess.PIPE, is_far=True), b"x" * (1 << 20)
    for _ in range(64):
        sink.take(piece)
    with pytest.raises(StrangerError, match="the stdout of a program has more than 67108864 bytes"):
        sink.take(b"x")
    budget = Budget()
    for _ in range(4):
        budget.take(1 << 30)
    with pytest.raises(StrangerError, match="more than 4294967296 bytes came in one trial"):
        budget.take(1)


CPU_HEAD = "time_ns,core,busy,softirq\n"
TABLES = {
    "other columns": "time,core\n1,2\n",
    "a text for a number": CPU_HEAD + "1,0,x,0\n",
    "a number of 5000 digits": CPU_HEAD + "9" * 5000 + ",0,0.5,0\n",
    "a line without end": CPU_HEAD + "1" * 100_000,
    "a formula": CPU_HEAD + '1,0,"=1+1",0\n',
    "time that goes back": CPU_HEAD + "5,0,0.5,0\n4,0,0.5,0\n",
    "no UTF-8": CPU_HEAD + "1,0,\udcff,0\n",
    "nothing but zeros": "\0" * 200_000,
}


@pytest.mark.parametrize("text", TABLES.values(), ids=TABLES)
def test_samples_that_no_sampler_wrote_are_one_error(text: str, tmp_path: Path) -> None:
    far = tmp_path / "far"
    far.mkdir()
    (far / "cpu.csv").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(StrangerError, match=r"^cpu\.csv: "):
        load_of(far, 1)
    with pytest.raises(StrangerError, match=r"^cpu\.csv: "):
        merge_samples({"server": far}, tmp_path)
    assert not (tmp_path / "cpu.csv").exists()


def test_samples_of_two_hosts_are_merged_by_time_and_processors_numbered_on(tmp_path: Path) -> None:
    for name, rows in (("server", "1,0,0.5,0.1\n1,1,0.99,0.1\n3,0,0.5,\n3,1,0.5,\n7"), ("client", "2,0,0.5,0.1\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cpu.csv").write_text(CPU_HEAD + rows)
    merge_samples({name: tmp_path / name for name in ("server", "client", "none")}, tmp_path)
    merged = (tmp_path / "cpu.csv").read_text()
    assert merged == CPU_HEAD + "1,0,0.5,0.1\n1,1,0.99,0.1\n2,2,0.5,0.1\n3,0,0.5,\n3,1,0.5,\n"
    assert load_of(tmp_path / "server", 1) == (2, 0, 1)
    assert not (tmp_path / "flows.csv").exists()


class LateHost(Host):
    """An agent that answers a request in time, and sends the files of the request before it meanwhile."""

    last: dict[str, object] | None = None

    def ask(self, request: dict[str, object], **limits: float) -> dict[str, object]:
        last, self.last = self.last, request
        return {} if last is None else super().ask(last, **limits)


def test_files_of_a_request_that_was_given_up_are_in_no_later_answer(tmp_path: Path) -> None:
    fetched = Fetched()
    host = LateHost(fetched, {"x": b"y"})
    for _ in range(2):
        fetched.fetch(host, tmp_path, tmp_path, 1.0)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


AT = 1_800_000_000_000_000_000
UNKNOWN = 2147483647


def signal(**technologies: dict[str, str]) -> str:
    known = {name.lstrip("_"): values for name, values in technologies.items()}
    return json.dumps({"modem": {"signal": {"refresh": {"rate": "1"}, "gsm": {"rssi": "--"}, **known}}})


def location(cell: str) -> str:
    return json.dumps({"modem": {"location": {"3gpp": {"cid": cell, "mcc": "001", "mnc": "01", "tac": "00AB"}}}})


def read(tool: str, text: str) -> ModemState:
    (state,) = read_states(f"=== {tool} {AT}\n{text}\n".split("\n"))
    assert (state.tool, state.unix_ns) == (tool, AT)
    return state


def test_modemmanager_tells_the_signal_of_5g_before_that_of_lte() -> None:
    lte = {"rsrp": "-101.00", "rsrq": "-12.00", "snr": "4.20"}
    found = read("mmcli", signal(_5g={"rsrp": "-88.00", "snr": "17.50"}, lte=lte) + "\n" + location("0ABC1201"))
    assert found == ModemState(AT, "mmcli", "NR", -88.0, 17.5, "0ABC1201")
    found = read("mmcli", signal(_5g={"rsrp": "--", "snr": "--"}, lte=lte) + location("--"))
    assert found == ModemState(AT, "mmcli", "LTE", -101.0, 4.2)


QMI = """[/dev/cdc-wdm0] Successfully got signal info
LTE:
\tRSSI: '-61 dBm'
\tRSRQ: '-9 dB'
\tRSRP: '-93 dBm'
\tSNR: '11.8 dB'
{nr}[/dev/cdc-wdm0] Successfully got RF band info
Band Information:
\tRadio Interface:   'lte'
\tActive Band Class: 'eutran-1'
\tActive Channel:    '300'
\tRadio Interface:   '5gnr'
\tActive Band Class: 'ngran-77'
\tActive Channel:    '650000'
[/dev/cdc-wdm0] Successfully got serving system:
\tRegistration state: 'registered'
\tDetailed status:
\t\tStatus: 'available'
\t3GPP location area code: '65534'
\t3GPP cell ID: '80123393'
"""


def test_qmi_tells_signal_band_and_cell() -> None:
    nr = "5G:\n\tRSRP: '-84 dBm'\n\tSNR: '21.5 dB'\n\tRSRQ: '-11 dB'\n"
    assert read("qmicli", QMI.format(nr=nr)) == ModemState(AT, "qmicli", "NR", -84.0, 21.5, "80123393", "ngran-77")
    assert read("qmicli", QMI.format(nr="")) == ModemState(AT, "qmicli", "LTE", -93.0, 11.8, "80123393", "eutran-1")


def phone(rsrp: int, sinr: int) -> str:
    return (
        "    mCellIdentity=CellIdentityNr:{ mPci = 41 mTac = 7001 mNrArfcn = 640000 mBands = [78] mMcc = 001 mMnc = 01"
        " mNci = 4000000123 mAlphaLong = Example mAlphaShort = Ex mAdditionalPlmns = {} }\n"
        f"    mSignalStrength=SignalStrength:{{mLte=CellSignalStrengthLte: rssi=-70 rsrp=-99 rsrq=-9 rssnr={UNKNOWN}"
        f" cqi={UNKNOWN} ta={UNKNOWN} level=3,mNr=CellSignalStrengthNr:{{ csiRsrp = {UNKNOWN} csiSinr = {UNKNOWN}"
        f" ssRsrp = {rsrp} ssRsrq = -11 ssSinr = {sinr} level = 3 }},primary=CellSignalStrengthNr}}\n"
    )


def test_a_phone_tells_5g_if_it_has_it_and_lte_otherwise() -> None:
    assert read("adb", phone(-87, 14)) == ModemState(AT, "adb", "NR", -87.0, 14.0, "4000000123", "78")
    assert read("adb", phone(UNKNOWN, UNKNOWN)) == ModemState(AT, "adb", "LTE", -99.0, None, "4000000123", "78")


def test_samples_that_tell_nothing_are_left_out() -> None:
    text = f"=== mmcli {AT}\nerror: couldn't find modem\n=== qmicli {AT}\n=== adb {AT}\nerror: no devices\n"
    assert read_states(text.split("\n")) == []
    assert read_states([]) == []


@given(
    st.sampled_from(["mmcli", "qmicli", "adb"]), st.text(alphabet="{}[]:\"=, \nmodemsignal5gRSRPmNr'-0", max_size=300)
)
def test_any_output_gives_samples_or_none(tool: str, text: str) -> None:
    for state in read_states(f"=== {tool} {AT}\n{text}".split("\n")):
        assert state.unix_ns == AT


def test_a_change_of_cell_ends_one_period_and_begins_another() -> None:
    samples: list[Json] = [
        {"time_s": float(number), "rsrp_dbm": -90.0, "sinr_db": None, "cell": "1" if number < 2 else "2", "band": None}
        for number in range(4)
    ]
    summary: dict[str, Json] = {"modem": {"samples": samples}}
    assert [(each.text, each.time_s, each.end_s) for each in modem_events(summary)] == [("1", 0, 2), ("2", 2, 3)]
    (rsrp,) = modem_series(summary)
    assert (rsrp.name, rsrp.unit, list(rsrp.value)) == ("rsrp", "dBm", [-90.0] * 4)
    assert modem_series({}) == modem_events({}) == []


def test_the_data_volume_is_that_of_both_directions_of_the_client_in_megabytes() -> None:
    summary: dict[str, Json] = {
        "hosts": [
            {"name": "server", "rx_bytes": 7, "tx_bytes": 8},
            {"name": "client", "rx_bytes": 5_000_000, "tx_bytes": 250_000},
        ]
    }
    (volume,) = hosts_metrics(summary)
    assert (volume.value, volume.unit) == (5.25, "MB")
    assert hosts_metrics({})[0].value is None


SDP = """v=0
a=candidate:1 1 udp 2122260223 10.0.0.5 40001 typ host generation 0 network-id 1
a=candidate:2 1 udp 2122194687 172.17.0.1 40002 typ host generation 0 network-id 2
a=candidate:3 1 udp 2122129151 2001:db8::1 40003 typ host generation 0 network-id 3
a=candidate:4 1 tcp 1518280447 10.0.0.5 9 typ host tcptype active generation 0 network-id 1
a=end-of-candidates
"""


def candidates(address: str) -> list[str]:
    told = cast("dict[str, str]", reachable({"type": "offer", "sdp": SDP}, address))
    assert told["type"] == "offer"
    lines = told["sdp"].split("\r\n")
    assert (lines[0], lines[-2:]) == ("v=0", ["a=end-of-candidates", ""])
    return [" ".join(line.split()[4:6]) for line in lines if line.startswith("a=candidate")]


def test_only_the_address_on_the_path_is_offered_to_the_other_end() -> None:
    assert candidates("10.0.0.5") == ["10.0.0.5 40001"]


def test_behind_a_translator_of_addresses_the_outer_one_stands_for_the_inner_ones() -> None:
    assert candidates("192.0.2.7") == ["192.0.2.7 40001", "192.0.2.7 40002"]


def test_emulated_hosts_offer_all_their_addresses() -> None:
    assert reachable({"sdp": SDP}, "") == {"sdp": SDP}


def test_no_two_workloads_share_a_port() -> None:
    assert first_ports([20, 35, 20]) == [20000, 20020, 20055]


class Silent:
    """Stands in for a browser; keeps its settings."""

    settings: dict[str, Any]
    sandbox = "on"

    def __init__(self, _: object, __: str, settings: dict[str, Any], *___: object, **____: object) -> None:
        type(self).settings = settings

    def await_ready(self) -> None: ...

    def close(self) -> None: ...


def test_each_origin_of_a_page_has_a_port_of_its_own_and_keeps_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[VirtualHost] = []

    def serve(host: object, hosts: Sequence[VirtualHost], *_: object) -> object:
        served.extend(hosts)
        return SimpleNamespace(stop=lambda: None, failure=lambda: None)

    monkeypatch.setattr(web_module, "BrowserAgent", Silent)
    monkeypatch.setattr(web_module, "start_web_server", serve)
    workload = cast("Web", read_workload({"kind": "web", "site": "small", "protocol": "h3"}))
    origins = [SimpleNamespace(name=f"{name}.example", folder=name) for name in ("www", "static")]
    site = SimpleNamespace(name="small", origins=origins, objects=[], first="/", compressed=False)
    workload.built = cast("Any", SimpleNamespace(site=site, folder=tmp_path, routes={}))
    workload.device = {}
    workload.certificate = cast("Any", SimpleNamespace(spki_sha256="x"))
    lab = MemoryLab({"ip": Program(status=1)})  # nothing gives the host further addresses
    lab.begin()
    server = lab.host("server")
    server.only_address = "192.0.2.7"
    workload.open(TrialContext(server, lab.host("client"), tmp_path, lab.clock, 20040, "198.19.1.", 1, 5.0))
    assert [(each.name, each.address, each.port) for each in served] == [
        ("www.example", "*", 20040),
        ("static.example", "*", 20041),
    ]
    arguments = " ".join(Silent.settings["arguments"])
    assert "MAP www.example 192.0.2.7:20040, MAP static.example 192.0.2.7:20041, MAP * ~NOTFOUND" in arguments
    assert "--origin-to-force-quic-on=www.example:443,static.example:443" in arguments
    assert Silent.settings["url"] == "https://www.example/"


def host(offset_ns: int, *, is_far: bool) -> AgentHost:
    """Return a host whose clocks are ahead of ours by an offset, without an agent."""
    made = AgentHost.__new__(AgentHost)
    made.clock, made.is_far = MachineClock(), is_far
    made.clock.begin(1_000_000_000_000)
    bounds = ClockBounds()
    for at_ns in range(1_000_000_000_000, 1_010_000_000_000, 1_000_000_000):
        bounds.add(at_ns, at_ns + offset_ns + 5_000_000, at_ns + offset_ns + 5_000_000, at_ns + 10_000_000)
    made.agent = cast("Any", SimpleNamespace(unix=bounds, monotonic=bounds))
    return made


@pytest.mark.parametrize("offset_ns", [0, 50_000_000, -5_000_000_000_000, 1_790_000_000_000_000_000])
def test_a_far_host_tells_times_of_the_trial_by_its_own_clocks(offset_ns: int) -> None:
    far = host(offset_ns, is_far=True)
    shown_ns = 1_003_000_000_000 + offset_ns
    assert far.of_monotonic_ns(shown_ns) == pytest.approx(3, abs=1e-3)
    assert far.of_unix_s(shown_ns / 1e9) == pytest.approx(3, abs=1e-3)


def test_this_machine_tells_them_by_its_own() -> None:
    near = host(77_000_000_000, is_far=False)
    assert near.of_monotonic_ns(1_003_000_000_000) == 3


def test_each_host_needs_the_programs_of_its_end_of_the_workloads() -> None:
    tables = [{"kind": "web", "site": "google"}, {"kind": "bulk"}, {"kind": "latency", "probe": "icmp"}]
    assert programs_on([read_workload(table) for table in tables]) == {
        "server": ["nginx", "iperf3"],
        "client": ["chromium", "iperf3", "ping"],
    }


def test_this_machine_needs_no_programs_of_the_far_end(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(
        '[lab]\nbackend = "hosts"\nserver = "ssh://x"\n[path]\n[[workload]]\nkind = "download"\nprotocol = "h2"\n'
    )
    assert programs(read_plan(tmp_path / "s.toml")) == {"curl", "openssl"}
