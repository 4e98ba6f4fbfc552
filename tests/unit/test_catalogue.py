"""The catalogue of public traces: each set's converters read files of its form, and each pattern says what was done.

The files here are made up in the form of the public ones. Excerpts are read where a machine has them.
"""

from __future__ import annotations

import hashlib
import json
import tarfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from wavebed.catalogue import NOT_RECORDED, convert, members_of, set_named, trace_sets
from wavebed.catalogue.sources import compared, tree_of
from wavebed.cli import main
from wavebed.errors import UserError
from wavebed.pattern import read_trace
from wavebed.pattern.formats.base import clock_ns

if TYPE_CHECKING:
    from collections.abc import Callable

    from wavebed.catalogue import Conversion

SHARED = Path(__file__).resolve().parents[3] / "shared"
"""Excerpts of public traces, on machines that have them; they are in no repository."""


def iperf3(rates_mbit: list[int]) -> str:
    intervals = [
        {
            "streams": [],
            "sum": {
                "start": place / 10, "end": (place + 1) / 10, "seconds": 0.1, "bytes": rate * 12500,
                "bits_per_second": rate * 1e6, "omitted": False, "sender": False,
            },
        }
        for place, rate in enumerate(rates_mbit)
    ]  # fmt: skip
    start = {"connected": [{"socket": 5}], "version": "iperf 3.9", "test_start": {"protocol": "TCP", "reverse": 1}}
    return json.dumps({"start": start, "intervals": intervals, "end": {}})


LUMOS5G = (
    "run_num,seq_num,nrStatus,Throughput,tower_id\n1,1,CONNECTED,100,7\n1,2,CONNECTED,200,7\n2,1,NA,30,8\n2,2,NA,50,8\n"
)
SATELLITE = "time,throughput,speed,latitude,longtitu,area_type\n" + "".join(
    f"2023-04-04 {time} CDT,{rate},20.5,44.9,-93.5,rural\n"
    for time, rate in (
        ("10:00:00", 50), ("10:00:01", 60), ("10:00:05", 70), ("11:30:00", 5), ("11:30:01", 15), ("09:00:00", 1),
        ("09:00:01", 3),
    )
)  # fmt: skip
UCC = "Timestamp,Longitude,Latitude,Speed,NetworkMode,RSRP,DL_bitrate,UL_bitrate,State\n" + "".join(
    f"2019.12.16_13.40.0{second},-8.3,51.8,0,5G,-103,{down},{up},D\n"
    for second, down, up in ((4, 1000, 20), (5, 3000, 40), (5, 5000, 60), (6, 8000, 10))
)
TPUT = "Smart Phone Smart Throughput Mobile Network {} Throughput [Mbps]"
PAM = "TIME_STAMP,Lat,Lon,{},Event 5G-NR/LTE Events\n" + "".join(
    f"2024-05-01 10:00:0{place / 2},42.3,-71.0,{rate},\n" for place, rate in enumerate(("10.5", "", "20.5", "nan", "9"))
)

# Of each set: files, and for each trace its name with the mean in bit/s, or seconds of a delay.
EXAMPLES: dict[str, tuple[dict[str, str], dict[str, float]]] = {
    "mahimahi": (
        {"traces/Made-LTE.up": "1\n1\n2\n4\n", "traces/Made-LTE.down": "5\n10\n", "traces/README": "Traces.\n"},
        {"traces/Made-LTE.up.csv": 12e6, "traces/Made-LTE.down.csv": 2.4e6},
    ),
    "lumos5g": (
        {"Lumos5G-v1.0.csv": LUMOS5G},
        {"Lumos5G-v1.0.run1.csv": 150e6, "Lumos5G-v1.0.run2.csv": 40e6},
    ),
    "sigcomm21-5g": (
        {
            "Lumous5G/5G/5g_trace_9_walking": "1.0 91.0\n2.0 9.0\n", "client/A-run1-iPerf.json": iperf3([5, 15]),
            "Lumous5G/4G/4g_trace_driving_1_dr": "1.0 20\n2.0 30\n", "client/A_cubic_1_2.json": iperf3([6]),
        },
        {
            "Lumous5G/5G/5g_trace_9_walking.csv": 50e6, "Lumous5G/4G/4g_trace_driving_1_dr.csv": 25e6,
            "client/A-run1-iPerf.csv": 10e6, "client/A_cubic_1_2.csv": 6e6,
        },
    ),
    "cellreplay": (
        {
            "verizon/walking/up-heavy-pdo": "1\n2\n2\n",
            "verizon/walking/down-delay-light-pdo": "0 20 0 1\n100 40 0 1\n200 40 0 1\n",
            "verizon/walking/latency-offset-up": "100 1\n",
        },
        {"verizon/walking/up-heavy-pdo.csv": 16.8e6, "verizon/walking/down-delay-light-pdo.csv": 0.03},
    ),
    "m2ho": (
        {
            "202302/13/tcp-recv-1-x.log": iperf3([10, 20, 0, 10]), "202302/13/1-ho.csv": "17:00,--->,release\n",
            "202302/10/udp-loss-1-x.log": iperf3([1]),
            "202302/13/udp-bw-recv-1-x.log": iperf3([7]), "202305/08/server-5-x.log": "",
        },
        {"202302/13/tcp-recv-1-x.csv": 10e6, "202302/13/udp-bw-recv-1-x.csv": 7e6},
    ),
    "satellite-vs-cellular": (
        {"TCP/Downlink/mob_all_area.csv": SATELLITE},
        {
            "TCP/Downlink/mob_all_area.part1.csv": (50 + 4 * 60 + 70) / 6 * 1e6,
            "TCP/Downlink/mob_all_area.part2.csv": 10e6, "TCP/Downlink/mob_all_area.part3.csv": 2e6,
        },
    ),
    "midband-2024": (
        {
            "Sec5/Tput_O_Sp_90Mhz.txt": "Tput(Mbps)\tconfig\n0.5\tO_Sp_90Mhz\n1.5\tO_Sp_90Mhz\n",
            "Sec5/V_It_90Mhz.txt": "Tput(Mbps)\tMCS\tRBs\tlayers\tconfig\n100\t9\t70\t3\tV\n300\t9\t70\t3\tV\n",
            "Sec5/O_Sp_100Mhz.txt": "Tput(Mbps)\tMCS\tRBs\tlayers\tconfig\n10\t9\t70\t3\tO\n30\t9\t70\t3\tO\n",
            "Sec6/Tput.txt": "time(secs)\tTput(Mbps)\n1\t600\n2\t400\n",
            "Sec6/O_fr.txt": "bitrate\tstallTime\n0.6\t0.2\n",
        },
        {
            "Sec5/Tput_O_Sp_90Mhz.csv": 1e6, "Sec5/V_It_90Mhz.csv": 200e6, "Sec5/O_Sp_100Mhz.csv": 20e6,
            "Sec6/Tput.csv": 500e6,
        },
    ),
    "pam25-multi-carrier": (
        {"atnt/DL/atnt_d1_dl.csv": PAM.format(TPUT.format("DL")),
         "atnt/UL/atnt_d1_ul.csv": PAM.format(TPUT.format("UL"))},
        {"atnt/DL/atnt_d1_dl.csv": 40 / 3 * 1e6, "atnt/UL/atnt_d1_ul.csv": 40 / 3 * 1e6},
    ),
    "leocc": (
        {"A/1/bw_1.txt": "1\n1\n1\n2\n", "A/1/delay_1.txt": "24\n18\n", "A/A_statistics.txt": "mean 3\n"},
        {"A/1/bw_1.csv": 24e6, "A/1/delay_1.csv": 0.021},
    ),
    "lens": (
        {
            "iowa/irtt-10ms-1h-x.csv": "timestamp,rtt,uplink,downlink\n1705744800616000000,40,20,20\n"
            "1705744800626000000,-1,0,0\n1705744800636000000,100,50,50\n1705744800646000000,0,0,-1\n",
            "iowa/ping-10ms-1h-x.csv": "timestamp,rtt\n1705744800.53,90\n1705744800.55,96\n",
        },
        {"iowa/irtt-10ms-1h-x.csv": 0.07, "iowa/ping-10ms-1h-x.csv": 0.093},
    ),
    "ucc-5g": (
        {"Download/Driving/B_1.csv": UCC},
        {"Download/Driving/B_1.csv": 13e6 / 3},
    ),
    "ucc-4g": ({"car/A_1.csv": UCC}, {"car/A_1.csv": 13e6 / 3}),
}  # fmt: skip


def written(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def converted(name: str, given: Path, out: Path, only: str | None = None) -> Conversion:
    return convert(set_named(name), members_of(given), out, "made up", only)


def mean_of(file: Path) -> float:
    pattern = read_trace(file)
    if pattern.delay_ns is not None:
        return float((pattern.delay_ns * pattern.lengths()).sum()) / pattern.period / 1e9
    return pattern.bit_ns() / pattern.period


@pytest.mark.parametrize("name", list(trace_sets()))
def test_each_set_is_converted_with_its_provenance(name: str, tmp_path: Path) -> None:
    files, means = EXAMPLES[name]
    folder = written(tmp_path / "given", files)
    done = converted(name, folder, tmp_path / "out")
    found = {str(each.file.relative_to("given")): each for each in done.made}
    assert found.keys() == means.keys()
    for file, mean in means.items():
        made = tmp_path / "out" / "given" / file
        assert mean_of(made) == pytest.approx(mean, rel=1e-6), file
        header = dict(read_trace(made).header)
        source = files[header["input"].removeprefix("given/")]
        assert header["input_sha256"] == hashlib.sha256(source.encode()).hexdigest()
        chosen = set_named(name)
        assert header["licence"] == (chosen.licence or NOT_RECORDED)
        assert header["source"] == chosen.page
        assert {"version", "conversion", "did", "not_held", "wavebed", "input_check"} <= header.keys()


def test_the_catalogue_has_ten_sets_and_all_that_is_needed_to_check_what_is_fetched() -> None:
    sets = trace_sets().values()
    assert len(sets) >= 10
    for each in sets:
        assert each.page.startswith("https://")
        fetched = each.repository is not None
        assert fetched == bool(each.trees or each.blobs) == (each.commit is not None)
        assert fetched != bool(each.how), f"{each.name} is fetched, or says how to get it"
        for value in (*each.trees.values(), *each.blobs.values(), *([each.commit] if each.commit else [])):
            assert len(bytes.fromhex(value)) == 20


def test_what_a_conversion_did_is_told(tmp_path: Path) -> None:
    def did(name: str) -> list[str]:
        folder = written(tmp_path / name, EXAMPLES[name][0])
        return ["; ".join(each.notes) for each in converted(name, folder, tmp_path / f"{name}-out").made]

    first, second, third = did("satellite-vs-cellular")
    assert "parted at gaps above 60s" in first
    assert "1 gap of at least 3 usual steps, the longest 4 s" in first
    assert "part 2 of 3" in second
    assert "lines 7 to 8, between steps back in time" in third
    assert "2 of 4 values of rtt stand for lost packets; " in did("lens")[0]
    assert "2 of 5 rows have no Smart Phone" in did("pam25-multi-carrier")[0]
    assert "1 row at the time of the row before" in did("ucc-5g")[0]


def test_files_without_a_converter_and_empty_ones_are_listed(tmp_path: Path) -> None:
    done = converted("m2ho", written(tmp_path / "m2ho", EXAMPLES["m2ho"][0]), tmp_path / "out")
    assert done.left == ["/m2ho/202302/10/udp-loss-1-x.log", "/m2ho/202302/13/1-ho.csv"]
    assert len(done.refused) == 1
    assert "server-5-x.log: is empty" in done.refused[0]


def test_an_archive_is_read_as_its_folder(tmp_path: Path) -> None:
    folder = written(tmp_path / "ucc", EXAMPLES["ucc-5g"][0] | {"__MACOSX/._B_1.csv": "\0", "Download/.DS_Store": "\0"})
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as packed:
        for file in folder.rglob("*"):
            packed.write(file, file.relative_to(folder))
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as packed_tar:
        packed_tar.add(folder, "top")
    for name in ("a.zip", "a.tar.gz"):
        done = converted("ucc-5g", tmp_path / name, tmp_path / f"{name}-out")
        assert len(done.made) == 1


@pytest.mark.parametrize("name", ["../evil.csv", "/evil.csv", "a\\evil.csv"])
def test_an_archive_that_leads_out_of_its_folder_is_refused(name: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as packed:
        packed.writestr(name, UCC)
    with pytest.raises(UserError, match="outside the archive"):
        converted("ucc-5g", tmp_path / "a.zip", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_damaged_archive_leaves_nothing(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("B_1.csv", UCC)
        packed.writestr("B_2.csv", UCC * 50)
    data = bytearray((tmp_path / "a.zip").read_bytes())
    data[len(data) // 2] ^= 0xFF
    (tmp_path / "a.zip").write_bytes(data)
    with pytest.raises(UserError, match="cannot be unpacked"):
        converted("ucc-5g", tmp_path / "a.zip", tmp_path / "out")
    assert [file.name for file in tmp_path.iterdir()] == ["a.zip"]


def test_a_pointer_of_lfs_is_told_as_one(tmp_path: Path) -> None:
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 12\n"
    with pytest.raises(UserError, match="git lfs pull"):
        converted("pam25-multi-carrier", written(tmp_path / "p", {"a_dl.csv": pointer}), tmp_path / "out")


def test_trees_have_the_hashes_of_git(tmp_path: Path) -> None:
    # `git write-tree` of the same files, in git 2.43
    blob = "257cc5642cb1a054f08cc83f2d943e56fd3ebe99"  # "foo\n"
    entries = {"/a.b": ("100644", blob), "/a/x": ("100755", blob), "/a0": ("100644", blob)}
    assert tree_of(entries, "/") == TREE
    folder = written(tmp_path, {"traces/a.b": "foo\n"})
    chosen = set_named("mahimahi")
    assert compared(folder, chosen) == "differs from that commit, or is a part of it"
    assert compared(tmp_path / "traces", chosen) == "differs from that commit, or is a part of it"
    (tmp_path / "other").mkdir()
    assert compared(tmp_path / "other", chosen) == "not compared: not the whole of that commit"
    assert compared(tmp_path, set_named("leocc")) == "no hash is recorded"


TREE = "42a6b64227a2be97ccc71b6aaced1baf59a5426a"


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(["trace", *words])
    out, err = capsys.readouterr()
    return status, out, err


def test_list_names_every_set_and_what_is_not_recorded(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = said(capsys, "list")
    assert status == 0
    assert all(any(line.startswith(f"{name} ") for line in out.splitlines()) for name in trace_sets())
    status, out, _ = said(capsys, "list", "lumos5g")
    assert "licence   not recorded" in out
    assert "hash      not recorded" in out
    status, out, _ = said(capsys, "list", "--json")
    assert [each["name"] for each in json.loads(out)["sets"]] == list(trace_sets())


def test_get_prints_hashes_and_licence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "given", {"A/1/delay_1.txt": "24\n18\n"})
    status, out, err = said(capsys, "get", "leocc", "given")
    assert status == 0, err
    assert hashlib.sha256(b"24\n18\n").hexdigest() in out
    assert "leocc/given/A/1/delay_1.csv" in out
    assert "21 ms" in out
    assert "no hash is recorded" in out
    status, out, _ = said(capsys, "get", "leocc", "given", "-o", "other", "--json")
    got = json.loads(out)
    assert got["traces"][0]["mean_delay_s"] == pytest.approx(0.021)


MISTAKES: dict[str, tuple[tuple[str, ...], str]] = {
    "unknown": (("get", "mahimahy"), "'mahimahy' is no set of the catalogue: did you mean 'mahimahi'?"),
    "list": (("list", "nothing-like-it"), "is no set of the catalogue: write one of mahimahi, lumos5g"),
    "by hand": (("get", "lumos5g"), "then wavebed trace get lumos5g FOLDER"),
    "licence": (("get", "m2ho"), "no licence is recorded: read the terms on https://github.com/GeNeLa/M2HO, then add"),
    "no folder": (("get", "m2ho", "absent"), "absent: does not exist: name the folder that you downloaded"),
    "empty": (("get", "mahimahi", "empty"), "there is no file, none is named as *.down or *.up: name the folder"),
    "other": (("get", "mahimahi", "given"), "1 file there, none is named as *.down or *.up"),
    "only": (("get", "leocc", "lab", "--only", "*7*"), "and --only *7*"),
    "exists": (("get", "leocc", "lab", "-o", "given"), "given: exists: name a new folder with -o"),
    "not as described": (("get", "pam25-multi-carrier", "pam"), "a_dl.csv: is not the table that the catalogue"),
    "limit": (("get", "mahimahi", "--limit", "many"), "'many'"),
}


@pytest.mark.parametrize("name", list(MISTAKES))
def test_a_mistake_is_one_line_that_teaches(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    written(tmp_path, {"given/a.txt": "1\n", "lab/bw_1.txt": "1\n", "pam/a_dl.csv": "x,y\n1,2\n"})
    words, message = MISTAKES[name]
    status, out, err = said(capsys, *words)
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    assert message in err
    assert not (tmp_path / words[1]).exists()


def excerpt(tmp_path: Path, wanted: str, name: str, change: Callable[[str], str] = str) -> Path:
    """Return a folder with an excerpt under its public name."""
    source = SHARED / wanted
    if not source.is_file():
        pytest.skip("trace not present")
    return written(tmp_path / "excerpt", {name: change(source.read_text())})


EXCERPTS = {
    "mahimahi": ("traces/ATT-LTE-driving-2016.up", "traces/ATT-LTE-driving-2016.up"),
    "sigcomm21-5g": ("traces/lumos5g_32_walking.txt", "5G/5g_trace_32_walking"),
    "midband-2024": ("data/midband-2024/Tput_O_Sp_90Mhz.txt", "Tput_O_Sp_90Mhz.txt"),
}


@pytest.mark.parametrize("name", ["mahimahi", "sigcomm21-5g", "midband-2024"])
def test_excerpts_of_public_files_are_converted(name: str, tmp_path: Path) -> None:
    folder = excerpt(tmp_path, *EXCERPTS[name])
    done = converted(name, folder, tmp_path / "out")
    assert len(done.made) == 1
    source = next(file for file in folder.rglob("*") if file.is_file())
    assert done.made[0].sha256 == hashlib.sha256(source.read_bytes()).hexdigest()
    assert mean_of(tmp_path / "out" / done.made[0].file) > 0


def test_an_excerpt_of_the_satellite_drives_is_parted_at_its_gaps(tmp_path: Path) -> None:
    folder = excerpt(
        tmp_path, "data/satellite-vs-cellular/starlink-mobility-2023-04-04.csv", "Downlink/mob_all.csv",
        lambda text: text.replace("throughput_mbps", "throughput", 1),
    )  # fmt: skip
    made = converted("satellite-vs-cellular", folder, tmp_path / "out").made
    text = (folder / "Downlink/mob_all.csv").read_text()
    assert sum(len(each.pattern) for each in made) <= text.count("\n") - 1
    assert all(int(each.pattern.lengths().max()) <= 60 * 10**9 for each in made)


def test_an_excerpt_of_handovers_is_converted_as_iperf3_wrote_it(tmp_path: Path) -> None:
    def as_iperf3(text: str) -> str:
        rows = [row.split(",") for row in text.splitlines()[1:]]
        return iperf3([round(int(row[2]) / 12500) for row in rows])

    folder = excerpt(tmp_path, "data/m2ho/20230213-tcp-recv-2-2023-02-13-224659.tcp.csv", "tcp-recv-2.log", as_iperf3)
    (made,) = converted("m2ho", folder, tmp_path / "out").made
    assert made.pattern.period == len(made.pattern) * 10**8


def test_zones_of_north_america_are_read_over_the_change_to_summer_time() -> None:
    assert clock_ns("2024-03-10 01:59:59 CST") == (clock_ns("2024-03-10 03:00:00 CDT") or 0) - 10**9
    assert clock_ns("2024-03-10 03:00:00 CDT") == clock_ns("2024-03-10 08:00:00 UTC")
    assert clock_ns("2024-03-10 03:00:00 PST") == clock_ns("2024-03-10T03:00:00-08:00")
